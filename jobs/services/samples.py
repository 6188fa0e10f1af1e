"""The weekly sample of failures that were not retried, and what a person says of each (M4, P3).

Drawing is by digest of week and failure, not by chance: two processes that draw at once draw the same, and anybody
can check later that nothing was left out on purpose.
"""

from collections.abc import Iterable
from datetime import UTC, date, datetime, time, timedelta

from django.db import connection, transaction
from django.utils import timezone
from django.utils.translation import gettext as _

from jobs.core.decisions import Action
from jobs.core.keys import sha256_hex
from jobs.errors import SampleRefused
from jobs.models import FailureRecord, FailureSample
from jobs.models.failure import Judgement, Kind
from jobs.services import audit

SIZE = 20
NOT_RETRIED = (Action.STOP, Action.HUMAN_CHECK, Action.OPEN_CIRCUIT, Action.PAUSE)
DAYS = timedelta(days=7)


def week_of(moment: datetime) -> date:
    """The Monday of its week, in UTC."""
    day = moment.astimezone(UTC).date()
    return day - timedelta(days=day.weekday())


def draw_due(now: datetime | None = None) -> int:
    """The sample of the week before this one is drawn; how many failures it newly holds. Does nothing once it is."""
    week = week_of((now or timezone.now()) - DAYS)
    return 0 if FailureSample.objects.filter(week=week).exists() else draw(week)


def draw(week: date) -> int:
    """Up to `SIZE` failures of the week that were not retried, and as many that no rule knew, wait to be judged."""
    start = datetime.combine(week, time(), UTC)
    of_week = FailureRecord.objects.filter(at__gte=start, at__lt=start + DAYS, action__in=NOT_RETRIED)
    judged = of_week.exclude(failure_class="")  # a used-up budget is no failure to judge
    unknown = _picked(week, judged.filter(failure_class="unknown").values_list("pk", flat=True))
    others = _picked(week, judged.exclude(failure_class="unknown").values_list("pk", flat=True))
    now = timezone.now()
    rows = [
        FailureSample(record_id=pk, kind=kind, week=week, drawn_at=now)
        for kind, picked in ((Kind.UNKNOWN, unknown), (Kind.NOT_RETRIED, others))
        for pk in picked
    ]
    with transaction.atomic():
        _take_turns()
        drawn = set(FailureSample.objects.filter(week=week).values_list("record", flat=True))
        fresh = [row for row in rows if row.record_id not in drawn]
        FailureSample.objects.bulk_create(fresh)
    return len(fresh)


def judge(sample_id: int, judgement: str, *, actor: str, note: str = "") -> FailureSample:
    """The judgement stands and is audited. Refuses (SampleRefused) what is judged already, and an unknown word."""
    if judgement not in Judgement.values or judgement == Judgement.OPEN:
        raise SampleRefused(_("Say one of: rightly stopped, should have been retried, needs a new rule."))
    with transaction.atomic():
        values = {
            "judgement": judgement,
            "judged_by": actor,
            "judged_at": timezone.now(),
            "note": note.strip()[:500],
        }
        if not FailureSample.objects.filter(pk=sample_id, judgement=Judgement.OPEN).update(**values):
            raise SampleRefused(_("This failure was judged in the meantime. Reload the page to see what was said."))
        sample = FailureSample.objects.select_related("record").get(pk=sample_id)
        audit.note(
            "policy",
            "sample_judged",
            actor,
            reason=judgement,
            policy=sample.record.policy_number,
            job=sample.record.job_id,
            fence=sample.record.fence,
            week=sample.week.isoformat(),
        )
    return sample


def _take_turns() -> None:
    if connection.vendor == "postgresql":  # SQLite has one writer anyway
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_xact_lock(hashtext('agentq sample'))")


def _picked(week: date, ids: Iterable[int]) -> list[int]:
    return sorted(ids, key=lambda pk: sha256_hex(f"{week}|{pk}"))[:SIZE]
