"""What changed on a page of jobs since it was shown: compared row by row, so that no event is missed (U3)."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from django.db.models import Q
from django.http import QueryDict

from jobs.models import Job
from reviews import queries
from reviews.filters import JobFilter
from reviews.rows import Row, rows

# A page that is refreshed for hours grows up to this many rows; then it says that there are more.
MOST_ROWS = 200


@dataclass(frozen=True, slots=True)
class Shown:
    """What the page holds: the newest audit event it knows, and each row's mark in its order."""

    since: int
    marks: Mapping[int, str]

    @classmethod
    def read(cls, query: QueryDict) -> "Shown":
        """From the address that the page polls; what is no mark is left out."""
        marks = {}
        for mark in query.get("shown", "").split(",")[:500]:
            job_id = mark.partition(".")[0]
            if job_id.isascii() and job_id.isdigit() and len(job_id) < 19:
                marks[int(job_id)] = mark
        since = query.get("since", "")
        return cls(int(since) if since.isascii() and since.isdigit() and len(since) < 19 else 0, marks)


@dataclass(frozen=True, slots=True)
class Fresh:
    """A row that the page does not hold yet, and the row it goes before (0: at the end)."""

    row: Row
    before: int


@dataclass(frozen=True, slots=True)
class Changes:
    """Rows to exchange, rows to insert, and the marks of all rows afterwards, in order. `more`: the page is full."""

    changed: list[Row] = field(default_factory=list)
    fresh: list[Fresh] = field(default_factory=list)
    marks: list[str] = field(default_factory=list)
    more: bool = False

    @property
    def rows(self) -> int:
        return len(self.changed) + len(self.fresh)


def changes(wanted: JobFilter, shown: Shown, *, before: int | None) -> Changes:
    """Rows whose events or lease moved, and rows that came in. A row that no longer matches stays, marked."""
    bounds = Q(pk__lt=before) if before is not None else None
    here = list(wanted.ends(bounds, "-pk", queries.PAGE).values_list("pk", flat=True)[: queries.PAGE])
    oldest = min(shown.marks, default=0)
    roomy = len(shown.marks) < queries.PAGE
    entered = [pk for pk in here if pk not in shown.marks and (pk > oldest or roomy)]
    more = len(shown.marks) + len(entered) > MOST_ROWS
    if more:
        entered = []
    stale = _stale(shown)
    if not entered and not stale:
        return Changes(marks=list(shown.marks.values()), more=more)
    jobs = {job.pk: job for job in queries.rows(Job.objects.filter(pk__in=[*entered, *stale]))}
    left = set(stale) - set(wanted.matching(Q(pk__in=stale)).values_list("pk", flat=True)) if stale else set()
    made = {row.job.pk: row for row in rows(jobs.values(), left)}
    order = sorted({*shown.marks, *entered}, reverse=True)
    return Changes(
        changed=[made[pk] for pk in stale if pk in made],
        fresh=[
            Fresh(made[pk], next((other for other in shown.marks if other < pk), 0)) for pk in entered if pk in made
        ],
        marks=[made[pk].mark if pk in made else shown.marks[pk] for pk in order],
        more=more,
    )


def _stale(shown: Shown) -> list[int]:
    """Rows of the page whose mark is no longer true."""
    columns = ("pk", "audit_seq", "lease_expires_at")
    found = Job.objects.filter(pk__in=list(shown.marks)).only(*columns)
    return [
        job.pk for job in found if shown.marks[job.pk] != f"{job.pk}.{job.audit_seq}.{queries.lease_health(job)[0]}"
    ]
