"""The review queue: open cases by risk and by age against their target, in five tabs (H1)."""

from dataclasses import dataclass
from datetime import UTC, datetime

from django.db.models import Count, Q
from django.utils import timezone
from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from jobs.core.cases import TWO_PEOPLE
from jobs.core.keys import canonical_json, sha256_hex
from jobs.models import FollowUp, ReviewCase, ReviewDecision
from reviews.questions import question, waits_for

MOST = 500
TABS: dict[str, str | Promise] = {
    "all": gettext_lazy("All open"),
    "mine": gettext_lazy("Mine"),
    "unclaimed": gettext_lazy("Unclaimed"),
    "second": gettext_lazy("Waiting for a second person"),
    "snoozed": gettext_lazy("Snoozed"),
}
RANK = {"high": 0, "medium": 1, "low": 2}
TONES = {"high": "bad", "medium": "warn", "low": "idle"}


@dataclass(frozen=True, slots=True)
class Row:
    """An open case as a line of the queue, as one person sees it."""

    case: ReviewCase
    question: str
    waits: str
    waits_small: str
    holder: str
    own: bool
    share: int

    @property
    def tone(self) -> str:
        return TONES[self.case.risk]

    @property
    def target(self) -> float:
        """Seconds from opening to the target."""
        return ((self.case.due_at or self.case.opened_at) - self.case.opened_at).total_seconds()

    @property
    def late(self) -> bool:
        return self.share >= 100

    def seen_in(self, tab: str, actor: str) -> bool:
        snoozed = self.case.snoozed_until is not None and self.case.snoozed_until > timezone.now()
        if tab == "snoozed" or snoozed:
            return tab == "snoozed" and snoozed
        mine = actor in (self.case.assigned_to, self.holder)
        return {
            "all": True,
            "mine": mine,
            "unclaimed": not self.holder,
            "second": self.case.required_approvals > 1 and self.case.approvals > 0,  # type: ignore[attr-defined]
        }[tab]


@dataclass(frozen=True, slots=True)
class Queue:
    """The rows of one tab, and how many each tab has; `capped`: there are more than are read."""

    rows: list[Row]
    counts: dict[str, int]
    capped: bool

    @property
    def mark(self) -> str:
        """While it stays, the tab's rows stay: who is in it, who is on which, who decided."""
        seen = [(row.case.pk, row.holder, row.waits_small, row.case.assigned_to) for row in self.rows]
        return sha256_hex(canonical_json([list(each) for each in seen]))[:16]


def queue(actor: str, tab: str) -> Queue:
    """Highest risk first, then the one nearest to its target or furthest past it."""
    now = timezone.now()
    rows = [_row(case, actor, now) for case in _open()]
    rows.sort(key=lambda row: (RANK[row.case.risk], row.case.due_at or row.case.opened_at, row.case.pk))
    counts = {name: sum(row.seen_in(name, actor) for row in rows) for name in TABS}
    return Queue([row for row in rows if row.seen_in(tab, actor)], counts, len(rows) >= MOST)


def neighbours(case_id: int, actor: str) -> tuple[int | None, int | None, int, int]:
    """The cases before and after this one in the whole queue, its place from 1 (0: not in it), and how many."""
    ids = [row.case.pk for row in queue(actor, "all").rows]
    if case_id not in ids:
        return None, ids[0] if ids else None, 0, len(ids)
    at = ids.index(case_id)
    return (ids[at - 1] if at else None, ids[at + 1] if at + 1 < len(ids) else None, at + 1, len(ids))


def following(actor: str) -> int | None:
    """The next case that this person may take: not their own job, nobody on it, not decided by them already."""
    for row in queue(actor, "all").rows:
        done = row.case.decisions.filter(actor=actor).exists()
        if not row.own and not done and row.holder in ("", actor):
            return row.case.pk
    return None


@dataclass(frozen=True, slots=True)
class Today:
    """What was decided since midnight UTC: how many, and how long those cases had waited in the middle (seconds)."""

    decided: int
    median: float | None


def today() -> Today:
    midnight = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    found = ReviewDecision.objects.filter(closing=True, created_at__gte=midnight).select_related("case")[:MOST]
    waits = sorted((each.created_at - each.case.opened_at).total_seconds() for each in found)
    return Today(len(waits), waits[len(waits) // 2] if waits else None)


def follow_ups() -> list[FollowUp]:
    """What owners decided alone and nobody else has looked at yet, oldest first."""
    found = FollowUp.objects.filter(closed_at__isnull=True).select_related("case__job")
    return list(found.order_by("due_at")[:50])


def holder(case: ReviewCase, now: datetime) -> str:
    """Who is on the case now; "" when no claim runs."""
    return case.claimed_by if case.claimed_until is not None and case.claimed_until > now else ""


def _open() -> list[ReviewCase]:
    first = Count("decisions", filter=Q(decisions__decision__in=TWO_PEOPLE))
    cases = ReviewCase.objects.filter(closed_at__isnull=True).annotate(approvals=first)
    return list(cases.select_related("job__repository").defer("job__payload").order_by("due_at")[:MOST])


def _row(case: ReviewCase, actor: str, now: datetime) -> Row:
    own = case.requested_by == actor
    whole = ((case.due_at or now) - case.opened_at).total_seconds() or 1
    small = ""
    if own and case.risk == "high":
        small = _("not you: you asked for the job")
    elif case.required_approvals > 1:
        small = _("%(done)d of %(all)d") % {"done": case.approvals, "all": case.required_approvals}  # type: ignore[attr-defined]
    return Row(
        case=case,
        question=question(case, case.job),
        waits=waits_for(case, case.approvals),  # type: ignore[attr-defined]
        waits_small=small,
        holder=holder(case, now),
        own=own,
        share=min(100, max(0, round(100 * (now - case.opened_at).total_seconds() / whole))),
    )
