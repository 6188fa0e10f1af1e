"""Where in a TOML text a key stands, so that an error can name the line (P1)."""

import re
from typing import Final

Location = tuple[str | int, ...]

_TABLE: Final = re.compile(r"^\s*(\[{1,2})\s*([A-Za-z0-9_.\-\"']+)\s*\]{1,2}")
_KEY: Final = re.compile(r"^\s*([A-Za-z0-9_\-]+|\"[^\"]+\"|'[^']+')\s*=")


def line_of(text: str, location: Location) -> int | None:
    """The 1-based line of a key such as ("rules", 3, "action"), or of its nearest parent; None when nothing fits."""
    lines = _lines(text)
    for length in range(len(location), 0, -1):
        if (line := lines.get(location[:length])) is not None:
            return line
    return None


def _lines(text: str) -> dict[Location, int]:
    found: dict[Location, int] = {}
    counts: dict[Location, int] = {}
    table: Location = ()
    for number, line in enumerate(text.splitlines(), start=1):
        if header := _TABLE.match(line):
            table = tuple(part.strip("\"'") for part in header.group(2).split("."))
            if header.group(1) == "[[":
                counts[table] = counts.get(table, -1) + 1
                table = (*table, counts[table])
            found.setdefault(table, number)
            found.setdefault(table[:1], number)
        elif key := _KEY.match(line):
            found.setdefault((*table, key.group(1).strip("\"'")), number)
    return found
