"""Where raw artefacts lie: mirrors, workspaces, output of attempts; private to the worker, never in a row (A4)."""

from pathlib import Path

from django.conf import settings

from jobs.models import Repository
from jobs.workspaces.mirror import Mirror


def mirror(repository: Repository) -> Mirror:
    """The bare copy that bases come from and snapshots live in."""
    return mirror_of(repository.pk, repository.location)


def mirror_of(repository_id: int, location: str) -> Mirror:
    return Mirror(_room("mirrors") / f"{repository_id}.git", location)


def workspaces() -> Path:
    """The folder of private clones, one for each running attempt."""
    return _room("work")


def base_results() -> Path:
    """What checks said about base trees, kept so that "was already red" costs one run."""
    return _room("bases")


def job_dir(job_id: int) -> Path:
    return settings.ARTIFACTS_DIR / "jobs" / str(job_id)


def attempt_dir(job_id: int, fence: int) -> Path:
    """Output, patch and notes of one attempt; made when it is written to first."""
    return job_dir(job_id) / str(fence)


def make_attempt_dir(job_id: int, fence: int) -> Path:
    path = attempt_dir(job_id, fence)
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    return path


def _room(name: str) -> Path:
    path: Path = settings.ARTIFACTS_DIR / name
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    return path
