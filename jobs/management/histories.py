"""Does a job's row follow from its audit events? For one job, and for all of them as a stream (A1, A2)."""

from collections.abc import Iterator
from typing import Any

from jobs import history
from jobs.models import Job

PAGE = 500

Differences = dict[str, tuple[Any, Any]]


def all_jobs() -> Iterator[Job]:
    """Every job by id, in pages: a million of them need no more memory than one page."""
    last = 0
    while page := list(Job.objects.filter(pk__gt=last).order_by("pk")[:PAGE]):
        yield from page
        last = page[-1].pk


def differences(job: Job) -> Differences:
    """Field → (by the events, in the row); empty means equal.

    The engine may move the job on between the two reads: a job that moved is read again.
    """
    while found := _compare(job):
        fresh = Job.objects.get(pk=job.pk)
        if fresh.audit_seq == job.audit_seq:
            return found
        job = fresh
    return {}


def as_json(found: Differences) -> dict[str, dict[str, Any]]:
    return {name: {"rebuilt": rebuilt, "stored": stored} for name, (rebuilt, stored) in found.items()}


def as_text(found: Differences) -> str:
    return "; ".join(
        f"{name}: {rebuilt} by its events, {stored} in its row" for name, (rebuilt, stored) in found.items()
    )


def _compare(job: Job) -> Differences:
    try:
        return history.differences(job)
    except (ValueError, KeyError, TypeError):  # an event's body was overwritten; its chain says which
        return {"events": ("unreadable", job.audit_seq)}
