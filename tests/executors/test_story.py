"""Event streams of unknown shape never crash a reader and never accept (F2)."""

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.executors.base import StageResult
from jobs.executors.claude import ClaudeStory
from jobs.executors.codex import CodexStory
from jobs.executors.story import KEPT_EVENTS, LINE_BYTES, TEXT_CHARACTERS, Story
from jobs.executors.verdict import judge

FOLDER = Path(__file__).parents[1] / "fixtures" / "agents"
LINES = [line for path in sorted(FOLDER.glob("*.jsonl")) for line in path.read_text().splitlines()]
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=12), inner, max_size=4),
    max_leaves=12,
)
KNOWN_KEYS = st.sampled_from(
    [
        "type",
        "subtype",
        "item",
        "id",
        "message",
        "content",
        "usage",
        "modelUsage",
        "error",
        "is_error",
        "result",
        "name",
    ]
)
KNOWN_TYPES = st.sampled_from(
    ["item.started", "item.completed", "error", "turn.failed", "system", "assistant", "user", "thread.started"]
)


def told(story: Story, *events: Any) -> Story:
    for event in events:
        story.feed(json.dumps(event).encode() + b"\n")
    return story


@pytest.mark.parametrize("kind", [CodexStory, ClaudeStory])
@given(events=st.lists(st.dictionaries(KNOWN_KEYS, ANYTHING | KNOWN_TYPES, max_size=6), max_size=5))
def test_odd_events_neither_crash_nor_accept(kind: type[Story], events: list[dict[str, Any]]):
    story = told(kind(), *events)
    story.finish()
    result = judge(StageResult(ok=True, exit_code=0), story, "", ("read",), {})
    if not any(event.get("type") in ("turn.completed", "result") for event in events):
        assert not result.ok


@pytest.mark.parametrize("kind", [CodexStory, ClaudeStory])
@given(line=st.sampled_from(LINES), key=KNOWN_KEYS, value=ANYTHING)
def test_a_known_event_with_one_odd_value_does_not_crash(kind: type[Story], line: str, key: str, value: Any):
    event = json.loads(line)
    event[key] = copy.deepcopy(value)
    for inner in ("item", "message"):
        if isinstance(event.get(inner), dict):
            event[inner][key] = value
    story = told(kind(), event)
    story.finish()
    judge(StageResult(ok=True, exit_code=0), story, "", ("read",), {})


@given(sizes=st.lists(st.integers(1, 400), min_size=1, max_size=50))
def test_it_does_not_matter_where_the_bytes_are_parted(sizes: list[int]):
    data = (FOLDER / "codex-ok_edit.jsonl").read_bytes()
    whole, parted = CodexStory(), CodexStory()
    whole.feed(data)
    for size in sizes:
        parted.feed(data[:size])
        data = data[size:]
    parted.feed(data)
    assert (parted.tokens, parted.tools, parted.claim) == (whole.tokens, whole.tools, whole.claim)
    assert parted.succeeded
    assert list(parted.kept) == list(whole.kept)


@pytest.mark.parametrize(
    "event",
    [
        {"type": "result", "subtype": "success"},
        {"type": "result", "subtype": "success", "is_error": None},
        {"type": "result", "subtype": "success", "is_error": "false"},
        {"type": "result", "is_error": False},
        {"type": "result", "subtype": "success", "is_error": True},
        {"type": "turn.completed"},
    ],
)
def test_claude_succeeds_only_by_its_own_whole_word(event: dict[str, Any]):
    assert not told(ClaudeStory(), event).succeeded
    assert told(ClaudeStory(), {"type": "result", "subtype": "success", "is_error": False}).succeeded


def test_a_turn_that_begins_again_takes_the_success_back():
    story = told(CodexStory(), {"type": "turn.completed"}, {"type": "turn.started"})
    assert (story.succeeded, story.terminal) == (False, False)


def test_memory_is_bounded_whatever_is_printed():
    story = told(CodexStory(), *({"type": "note", "text": "x" * 9000} for _ in range(KEPT_EVENTS + 10)))
    assert len(story.kept) == KEPT_EVENTS
    assert len(story.kept[0]["text"]) == TEXT_CHARACTERS
    story.feed(b"x" * (LINE_BYTES + 1))
    story.feed(b'still the same line"}\n' + json.dumps({"type": "turn.completed"}).encode() + b"\n")
    assert story.succeeded


def test_the_same_failing_call_is_counted_until_an_edit_or_a_success():
    def call(command: str, code: int) -> list[dict[str, Any]]:
        item = {"id": f"i{code}", "type": "command_execution", "command": command}
        begun = {"type": "item.started", "item": item}
        return [begun, {"type": "item.completed", "item": {**item, "exit_code": code, "status": "completed"}}]

    story = told(CodexStory(), *call("pytest", 1), *call("ls", 0), *call("pytest", 1), *call("other", 1))
    assert story.repeats == 2
    edit = {"id": "e", "type": "file_change", "changes": [], "status": "completed"}
    told(story, {"type": "item.completed", "item": edit}, *call("pytest", 1))
    assert story.repeats == 1
    assert told(story, *call("pytest", 0)).repeats == 0


def test_an_open_command_is_known_while_it_runs():
    item = {"id": "i", "type": "command_execution", "command": "sleep 300"}
    story = told(CodexStory(), {"type": "item.started", "item": item})
    assert list(story.running) == ["i"]
    use = {"type": "tool_use", "id": "t", "name": "Bash", "input": {"command": "sleep 300"}}
    claude = told(ClaudeStory(), {"type": "assistant", "message": {"content": [use]}})
    assert list(claude.running) == ["t"]
    result = {"type": "tool_result", "tool_use_id": "t", "is_error": False}
    assert not told(claude, {"type": "user", "message": {"content": [result]}}).running
