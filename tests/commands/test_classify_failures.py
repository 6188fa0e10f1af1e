"""F1, F2: the `classify_failures` command, its lines, its score and its refusals."""

import json
from io import StringIO
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

from jobs.policies.loading import BUILTIN_PATH

CORPUS = Path(__file__).parents[1] / "fixtures" / "failure_corpus.jsonl"


def run(*arguments: str) -> tuple[list[dict[str, str]], str]:
    out, err = StringIO(), StringIO()
    call_command("classify_failures", *arguments, stdout=out, stderr=err)
    return [json.loads(line) for line in out.getvalue().splitlines()], err.getvalue()


def refused(*arguments: str) -> str:
    with pytest.raises(CommandError) as caught:
        run(*arguments)
    assert caught.value.returncode == 2
    return str(caught.value)


def written(path: Path, *lines: str) -> str:
    path.write_text("\n".join(lines), encoding="utf-8")
    return str(path)


def test_each_case_gets_one_line_with_the_promised_keys() -> None:
    lines, err = run("--jsonl", str(CORPUS))
    assert len(lines) == 70
    assert all(list(line) == ["id", "class", "action", "rule", "confidence"] for line in lines)
    assert err == ""


def test_the_score_stands_beside_the_naive_matchers() -> None:
    _lines, err = run("--jsonl", str(CORPUS), "--score")
    ours, stderr_only, everything = err.splitlines()
    assert ours.endswith("dangerous errors 0")
    assert "34/70 (48.6 %), dangerous errors 7" in stderr_only
    assert "35/70 (50.0 %), dangerous errors 7" in everything


def test_a_clean_end_is_printed_as_accept(tmp_path: Path) -> None:
    [line], _err = run("--jsonl", written(tmp_path / "a", '{"id": "ok", "program": "make", "exit_code": 0}', ""))
    assert line == {"id": "ok", "class": "", "action": "accept", "rule": "", "confidence": "none"}


def test_another_policy_gives_other_answers(tmp_path: Path) -> None:
    text = BUILTIN_PATH.read_text(encoding="utf-8")
    strict = text.replace('code = "network_reset"\naction = "retry"', 'code = "network_reset"\naction = "review"')
    policy = tmp_path / "strict.toml"
    policy.write_text(strict, encoding="utf-8")
    cases = written(tmp_path / "a", '{"id": 1, "exit_code": 1, "exception_type": "httpx.ReadTimeout"}')
    assert run("--jsonl", cases)[0][0]["action"] == "retry"
    assert run("--jsonl", cases, "--policy", str(policy))[0][0]["action"] == "review"


def test_bad_input_is_refused_with_file_and_line(tmp_path: Path) -> None:
    assert ":2: " in refused("--jsonl", written(tmp_path / "a", '{"id": 1}', "not json"))
    assert "risk" in refused("--jsonl", written(tmp_path / "b", '{"risk": "none"}'))
    assert "cannot be read" in refused("--jsonl", str(tmp_path / "missing"))
    assert ":1: " in refused("--jsonl", written(tmp_path / "c", "[1]"))


def test_a_bad_policy_is_refused_with_its_line(tmp_path: Path) -> None:
    policy = written(tmp_path / "bad.toml", 'version = "x"', "rules = 5")
    assert "bad.toml:2: rules" in refused("--jsonl", str(CORPUS), "--policy", policy)


def test_a_score_needs_labels(tmp_path: Path) -> None:
    assert "labels" in refused("--score", "--jsonl", written(tmp_path / "a", '{"id": 1, "exit_code": 1}'))
