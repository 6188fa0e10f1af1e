"""What changed between two commits of the mirror: paths, modes, line counts and the patch, all capped."""

from dataclasses import dataclass

from jobs.workspaces.git import Output, printable
from jobs.workspaces.mirror import Mirror

PATCH_CAP = 2 * 1024 * 1024  # bytes
_LIST_CAP = 32 * 1024 * 1024  # bytes, about 150,000 changed paths
# Renames are never paired: a rule that looks at new names only would miss a file moved out of a guarded folder.
_PLAIN = ("-r", "--no-renames", "--no-color", "--end-of-options")


@dataclass(frozen=True)
class Change:
    """One changed path. `status`: A added, D deleted, M modified, T type changed. Modes are git's, "000000" = none."""

    status: str
    path: str
    old_mode: str
    new_mode: str
    new_id: str


@dataclass(frozen=True)
class LineCount:
    """Lines added and deleted in one file; None for both when git takes it for binary."""

    path: str
    added: int | None
    deleted: int | None


def changed_paths(mirror: Mirror, base: str, head: str) -> tuple[Change, ...]:
    """All paths that differ between two commits, in git's order. Raises GitOutputTooLarge, GitFailed."""
    answer = mirror.git.run("diff-tree", "--raw", "-z", "--no-abbrev", *_PLAIN, base, head, cap=_LIST_CAP)
    fields = iter(answer.fields())
    changes = []
    for meta in fields:
        old_mode, new_mode, _, new_id, status = meta.decode("ascii").removeprefix(":").split(" ")
        changes.append(Change(status[0], printable(next(fields)), old_mode, new_mode, new_id))
    return tuple(changes)


def numstat(mirror: Mirror, base: str, head: str) -> tuple[LineCount, ...]:
    """Lines added and deleted for each changed path. Raises GitOutputTooLarge, GitFailed."""
    answer = mirror.git.run("diff-tree", "--numstat", "-z", *_PLAIN, base, head, cap=_LIST_CAP)
    counts = []
    for entry in answer.fields():
        added, deleted, path = entry.split(b"\t", 2)
        counts.append(LineCount(printable(path), _count(added), _count(deleted)))
    return tuple(counts)


def diff(mirror: Mirror, base: str, head: str, *, cap: int = PATCH_CAP) -> Output:
    """The patch from base to head that `git apply` takes; at most `cap` bytes, `truncated` says that more was cut."""
    return mirror.git.run(
        "diff-tree", "-p", "--binary", "--full-index", "--unified=3", *_PLAIN, base, head, cap=cap, partial=True
    )


def _count(field: bytes) -> int | None:
    return None if field == b"-" else int(field)
