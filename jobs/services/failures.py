"""Recorded failures: what the next decision has to know of the ones before it, and the rows themselves (P1, T1)."""

from datetime import datetime, timedelta
from itertools import takewhile
from typing import Any

from jobs.core.decisions import Action, Starts
from jobs.models import Attempt, FailureRecord
from jobs.models.attempt import Outcome

# The retry-ratio window looks back over at most this many starts: more say nothing new.
NEWEST = 10_000


def in_a_row(program: str, fingerprint: str, enough: int) -> int:
    """How many failures of this program came last with this fingerprint, the one at hand included, up to `enough`.

    Jobs do not matter, since the cause is shared: an accepted attempt in between ends the row.
    """
    if not fingerprint:
        return 1
    newest = FailureRecord.objects.filter(program=program).order_by("-pk")
    earlier = list(newest.values_list("fingerprint", "job_id", "fence")[: enough - 1])
    same = list(takewhile(lambda row: row[0] == fingerprint, earlier))
    if len(same) + 1 < enough:
        return len(same) + 1
    _fingerprint, job_id, fence = same[-1]
    oldest = Attempt.objects.filter(job_id=job_id, fence=fence).values("pk")
    later = Attempt.objects.filter(pk__gt=oldest, executor=program, outcome=Outcome.ACCEPTED)
    return 1 if later.exists() else len(same) + 1


def window(now: datetime, seconds: int) -> Starts:
    """Starts of the last `seconds`, and the retries that were decided in them."""
    since = now - timedelta(seconds=seconds)
    starts = Attempt.objects.filter(pk__in=Attempt.objects.order_by("-pk").values("pk")[:NEWEST])
    decided = FailureRecord.objects.filter(pk__in=FailureRecord.objects.order_by("-pk").values("pk")[:NEWEST])
    retries = decided.filter(at__gte=since, action=Action.RETRY)
    return Starts(starts.filter(started_at__gte=since).count(), retries.count())


def row(**values: Any) -> dict[str, Any]:
    """The columns of a record, each cut to its length; JSON columns stay as they are."""
    limits = {field.attname: field.max_length for field in FailureRecord._meta.concrete_fields}
    return {
        name: value[: limits[name]] if isinstance(value, str) and limits[name] else value
        for name, value in values.items()
    }
