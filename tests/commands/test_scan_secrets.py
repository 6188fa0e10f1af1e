"""K5, F4: the `scan_secrets` command, its lines, its score and its refusals."""

import json
from io import StringIO
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

from tests.secret_cases import Case, load, whole


def run(*arguments: str) -> tuple[list[dict[str, object]], str]:
    out, err = StringIO(), StringIO()
    call_command("scan_secrets", *arguments, stdout=out, stderr=err)
    return [json.loads(line) for line in out.getvalue().split("\n") if line], err.getvalue()


def refused(*arguments: str) -> str:
    with pytest.raises(CommandError) as caught:
        run(*arguments)
    assert caught.value.returncode == 2
    return str(caught.value)


def written(path: Path, cases: list[Case]) -> str:
    rows = [
        {"id": c.id, "text": c.text, "is_secret": c.is_secret, "context": c.context, "span": c.span or None}
        for c in cases
    ]
    path.write_text("\n".join(json.dumps(row, ensure_ascii=False) for row in rows), encoding="utf-8")
    return str(path)


def test_each_case_gets_one_line_and_the_score_says_how_good_that_is(tmp_path: Path) -> None:
    lines, err = run("--jsonl", written(tmp_path / "dev.jsonl", load("secrets.jsonl")), "--score")
    assert len(lines) == 30
    assert all(list(line) == ["id", "found", "kinds", "redacted"] for line in lines)
    assert err.splitlines() == [
        "found 15 of 15 secrets",
        "false alarms 0 of 15",
        "readable after redaction 0",
    ]


def test_the_score_names_what_was_missed_and_what_was_wrong(tmp_path: Path) -> None:
    cases = [
        Case("missed", "the word is swordfish", True, "", "payload", "swordfish"),
        Case("alarm", whole("password: Lx2A9¦Y#hlnSt"), False, "", "payload", ""),
    ]
    _lines, err = run("--jsonl", written(tmp_path / "a", cases), "--score")
    assert err.splitlines() == [
        "found 0 of 1 secrets (missed)",
        "false alarms 1 of 1 (alarm)",
        "readable after redaction 1 (missed)",
    ]


def test_bad_input_is_refused_with_file_and_line_and_without_quoting_it(tmp_path: Path) -> None:
    secret = whole("ghp_¦VTwJBlqY7aAWYDilRDZq¦byN5muNwNr0xveoC")
    for bad in (f"token {secret}", f'["{secret}"]', '{"id": 1}', '{"text": 5}'):
        path = tmp_path / "bad.jsonl"
        path.write_text(f'{{"id": 1, "text": "fine"}}\n{bad}\n')
        message = refused("--jsonl", str(path))
        assert f"{path}:2: " in message
        assert secret not in message
    assert "cannot be read" in refused("--jsonl", str(tmp_path / "missing"))


def test_a_score_needs_labels(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"id": 1, "text": "fine"}\n')
    assert "is_secret" in refused("--jsonl", str(path), "--score")
