"""Layer 1: the secrets that AgentQ itself handed to a program, in every form in which they may come back (Z5)."""

import base64
import json
from collections.abc import Collection, Iterator
from urllib.parse import quote, quote_plus

from jobs.core.secrets.findings import Hit
from jobs.core.secrets.views import View

MIN_CHARS = 6  # shorter values are words that occur anywhere
_MIN_CORE = 8


def find(view: View, values: Collection[str]) -> Iterator[Hit]:
    """Every place of one of the values: as it is, or in base64, hex, URL, JSON or repr form."""
    for form in _forms(values):
        start = view.text.find(form)
        while start >= 0:
            yield Hit("injected", start, start + len(form))
            start = view.text.find(form, start + len(form))


def _forms(values: Collection[str]) -> list[str]:
    forms: dict[str, None] = {}
    for value in values:
        if len(value) < MIN_CHARS:
            continue
        data = value.encode("utf-8", errors="replace")
        quoted = quote(value, safe="", errors="replace")
        plain = [value, quoted, quoted.replace("%", "%25"), quote_plus(value, errors="replace")]
        plain += [json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1], repr(value)[1:-1]]
        plain += [data.hex(), data.hex().upper()]
        for form in [*plain, *_base64(data)]:
            forms.setdefault(form)
    return sorted(forms, key=len, reverse=True)


def _base64(data: bytes) -> Iterator[str]:
    """The characters that stand for the value whatever stands before and after it in what was encoded."""
    for before in range(3):
        encoded = base64.b64encode(b"\0" * before + data).decode().rstrip("=")
        # The first characters also hold bits of what comes before, the last ones of what comes after.
        core = encoded[(0, 2, 3)[before] : len(encoded) - (1 if (before + len(data)) % 3 else 0)]
        if len(core) >= _MIN_CORE:
            yield core
            yield core.replace("+", "-").replace("/", "_")
