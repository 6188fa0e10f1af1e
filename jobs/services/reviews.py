"""What a person decides on a review case, and what becomes of the job (H1, design section 2).

A decision needs a reason, is one of the case's allowed ones, and binds to the job's version, the result digest and the
policy version: when one moved, it is refused as stale. On a high-risk case the decisions that let something out take
two people (H2). Grants raise the job's own maxima in the same transaction. A refused decision is in stream `auth`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from django.db import IntegrityError, transaction
from django.utils.translation import gettext as _

from jobs.core import cases
from jobs.core.claims import past, unconfirmed
from jobs.core.keys import sha256_hex
from jobs.core.stages import Stage, at_or_after
from jobs.core.states import Event, State
from jobs.errors import DecisionRefused, StaleJob
from jobs.models import Checkpoint, FollowUp, Job, ReviewCase, ReviewDecision, SideEffect
from jobs.models.side_effect import OPEN_OUTCOMES
from jobs.services import audit, authority, checkpoints, clock, policies, proofs, transitions
from jobs.services.audit import Entry
from jobs.services.candidates import candidate, definition
from jobs.services.leases import ENGINE, confirmation_digest, facts
from jobs.services.statement import Insert, Sql, Update
from jobs.services.transitions import Change, Held

GRANTS = {"attempts": "max_attempts", "seconds": "max_seconds", "tokens": "max_tokens"}
FIRST = "first_decision"
TRIES = 4
# Without a free claim the job needs a try of its budget left.
FREE_CLAIM = (Event.APPROVE, Event.RESOLVE, Event.CONFIRM)


@dataclass(frozen=True, slots=True)
class Decision:
    """`grants`: attempts, seconds, tokens to add; `deadline`: a later one. `note`: at most 4 KiB for the stage
    named. `outcome` and `reference` belong to resolve. `result_digest` and `policy`: what the person read, None when
    they read no page. `break_glass`: one owner alone; another person looks at it afterwards."""

    event: Event
    reason: str
    job_version: int
    grants: Mapping[str, int] | None = None
    deadline: datetime | None = None
    note: str = ""
    stage: Stage | None = None
    outcome: str = ""
    reference: str = ""
    result_digest: str | None = None
    policy: int | None = None
    break_glass: bool = False
    by_command: bool = False


def decide(case_id: int, decision: Decision, *, actor: str) -> Held:
    """The job goes on (or ends) as decided, the decision is stored, all in one transaction; the first decision of two
    is stored alone and the job stays in review.

    What a decision queues can be claimed: it is refused while a budget or the deadline would forbid that. A job
    whose executor acts outside and that nobody confirmed as it is now goes straight on to that case (X3).
    Raises DecisionRefused with what is missing, StaleJob with what moved since it was read.
    """
    try:
        return _decide(case_id, decision, actor)
    except (DecisionRefused, StaleJob) as refusal:
        said: dict[str, Any] = {"case": case_id, "decision": str(decision.event), "job_version": decision.job_version}
        audit.note("auth", "decision_refused", actor, reason=type(refusal).__name__, **said)
        raise


def _decide(case_id: int, decision: Decision, actor: str) -> Held:
    for _try in range(TRIES):
        case = ReviewCase.objects.select_related("job__workflow").filter(pk=case_id).first()
        if case is None:
            raise DecisionRefused(_("There is no such review case."))
        held, at = transitions.load(case.job_id, policy=policies.active().number), clock.now()
        before = authority.require(case, held, decision, actor, at)
        _check(decision, held)
        act = _finish if authority.completes(case, decision, before) else _first_of_two
        only_if = authority.undecided(case, actor, at, decision, len(before))
        try:
            return act(case, held, decision, actor, at, only_if)
        except (StaleJob, IntegrityError):
            continue  # somebody was faster: what that means for this decision is asked anew
    raise StaleJob()


def _finish(case: ReviewCase, held: Held, decision: Decision, actor: str, at: datetime, only_if: Sql) -> Held:
    values = {} if decision.event in cases.ENDING else _queues(case.job, decision, at)
    also: list[Insert | Update] = [_row(case, held, decision, actor, at)]
    if decision.break_glass:
        also.append(_follow_up(case, decision, actor, at))
    if decision.event is Event.APPROVE:
        also += _inspected(case.job, held, at)
    if decision.event is Event.RESOLVE:
        also += _resolved(held, decision, actor, at)
    change = Change(job=values, facts=_facts(case, decision), also=also, only_if=only_if)
    with transaction.atomic():
        held = transitions.transition(held, decision.event, actor=actor, at=at, reason=decision.reason, change=change)
        if held.state is State.QUEUED and unconfirmed(facts(candidate(held.id))):
            held = transitions.transition(held, Event.HOLD, actor=ENGINE, at=at, reason="confirm")
    return held


def _first_of_two(case: ReviewCase, held: Held, decision: Decision, actor: str, at: datetime, only_if: Sql) -> Held:
    """The case stays open and is free for the second person."""
    entry = Entry(
        FIRST, actor, at, reason=decision.reason, facts={**_facts(case, decision), "decision": decision.event}
    )
    freed = Update(ReviewCase, {"claimed_by": "", "claimed_until": None}, {"id": case.pk})
    with transaction.atomic():
        row = _row(case, held, decision, actor, at, closing=False)
        return transitions.record(held, entry, also=[row, freed], only_if=only_if)


def _queues(job: Job, decision: Decision, at: datetime) -> dict[str, Any]:
    """Columns of a job that goes back to the queue. Refuses while it could not be claimed there."""
    named = cases.next_stage(decision.event, current=Stage(job.next_stage), named=decision.stage)
    stage = at_or_after(named, tuple(Stage(each) for each in definition(job.workflow_id).stages))
    values = _grants(job, decision)
    _check_claimable(job, decision, values, at)
    values |= {"next_stage": stage, "next_run_at": at, "crashes": 0}
    if decision.event in FREE_CLAIM:
        values["free_claim"] = True
    if stage is not Stage.DELIVER:
        values["result_digest"] = ""  # the result that it named is about to be made anew
    if decision.event is Event.CONFIRM:
        now = candidate(job.pk)
        values["confirmed_digest"] = confirmation_digest(now.payload, now.workflow_digest, now.policy_number)
    return values


def _check(decision: Decision, held: Held) -> None:
    if not decision.reason.strip():
        raise DecisionRefused(_("Give a reason: it is what others read later."))
    if len(decision.note.encode()) > 4096:
        raise DecisionRefused(_("A note has at most 4 KiB."))
    if decision.event is Event.SUPPLY and not decision.note.strip():
        raise DecisionRefused(_("Say what was missing: the note is what the next attempt reads."))
    if decision.event is Event.RESOLVE and (decision.outcome not in ("confirmed", "absent") or not decision.reference):
        raise DecisionRefused(_("Say whether it happened, and name where you saw that."))
    if decision.event is Event.RESOLVE and decision.outcome == "absent":
        proofs.refuse_unproven(held.id)


def _check_claimable(job: Job, decision: Decision, values: Mapping[str, Any], at: datetime) -> None:
    free = decision.event in FREE_CLAIM or job.free_claim
    if job.charged >= values.get("max_attempts", job.max_attempts) and not free:
        raise DecisionRefused(
            _("All %(max)d attempts are used up. Grant at least one more with this decision.")
            % {"max": job.max_attempts}
        )
    if job.seconds_spent >= values.get("max_seconds", job.max_seconds):
        raise DecisionRefused(
            _("All %(max)d seconds of working time are used up. Grant more with this decision.")
            % {"max": job.max_seconds}
        )
    if past(values.get("deadline", job.deadline), at):
        raise DecisionRefused(_("The deadline has passed. Give a later one with this decision."))


def _grants(job: Job, decision: Decision) -> dict[str, Any]:
    values: dict[str, Any] = {}
    if decision.deadline is not None:
        if job.deadline is None or decision.deadline <= job.deadline:
            raise DecisionRefused(_("A new deadline must be later than the one the job has."))
        values["deadline"] = decision.deadline
    for name, amount in (decision.grants or {}).items():
        if name not in GRANTS or amount < 0:
            raise DecisionRefused(_("Grants are positive numbers of: %(names)s.") % {"names": ", ".join(GRANTS)})
        current = getattr(job, GRANTS[name])
        if amount and current is not None:
            values[GRANTS[name]] = current + amount
    return values


def _row(case: ReviewCase, held: Held, decision: Decision, actor: str, at: datetime, *, closing: bool = True) -> Insert:
    values = {
        "case_id": case.pk,
        "job_id": case.job_id,
        "decision": decision.event,
        "actor": actor,
        "reason": decision.reason.strip()[:500],
        "note": decision.note,
        "stage": _stage_of_note(case.job, decision),
        "outcome": decision.outcome,
        "grants": _granted(decision),
        "job_version": held.version,
        "result_digest": held.result_digest,
        "policy_number": held.policy,
        "requested_by": case.requested_by,
        "risk": case.risk,
        "closing": closing,
        "break_glass": decision.break_glass,
        "created_at": at,
    }
    return Insert(ReviewDecision, values)


def _stage_of_note(job: Job, decision: Decision) -> str:
    """The stage that reads the note, and therefore runs again."""
    if decision.event is Event.REQUEST_CHANGES:
        return decision.stage or Stage.MODIFY
    return decision.stage or job.next_stage if decision.event is Event.SUPPLY else ""


def _follow_up(case: ReviewCase, decision: Decision, actor: str, at: datetime) -> Insert:
    values = {
        "case_id": case.pk,
        "opened_by": actor,
        "reason": decision.reason.strip()[:500],
        "opened_at": at,
        "due_at": at + cases.FOLLOW_UP,
        "closed_by": "",
        "closed_at": None,
        "note": "",
    }
    return Insert(FollowUp, values)


def _inspected(job: Job, held: Held, at: Any) -> list[Insert]:
    """Approving stands for the inspection, where that did not end well by itself: deliver starts from here."""
    if Checkpoint.objects.filter(job_id=job.pk, fence=held.fence, stage=Stage.INSPECT).exists():
        return []
    values = {
        "job_id": job.pk,
        "fence": held.fence,
        "stage": Stage.INSPECT,
        "input_digest": checkpoints.digest(
            job.pk, Stage.INSPECT, workflow_digest=job.workflow.digest, payload=job.payload
        ),
        "output_digest": held.result_digest,
        "snapshot": job.snapshot,
        "session": "",
        "seconds": 0.0,
        "created_at": at,
    }
    return [Insert(Checkpoint, values)]


def _resolved(held: Held, decision: Decision, actor: str, at: Any) -> list[Insert | Update]:
    values = {
        "outcome": decision.outcome,
        "reference": decision.reference[:500],
        "resolved_by": actor,
        "settled_at": at,
    }
    effects = SideEffect.objects.filter(job_id=held.id, outcome__in=OPEN_OUTCOMES)
    return [Update(SideEffect, values, {"id": pk}) for pk in effects.values_list("pk", flat=True)]


def _facts(case: ReviewCase, decision: Decision) -> dict[str, Any]:
    facts: dict[str, Any] = {"case": case.pk, "grants": _granted(decision)}
    if decision.break_glass:
        facts["break_glass"] = True
    if decision.note:
        facts["note_digest"] = sha256_hex(decision.note)
    if decision.outcome:
        facts["outcome"] = decision.outcome
    return facts


def _granted(decision: Decision) -> dict[str, Any]:
    granted: dict[str, Any] = dict(decision.grants or {})
    if decision.deadline is not None:
        granted["deadline"] = decision.deadline.astimezone(UTC).isoformat()
    return granted
