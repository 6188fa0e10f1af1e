"""One stage of an agent, with a program in the CLI's place that says what it was given (Z1, Z3, Z5)."""

import json
import os
import stat
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from jobs import executors
from jobs.errors import BadStageInputs
from jobs.executors import clis
from jobs.executors.agents import read_task
from jobs.executors.base import Control, StageContext, StageResult

pytestmark = pytest.mark.engine

# Writes what it was given into the checkout; with a file `forget` there it knows no earlier session.
FAKE = """#!/usr/bin/env python3
import json, os, sys
if "--version" in sys.argv:
    sys.exit(print("codex-cli 0.171.0"))
given = {"argv": sys.argv[1:], "env": dict(os.environ), "prompt": sys.stdin.read(), "cwd": os.getcwd()}
with open("given.json", "a") as file:
    file.write(json.dumps(given) + "\\n")
home = os.environ["CODEX_HOME"]
thread = "0f0f0f0f-0000-7000-8000-00000000000" + str(len(open("given.json").readlines()))
if "resume" in sys.argv:
    thread = sys.argv[sys.argv.index("resume") + 1]
    if os.path.exists("forget"):
        sys.exit("Error: thread/resume failed: no rollout found for thread id " + thread)
tokens = {"input_tokens": 100, "cached_input_tokens": 10, "output_tokens": 5}
folder = home + "/sessions/2026/08/25"
os.makedirs(folder, exist_ok=True)
path = folder + "/rollout-2026-08-25T10-00-00-" + thread + ".jsonl"
runs = (open(path).read().count("token_count") if os.path.exists(path) else 0) + 1
total = {name: count * runs for name, count in tokens.items()}
with open(path, "a") as file:
    for kind, payload in (
        ("session_meta", {"cli_version": "0.171.0"}),
        ("turn_context", {"model": "gpt-5.5"}),
        ("event_msg", {"type": "token_count", "info": {"total_token_usage": total}, "rate_limits": {"primary": 99}}),
    ):
        file.write(json.dumps({"type": kind, "payload": payload}) + "\\n")
open(home + "/auth-cache", "w").write("x")
for event in (
    {"type": "thread.started", "thread_id": thread},
    {"type": "turn.started"},
    {"type": "item.completed", "item": {"id": "a", "type": "agent_message", "text": "All done."}},
    {"type": "turn.completed", "usage": total},
):
    print(json.dumps(event), flush=True)
"""
Start = Callable[..., StageResult]


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "programs" / "codex"
    path.parent.mkdir()
    path.write_text(FAKE)
    path.chmod(0o755)
    monkeypatch.setenv("AGENTQ_CODEX", str(path))
    return path


@pytest.fixture
def agent(context: Callable[..., StageContext], make_control: Callable[..., Control], tmp_path: Path) -> Start:
    base = context({})
    environment = {"OPENAI_API_KEY": "canary-key", "HTTPS_PROXY": "http://proxy:1", "OTHER": "not passed on"}

    def start(stage: str = "modify", fence: int = 1, session: str = "", **inputs: Any) -> StageResult:
        wanted = replace(
            base,
            stage=stage,
            inputs={"prompt": "Mend it.", **inputs},
            output=tmp_path / "jobs" / str(fence),
            environment=environment,
            session=session,
        )
        return executors.get("codex").run_stage(wanted, make_control())

    return start


def given(tmp_path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (tmp_path / "checkout" / "given.json").read_text().splitlines()]


def test_a_stage_tells_session_version_model_and_tokens(agent: Start, program: Path, tmp_path: Path):
    result = agent()
    assert result.ok
    assert result.facts["session"] == "0f0f0f0f-0000-7000-8000-000000000001"
    assert (result.facts["cli_version"], result.facts["model"]) == ("0.171.0", "gpt-5.5")
    assert result.facts["tokens"] == {"input": 100, "cached": 10, "output": 5, "total": 105}
    assert result.claim_path is not None
    assert result.claim_path.read_text() == "All done."


def test_the_environment_is_an_allow_list(agent: Start, program: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    for name in ("DATABASE_URL", "DJANGO_SETTINGS_MODULE", "AGENTQ_DATA_DIR", "SECRET_KEY", "PGPASSWORD"):
        monkeypatch.setenv(name, "canary-setting")
    agent()
    env = given(tmp_path)[0]["env"]
    assert "canary-setting" not in str(env)
    assert env["OPENAI_API_KEY"] == "canary-key"
    usual = {"PATH", "LANG", "HOME", "TMPDIR", "AGENTQ_TOKEN", "CODEX_HOME", "OPENAI_API_KEY", "HTTPS_PROXY"}
    assert set(env) - {"LC_CTYPE", "PWD", "OLDPWD", "SHLVL", "_"} == usual


def test_the_prompt_comes_by_stdin_and_stands_in_a_private_file(agent: Start, program: Path, tmp_path: Path):
    agent(prompt="Mend the canary.")
    run = given(tmp_path)[0]
    assert run["prompt"] == "Mend the canary."
    assert "canary" not in " ".join(run["argv"])
    for path in (tmp_path / "jobs" / "1").rglob("*"):
        assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0, path


def test_of_the_state_directory_only_the_transcript_stays(agent: Start, program: Path, tmp_path: Path):
    agent()
    names = sorted(path.name for path in (tmp_path / "jobs" / "1").rglob("*") if path.is_file())
    assert [name for name in names if name.startswith("rollout")] != []
    assert "auth-cache" not in names
    assert not (tmp_path / "jobs" / "1" / "modify.state").exists()


def test_each_run_has_a_fresh_state_directory(agent: Start, program: Path, tmp_path: Path):
    agent()
    left = tmp_path / "jobs" / "1" / "modify.state"
    left.mkdir()
    (left / "planted").write_text("x")
    assert agent().facts["tokens"]["total"] == 105
    assert not left.exists()


@pytest.mark.parametrize(("stage", "more"), [("read", {}), ("plan", {}), ("read", {"plan": True})])
def test_stages_without_an_agent_record_the_prompt_by_digest(
    agent: Start, program: Path, tmp_path: Path, stage: str, more: dict[str, Any]
):
    result = agent(stage, **more)
    assert result.ok
    assert len(result.facts["inputs_digest"]) == 64
    assert "Mend it" not in str(result)
    assert not (tmp_path / "checkout" / "given.json").exists()


def test_a_plan_is_made_read_only_and_its_session_goes_on_in_modify(agent: Start, program: Path, tmp_path: Path):
    plan = agent("plan", plan=True)
    modify = agent("modify", fence=2, session=plan.facts["session"], plan=True)
    first, second = given(tmp_path)
    assert first["argv"][first["argv"].index("-s") + 1] == "read-only"
    assert first["prompt"].endswith("Mend it.")
    assert first["prompt"].startswith("First make a plan")
    assert second["argv"][-3:] == ["resume", plan.facts["session"], "-"]
    assert (modify.facts["resumed"], modify.facts["session_lost"]) == (True, False)
    assert modify.facts["tokens"]["total"] == 105  # the thread's count is 210 by now


def test_a_session_without_a_transcript_is_replaced_by_a_fresh_one(agent: Start, program: Path, tmp_path: Path):
    result = agent(session="0f0f0f0f-0000-7000-8000-00000000abcd")
    assert result.ok
    assert (result.facts["resumed"], result.facts["session_lost"]) == (False, True)
    assert "resume" not in given(tmp_path)[0]["argv"]


def test_a_session_that_the_cli_does_not_know_is_replaced_once(agent: Start, program: Path, tmp_path: Path):
    plan = agent("plan", plan=True)
    (tmp_path / "checkout" / "forget").touch()
    result = agent("modify", session=plan.facts["session"])
    assert result.ok
    assert (result.facts["resumed"], result.facts["session_lost"]) == (False, True)
    assert ["resume" in run["argv"] for run in given(tmp_path)] == [False, True, False]


def test_a_session_id_is_no_pattern(agent: Start, program: Path, tmp_path: Path):
    agent("plan", plan=True)
    assert agent("modify", session="*").facts["resumed"] is False
    assert agent("modify", session="../../*").facts["resumed"] is False


def test_without_the_cli_a_person_reads_what_to_do(agent: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("AGENTQ_CODEX", str(tmp_path / "nowhere"))
    result = agent()
    assert (result.ok, result.facts["error"]) == (False, {"code": "environment_broken"})
    assert result.stderr_path is not None
    assert "AGENTQ_CODEX" in result.stderr_path.read_text()


def test_without_a_credential_nothing_starts(
    context: Callable[..., StageContext], make_control: Callable[..., Control], program: Path, tmp_path: Path
):
    result = executors.get("codex").run_stage(context({"prompt": "Mend it."}), make_control())
    assert (result.ok, result.facts["error"]) == (False, {"code": "input_missing"})
    assert result.stderr_path is not None
    assert "OPENAI_API_KEY=env:OPENAI_API_KEY" in result.stderr_path.read_text()
    assert not (tmp_path / "checkout" / "given.json").exists()


@pytest.mark.parametrize(
    "inputs",
    [
        {},
        {"prompt": " "},
        {"prompt": "x", "tools": ["everything"]},
        {"prompt": "x", "unknown": 1},
        {"prompt": "x", "max_turns": "many"},
        {"prompt": "x", "silence": -1},
        {"prompt": "x", "plan": "yes"},
        {"prompt": "x", "model": 5},
    ],
)
def test_inputs_that_do_not_fit_are_refused(inputs: dict[str, Any]):
    with pytest.raises(BadStageInputs):
        read_task(inputs)


def test_a_script_around_codex_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """npm's `codex` is a Node script; the program lies in a package beside it."""
    package = tmp_path / "node_modules" / "@openai"
    script, real = package / "codex/bin/codex.js", package / "codex-linux-x64/vendor/any/bin/codex"
    bwrap = package / "codex-linux-x64/vendor/any/codex-resources/bwrap"
    for path in (script, real, bwrap):
        path.parent.mkdir(parents=True)
        path.write_text("#!/bin/sh\necho codex-cli 1.2.3\n")
        path.chmod(0o755)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "codex").symlink_to(script)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}")
    monkeypatch.delenv("AGENTQ_CODEX", raising=False)
    assert clis.find("codex") == real
    assert clis.find("bwrap") == bwrap
    assert clis.find("claude") is None
    assert clis.install_root(real) == tmp_path / "node_modules"
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.defpath}")
    assert clis.version(real) == "1.2.3"
