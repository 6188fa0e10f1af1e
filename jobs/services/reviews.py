"""What a person decides on a review case, and what becomes of the job (H1, design section 2).

A decision needs a reason, is one of the case's allowed ones, and binds to the job's version and result digest:
when either moved, it is refused as stale. Grants raise the job's own maxima in the same transaction.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.utils.translation import gettext as _

from jobs.core import cases
from jobs.core.keys import sha256_hex
from jobs.core.stages import Stage
from jobs.core.states import Event
from jobs.errors import DecisionRefused, StaleJob
from jobs.models import Checkpoint, Job, ReviewCase, ReviewDecision, SideEffect
from jobs.models.side_effect import OPEN_OUTCOMES
from jobs.services import clock, policies, transitions
from jobs.services.candidates import candidate
from jobs.services.leases import confirmation_digest
from jobs.services.statement import Insert, Update
from jobs.services.transitions import Change, Held

GRANTS = {"attempts": "max_attempts", "seconds": "max_seconds", "tokens": "max_tokens"}
# Without a free claim the job needs a try of its budget left.
FREE_CLAIM = (Event.APPROVE, Event.RESOLVE, Event.CONFIRM)


@dataclass(frozen=True, slots=True)
class Decision:
    """`grants`: attempts, seconds, tokens to add. `note`: at most 4 KiB for the stage named. `outcome` and
    `reference` belong to resolve."""

    event: Event
    reason: str
    job_version: int
    grants: Mapping[str, int] | None = None
    note: str = ""
    stage: Stage | None = None
    outcome: str = ""
    reference: str = ""


def decide(case_id: int, decision: Decision, *, actor: str) -> Held:
    """The job goes on (or ends) as decided, the decision is stored, all in one transaction.

    Raises DecisionRefused with what is missing, StaleJob when the job moved since it was read.
    """
    case = ReviewCase.objects.select_related("job").filter(pk=case_id).first()
    if case is None:
        raise DecisionRefused(_("There is no such review case."))
    held = transitions.load(case.job_id, policy=policies.active().number)
    _check(case, held, decision)
    at = clock.now()
    values = _grants(case.job, decision.grants or {})
    _check_claimable(held, decision, values)
    if decision.event in FREE_CLAIM:
        values["free_claim"] = True
    if decision.event not in cases.ENDING:
        values |= {
            "next_stage": cases.next_stage(decision.event, current=Stage(case.job.next_stage), named=decision.stage)
        }
        values |= {"next_run_at": at, "crashes": 0}
    if decision.event is Event.CONFIRM:
        job = candidate(case.job_id)
        values["confirmed_digest"] = confirmation_digest(job.payload, job.workflow_digest, job.policy_number)
    also: list[Insert | Update] = [_row(case, held, decision, actor, at)]
    if decision.event is Event.APPROVE:
        also.append(_inspected(case.job, held, at))
    if decision.event is Event.RESOLVE:
        also += _resolved(held, decision, actor, at)
    change = Change(job=values, facts=_facts(case, decision), also=also)
    return transitions.transition(held, decision.event, actor=actor, at=at, reason=decision.reason, change=change)


def _check(case: ReviewCase, held: Held, decision: Decision) -> None:
    if case.closed_at is not None or decision.job_version != held.version or case.result_digest != held.result_digest:
        raise StaleJob()
    if decision.event not in case.allowed:
        raise DecisionRefused(_("This case allows: %(allowed)s.") % {"allowed": ", ".join(case.allowed)})
    if not decision.reason.strip():
        raise DecisionRefused(_("Give a reason: it is what others read later."))
    if len(decision.note.encode()) > 4096:
        raise DecisionRefused(_("A note has at most 4 KiB."))
    if decision.event is Event.RESOLVE and (decision.outcome not in ("confirmed", "absent") or not decision.reference):
        raise DecisionRefused(_("Say whether it happened, and name where you saw that."))


def _check_claimable(held: Held, decision: Decision, values: Mapping[str, Any]) -> None:
    if decision.event not in cases.CHARGED:
        return
    if held.charged >= values.get("max_attempts", held.max_attempts):
        raise DecisionRefused(
            _("All %(max)d attempts are used up. Grant at least one more with this decision.")
            % {"max": held.max_attempts}
        )


def _grants(job: Job, grants: Mapping[str, int]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for name, amount in grants.items():
        if name not in GRANTS or amount < 0:
            raise DecisionRefused(_("Grants are positive numbers of: %(names)s.") % {"names": ", ".join(GRANTS)})
        current = getattr(job, GRANTS[name])
        if amount and current is not None:
            values[GRANTS[name]] = current + amount
    return values


def _row(case: ReviewCase, held: Held, decision: Decision, actor: str, at: Any) -> Insert:
    values = {
        "case_id": case.pk,
        "job_id": case.job_id,
        "decision": decision.event,
        "actor": actor,
        "reason": decision.reason.strip()[:500],
        "note": decision.note,
        "stage": (decision.stage or Stage.MODIFY) if decision.event is Event.REQUEST_CHANGES else "",
        "grants": dict(decision.grants or {}),
        "job_version": held.version,
        "result_digest": held.result_digest,
        "policy_number": held.policy,
        "created_at": at,
    }
    return Insert(ReviewDecision, values)


def _inspected(job: Job, held: Held, at: Any) -> Insert:
    """Approving stands for the inspection: deliver starts from here."""
    newest = Checkpoint.objects.filter(job_id=job.pk).order_by("-id").values("output_digest").first()
    values = {
        "job_id": job.pk,
        "fence": held.fence,
        "stage": Stage.INSPECT,
        "input_digest": newest["output_digest"] if newest else sha256_hex(""),
        "output_digest": held.result_digest,
        "snapshot": job.snapshot,
        "session": "",
        "seconds": 0.0,
        "created_at": at,
    }
    return Insert(Checkpoint, values)


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
    facts: dict[str, Any] = {"case": case.pk, "grants": dict(decision.grants or {})}
    if decision.note:
        facts["note_digest"] = sha256_hex(decision.note)
    if decision.outcome:
        facts["outcome"] = decision.outcome
    return facts
