"""The lines and names a result adds, for scanners that must see every one of them."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from jobs.workspaces.changes import Change
from jobs.workspaces.git import Output
from jobs.workspaces.mirror import Mirror

ADDED_CAP = 8 * 1024 * 1024  # bytes of patch
_HUNK = re.compile(rb"@@ -\d+(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")


@dataclass(frozen=True)
class AddedLine:
    """One added line. `number` counts from 1 in the new file; 0 stands for the file's own name."""

    path: str
    number: int
    text: str


def added_patch(mirror: Mirror, base: str, head: str, *, cap: int = ADDED_CAP) -> Output:
    """The patch that `added_lines` reads, files that git takes for binary included; cut at `cap` bytes."""
    args = ("-r", "-p", "--text", "--unified=0", "--no-renames", "--no-color", "--end-of-options", base, head)
    return mirror.git.run("diff-tree", *args, cap=cap, partial=True)


def added_lines(patch: bytes, changes: Sequence[Change]) -> Iterator[AddedLine]:
    """Names first, then each added line of a patch of exactly these `changes`, in git's order."""
    for change in changes:
        if change.status != "D":
            yield AddedLine(change.path, 0, change.path)
    # A changed type is two sections in a patch: the old file goes, the new one comes.
    sections = iter([change.path for change in changes for _ in range(2 if change.status == "T" else 1)])
    path, number, removed, added = "", 0, 0, 0
    for line in _lines(patch):
        if added and line.startswith(b"+"):
            yield AddedLine(path, number, line[1:].decode("utf-8", errors="replace"))
            number, added = number + 1, added - 1
        elif removed and line.startswith(b"-"):
            removed -= 1
        elif hunk := _HUNK.match(line):
            removed, added = _count(hunk[1]), _count(hunk[3])
            number = int(hunk[2])
        elif line.startswith(b"diff --git "):
            path = next(sections, "")


def _lines(patch: bytes) -> Iterator[bytes]:
    start = 0
    while start < len(patch):
        end = patch.find(b"\n", start)
        end = len(patch) if end < 0 else end
        yield patch[start:end]
        start = end + 1


def _count(field: bytes | None) -> int:
    return 1 if field is None else int(field)
