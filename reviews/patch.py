"""A patch as files and numbered lines, for a page to show."""

import re
from dataclasses import dataclass, field

HUNK = re.compile(r"@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@")
LINES_OF_A_FILE = 800
LINES_OF_A_PATCH = 4000


@dataclass(frozen=True, slots=True)
class Line:
    """`kind` is add, del, hunk or "" for context; numbers are None where the line does not exist."""

    kind: str
    old: int | None
    new: int | None
    text: str


@dataclass(slots=True)
class FilePatch:
    """The lines of one file. `cut`: there are more lines than shown; `binary`: there is no text to show."""

    lines: list[Line] = field(default_factory=list)
    cut: bool = False
    binary: bool = False


def read(patch: str) -> list[FilePatch]:
    """The files of a patch in git's order, capped a file and in total."""
    files: list[FilePatch] = []
    total, old, new, inside = 0, 0, 0, False
    for line in patch.split("\n"):
        if line.startswith("diff --git "):
            files.append(FilePatch())
            inside = False
            continue
        if not files:
            continue
        file = files[-1]
        if hunk := HUNK.match(line):
            old, new, inside = int(hunk[1]), int(hunk[2]), True
            shown = Line("hunk", None, None, line)
        elif not inside:
            file.binary = file.binary or line.startswith(("GIT binary patch", "Binary files"))
            continue
        elif line.startswith("+"):
            shown, new = Line("add", None, new, line[1:]), new + 1
        elif line.startswith("-"):
            shown, old = Line("del", old, None, line[1:]), old + 1
        elif line.startswith(" "):
            shown, old, new = Line("", old, new, line[1:]), old + 1, new + 1
        else:
            continue  # "\ No newline at end of file", or the end
        if len(file.lines) < LINES_OF_A_FILE and total < LINES_OF_A_PATCH:
            file.lines.append(shown)
            total += 1
        else:
            file.cut = True
    return files
