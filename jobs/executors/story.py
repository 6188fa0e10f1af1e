"""What an agent's event stream has told so far. Unknown shapes are passed over: they never crash and never accept."""

import hashlib
import json
from abc import ABC, abstractmethod
from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

KEPT_EVENTS = 1000
TEXT_CHARACTERS = 2000
LIST_ENTRIES = 50
DEPTH = 8
LINE_BYTES = 16 * 1024 * 1024


@dataclass(frozen=True)
class Tokens:
    """Tokens of one stage, as the CLI counted them. `cached` is a part of `input`."""

    input: int = 0
    cached: int = 0
    output: int = 0

    @property
    def total(self) -> int:
        return self.input + self.output

    def minus(self, before: "Tokens") -> "Tokens":
        """What came after `before`: a resumed session counts on from its first day."""
        parts = (self.input - before.input, self.cached - before.cached, self.output - before.output)
        return Tokens(*(max(0, part) for part in parts))

    def as_facts(self) -> dict[str, int]:
        return {"input": self.input, "cached": self.cached, "output": self.output, "total": self.total}


class Story(ABC):
    """Feed it the bytes of stdout as they come. `succeeded` needs the CLI's own terminal event of success."""

    def __init__(self) -> None:
        self.session = self.model = self.version = self.claim = ""
        self.events = 0
        self.asked = False  # the model may have been called: a lost session is told before that
        self.terminal = False
        self.succeeded = False
        self.tokens: Tokens | None = None
        self.tools: set[str] = set()
        self.running: dict[str, tuple[str, str]] = {}  # call id → tool type, fingerprint of the call
        self.kept: deque[Mapping[str, Any]] = deque(maxlen=KEPT_EVENTS)
        self.retries: list[str] = []  # what was said about the CLI's own retries since the last other event
        self._failures: Counter[str] = Counter()
        self._rest = bytearray()
        self._skipping = False

    @property
    def repeats(self) -> int:
        """How often the same call has failed without an edit or a success in between."""
        return max(self._failures.values(), default=0)

    def feed(self, data: bytes) -> None:
        """The next bytes of the stream; a last line without its end waits for the rest."""
        *lines, rest = data.split(b"\n")
        for line in lines:
            whole, skipped = bytes(self._rest) + line, self._skipping
            self._rest.clear()
            self._skipping = False
            if not skipped:
                self._line(whole)
        self._rest += rest
        if len(self._rest) > LINE_BYTES:  # no event that matters is this long
            self._rest.clear()
            self._skipping = True

    def finish(self) -> None:
        """The stream has ended."""
        self.feed(b"\n")

    @abstractmethod
    def take(self, event: Mapping[str, Any]) -> None:
        """One event; each CLI has its own reading of it."""

    def begin_call(self, ident: str, tool: str, arguments: object) -> None:
        self.tools.add(tool)
        self.running[ident] = (tool, _fingerprint(tool, arguments))

    def end_call(self, ident: str, *, failed: bool) -> None:
        tool, call = self.running.pop(ident, ("", ""))
        if failed and call:
            self._failures[call] += 1
        elif tool == "edit":
            self._failures.clear()  # the same command on other files is another question
        else:
            self._failures.pop(call, None)

    def _line(self, line: bytes) -> None:
        if not line.lstrip().startswith(b"{"):
            return
        try:
            event = json.loads(line)
        except (ValueError, RecursionError):
            return
        if not isinstance(event, dict):
            return
        self.events += 1
        self.kept.append(shortened(event))
        self.take(event)


def shortened(value: Any, depth: int = 0) -> Any:
    """The same value with the ends of its texts only: an event may hold a whole file."""
    if isinstance(value, str):
        return value[-TEXT_CHARACTERS:]
    if depth >= DEPTH:
        return None
    if isinstance(value, dict):
        return {name: shortened(inner, depth + 1) for name, inner in value.items() if name != "tool_use_result"}
    if isinstance(value, list):
        return [shortened(inner, depth + 1) for inner in value[:LIST_ENTRIES]]
    return value


def mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def text(value: object, most: int = 256) -> str:
    return value[:most] if isinstance(value, str) else ""


def count(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0


def _fingerprint(tool: str, arguments: object) -> str:
    words = json.dumps([tool, arguments], sort_keys=True, default=str)
    return hashlib.sha256(words.encode(errors="surrogatepass")).hexdigest()
