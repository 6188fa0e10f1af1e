"""Recorded failures as people look at them: by cause, and those that no rule knew (P3, E2)."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import Count, Max, Min, QuerySet

from jobs.models import FailureRecord

# Causes are counted over the newest decisions: what is older than these has no say in what to do now.
NEWEST = 10_000
GROUPS = 50
UNKNOWN = 50


@dataclass(frozen=True, slots=True)
class Group:
    """All failures of one cause. `states`: how many of its jobs are in which state now."""

    fingerprint: str
    class_: str
    code: str
    program: str
    count: int
    jobs: int
    first: datetime
    last: datetime
    states: list[tuple[str, int]]


def groups(class_: str = "") -> list[Group]:
    """Causes, the ones seen last first; of one class when it is given."""
    found = _newest()
    if class_:
        found = found.filter(failure_class=class_)
    counted = (
        found.order_by()
        .values("fingerprint", "failure_class", "code", "program")
        .annotate(count=Count("pk"), jobs=Count("job", distinct=True), first=Min("at"), last=Max("at"))
        .order_by("-last")[:GROUPS]
    )
    rows: list[dict[str, Any]] = [dict(row) for row in counted]
    states = _states([row["fingerprint"] for row in rows])
    return [Group(class_=row.pop("failure_class"), states=states.get(row["fingerprint"], []), **row) for row in rows]


def classes() -> list[tuple[str, int]]:
    """Classes with their number of failures, most first."""
    counted = _newest().order_by().values_list("failure_class").annotate(count=Count("pk")).order_by("-count")
    return list(counted)


def unknown() -> list[FailureRecord]:
    """The newest failures that no rule knew, with their jobs."""
    found = FailureRecord.objects.filter(failure_class="unknown").select_related("job__repository")
    return list(found.defer("job__payload").order_by("-pk")[:UNKNOWN])


def _newest() -> QuerySet[FailureRecord]:
    newest = FailureRecord.objects.order_by("-pk").values("pk")[:NEWEST]
    return FailureRecord.objects.filter(pk__in=newest).exclude(fingerprint="")


def _states(fingerprints: list[str]) -> dict[str, list[tuple[str, int]]]:
    counted = (
        FailureRecord.objects.filter(fingerprint__in=fingerprints)
        .order_by()
        .values_list("fingerprint", "job__state")
        .annotate(count=Count("job", distinct=True))
        .order_by("-count")
    )
    found: dict[str, list[tuple[str, int]]] = {}
    for fingerprint, state, count in counted:
        found.setdefault(fingerprint, []).append((state, count))
    return found
