"""The sample agent: deterministic edits, a terminal event, and every way to fail that drills need (D3, F2, V1)."""

import json
import os
import signal
import stat
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from jobs import executors
from jobs.errors import BadStageInputs
from jobs.executors.base import Control, StageContext, StageResult
from jobs.executors.processes import alive

pytestmark = pytest.mark.engine
Context = Callable[..., StageContext]
Make = Callable[..., Control]

EDITS = [
    {"do": "write", "path": "docs/new.md", "text": "# New\n"},
    {"do": "append", "path": "docs/new.md", "text": "More.\n"},
    {"do": "replace", "path": "src/add.py", "old": "a - b", "text": "a + b"},
]


def run(context: StageContext, control: Control) -> StageResult:
    (context.checkout / "src").mkdir(exist_ok=True)
    (context.checkout / "src" / "add.py").write_text("def add(a, b):\n    return a - b\n")
    return executors.get("sample").run_stage(context, control)


def fail(how: str, **more: Any) -> dict[str, Any]:
    return {"params": {"edits": EDITS, "fail": {"how": how, **more}}}


def test_edits_are_made_and_claimed(context: Context, make_control: Make) -> None:
    given = context({"params": {"edits": EDITS}})
    result = run(given, make_control())
    assert result.ok
    assert (given.checkout / "docs/new.md").read_text() == "# New\nMore.\n"
    assert (given.checkout / "src/add.py").read_text() == "def add(a, b):\n    return a + b\n"
    assert (result.facts["terminal_event"], result.tool_types) == (True, ("edit",))
    assert result.claim_path is not None
    assert result.claim_path.read_text() == "modify: 3 edits made as told."
    assert {stat.S_IMODE(path.stat().st_mode) for path in given.output.iterdir()} == {0o600}


def test_read_and_plan_only_record_what_was_asked(context: Context, make_control: Make) -> None:
    given = context({"params": {"edits": EDITS}}, "plan")
    result = run(given, make_control())
    assert result.ok
    assert "inputs_digest" in result.facts
    assert not (given.checkout / "docs").exists()


def test_exit_leaves_with_its_code_after_the_edits(context: Context, make_control: Make) -> None:
    given = context(fail("exit", exit_code=9))
    result = run(given, make_control())
    assert (result.ok, result.exit_code) == (False, 9)
    assert (given.checkout / "docs/new.md").exists()


def test_a_stage_can_be_told_to_fail(context: Context, make_control: Make) -> None:
    inputs = fail("exit", stage="plan")
    assert not run(context(inputs, "plan"), make_control()).ok
    assert run(context(inputs, "modify"), make_control()).ok
    assert run(context(inputs, "read"), make_control()).ok


def test_only_the_first_claims_fail_when_told_so(context: Context, make_control: Make, token: str) -> None:
    given = context(fail("exit", attempts=1))
    second = replace(given, token=token.removesuffix(":1") + ":2")
    assert not run(given, make_control()).ok
    assert run(second, make_control()).ok


def test_an_error_comes_back_as_codes_without_text(context: Context, make_control: Make) -> None:
    error = {"code": "temporary_unavailable", "http_status": 503, "request_sent": True, "message": "secret words"}
    result = run(context(fail("error", error=error)), make_control())
    assert not result.ok
    assert result.facts["error"] == {"code": "temporary_unavailable", "http_status": 503, "request_sent": True}


def test_without_a_terminal_event_exit_code_0_is_an_interruption(context: Context, make_control: Make) -> None:
    result = run(context(fail("no_terminal_event")), make_control())
    assert (result.ok, result.exit_code, result.facts["terminal_event"]) == (False, 0, False)


@pytest.mark.parametrize(("how", "number"), [("hang", signal.SIGTERM), ("ignore_term", signal.SIGKILL)])
def test_a_hanging_agent_ends_at_its_time_limit(
    context: Context, make_control: Make, token: str, how: str, number: int
) -> None:
    result = run(context(fail(how), seconds=1.5), make_control())
    assert (result.timed_out, result.signal, result.ok) == (True, number, False)
    assert alive(token) == []


def test_a_daemon_left_behind_is_dead_and_counted(context: Context, make_control: Make, token: str) -> None:
    result = run(context(fail("daemonise")), make_control())
    assert (result.ok, result.facts["orphans_killed"], result.survivors) == (True, 1, 0)
    assert alive(token) == []


def test_endless_output_is_cut_and_has_no_terminal_event(context: Context, make_control: Make) -> None:
    result = run(context(fail("endless_output"), seconds=1, output_cap_bytes=10_000), make_control())
    assert (result.ok, result.truncated, result.facts["terminal_event"]) == (False, True, False)
    assert result.stdout_path is not None
    assert result.stdout_path.stat().st_size <= 10_000


def test_the_terminal_event_survives_a_cut_output(context: Context, make_control: Make) -> None:
    edits = [{"do": "append", "path": "log.txt", "text": "x"}] * 500
    result = run(context({"params": {"edits": edits}}, output_cap_bytes=4096), make_control())
    assert (result.ok, result.truncated) == (True, True)


def test_broken_tests_are_a_good_run_whose_suite_fails(context: Context, make_control: Make) -> None:
    given = context(fail("break_tests"))
    assert run(given, make_control()).ok
    suite = subprocess.run(
        [sys.executable, "-m", "unittest", "discover", "-s", "tests", "-p", "test_*.py"],
        cwd=given.checkout,
        capture_output=True,
        check=False,
    )
    assert suite.returncode == 1
    assert b"told to break" in suite.stderr


def test_outside_paths_writes_where_it_should_not(context: Context, make_control: Make) -> None:
    given = context(fail("outside_paths"))
    assert run(given, make_control()).ok
    assert (given.checkout / "deploy/sample.env").exists()


@pytest.mark.parametrize(
    "edit",
    [
        {"do": "write", "path": "../escaped", "text": "x"},
        {"do": "replace", "path": "src/add.py", "old": "not there", "text": "x"},
    ],
)
def test_an_edit_that_cannot_be_made_is_no_success(context: Context, make_control: Make, edit: dict[str, str]) -> None:
    given = context({"params": {"edits": [edit]}})
    result = run(given, make_control())
    assert (result.ok, result.facts["terminal_event"]) == (False, False)
    assert not os.path.exists(given.checkout.parent / "escaped")


@pytest.mark.parametrize(
    "params",
    [
        None,
        [],
        {"fail": {"how": "unheard_of"}},
        {"fail": "exit"},
        {"edits": {}},
        {"edits": [{"do": "delete", "path": "a", "text": ""}]},
        {"edits": [{"do": "replace", "path": "a", "text": ""}]},
    ],
)
def test_parameters_that_do_not_fit_are_refused(context: Context, make_control: Make, params: object) -> None:
    with pytest.raises(BadStageInputs):
        run(context(json.loads(json.dumps({"params": params}))), make_control())
