"""Another input for a job in review: a new versioned job, and the old one ends as superseded (H1, design section 2)."""

from collections.abc import Mapping
from typing import Any

from django.db import transaction
from django.utils.translation import gettext as _

from jobs.core.states import Event
from jobs.errors import DecisionRefused, StaleJob
from jobs.models import ReviewCase, ReviewDecision
from jobs.services import audit, authority, clock, enqueue, policies, transitions
from jobs.services.enqueue import Enqueued
from jobs.services.requests import Request
from jobs.services.reviews import Decision
from jobs.services.statement import Insert
from jobs.services.transitions import Change

SUPERSEDED = "superseded"


def supersede(case_id: int, decision: Decision, payload: Mapping[str, Any], *, actor: str) -> Enqueued:
    """A new job has the changed input and the old one is cancelled, in one transaction.

    `decision` is a supply with reason and what was read. Refuses while an outside act has no known outcome, an input
    that is no other one, and one that some job has already. Raises DecisionRefused, StaleJob, EnqueueRefused.
    """
    try:
        return _supersede(case_id, decision, payload, actor)
    except (DecisionRefused, StaleJob) as refusal:
        said: dict[str, Any] = {"case": case_id, "decision": SUPERSEDED}
        audit.note("auth", "decision_refused", actor, reason=type(refusal).__name__, **said)
        raise


def _supersede(case_id: int, decision: Decision, payload: Mapping[str, Any], actor: str) -> Enqueued:
    case = ReviewCase.objects.select_related("job__repository", "job__workflow", "job__batch").get(pk=case_id)
    job, at = case.job, clock.now()
    held = transitions.load(job.pk, policy=policies.active().number)
    before = authority.require(case, held, decision, actor, at)
    if held.open_intent:
        raise DecisionRefused(_("An outside act has no known outcome. Resolve it first."))
    if not decision.reason.strip():
        raise DecisionRefused(_("Give a reason: it is what others read later."))
    request = Request(
        repo=job.repository.name,
        branch=job.branch,
        action=job.action,
        payload=payload,
        workflow_version=job.workflow.version,
        priority=job.priority,
        batch=job.batch.name if job.batch else "",
        takeover_person=job.takeover_person,
    )
    prepared = enqueue.prepare(request)
    if prepared.key == job.idempotency_key:
        raise DecisionRefused(_("This is the input that the job has. To say more about it, write a note instead."))
    with transaction.atomic():
        made = enqueue.store(prepared, actor=actor, reason=decision.reason.strip()[:500])
        if not made.created:
            raise DecisionRefused(_("J-%(id)d has this input already; look at that job.") % {"id": made.job_id})
        row = {
            "case_id": case.pk,
            "job_id": job.pk,
            "decision": str(Event.SUPPLY),
            "actor": actor,
            "reason": decision.reason.strip()[:500],
            "note": "",
            "stage": "",
            "outcome": "",
            "grants": {},
            "job_version": held.version,
            "result_digest": held.result_digest,
            "policy_number": held.policy,
            "requested_by": case.requested_by,
            "risk": case.risk,
            "closing": True,
            "break_glass": False,
            "created_at": at,
        }
        change = Change(
            facts={"case": case.pk, "superseded_by": made.job_id},
            also=[Insert(ReviewDecision, row)],
            only_if=authority.undecided(case, actor, at, decision, len(before)),
        )
        transitions.transition(held, Event.CANCEL, actor=actor, at=at, reason=SUPERSEDED, change=change)
    return made
