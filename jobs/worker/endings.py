"""How an attempt ends when it does not end in acceptance: the work is kept first, then the row changes (V3, S4)."""

import logging
from typing import TYPE_CHECKING, Any

from jobs.core.budgets import StopReason
from jobs.core.decisions import Decision
from jobs.core.redaction import redact_tail
from jobs.core.states import Event
from jobs.errors import AgentQError, LeaseLost
from jobs.models import Job
from jobs.services import audit, leases, transitions
from jobs.services.transitions import Change
from jobs.worker import decisions, keepsakes, workspace
from jobs.worker.decisions import Judged
from jobs.worker.outcomes import Failure
from jobs.worker.own_values import own_values
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
    if reason in _BUDGETS:
        out_of_budget(attempt, _BUDGETS[reason])
        return
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
    if failure.run.wall_clock_kill and decisions.spent(attempt) is StopReason.SECONDS:
        out_of_budget(attempt, StopReason.SECONDS)  # the program was ended because the job's time was up
        return
    _keep(attempt, failure.code or "failed")
    _apply(attempt, decisions.judge(attempt, failure), failure)


def out_of_budget(attempt: "Attempt", reason: StopReason) -> None:
    """The job stops before its next step for a person, and the used-up budget is named (B1)."""
    _keep(attempt, str(reason))
    _apply(attempt, decisions.stop_for(attempt, reason), Failure())


def _apply(attempt: "Attempt", judged: Judged, failure: Failure) -> None:
    decision = judged.decision
    reason = _reason(decision)
    job = {**_spent(attempt), **failure.job, **_due(attempt, decision.event, decision)}
    if decisions.given_back(decision) and attempt.held.attempt_charged:
        job["charged"] = attempt.held.charged - 1
    attempt.ending = _attempt(attempt, reason) | _classified(attempt, decision, failure)
    change = Change(
        job=job,
        facts={**_facts(attempt), **_explained(decision)},
        attempt=attempt.ending,
        also=[*failure.rows, judged.record],
        before=judged.trips,
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


def _classified(attempt: "Attempt", decision: Decision, failure: Failure) -> dict[str, Any]:
    return {
        "failure_class": decision.class_,
        "failure_code": decision.code[:64],
        "rule": (decision.rules[0] if decision.rules else "")[:64],
        "fingerprint": decision.fingerprint,
        "exit_code": failure.run.exit_code,
        "tool_types": sorted({*attempt.tools, *failure.tool_types}),
        "error_tail": redact_tail(failure.tail.encode("utf-8", errors="replace"), injected=own_values()),
    }


def _attempt(attempt: "Attempt", reason: str) -> dict[str, Any]:
    values = {
        "last_stage": attempt.stage,
        "seconds": attempt.elapsed(),
        "snapshot": attempt.snapshot,
        "stop_reason": reason[:64],
        "tokens": attempt.tokens,
        **attempt.agent,
    }
    return values | ({"base_commit": attempt.base.commit} if attempt.base else {})


def _spent(attempt: "Attempt") -> dict[str, Any]:
    return attempt.spent()


def _due(attempt: "Attempt", event: Event, decision: Decision | None = None) -> dict[str, Any]:
    if event is Event.RELEASE:
        return {"next_run_at": attempt.now()}
    if event is Event.RETRY and decision is not None:
        return {"next_run_at": decision.not_before or attempt.now()}
    return {}


def _facts(attempt: "Attempt") -> dict[str, Any]:
    return {"stage": attempt.stage, "fence": attempt.held.fence, "snapshot": attempt.snapshot}


_BUDGETS = {"deadline": StopReason.DEADLINE, "seconds_used_up": StopReason.SECONDS}
_STOPS = {"cancel": Event.CANCEL, "pause": Event.PAUSE, "pause_withdrawn": Event.RELEASE, "drain": Event.RELEASE}
