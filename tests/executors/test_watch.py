"""The watch on a running agent: silence, repeats, the worker's word first (B1)."""

import json
from pathlib import Path
from typing import Any

import pytest

from jobs.executors import watch
from jobs.executors.base import StageResult
from jobs.executors.claude import ClaudeExecutor
from jobs.executors.codex import CodexStory
from jobs.executors.verdict import judge
from jobs.executors.watch import Patience, Watch

PATIENCE = Patience(first_event=60, silence=300, command=1800, offline=60, repeats=3)
CAP = 1024 * 1024


class Worker:
    """A worker's control that says what it is told to."""

    word: str | None = None

    def should_stop(self) -> str | None:
        return self.word

    def beaten(self) -> float:
        return 12.5


class Run:
    """A run whose clock and output the test moves."""

    def __init__(self, path: Path, monkeypatch: pytest.MonkeyPatch, cap: int = CAP) -> None:
        self.now, self.path, self.worker, self.story = 1000.0, path, Worker(), CodexStory()
        monkeypatch.setattr(watch, "clock", lambda: self.now)
        self.watch = Watch(self.worker, self.story, path, PATIENCE, cap)

    def say(self, *events: dict[str, Any]) -> None:
        with self.path.open("a") as file:
            file.writelines(json.dumps(event) + "\n" for event in events)

    def after(self, seconds: float) -> str | None:
        self.now += seconds
        return self.watch.should_stop()


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    return Run(tmp_path / "modify.stdout", monkeypatch)


def command(kind: str, number: int = 1, **result: Any) -> dict[str, Any]:
    item = {"id": f"item_{number}", "type": "command_execution", "command": "make test", **result}
    return {"type": f"item.{kind}", "item": item}


def test_a_cli_that_never_says_anything_is_ended_after_a_minute(run: Run):
    assert run.after(59) is None
    assert run.after(2) == watch.NO_FIRST_EVENT


def test_silence_counts_from_the_last_event(run: Run):
    run.say({"type": "thread.started", "thread_id": "t"})
    assert run.after(30) is None
    assert run.after(299) is None
    run.say({"type": "turn.started"})
    assert run.after(10) is None
    assert run.after(299) is None
    assert run.after(2) == watch.SILENT


def test_while_a_command_runs_silence_may_last_longer(run: Run):
    run.say({"type": "turn.started"}, command("started"))
    assert run.after(1) is None
    assert run.after(1799) is None
    assert run.after(2) == watch.COMMAND_SILENT


def test_the_same_failing_call_ends_the_run(run: Run):
    for number in range(3):
        assert run.after(1) is None
        run.say(command("started", number), command("completed", number, exit_code=2, status="failed"))
    assert run.after(1) == watch.REPEATS


def test_an_agent_that_only_waits_for_the_network_is_ended(run: Run):
    run.say({"type": "turn.started"})
    assert run.after(1) is None
    for _ in range(3):
        run.say({"type": "error", "message": "Reconnecting... waiting for network (Connection failed)"})
        assert run.after(20) is None
    run.say({"type": "error", "message": "Reconnecting... waiting for network (Connection failed)"})
    assert run.after(25) == watch.OFFLINE


def test_a_connection_that_comes_back_is_forgiven(run: Run):
    run.say({"type": "error", "message": "Reconnecting... waiting for network"})
    assert run.after(50) is None
    run.say(command("started"))
    assert run.after(20) is None


def test_after_the_terminal_event_nothing_is_judged(run: Run):
    run.say({"type": "turn.completed", "usage": {}})
    assert run.after(1) is None
    assert run.after(10_000) is None


def test_beyond_the_head_of_a_capped_output_silence_is_not_judged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    run = Run(tmp_path / "modify.stdout", monkeypatch, cap=2048)
    run.say({"type": "turn.started"}, {"type": "note", "text": "x" * 2000})
    assert run.after(1) is None
    assert run.after(10_000) is None


def test_the_workers_word_goes_first_and_the_lease_is_the_workers(run: Run):
    run.worker.word = "lease_lost"
    assert run.after(10_000) == "lease_lost"
    assert run.watch.beaten() == 12.5


def test_a_link_in_the_place_of_the_output_is_not_followed(run: Run, tmp_path: Path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_text(json.dumps({"type": "turn.completed"}) + "\n")
    run.path.symlink_to(elsewhere)
    assert run.after(1) is None
    run.watch.finish()
    assert run.story.events == 0


@pytest.mark.parametrize(
    ("reason", "timed_out", "error"),
    [
        (watch.NO_FIRST_EVENT, False, {"code": "environment_broken"}),
        (watch.SILENT, False, {"exception": "ReadTimeout"}),
        (watch.COMMAND_SILENT, True, {}),
        (watch.REPEATS, False, {"exception": "StuckInLoop"}),
    ],
)
def test_how_a_run_died_that_we_ended_says_nothing(reason: str, timed_out: bool, error: dict[str, str]):
    ended = StageResult(ok=False, signal=9, stopped=reason)
    result = judge(ended, ClaudeExecutor().story(), reason, ("read",), {})
    assert (result.signal, result.exit_code, result.stopped, result.timed_out) == (None, None, None, timed_out)
    assert result.facts.get("error", {}) == error
    assert result.facts["ended_by"] == reason


def test_a_stop_by_the_worker_stays_the_workers():
    ended = StageResult(ok=False, signal=15, stopped="cancel")
    result = judge(ended, ClaudeExecutor().story(), watch.SILENT, ("read",), {})
    assert (result.stopped, result.signal) == ("cancel", 15)
