"""F2: what the program adapters make of events, streams and command lines."""

import pytest

from jobs.core.adapters.cases import CaseInvalid, to_run
from jobs.core.adapters.programs import is_outward_command, is_outward_tool, kind_of
from jobs.core.adapters.runs import EndedRun, gather
from jobs.core.failures import FailureFacts

RESULT = '{"type":"result","subtype":"success","is_error":false,"result":"Did 429.","permission_denials":[%s]}'


def facts(stdout: str = "", **given: object) -> FailureFacts:
    return gather(EndedRun(program="codex exec", exit_code=1, stdout=stdout, **given))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("program", "kind"),
    [
        ("claude -p", "agent"),
        ("npx codex exec", "agent"),
        ("pytest -q", "verifier"),
        ("python -m mypy .", "verifier"),
        ("make lint", "verifier"),
        ("npm run test:unit", "verifier"),
        ("uv run pytest", "verifier"),
        ("git commit (pre-commit)", "verifier"),
        ("npm ci", "installer"),
        ("git lfs pull", "installer"),
        ("git push origin main", "publisher"),
        ("github-actions job: unit", "runner"),
        ("docker run tests", ""),
        ("", ""),
    ],
)
def test_a_command_line_has_a_kind(program: str, kind: str) -> None:
    assert kind_of(program) == kind


@pytest.mark.parametrize(
    "command",
    ["git -C x push", "gh pr create --fill", "npm publish", "curl -X POST https://a.test", "helm upgrade x"],
)
def test_commands_that_change_something_outside_are_known(command: str) -> None:
    assert is_outward_command(command)


@pytest.mark.parametrize("command", ["git status", "gh pr list", "npm ci", "curl https://a.test", "kubectl get pods"])
def test_commands_that_only_read_are_not_outward(command: str) -> None:
    assert not is_outward_command(command)


def test_a_tool_is_outward_by_its_verb() -> None:
    assert is_outward_tool("mcp__chat__post_message")
    assert not is_outward_tool("mcp__chat__list_channels")
    assert not is_outward_tool("Write")


def test_a_denied_tool_call_counts_although_the_agent_reports_success() -> None:
    denied = gather(EndedRun(program="claude -p", exit_code=0, stdout=RESULT % '{"tool_name":"Write"}'))
    assert "tool_denied" in denied.marks
    assert denied.failed


def test_a_successful_events_text_is_not_read() -> None:
    clean = gather(EndedRun(program="claude -p", exit_code=0, stdout=RESULT % ""))
    assert (clean.text, clean.failed) == ("", False)


def test_an_outward_call_that_never_completed_is_an_open_intent() -> None:
    started = {"type": "item.started", "item": {"id": "1", "type": "command_execution", "command": "git push"}}
    done = {"type": "item.completed", "item": {**started["item"], "status": "completed", "exit_code": 0}}  # type: ignore[dict-item]
    assert {"intent_open", "outward"} <= facts(events=[started]).marks
    finished = facts(events=[started, done]).marks
    assert "intent_open" not in finished
    assert "acted" in finished


def test_a_tool_use_without_a_result_is_open_and_with_one_is_not() -> None:
    use = {"type": "assistant", "message": {"content": [{"type": "tool_use", "id": "t", "name": "mcp__x__send_mail"}]}}
    result = {"type": "user", "message": {"content": [{"type": "tool_result", "tool_use_id": "t"}]}}
    assert "intent_open" in facts(events=[use]).marks
    assert "intent_open" not in facts(events=[use, result]).marks


def test_reconnects_that_recovered_leave_no_error_text() -> None:
    events = [{"type": "error", "message": "Reconnecting... 2/5 (503)"}, {"type": "turn.completed", "usage": {}}]
    seen = facts(events=events)
    assert (seen.text, seen.http_status) == ("", None)
    assert "retries_spent" not in seen.marks


def test_the_last_reconnect_means_that_the_clients_retries_are_spent() -> None:
    assert "retries_spent" in facts(events=[{"type": "error", "message": "Reconnecting... 5/5"}]).marks


def test_an_allowed_rate_limit_event_is_no_limit() -> None:
    allowed = {"type": "rate_limit_event", "rate_limit_info": {"status": "allowed"}}
    rejected = {"type": "rate_limit_event", "rate_limit_info": {"status": "rejected"}}
    assert "usage_limit_reached" not in facts(events=[allowed]).codes
    assert "usage_limit_reached" in facts(events=[rejected]).codes


def test_the_sandbox_refusal_inside_a_wrapped_command_is_seen() -> None:
    item = {
        "type": "command_execution",
        "command": "git commit; echo rc=$?",
        "aggregated_output": "fatal: Unable to create '/w/.git/index.lock': Read-only file system\nrc=128",
        "exit_code": 0,
        "status": "completed",
    }
    assert "sandbox_denied" in facts(events=[{"type": "item.completed", "item": item}]).marks


def test_typed_codes_statuses_and_waits_are_read_from_known_formats() -> None:
    seen = facts('Error: {"error":{"type":"rate_limit_error"}} HTTP 429, retry-after: 20')
    assert "rate_limit_error" in seen.codes
    assert (seen.http_status, seen.retry_after) == (429, 20.0)


def test_the_last_status_is_the_one_the_program_ended_on() -> None:
    assert facts("error: HTTP 500, retrying\nerror: HTTP 403").http_status == 403


def test_a_test_report_gives_no_status_and_no_exception() -> None:
    report = "FAILED test_a - requests.exceptions.ReadTimeout: HTTP 503\n1 failed"
    seen = gather(EndedRun(program="pytest", exit_code=1, stdout=report))
    assert (seen.http_status, seen.exception_types) == (None, ())


@pytest.mark.parametrize(("code", "signal"), [(137, 9), (-15, 15), (130, 2), (0, None), (1, None), (None, None)])
def test_exit_codes_name_their_signal(code: int | None, signal: int | None) -> None:
    assert gather(EndedRun(exit_code=code)).signal == signal


@pytest.mark.parametrize(
    ("case", "named"),
    [
        ({"risk": "harmless"}, "risk"),
        ({"exit_code": "1"}, "exit_code"),
        ({"stderr_tail": 5}, "stderr_tail"),
        ({"events": ["x"]}, "events"),
        ({"retry_after": -1}, "retry_after"),
        ({"ledger": "maybe"}, "ledger"),
        ({"http_status": True}, "http_status"),
    ],
)
def test_a_bad_case_is_refused_with_the_fields_name(case: dict[str, object], named: str) -> None:
    with pytest.raises(CaseInvalid, match=f"^{named}:"):
        to_run(case)
