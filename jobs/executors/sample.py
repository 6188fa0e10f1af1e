"""A stand-in for an agent, for the quick start, drills and tests. It edits as told and fails as told.

`inputs["params"]`:
  edits  list of {"do": "write" | "append" | "replace", "path", "text", "old" (replace only)}
  fail   {"stage": "read" | "plan" | "modify", "how": …, "attempts": n, …}; with `attempts` only the first n
         claims (fences) fail. `how` is one of sample_agent.FAULTS.
It is a real child process with a real event stream, but no model is asked and it is never shown as an agent.
"""

import json
import sys
from pathlib import Path
from typing import Any

from jobs.errors import BadStageInputs
from jobs.executors.base import (
    Control,
    StageContext,
    StageResult,
    record_inputs,
    run_process,
    with_facts,
)
from jobs.executors.outputs import tail, write_private
from jobs.executors.sample_agent import FAULTS

SCRIPT = Path(__file__).with_name("sample_agent.py")
TERMINAL_BYTES = 65536
CLAIM_CHARACTERS = 4096
ERROR_FACTS = ("code", "http_status", "exception", "request_sent", "retry_after")


class SampleExecutor:
    """Deterministic: the same parameters on the same checkout give the same files."""

    name = "sample"
    acts_outside = False
    takes: frozenset[str] = frozenset()

    def run_stage(self, context: StageContext, control: Control) -> StageResult:
        """Ok needs the terminal event as well as exit code 0: without it the agent was interrupted.

        Starts a process in modify, and in the stage that shall fail. Raises BadStageInputs."""
        params = context.inputs.get("params")
        if not isinstance(params, dict) or not _fits(params):
            raise BadStageInputs
        if context.stage != "modify" and params.get("fail", {}).get("stage", "modify") != context.stage:
            return record_inputs(context)
        context.output.mkdir(mode=0o700, parents=True, exist_ok=True)
        task = context.output / f"{context.stage}.task.json"
        write_private(task, json.dumps({**params, "stage": context.stage}))
        result = run_process(context, control, (sys.executable, "-I", "-S", str(SCRIPT)), stdin_path=task)
        return _read_events(context, result)


def _fits(params: dict[str, Any]) -> bool:
    fail = params.get("fail", {})
    if not isinstance(fail, dict) or (fail and fail.get("how") not in FAULTS):
        return False
    edits = params.get("edits", [])
    return isinstance(edits, list) and all(_is_edit(edit) for edit in edits)


def _is_edit(edit: object) -> bool:
    if not isinstance(edit, dict) or edit.get("do") not in ("write", "append", "replace"):
        return False
    needed = ["path", "text"] + (["old"] if edit["do"] == "replace" else [])
    return all(isinstance(edit.get(name), str) for name in needed)


def _read_events(context: StageContext, result: StageResult) -> StageResult:
    assert result.stdout_path is not None
    events = _events(tail(result.stdout_path, TERMINAL_BYTES))
    terminal = next((event for event in reversed(events) if event.get("type") == "end"), None)
    tools = tuple(sorted({str(event["tool"]) for event in events if event.get("type") == "tool"}))
    error = terminal.get("error") if terminal else None
    facts: dict[str, object] = {"terminal_event": terminal is not None}
    if isinstance(error, dict):
        facts["error"] = {name: error[name] for name in ERROR_FACTS if name in error}
    claim = None
    if terminal and terminal.get("claim"):
        claim = context.output / f"{context.stage}.claim.txt"
        write_private(claim, str(terminal["claim"])[:CLAIM_CHARACTERS])
    done = terminal is not None and terminal.get("ok") is True
    return StageResult(
        **{**vars(with_facts(result, **facts)), "ok": result.ok and done, "claim_path": claim, "tool_types": tools}
    )


def _events(text: str) -> list[dict[str, Any]]:
    """The JSON objects among the lines; a line that the cap cut in two is none."""
    events = []
    for line in text.splitlines():
        try:
            event = json.loads(line)
        except ValueError:
            continue
        if isinstance(event, dict):
            events.append(event)
    return events
