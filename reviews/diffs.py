"""What a job changed: from its base commit to a snapshot, read from the repository's mirror (V3)."""

from dataclasses import dataclass

from jobs.errors import WorkspaceError
from jobs.models import Attempt, Checkpoint, Job
from jobs.services import artifacts
from jobs.workspaces import changes
from reviews import patch

PATCH_BYTES = 512 * 1024


@dataclass(frozen=True, slots=True)
class FileDiff:
    """One changed path with its line counts and its lines."""

    change: changes.Change
    count: changes.LineCount
    patch: patch.FilePatch


@dataclass(frozen=True, slots=True)
class Difference:
    """`trouble` says why the files cannot be shown; `cut`: the patch is larger than what is shown."""

    base: str
    files: list[FileDiff]
    cut: bool = False
    trouble: str = ""


def snapshots(job: Job) -> dict[str, str]:
    """The job's stored snapshots, newest first, each with the commit it started from."""
    found = {job.snapshot: job.base_commit}
    for attempt in Attempt.objects.filter(job=job).order_by("-fence"):
        found.setdefault(attempt.snapshot, attempt.base_commit or job.base_commit)
    for point in Checkpoint.objects.filter(job=job).order_by("-id"):
        found.setdefault(point.snapshot, job.base_commit)
    return {snapshot: base for snapshot, base in found.items() if snapshot and base}


def difference(job: Job, base: str, snapshot: str) -> Difference:
    """Base to snapshot. A mirror that is not on this machine is a sentence, not a failure."""
    mirror = artifacts.mirror(job.repository)
    try:
        paths = changes.changed_paths(mirror, base, snapshot)
        counts = changes.numstat(mirror, base, snapshot)
        output = changes.diff(mirror, base, snapshot, cap=PATCH_BYTES)
    except (WorkspaceError, OSError) as error:
        return Difference(base, [], trouble=str(error))
    read = patch.read(output.stdout.decode("utf-8", errors="replace"))
    read += [patch.FilePatch(cut=True) for _unread in range(len(paths) - len(read))]
    files = [FileDiff(*parts) for parts in zip(paths, counts, read, strict=False)]
    return Difference(base, files, cut=output.truncated)
