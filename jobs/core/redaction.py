"""Finds secrets in text and takes them out (K5, F4, Z1): layered, without guessing by entropy, in linear time.

The layers: values that AgentQ itself handed out, keys with an issuer's prefix, forms such as private keys and
cookies, names with a value, numbers. Each reads the text as it stands and with its escapes undone once.
"""

import hashlib
import re
from collections.abc import Collection, Iterator
from typing import Final, Literal

from jobs.core.secrets import commands, numbers, pairs, prefixes, structure
from jobs.core.secrets import injected as injected_values
from jobs.core.secrets.findings import HIGH, LAYERS, LOW, Finding, Hit
from jobs.core.secrets.views import View, views

__all__ = ["DETECTOR_VERSION", "HIGH", "LOW", "TAIL_CHARS", "Context", "Finding", "find", "redact", "redact_tail"]

DETECTOR_VERSION: Final = "1"
TAIL_CHARS: Final = 4096
Context = Literal["tail", "payload", "diff"]
_ROUNDS: Final = 6
_MARKER: Final = re.compile(r"\[redacted:[a-z_]{1,40}\]")
_ANSI: Final = re.compile(r"\x1b(?:\[[0-?]{0,40}[ -/]{0,4}[@-~]|\][^\x07\x1b\n]{0,2048}(?:\x07|\x1b\\)|[@-Z\\^_])")
_CONTROL: Final = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb\ud800-\udfff]"
)


def find(text: str, *, context: Context = "tail", injected: Collection[str] = ()) -> tuple[Finding, ...]:
    """Every secret in the text, in order and without overlap. `injected`: values that must not appear in any form."""
    if not text:
        return ()
    found: dict[Finding, None] = {}
    for view in views(text):
        for layer, hits in _layers(view, context, injected):
            for hit in hits:
                start, end = view.origin(hit.start, hit.end)
                if end > start:
                    found.setdefault(Finding(hit.kind, start, end, hit.confidence, layer))
    marked = [(marker.start(), marker.end()) for marker in _MARKER.finditer(text)] if "[redacted:" in text else []
    return tuple(_joined(_outside(found, marked)))


def redact(text: str, *, context: Context = "tail", injected: Collection[str] = ()) -> str:
    """The text with each secret replaced by `[redacted:kind]`; a redacted text stays as it is."""
    for _ in range(_ROUNDS):
        findings = find(text, context=context, injected=injected)
        if not findings:
            return text
        text = _replaced(text, findings)
    # What is left gives new findings each time: nothing of it is worth the risk.
    return "[redacted:text]"


def redact_tail(data: bytes, size: int = TAIL_CHARS, *, injected: Collection[str] = ()) -> str:
    """The last `size` characters of an output, fit to be stored: decoded, stripped of control characters, redacted
    and only then cut (F4). When redaction fails, only a digest is left."""
    try:
        text = _CONTROL.sub("", _ANSI.sub("", data.decode("utf-8", errors="replace")).replace("\r", "\n"))
        return _cut(redact(text, injected=injected), size)
    except Exception:  # noqa: BLE001  whatever went wrong, the text itself must not get through
        digest = hashlib.sha256(data).hexdigest()
        return f"[withheld: redaction failed; {len(data)} bytes, sha256 {digest}]"[:size]


def _layers(view: View, context: Context, injected: Collection[str]) -> Iterator[tuple[str, Iterator[Hit]]]:
    if injected:
        yield "injected", injected_values.find(view, injected)
    yield "prefix", prefixes.find(view)
    yield "structure", structure.find(view)
    yield "pair", pairs.find(view, context)
    yield "pair", commands.find(view)
    yield "number", numbers.find(view, context)


def _outside(found: Collection[Finding], marked: list[tuple[int, int]]) -> list[Finding]:
    """Findings without those that lie within a mark left by an earlier redaction."""
    if not marked:
        return list(found)
    return [one for one in found if not any(start < one.end and one.start < end for start, end in marked)]


def _joined(found: list[Finding]) -> Iterator[Finding]:
    """One finding for each stretch of text; the earliest layer names it."""
    open_: Finding | None = None
    for one in sorted(found, key=lambda each: (each.start, -each.end)):
        if open_ is None or one.start >= open_.end:
            if open_ is not None:
                yield open_
            open_ = one
            continue
        first = min(open_, one, key=lambda each: (LAYERS.index(each.layer), each.confidence != HIGH))
        open_ = Finding(first.kind, open_.start, max(open_.end, one.end), first.confidence, first.layer)
    if open_ is not None:
        yield open_


def _replaced(text: str, findings: tuple[Finding, ...]) -> str:
    parts, done = [], 0
    for one in findings:
        parts += [text[done : one.start], f"[redacted:{one.kind}]"]
        done = one.end
    return "".join([*parts, text[done:]])


def _cut(text: str, size: int) -> str:
    return text[len(text) - size :] if len(text) > size else text
