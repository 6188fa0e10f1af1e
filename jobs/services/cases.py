"""What happens to a review case between its opening and its decision: claim, assign, snooze, escalate (H2, H3).

Each act is an event in the job's history. None of them decides anything, and no time that passes does either.
"""

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from django.contrib.auth import get_user_model
from django.utils.translation import gettext as _

from jobs.core import cases
from jobs.errors import DecisionRefused, StaleJob
from jobs.models import FollowUp, ReviewCase, ViewedFile
from jobs.services import audit, authority, clock, policies, transitions
from jobs.services.audit import Entry
from jobs.services.people import USER, Role, role_named
from jobs.services.statement import Sql, Update

ENGINE = "engine:reviews"
LONGEST_PATH = 1000


def claim(case_id: int, *, actor: str) -> datetime:
    """The case is this person's for 15 minutes (UTC end returned); again renews it, and a claim that ended is taken
    over. Raises DecisionRefused while somebody else's runs, StaleJob when the case is closed."""
    case, at = _open(case_id), clock.now()
    authority.require_unclaimed(case, actor, at)
    until = at + cases.CLAIM
    values = {"claimed_by": actor, "claimed_until": until}
    facts = {"taken_over_from": case.claimed_by} if case.claimed_by not in ("", actor) else {}
    try:
        _record(case, "case_claimed", actor, at, values, facts=facts, only_if=authority.unclaimed(case.pk, actor, at))
    except StaleJob:
        authority.require_unclaimed(_open(case_id), actor, at)
        raise
    return until


def release(case_id: int, *, actor: str) -> None:
    """The case is free again. Only whoever holds it gives it back."""
    case, at = _open(case_id), clock.now()
    if case.claimed_by != actor:
        raise DecisionRefused(_("You do not hold this case."))
    _record(case, "case_released", actor, at, _FREE)


def assign(case_id: int, *, to: str, actor: str, reason: str) -> None:
    """The case waits for this reviewer (a name); whoever held it, by a running claim of their own, lets it go."""
    case, at = _open(case_id), clock.now()
    authority.require_unclaimed(case, actor, at)
    if not get_user_model()._default_manager.filter(username=to).exists():
        raise DecisionRefused(_("There is no person %(name)s.") % {"name": to})
    person = f"{USER}{to}"
    if role_named(person) < Role.REVIEWER:
        raise DecisionRefused(_("%(name)s is no reviewer, so could not decide this.") % {"name": to})
    if person == case.requested_by and case.risk == "high":
        raise DecisionRefused(_("%(name)s asked for this job and may not decide it.") % {"name": to})
    _record(case, "case_assigned", actor, at, {"assigned_to": person, **_FREE}, reason=reason, facts={"to": person})


def snooze(case_id: int, *, until: datetime, actor: str, reason: str) -> None:
    """The case leaves the queue until then. Its target stays: it is escalated all the same."""
    case, at = _open(case_id), clock.now()
    authority.require_unclaimed(case, actor, at)
    if not at < until <= at + cases.LONGEST_SNOOZE:
        raise DecisionRefused(_("Choose a time from now to 14 days ahead."))
    values = {"snoozed_until": until, **_FREE}
    _record(case, "case_snoozed", actor, at, values, reason=reason, facts={"until": until})


def escalate_due(limit: int = 50) -> int:
    """Open cases past their target are escalated, once, to the takeover person; how many. It decides nothing."""
    at = clock.now()
    due = ReviewCase.objects.filter(closed_at__isnull=True, due_at__lte=at, escalated_at__isnull=True)
    done = 0
    for case in due.select_related("job").order_by("due_at")[:limit]:
        person = f"{USER}{case.job.takeover_person}" if case.job.takeover_person else case.assigned_to
        values = {"escalated_at": at, "assigned_to": person, "snoozed_until": None}
        try:
            _record(case, "case_escalated", ENGINE, at, values, facts={"to": person})
        except StaleJob:
            continue  # decided at this very moment
        done += 1
    return done


def mark_viewed(case_id: int, paths: Iterable[str], *, actor: str) -> None:
    """Exactly these files of the case's diff count as seen by this person; a tick of their own, not audited."""
    kept = {path[:LONGEST_PATH] for path in paths}
    mine = ViewedFile.objects.filter(case_id=case_id, actor=actor)
    mine.exclude(path__in=kept).delete()
    new = kept - set(mine.values_list("path", flat=True))
    ViewedFile.objects.bulk_create(
        [ViewedFile(case_id=case_id, actor=actor, path=path) for path in sorted(new)], ignore_conflicts=True
    )


def close_follow_up(follow_up_id: int, *, actor: str, note: str) -> None:
    """Another person has looked at what one owner decided alone. Refuses that owner, and without words."""
    found = FollowUp.objects.select_related("case").filter(pk=follow_up_id).first()
    if found is None or found.closed_at is not None:
        raise StaleJob(_("This was looked at already."))
    if found.opened_by == actor:
        raise DecisionRefused(_("You decided that alone: another person must look at it."))
    if not note.strip():
        raise DecisionRefused(_("Say what you found."))
    at = clock.now()
    held = transitions.load(found.case.job_id, policy=policies.active().number)
    values = {"closed_by": actor, "closed_at": at, "note": note.strip()[:500]}
    also = [Update(FollowUp, values, {"id": found.pk, "closed_at": None})]
    transitions.record(held, Entry("follow_up_closed", actor, at, reason=note.strip()[:500]), also=also)


def refused(actor: str, act: str, why: str, **facts: Any) -> None:
    """A refused act of a person is on record, outside every job's own chain."""
    audit.note("auth", "refused", actor, reason=why[:200], act=act, **facts)


_FREE: dict[str, Any] = {"claimed_by": "", "claimed_until": None}


def _open(case_id: int) -> ReviewCase:
    case = ReviewCase.objects.filter(pk=case_id).first()
    if case is None:
        raise DecisionRefused(_("There is no such review case."))
    if case.closed_at is not None:
        raise StaleJob(_("This case is closed already."))
    return case


def _record(
    case: ReviewCase,
    event: str,
    actor: str,
    at: datetime,
    values: dict[str, Any],
    *,
    reason: str = "",
    facts: dict[str, Any] | None = None,
    only_if: Sql | None = None,
) -> None:
    held = transitions.load(case.job_id, policy=policies.active().number)
    entry = Entry(event, actor, at, reason=reason.strip()[:500], facts={"case": case.pk, **(facts or {})})
    also = [Update(ReviewCase, values, {"id": case.pk, "closed_at": None})]
    still_open = Sql("EXISTS (SELECT 1 FROM jobs_reviewcase c WHERE c.id = %s AND c.closed_at IS NULL)", (case.pk,))
    transitions.record(held, entry, also=also, only_if=only_if or still_open)
