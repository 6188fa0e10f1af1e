"""The verdict on one agent run: the terminal event, refused tools and the watch count; never the exit code alone."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from jobs.core.adapters import events as agent_events
from jobs.executors import watch
from jobs.executors.base import StageResult
from jobs.executors.story import Story

ALWAYS = frozenset({"read", "shell", "plan"})  # Codex reads by its shell, and its shell cannot be taken away


def judge(
    result: StageResult, story: Story, reason: str, tools: Sequence[str], found: Mapping[str, Any]
) -> StageResult:
    """The result with what the story says about it. `reason` is why the watch ended the run, `found` more facts about
    a failure. Where the watch ended it, how it died says nothing and is left out."""
    told = agent_events.read(tuple(story.kept), "")
    error = dict(found)
    if outside := sorted(story.tools - {*tools, *ALWAYS}):
        error["code"] = "permission_refused"
    ok = result.ok and story.succeeded and not told.failed and not outside
    events = tuple(story.kept)
    if reason and result.stopped == reason:
        result = replace(result, stopped=None, exit_code=None, signal=None, timed_out=reason == watch.COMMAND_SILENT)
        error |= _ENDED.get(reason, {})
        if reason == watch.OFFLINE:
            events += tuple(_offline(story))
    known = {
        "terminal_event": story.terminal,
        "ended_by": reason,
        "session": story.session,
        "model": story.model[:64],
        "cli_version": story.version[:64],
        "tokens": story.tokens.as_facts() if story.tokens else None,
        "tools_outside": outside,
        **({"error": error} if error else {}),
    }
    facts = {**result.facts, **known}
    return replace(result, ok=ok, facts=facts, tool_types=tuple(sorted(story.tools)), events=events)


def _offline(story: Story) -> list[dict[str, Any]]:
    """The CLI would have gone on for ever: its retries are what was spent."""
    spent = max(2, len(story.retries))
    return [
        {"type": "error", "message": f"Reconnecting... {spent}/{spent}"},
        {"type": "turn.failed", "error": {"message": story.retries[-1], "code": "service_unavailable"}},
    ]


_ENDED: dict[str, dict[str, Any]] = {
    watch.NO_FIRST_EVENT: {"code": "environment_broken"},
    watch.SILENT: {"exception": "ReadTimeout"},
    watch.REPEATS: {"exception": "StuckInLoop"},
}
