"""The jobs list's filters: a closed list of indexed columns that lives in the address (U5)."""

from dataclasses import dataclass, fields
from datetime import timedelta
from typing import NamedTuple

from django.db.models import Q, QuerySet, Subquery
from django.db.models.functions import Coalesce
from django.http import QueryDict
from django.utils import timezone
from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from jobs.core.states import LIVE, State
from jobs.models import Batch, FailureRecord, Job, Repository

OPEN = "open"
SPANS: dict[str, tuple[str | Promise, timedelta]] = {
    "1h": (gettext_lazy("the last hour"), timedelta(hours=1)),
    "24h": (gettext_lazy("the last 24 hours"), timedelta(hours=24)),
    "7d": (gettext_lazy("the last 7 days"), timedelta(days=7)),
    "30d": (gettext_lazy("the last 30 days"), timedelta(days=30)),
}


class Token(NamedTuple):
    """One filter that is set, and the address of the list without it."""

    name: str
    value: str
    without: str


@dataclass(frozen=True, slots=True)
class JobFilter:
    """Which jobs are asked for; an empty text means any."""

    state: str = ""
    repository: str = ""
    action: str = ""
    batch: str = ""
    created: str = ""
    fingerprint: str = ""

    @classmethod
    def read(cls, query: QueryDict) -> "JobFilter":
        return cls(**{field.name: query.get(field.name, "").strip().replace("\0", "") for field in fields(cls)})

    @property
    def error(self) -> str:
        """What is wrong with the address, in words; "" when nothing is."""
        if self.state and self.state != OPEN and self.state not in list(State):
            return _("There is no such state. Known states: %(known)s.") % {"known": ", ".join([OPEN, *State])}
        if self.created and self.created not in SPANS:
            return _("There is no such time span. Known spans: %(known)s.") % {"known": ", ".join(SPANS)}
        return ""

    def address(self, **changes: str) -> str:
        """The query that asks for these jobs, with some filters changed; "?" for all jobs."""
        query = QueryDict(mutable=True)
        for field in fields(self):
            if value := changes.get(field.name, getattr(self, field.name)):
                query[field.name] = value
        for name in ("before", "after"):
            if name in changes:
                query[name] = changes[name]
        return f"?{query.urlencode(safe='/')}"

    @property
    def any_state(self) -> str:
        """The address of the same list in all states."""
        return self.address(state="")

    def tokens(self) -> list[Token]:
        names = [field.name for field in fields(self) if field.name != "state" and getattr(self, field.name)]
        return [Token(name, getattr(self, name), self.address(**{name: ""})) for name in names]

    def matching(self, bounds: Q | None = None) -> QuerySet[Job]:
        """The jobs asked for, within `bounds` (on pk)."""
        found = self._but_state(bounds)
        if self.state == OPEN:
            return found.filter(state__in=LIVE)
        return found.filter(state=self.state) if self.state else found

    def ends(self, bounds: Q | None, order: str, limit: int) -> QuerySet[Job]:
        """`matching` in this order (`pk` or `-pk`) for a caller who reads the first `limit`, not yet sliced."""
        if self.state != OPEN:
            return self.matching(bounds).order_by(order)
        # Each live state by its own index, cut at the limit: a walk over all jobs would pass every finished one.
        found, wanted = self._but_state(bounds), Q()
        for state in LIVE:
            wanted |= Q(pk__in=found.filter(state=state).order_by(order).values("pk")[:limit])
        return Job.objects.filter(wanted).order_by(order)

    def _but_state(self, bounds: Q | None) -> QuerySet[Job]:
        found = Job.objects.filter(bounds or Q())
        if self.repository:
            named = Repository.objects.filter(name__iexact=self.repository)
            found = found.filter(repository=Subquery(named.values("pk")[:1]))
        if self.action:
            found = found.filter(action=self.action)
        if self.batch:
            found = found.filter(batch=Subquery(Batch.objects.filter(name=self.batch).values("pk")[:1]))
        if self.fingerprint:
            failed = FailureRecord.objects.filter(fingerprint=self.fingerprint)
            found = found.filter(pk__in=failed.order_by().values("job"))
        if self.created:
            # Ids grow with time, so the newest job that is too old bounds the walk; the time itself decides.
            start = timezone.now() - SPANS[self.created][1]
            older = Job.objects.filter(created_at__lt=start).order_by("-created_at").values("pk")[:1]
            found = found.filter(pk__gt=Coalesce(Subquery(older), 0), created_at__gte=start)
        return found
