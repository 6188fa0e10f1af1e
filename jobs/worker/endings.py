"""How an attempt ends when it does not end in acceptance: the work is kept first, then the row changes (V3, S4)."""

import logging
import random
from typing import TYPE_CHECKING, Any

from jobs.core.adapters.runs import gather
from jobs.core.budgets import BudgetState
from jobs.core.decisions import Decision, Task, decide, risk_in_stage
from jobs.core.failures import classify
from jobs.core.states import Event
from jobs.errors import AgentQError, LeaseLost
from jobs.models import Job
from jobs.services import audit, leases, transitions
from jobs.services.transitions import Change
from jobs.worker import keepsakes, workspace
from jobs.worker.outcomes import Failure
from jobs.workspaces.snapshot import ref_for

if TYPE_CHECKING:
    from jobs.worker.attempt import Attempt

logger = logging.getLogger("jobs.attempt")


def stopped(attempt: "Attempt", reason: str) -> None:
    """The worker ended the attempt: by request, for a drain, or because a limit was reached."""
    if reason == "resumed_earlier":
        return
    if reason == "pause" and not Job.objects.filter(pk=attempt.held.id).exclude(pause_requested="").exists():
        reason = "pause_withdrawn"  # its batch goes on, which no beat has brought yet
    _keep(attempt, reason)
    if reason == "shim_lost":
        # Everything it held is proven dead. Its end is a crash like any other: the lease is given up at once.
        if not leases.surrender(attempt.held.id, worker=attempt.held.worker, fence=attempt.held.fence):
            raise LeaseLost()  # the next attempt's worker ended the shim
        return
    event = _STOPS.get(reason, Event.HOLD)
    why = {"cancel": "cancel_requested", "pause": attempt.heart.pause_requested or "requested"}.get(reason, reason)
    attempt.ending = _attempt(attempt, why)
    change = Change(job=_spent(attempt) | _due(attempt, event), attempt=attempt.ending, facts=_facts(attempt))
    attempt.held = transitions.transition(
        attempt.held, event, actor=attempt.actor, at=attempt.now(), reason=why, change=change
    )


def failed(attempt: "Attempt", failure: Failure) -> None:
    """The policy decides what becomes of the failure; decision and rule are in the same audit event (F1, P1)."""
    _keep(attempt, failure.code or "failed")
    decision = _decide(attempt, failure)
    reason = _reason(decision)
    job = {**_spent(attempt), **failure.job, **_due(attempt, decision.event, decision)}
    if not decision.charged and decision.event is Event.RETRY and attempt.held.attempt_charged:
        job["charged"] = attempt.held.charged - 1
    attempt.ending = _attempt(attempt, reason) | _classified(decision, failure)
    change = Change(
        job=job,
        facts={**_facts(attempt), **_explained(decision)},
        attempt=attempt.ending,
        also=failure.rows,
    )
    attempt.held = transitions.transition(
        attempt.held, decision.event, actor=attempt.actor, at=attempt.now(), reason=reason, change=change
    )


def late(attempt: "Attempt") -> None:
    """The lease is gone: nothing more is written to the job; what was done is kept where a person can look (L2)."""
    try:
        _keep(attempt, "late")
    except (AgentQError, OSError):
        # The next attempt's worker may have found this work tree first, and stored it.
        stored = attempt.mirror.commit_at(ref_for(attempt.held.id, attempt.held.fence, "partial"))
        attempt.snapshot = stored or attempt.snapshot
        logger.warning("the late work could not be stored", extra={"job": attempt.held.id, "fence": attempt.held.fence})
    keepsakes.write_late(attempt)
    audit.note(
        "node",
        "late_result",
        attempt.actor,
        job=attempt.held.id,
        fence=attempt.held.fence,
        stage=attempt.stage,
        snapshot=attempt.snapshot,
    )


def _keep(attempt: "Attempt", name: str) -> None:
    """Snapshot, patch and to-do list are stored, then the work tree goes."""
    if attempt.checkout is not None:
        snapshot = workspace.keep(attempt, "late" if name == "late" else "partial")
        if snapshot is not None:
            workspace.put_away(attempt, snapshot)
    keepsakes.write(attempt, name)


def _decide(attempt: "Attempt", failure: Failure) -> Decision:
    job, held = attempt.job, attempt.held
    risk = risk_in_stage(job.risk, attempt.stage)
    task = Task(
        kind=job.action,
        repo=job.repository,
        target=job.branch,
        sha=attempt.base.commit if attempt.base else "",
        attempts=held.charged,
        max_attempts=held.max_attempts,
        failure=failure.code,
        risk=risk,
        stage=attempt.stage,
        has_diff=bool(attempt.snapshot),
        failed_check=failure.failed_check,
        open_intent=held.open_intent,
    )
    budget = BudgetState(
        attempts=held.charged,
        max_attempts=held.max_attempts,
        seconds=job.seconds_spent + attempt.elapsed(),
        max_seconds=job.max_seconds,
        tokens=job.tokens_spent,
        max_tokens=job.max_tokens,
        deadline=job.deadline,
        takeover=job.takeover_person,
    )
    classification = None if failure.code else classify(gather(failure.run), attempt.policy)
    return decide(
        task,
        policy=attempt.policy,
        classification=classification,
        budget=budget,
        rng=random.SystemRandom(),
        now=attempt.now(),
    )


def _reason(decision: Decision) -> str:
    """The most precise word for it: which pause, which used-up budget, which failure."""
    if decision.event is Event.PAUSE:
        return decision.pause_reason
    named = decision.code if decision.code != "unknown" else decision.reason
    return decision.stop_reason or named


def _explained(decision: Decision) -> dict[str, Any]:
    return {
        "decision": str(decision.action),
        "why": decision.reason,
        "class": decision.class_,
        "code": decision.code,
        "rules": list(decision.rules[:5]),
        "confidence": decision.confidence,
        "remaining": decision.remaining,
        "delay": round(decision.delay_seconds, 1),
        "trip": str(decision.trip) if decision.trip else "",
    }


def _classified(decision: Decision, failure: Failure) -> dict[str, Any]:
    return {
        "failure_class": decision.class_,
        "failure_code": decision.code[:64],
        "rule": (decision.rules[0] if decision.rules else "")[:64],
        "fingerprint": decision.fingerprint,
        "exit_code": failure.run.exit_code,
        "tool_types": list(failure.tool_types),
    }


def _attempt(attempt: "Attempt", reason: str) -> dict[str, Any]:
    values = {
        "last_stage": attempt.stage,
        "seconds": attempt.elapsed(),
        "snapshot": attempt.snapshot,
        "stop_reason": reason[:64],
    }
    return values | ({"base_commit": attempt.base.commit} if attempt.base else {})


def _spent(attempt: "Attempt") -> dict[str, Any]:
    return {"seconds_spent": attempt.job.seconds_spent + attempt.elapsed()}


def _due(attempt: "Attempt", event: Event, decision: Decision | None = None) -> dict[str, Any]:
    if event is Event.RELEASE:
        return {"next_run_at": attempt.now()}
    if event is Event.RETRY and decision is not None:
        return {"next_run_at": decision.not_before or attempt.now()}
    return {}


def _facts(attempt: "Attempt") -> dict[str, Any]:
    return {"stage": attempt.stage, "fence": attempt.held.fence, "snapshot": attempt.snapshot}


_STOPS = {"cancel": Event.CANCEL, "pause": Event.PAUSE, "pause_withdrawn": Event.RELEASE, "drain": Event.RELEASE}
