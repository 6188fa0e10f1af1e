"""The ledger: what an act is and what came of it, written with the job's audit in one transaction (X1, X2, X3)."""

import json
from datetime import datetime
from typing import Any

from django.db import IntegrityError, transaction

from jobs.core import side_effects as rules
from jobs.core.keys import sha256_hex
from jobs.core.side_effects import Act, Delivered, Try
from jobs.core.states import Event
from jobs.errors import EffectTaken
from jobs.models import AuditEvent, Job, ReviewDecision, SideEffect
from jobs.models.side_effect import EffectOutcome
from jobs.services import transitions
from jobs.services.audit import JOB, Entry
from jobs.services.candidates import definition
from jobs.services.statement import Insert, Update
from jobs.services.transitions import Held
from jobs.workflows.definition import WorkflowDefinition

# Decisions to do the work (again): a try that did not happen may be followed by another one after these.
TO_DO_IT = (Event.APPROVE, Event.RERUN)
# Decisions that confirm what will be sent.
CONFIRMING = (Event.APPROVE, Event.CONFIRM)


def declared(workflow: WorkflowDefinition, *, job_id: int, key: str, repo: str, payload: str, commit: str) -> list[Act]:
    """What the workflow's effects do for this job's result, in their order; `commit` empty: nothing changed."""
    delivered = Delivered(
        job=str(job_id),
        repo=repo,
        branch=rules.result_branch(job_id, key) if commit else "",
        commit=commit,
        planned_date=json.loads(payload).get("date"),
    )
    return rules.acts([effect.template for effect in workflow.effects], delivered)


def act_of(effect: SideEffect) -> Act | None:
    """The act behind a row of the ledger, made anew from the job's workflow; None for a whole run."""
    job = Job.objects.select_related("repository").get(pk=effect.job_id)
    for commit in (effect.sha, ""):
        for act in declared(
            definition(job.workflow_id),
            job_id=job.pk,
            key=job.idempotency_key,
            repo=job.repository.name,
            payload=job.payload,
            commit=commit,
        ):
            if act.key == effect.key:
                return act
    return None


def next_step(job_id: int, key: str) -> rules.Do | rules.Reuse | rules.Ask:
    """What may be done about this key now, for this job."""
    rows = SideEffect.objects.filter(key=key)
    tries = [
        Try(row.number, row.outcome, row.settled_at, row.reference, by_person=bool(row.resolved_by)) for row in rows
    ]
    return rules.plan(tries, _decided_at(job_id))


def confirmed(job_id: int, result_digest: str) -> bool:
    """A person confirmed exactly this result, and the job went on by it (X3).

    An approval that still waits for a second person is a decision too, but it moved nothing.
    """
    if not result_digest:
        return False
    decisions = ReviewDecision.objects.filter(
        job_id=job_id, decision__in=CONFIRMING, result_digest=result_digest
    ).values_list("decision", "job_version")
    happened = set(_events(job_id).filter(event__in=CONFIRMING).values_list("event", "version"))
    return any((decision, version + 1) in happened for decision, version in decisions)


def intend(held: Held, act: Act, number: int, *, actor: str, at: datetime, not_after: datetime) -> Held:
    """The intent is on record, committed and audited: from now on the act counts as perhaps done.

    Raises EffectTaken when another job writes an intent for the same key at this moment, LeaseLost.
    """
    return _insert(held, act, number, actor=actor, at=at, not_after=not_after)


def found(held: Held, act: Act, number: int, reference: str, *, actor: str, at: datetime) -> Held:
    """It exists outside already: that is on record, and nothing was done. Raises as `intend`."""
    return _insert(held, act, number, actor=actor, at=at, not_after=at, reference=reference)


def settle(
    held: Held, act: Act, number: int, outcome: EffectOutcome, reference: str, *, actor: str, at: datetime
) -> Held:
    """What came of an intent is on record. Raises LeaseLost when the job is somebody else's by now."""
    values = {"outcome": str(outcome), "reference": reference[:500], "settled_at": at}
    where = {"job_id": held.id, "key": act.key, "number": number, "outcome": ""}
    facts = {"key": act.key, "number": number, "kind": act.kind, "outcome": str(outcome)}
    return transitions.record(
        held, Entry("effect_settled", actor, at, facts=facts), also=[Update(SideEffect, values, where)]
    )


def looked_up(held: Held, effect: SideEffect, answer: str, reference: str, *, actor: str, at: datetime) -> Held:
    """What the read-only lookup said of an act is in the job's history: found, absent or unknown."""
    facts = {"effect": effect.pk, "key": effect.key, "answer": answer, "reference": reference[:500]}
    return transitions.record(held, Entry("effect_looked_up", actor, at, facts=facts))


def row_of(act: Act, number: int) -> SideEffect:
    return SideEffect.objects.get(key=act.key, number=number)


def _insert(
    held: Held, act: Act, number: int, *, actor: str, at: datetime, not_after: datetime, reference: str | None = None
) -> Held:
    values: dict[str, Any] = {
        "job_id": held.id,
        "fence": held.fence,
        "key": act.key,
        "number": number,
        "kind": act.kind,
        "target": act.target[:255],
        "sha": act.sha,
        "outcome": "" if reference is None else "confirmed",
        "reference": (reference or "")[:500],
        "resolved_by": "",
        "intended_at": at,
        "not_after": not_after,
        "settled_at": None if reference is None else at,
    }
    facts = {"key": act.key, "number": number, "kind": act.kind, "target": sha256_hex(act.target), "sha": act.sha}
    entry = Entry("intent" if reference is None else "effect_found", actor, at, facts=facts)
    try:
        with transaction.atomic():
            return transitions.record(held, entry, also=[Insert(SideEffect, values)])
    except IntegrityError:
        raise EffectTaken from None


def _decided_at(job_id: int) -> datetime | None:
    return _events(job_id).filter(event__in=TO_DO_IT).order_by("-seq").values_list("at", flat=True).first()


def _events(job_id: int) -> Any:
    return AuditEvent.objects.filter(stream=f"{JOB}{job_id}")
