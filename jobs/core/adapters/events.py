"""What an agent's own event stream says about how its run ended (F2): Codex `exec --json` and Claude stream-json.

`error` events of Codex are not terminal and `subtype: success` of Claude is no success: only the terminal event, open
tool calls and refused calls count. Messages of earlier, recovered trouble are left out of the text.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from jobs.core.adapters import programs

MAX_MESSAGE_CHARS: Final = 2_000
_TYPES: Final = ("thread.", "turn.", "item.", "error", "system", "assistant", "user", "result", "rate_limit_event")
_SAYS_DENIED: Final = re.compile(
    r"(not able|unable|could ?n[o']t|can ?n[o']t|was not allowed)[^\n]{0,120}(denied|permission|allowed|approv|blocked)"
    r"|need[^\n]{0,20} (permission|approval)"
    r"|(tool|command|write|edit|bash)[^\n]{0,40} (was|were|is) (denied|blocked|rejected|not allowed)",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Told:
    """What the events told: error text, typed codes, status, marks, and whether the terminal event is a failure."""

    text: str = ""
    codes: frozenset[str] = frozenset()
    status: int | None = None
    retry_after: float | None = None
    marks: frozenset[str] = frozenset()
    failed: bool = False


@dataclass(slots=True)
class _Notes:
    """What was gathered while reading; turned into `Told` at the end."""

    texts: list[str] = field(default_factory=list)
    codes: set[str] = field(default_factory=set)
    marks: set[str] = field(default_factory=set)
    status: int | None = None
    retry_after: float | None = None
    failed: bool = False
    open_calls: dict[str, bool] = field(default_factory=dict)


def read(events: Sequence[Mapping[str, Any]], stdout: str) -> Told:
    """Reads the given events, or the JSON lines of stdout when none were given."""
    notes = _Notes()
    for event in events or parse_lines(stdout):
        kind = str(event.get("type", ""))
        if kind.startswith("item."):
            _codex_item(notes, kind, _mapping(event.get("item")))
        elif kind in ("turn.failed", "turn.completed", "turn.aborted"):
            _codex_end(notes, kind, event)
        elif kind == "result":
            _claude_result(notes, event)
        elif kind in ("assistant", "user"):
            _claude_message(notes, event)
        elif kind == "rate_limit_event":
            _claude_limit(notes, event)
        elif kind == "system":
            _claude_system(notes, event)
    if any(notes.open_calls.values()):
        notes.marks.update({"intent_open", "outward"})
    elif notes.open_calls:
        notes.marks.add("tool_open")
    return Told(
        text="\n".join(notes.texts),
        codes=frozenset(notes.codes),
        status=notes.status,
        retry_after=notes.retry_after,
        marks=frozenset(notes.marks),
        failed=notes.failed or bool({"tool_denied", "sandbox_denied", "intent_open"} & notes.marks),
    )


def parse_lines(stdout: str) -> list[Mapping[str, Any]]:
    """The agent events among the lines of stdout; other lines and cut ones are left out."""
    found: list[Mapping[str, Any]] = []
    for line in stdout.splitlines():
        if not line.startswith("{"):
            continue
        try:
            event = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(event, dict) and str(event.get("type", "")).startswith(_TYPES):
            found.append(event)
    return found


def without_events(stdout: str) -> str:
    """Stdout without the lines of the event stream: those hold source code and tool output, not the failure."""
    kept = []
    for line in stdout.splitlines():
        if not (line.startswith("{") and parse_lines(line)):
            kept.append(line)
    return "\n".join(kept)


def _codex_item(notes: _Notes, kind: str, item: Mapping[str, Any]) -> None:
    ident = str(item.get("id") or item.get("command") or item.get("type"))
    outward = _outward_item(item)
    if kind in ("item.started", "item.updated") and item.get("type") in ("command_execution", "mcp_tool_call"):
        notes.open_calls[ident] = outward
        return
    if kind != "item.completed":
        return
    notes.open_calls.pop(ident, None)
    failed = item.get("status") in ("failed", "declined") or item.get("exit_code") not in (None, 0)
    output = str(item.get("aggregated_output") or item.get("error") or "")
    if item.get("status") == "declined":
        notes.marks.add("tool_denied")
    if failed and re.search(r"operation not permitted|read-only file system|sandbox", output, re.IGNORECASE):
        notes.marks.add("sandbox_denied")
    if outward:
        notes.marks.update({"outward", "acted"})
        if failed:
            _say(notes, output)


def _codex_end(notes: _Notes, kind: str, event: Mapping[str, Any]) -> None:
    if kind == "turn.completed":
        return
    notes.failed = True
    error = _mapping(event.get("error"))
    _say(notes, error.get("message"))
    _code(notes, error.get("code"), error.get("type"), error.get("codex_error_info"))


def _claude_result(notes: _Notes, event: Mapping[str, Any]) -> None:
    subtype = str(event.get("subtype") or "")
    if event.get("permission_denials"):
        notes.marks.add("tool_denied")
    if event.get("is_error") or subtype.startswith("error"):
        notes.failed = True
        _say(notes, event.get("result"))
        for error in _list(event.get("errors")):
            _say(notes, error if isinstance(error, str) else _mapping(error).get("message"))
        _code(notes, subtype, event.get("terminal_reason"), event.get("api_error_type"))
        _set_status(notes, event.get("api_error_status"))
    elif _SAYS_DENIED.search(str(event.get("result") or "")[:MAX_MESSAGE_CHARS]):
        notes.marks.add("says_denied")


def _claude_message(notes: _Notes, event: Mapping[str, Any]) -> None:
    message = _mapping(event.get("message"))
    if event.get("is_api_error_message") or event.get("error"):
        _code(notes, event.get("error"), event.get("api_error_type"))
        _set_status(notes, event.get("api_error_status"))
    for part in _list(message.get("content")):
        block = _mapping(part)
        if block.get("type") == "tool_use":
            notes.open_calls[str(block.get("id"))] = _outward_use(block)
        elif block.get("type") == "tool_result":
            outward = notes.open_calls.pop(str(block.get("tool_use_id")), False)
            if outward and not block.get("is_error"):
                notes.marks.update({"outward", "acted"})


def _claude_limit(notes: _Notes, event: Mapping[str, Any]) -> None:
    info = _mapping(event.get("rate_limit_info") or event.get("rateLimitInfo") or event)
    if str(info.get("status")) in ("rejected", "exceeded", "blocked"):
        notes.codes.add("usage_limit_reached")


def _claude_system(notes: _Notes, event: Mapping[str, Any]) -> None:
    if event.get("subtype") == "permission_denied":
        notes.marks.add("tool_denied")
    if event.get("subtype") == "api_retry":
        attempt, limit = event.get("attempt"), event.get("max_retries")
        if isinstance(attempt, int) and isinstance(limit, int) and attempt >= limit > 1:
            notes.marks.add("retries_spent")


def _outward_item(item: Mapping[str, Any]) -> bool:
    if item.get("type") == "mcp_tool_call":
        return programs.is_outward_tool(f"mcp__{item.get('server', '')}__{item.get('tool', '')}")
    return programs.is_outward_command(str(item.get("command") or ""))


def _outward_use(block: Mapping[str, Any]) -> bool:
    given = _mapping(block.get("input"))
    return programs.is_outward_tool(str(block.get("name"))) or programs.is_outward_command(
        str(given.get("command") or "")
    )


def _say(notes: _Notes, text: object) -> None:
    if isinstance(text, str) and text:
        notes.texts.append(text[-MAX_MESSAGE_CHARS:])


def _code(notes: _Notes, *values: object) -> None:
    for value in values:
        if isinstance(value, str) and value and value not in ("success", "completed", "unknown"):
            notes.codes.add(re.sub(r"[^a-z0-9]+", "_", value.lower()).strip("_"))


def _set_status(notes: _Notes, value: object) -> None:
    if isinstance(value, int) and not isinstance(value, bool):
        notes.status = value


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: object) -> Iterable[Any]:
    return value if isinstance(value, list) else ()
