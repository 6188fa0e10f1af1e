"""A job rebuilt from its audit events alone, and compared with its row (A2)."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from jobs.models import AuditEvent, Job

# The fields of a job that its events carry: folding them gives exactly the row. Lease times and reservations
# are not among them: a heartbeat changes nothing that anybody asks about later.
AUDITED = frozenset(
    {
        "state",
        "version",
        "fence",
        "next_stage",
        "next_run_at",
        "pause_reason",
        "stop_reason",
        "result_digest",
        "confirmed_digest",
        "cancel_requested",
        "pause_requested",
        "base_commit",
        "base_tree",
        "snapshot",
        "finished_at",
        "charged",
        "max_attempts",
        "free_claim",
        "crashes",
        "seconds_spent",
        "max_seconds",
        "tokens_spent",
        "max_tokens",
        "deadline",
        "priority",
        "takeover_person",
        "lease_owner",
    }
)


@dataclass(frozen=True, slots=True)
class Moment:
    """One event of a job and the job's fields right after it."""

    event: dict[str, Any]
    state: dict[str, Any]


def replay(job_id: int, *, at: datetime | None = None) -> Iterator[Moment]:
    """The job's events in order, each with the fields they add up to; up to and including `at` when given."""
    yield from fold(_bodies(job_id), at=at)


def fold(bodies: Iterable[dict[str, Any]], *, at: datetime | None = None) -> Iterator[Moment]:
    """As `replay`, over event bodies that are at hand."""
    state: dict[str, Any] = {}
    for body in bodies:
        if at is not None and datetime.fromisoformat(body["at"]) > at:
            return
        state = state | body["set"]
        yield Moment(body, state)


def differences(job: Job) -> dict[str, tuple[Any, Any]]:
    """Field → (rebuilt, stored) wherever the events do not add up to the row; empty means equal."""
    rebuilt: dict[str, Any] = {}
    for moment in replay(job.pk):
        rebuilt = moment.state
    stored = {name: _plain(getattr(job, name)) for name in AUDITED}
    return {name: (rebuilt.get(name), stored[name]) for name in sorted(AUDITED) if rebuilt.get(name) != stored[name]}


def snapshot(values: dict[str, Any]) -> dict[str, Any]:
    """The audited part of a job's columns, for the event that creates it."""
    return {name: values[name] for name in AUDITED if name in values}


def _bodies(job_id: int) -> Iterator[dict[str, Any]]:
    texts = AuditEvent.objects.filter(stream=f"job:{job_id}").order_by("seq").values_list("body", flat=True)
    # Read at once: a reader that stops early would leave a server-side cursor open.
    return (json.loads(text) for text in list(texts))


def _plain(value: Any) -> Any:
    return value.astimezone(UTC).isoformat() if isinstance(value, datetime) else value
