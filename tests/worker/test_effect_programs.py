"""What an act's program gets and what is kept of its words (Z1, Z3, Z5)."""

import sys
from pathlib import Path
from typing import Any

from jobs.core.side_effects import PUSH, Act
from jobs.worker import effect_programs

COMMIT = "c" * 40


def act(*argv: str, kind: str = "release", credentials: tuple[str, ...] = ()) -> Act:
    return Act(kind, "t", COMMIT, "k" * 16, argv, ("find", "it"), 90, branch="agentq/1-a", credentials=credentials)


def test_an_act_gets_the_credentials_that_its_effect_names_and_nothing_of_ours(
    settings: Any, monkeypatch: Any, tmp_path: Path
) -> None:
    monkeypatch.setenv("FORGE", "a-forge-word")
    monkeypatch.setenv("MODEL", "a-model-word")
    monkeypatch.setenv("DATABASE_URL", "postgres://x")
    settings.AGENTQ_CREDENTIALS = "FORGE_WORD=env:FORGE OPENAI_API_KEY=env:MODEL"
    spec = effect_programs.act_spec(
        act("gh", "release", credentials=("FORGE_WORD",)), tmp_path, tmp_path / "room", name="x", token="s:1:1"
    )
    assert sorted(spec.env) == ["FORGE_WORD", "HOME", "LANG", "PATH", "TMPDIR"]
    assert (spec.env["FORGE_WORD"], spec.argv, spec.seconds) == ("a-forge-word", ("gh", "release"), 90)


def test_a_push_runs_our_own_program_with_the_protocols_that_the_operator_allows(settings: Any, tmp_path: Path) -> None:
    settings.AGENTQ_PUSH_PROTOCOLS = ["file", "ssh"]
    push = act("/srv/a.git", kind=PUSH)
    acts = effect_programs.act_spec(push, tmp_path / "m.git", tmp_path, name="x", token="s:1:1")
    asks = effect_programs.lookup_spec(push, tmp_path / "m.git", tmp_path, name="x", token="s:1:1")
    rest = ("file,ssh", str(tmp_path / "m.git"), "/srv/a.git", "agentq/1-a", COMMIT)
    assert (acts.argv[0], acts.argv[4:]) == (sys.executable, ("push", *rest))
    assert asks.argv[4:] == ("lookup", *rest)
    assert asks.seconds == effect_programs.LOOKUP_SECONDS


def test_what_is_kept_of_a_programs_words_is_its_first_line_without_secrets(tmp_path: Path) -> None:
    said = tmp_path / "said"
    word = "ghp_" + "Ab1" * 12
    said.write_text(f"\nmade release 7 with {word}\nmore\n")
    assert effect_programs.first_line(said).startswith("made release 7 with [redacted:")
    assert word not in effect_programs.first_line(said)
    assert effect_programs.first_line(tmp_path / "missing") == ""
    said.write_text("x" * 5000)
    assert len(effect_programs.first_line(said)) == effect_programs.REFERENCE_CHARS
