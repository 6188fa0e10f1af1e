"""The command executor and the names of executors (design section 4; L2)."""

import sys
from collections.abc import Callable

import pytest

from jobs import executors
from jobs.errors import BadStageInputs, UnknownExecutor
from jobs.executors.base import Control, StageContext, StageResult

pytestmark = pytest.mark.engine


def test_modify_runs_the_argument_list_in_the_checkout(
    context: Callable[..., StageContext], make_control: Callable[..., Control]
) -> None:
    given = context({"argv": ["sh", "-c", 'echo "$0" > made; echo said', "a b;$(x)"]})
    result = executors.get("command").run_stage(given, make_control())
    assert (result.ok, result.exit_code) == (True, 0)
    assert (given.checkout / "made").read_text() == "a b;$(x)\n"
    assert result.stdout_path is not None
    assert result.stdout_path.read_text() == "said\n"


def test_a_failing_command_is_not_ok(
    context: Callable[..., StageContext], make_control: Callable[..., Control]
) -> None:
    result = executors.get("command").run_stage(context({"argv": ["sh", "-c", "exit 4"]}), make_control())
    assert (result.ok, result.exit_code, result.stopped) == (False, 4, None)


@pytest.mark.parametrize("stage", ["read", "plan"])
def test_read_and_plan_record_a_digest_and_start_nothing(
    context: Callable[..., StageContext], make_control: Callable[..., Control], stage: str
) -> None:
    command = executors.get("command")
    first = command.run_stage(context({"argv": ["touch", "made"]}, stage), make_control())
    again = command.run_stage(context({"argv": ["touch", "made"]}, stage), make_control())
    other = command.run_stage(context({"argv": ["touch", "else"]}, stage), make_control())
    assert first.ok
    assert first.facts["inputs_digest"] == again.facts["inputs_digest"] != other.facts["inputs_digest"]
    assert list(context({}).checkout.iterdir()) == []


@pytest.mark.parametrize("argv", [None, [], "ls -l", [1], ["ls", "a\0b"]])
def test_what_is_no_argument_list_is_refused(
    context: Callable[..., StageContext], make_control: Callable[..., Control], argv: object
) -> None:
    with pytest.raises(BadStageInputs):
        executors.get("command").run_stage(context({"argv": argv}), make_control())


@pytest.mark.parametrize(("reason", "ends_itself"), [("cancel", True), ("lease_lost", False)])
def test_the_worker_stops_a_stage_with_grace_but_without_any_after_a_lost_lease(
    context: Callable[..., StageContext], make_control: Callable[..., Control], reason: str, ends_itself: bool
) -> None:
    script = "trap 'touch bye; exit 0' TERM; touch up; while :; do sleep 0.05; done"
    given = context({"argv": ["sh", "-c", script]}, grace_seconds=30)
    result = executors.get("command").run_stage(given, make_control(given.checkout / "up", reason))
    assert (result.stopped, result.ok) == (reason, False)
    assert (given.checkout / "bye").exists() is ends_itself


def test_heartbeats_of_the_worker_reach_the_shim(
    context: Callable[..., StageContext], make_control: Callable[..., Control]
) -> None:
    argv = [sys.executable, "-c", "import time; time.sleep(2)"]
    beating = executors.get("command").run_stage(context({"argv": argv}, fence_seconds=1), make_control())
    silent = executors.get("command").run_stage(context({"argv": argv}, fence_seconds=1), make_control(beats=False))
    assert (beating.ok, silent.ok, silent.silence) == (True, False, True)


def test_an_unknown_executor_is_refused_with_the_names_there_are() -> None:
    with pytest.raises(UnknownExecutor, match=r"'shell'.*command, sample"):
        executors.get("shell")


@pytest.mark.parametrize("name", executors.names())
def test_every_executor_has_its_name_and_says_whether_it_acts_outside(name: str) -> None:
    executor = executors.get(name)
    assert (executor.name, executor.acts_outside) == (name, False)


def test_a_result_starts_without_any_sign_of_a_process() -> None:
    assert StageResult(ok=True).stdout_path is None
