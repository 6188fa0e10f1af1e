"""Recorded runs of both CLIs, with and without failures, and the class that each must get (F2, F3, B1).

tests/fixtures/agents holds the event streams, shortened, and runs.json the exit codes, what stderr said, the error's
code in Codex's session file, and the class. The model services behind them were stand-ins on the loopback.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from jobs.core.adapters.runs import EndedRun, gather
from jobs.core.failures import Classification, classify
from jobs.executors.base import StageResult
from jobs.executors.claude import ClaudeExecutor
from jobs.executors.codex import CodexExecutor
from jobs.executors.verdict import judge
from jobs.policies.loading import builtin, to_policy

FOLDER = Path(__file__).parents[1] / "fixtures" / "agents"
RUNS: dict[str, Any] = json.loads((FOLDER / "runs.json").read_text())
EXECUTORS = {"codex": CodexExecutor(), "claude": ClaudeExecutor()}
TOOLS = ("read", "edit", "shell", "web")


def replay(name: str, tmp_path: Path, exit_code: int | None = None) -> StageResult:
    """The verdict on a recorded run."""
    run = RUNS[name]
    executor = EXECUTORS[name.partition("-")[0]]
    code = run["exit"] if exit_code is None else exit_code
    story = executor.story()
    story.feed((FOLDER / f"{name}.jsonl").read_bytes())
    story.finish()
    found = executor.settle(story, _session_file(run["info"], tmp_path), None)
    ended = StageResult(ok=code == 0, exit_code=code if code >= 0 else None, signal=-code if code < 0 else None)
    return judge(ended, story, "", TOOLS, found)


def classified(name: str, result: StageResult) -> Classification:
    error = result.facts.get("error", {})
    run = EndedRun(
        program=name.partition("-")[0],
        stage="modify",
        exit_code=result.exit_code,
        signal=result.signal,
        exception_type=error.get("exception"),
        http_status=error.get("http_status"),
        events=result.events,
        stderr=RUNS[name]["stderr"],
    )
    return classify(gather(run), to_policy(builtin()))


def _session_file(info: Any, folder: Path) -> Path | None:
    if info is None:
        return None
    path = folder / "rollout.jsonl"
    payload = {"type": "task_complete", "error": {"message": "words", "codex_error_info": info}}
    path.write_text("not json\n" + json.dumps({"type": "event_msg", "payload": payload}) + "\n")
    return path


@pytest.mark.parametrize("name", sorted(RUNS))
def test_a_recorded_run_gets_its_class(name: str, tmp_path: Path):
    result = replay(name, tmp_path)
    seen = classified(name, result)
    assert seen.class_ == RUNS[name]["class"]
    assert result.ok is (RUNS[name]["class"] == "")
    assert (seen.action == "accept") is result.ok


@pytest.mark.parametrize("name", sorted(name for name, run in RUNS.items() if run["class"]))
def test_exit_code_0_makes_no_failed_run_a_good_one(name: str, tmp_path: Path):
    assert not replay(name, tmp_path, exit_code=0).ok


@pytest.mark.parametrize("name", sorted(name for name, run in RUNS.items() if run["class"] == ""))
def test_another_exit_code_makes_no_run_a_good_one(name: str, tmp_path: Path):
    assert not replay(name, tmp_path, exit_code=1).ok


@pytest.mark.parametrize("name", ["codex-ok_edit", "claude-ok_edit"])
def test_a_stream_that_breaks_off_before_its_last_event_was_interrupted(name: str, tmp_path: Path):
    executor = EXECUTORS[name.partition("-")[0]]
    story = executor.story()
    story.feed(b"\n".join((FOLDER / f"{name}.jsonl").read_bytes().splitlines()[:-1]))
    story.finish()
    result = judge(StageResult(ok=True, exit_code=0), story, "", TOOLS, {})
    assert (result.ok, result.facts["terminal_event"]) == (False, False)


def test_a_run_tells_its_tokens_tools_session_and_version(tmp_path: Path):
    codex, claude = replay("codex-ok_edit", tmp_path), replay("claude-ok_edit", tmp_path)
    assert codex.facts["tokens"] == {"input": 4600, "cached": 800, "output": 200, "total": 4800}
    assert claude.facts["tokens"] == {"input": 5400, "cached": 800, "output": 200, "total": 5600}
    assert codex.facts["session"] == "01a227f5-6da7-7991-b36a-b05db3d1a102"
    assert claude.facts["session"] == "4f4bf2a4-afcb-46c6-b73b-bb0d7660ce70"
    assert (codex.tool_types, claude.tool_types) == (("edit", "shell"), ("edit", "read", "shell"))
    assert (claude.facts["cli_version"], claude.facts["model"]) == ("2.1.332", "claude-sonnet-4-5")


def test_tokens_that_nobody_reported_stay_unknown(tmp_path: Path):
    """Never 0: a failed turn of Codex carries no count, a failed call of Claude only zeros (B1)."""
    for name in ("codex-http_401", "codex-kill-TERM", "claude-http_401-r0", "claude-kill-TERM"):
        assert replay(name, tmp_path).facts["tokens"] is None


def test_a_budget_that_ran_out_counts_the_call_that_broke_it(tmp_path: Path):
    """Claude's `usage` lacks the last call, its counts by model have it."""
    assert replay("claude-budget", tmp_path).facts["tokens"]["total"] == 7250


def test_a_usage_limit_keeps_the_time_of_its_reset_as_text(tmp_path: Path):
    run = EXECUTORS["codex"]
    story = run.story()
    path = tmp_path / "rollout.jsonl"
    message = "You’ve hit your usage limit. Upgrade or try again at 6:45 PM."
    payload = {"type": "task_complete", "error": {"message": message, "codex_error_info": "usage_limit_exceeded"}}
    path.write_text(json.dumps({"type": "event_msg", "payload": payload}) + "\n")
    assert run.settle(story, path, None) == {"reset_text": "try again at 6:45 PM"}
