"""What an agent's own event stream says about how its run ended (F2): Codex `exec --json` and Claude stream-json.

`error` events of Codex are not terminal and `subtype: success` of Claude is no success: only the terminal event, open
tool calls and refused calls count. Messages of earlier, recovered trouble are left out of the text.
"""

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from jobs.core.adapters import programs

MAX_MESSAGE_CHARS: Final = 2_000
_TYPES: Final = ("thread.", "turn.", "item.", "error", "system", "assistant", "user", "result", "rate_limit_event")
# A run without one of these was interrupted, whatever its exit code says.
_TERMINAL: Final = ("turn.completed", "turn.failed", "turn.aborted", "result")
_FAILING: Final = frozenset({"tool_denied", "sandbox_denied", "intent_open", "unfinished"})
_RECONNECT: Final = re.compile(r"Reconnecting\D{0,10}(\d{1,3})/(\d{1,3})")
_SANDBOX: Final = re.compile(r"operation not permitted|read-only file system|sandbox", re.IGNORECASE)
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
    ended, told = False, events or parse_lines(stdout)
    for event in told:
        ended = ended or event.get("type") in _TERMINAL
        reader = _READERS.get(str(event.get("type", "")))
        if reader is not None:
            reader(notes, event)
    if any(notes.open_calls.values()):
        notes.marks.update({"intent_open", "outward"})
    elif notes.open_calls:
        notes.marks.add("tool_open")
    if told and not ended:
        notes.marks.add("unfinished")
    return Told(
        text="\n".join(notes.texts),
        codes=frozenset(notes.codes),
        status=notes.status,
        retry_after=notes.retry_after,
        marks=frozenset(notes.marks),
        failed=notes.failed or not _FAILING.isdisjoint(notes.marks),
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


def _codex_item(notes: _Notes, event: Mapping[str, Any]) -> None:
    kind, item = event.get("type"), _mapping(event.get("item"))
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
    # A wrapped command can end with 0 although the sandbox kept git from writing.
    if (failed or "index.lock" in output) and _SANDBOX.search(output[-MAX_MESSAGE_CHARS:]):
        notes.marks.add("sandbox_denied")
    if outward:
        notes.marks.update({"outward", "acted"})
        if failed:
            _say(notes, output)


def _codex_end(notes: _Notes, event: Mapping[str, Any]) -> None:
    notes.failed = True
    error = _mapping(event.get("error"))
    _say(notes, error.get("message"))
    _code(notes, error.get("code"), error.get("type"), error.get("codex_error_info"))


def _codex_retry(notes: _Notes, event: Mapping[str, Any]) -> None:
    found = _RECONNECT.search(str(event.get("message") or ""))
    if found and int(found.group(1)) >= int(found.group(2)) > 1:
        notes.marks.add("retries_spent")


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


_READERS: Final[Mapping[str, Callable[[_Notes, Mapping[str, Any]], None]]] = {
    "item.started": _codex_item,
    "item.updated": _codex_item,
    "item.completed": _codex_item,
    "turn.failed": _codex_end,
    "turn.aborted": _codex_end,
    "error": _codex_retry,
    "result": _claude_result,
    "assistant": _claude_message,
    "user": _claude_message,
    "rate_limit_event": _claude_limit,
    "system": _claude_system,
}
