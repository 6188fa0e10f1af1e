"""From a failure to the policy's decision, with everything that it looked at on record (F1, B1, P1)."""

import random
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from jobs.core import replays
from jobs.core.adapters.runs import gather
from jobs.core.budgets import BudgetState, StopReason, used_up
from jobs.core.decisions import Decision, Starts, Task, out_of_budget, risk_in_stage
from jobs.core.failures import FailureFacts, classify, named
from jobs.core.inputs import Inputs, decide_on, to_json
from jobs.core.keys import canonical_json, sha256_hex
from jobs.core.states import Event
from jobs.models import FailureRecord
from jobs.services import failures
from jobs.services.audit import Entry
from jobs.services.statement import Insert
from jobs.worker.outcomes import Failure

if TYPE_CHECKING:
    from jobs.worker.attempt import Attempt

# No tool has this name: where policy and workflow allow nothing in common, every tool is forbidden.
NO_TOOL = frozenset({""})


@dataclass(frozen=True, slots=True)
class Judged:
    """A decision and what is written with it: its record, and the trip that it asks for."""

    decision: Decision
    record: Insert
    trips: list[Entry]


def judge(attempt: "Attempt", failure: Failure) -> Judged:
    """What the policy of this attempt's claim says of the failure."""
    facts = _facts(attempt, failure)
    shown = classify(facts, attempt.policy)
    # Exit 0 and no sign of failure, and yet the stage did not come to its end: no rule knows that.
    code = _code(attempt, failure.code) or ("unknown" if shown.action == "accept" else "")
    seen = named(code, facts, attempt.policy, shown) if code else shown
    ratio, enough = attempt.policy.retry_ratio, attempt.policy.breakers.same_cause
    inputs = replace(
        _inputs(attempt, failure),
        same_cause=failures.in_a_row(facts.program, seen.fingerprint, enough),
        window=failures.window(attempt.now(), ratio.window_seconds),
    )
    decision = decide_on(inputs, attempt.policy, seen, random.SystemRandom())
    return _judged(attempt, decision, replays.keep(facts, attempt.policy, code), inputs)


def spent(attempt: "Attempt") -> StopReason | None:
    """The budget that forbids the next step, asked before it begins (B1); attempts are asked at the claim."""
    return used_up(_budget(attempt, frozenset(attempt.tools)), attempt.now(), charging=False)


def stop_for(attempt: "Attempt", reason: StopReason) -> Judged:
    """The decision that a used-up budget makes."""
    inputs = _inputs(attempt, Failure())
    facts = {"named": str(reason), "stage": str(attempt.stage), "program": attempt.job.definition.executor}
    return _judged(attempt, out_of_budget(reason, inputs.budget, attempt.policy), facts, inputs)


def risk(attempt: "Attempt") -> str:
    """The risk that counts now: declared effects act in deliver only, an executor that acts outside acts anywhere."""
    job = attempt.job
    return str(job.risk) if job.acts_outside else risk_in_stage(job.risk, attempt.stage)


def _facts(attempt: "Attempt", failure: Failure) -> FailureFacts:
    run = replace(
        failure.run,
        program=failure.run.program or attempt.job.definition.executor,
        # A policy calls the inspection what people call it.
        stage="review" if attempt.stage == "inspect" else str(attempt.stage),
        risk=risk(attempt),
        ledger="open" if attempt.held.open_intent else failure.run.ledger,
    )
    return gather(run)


def _code(attempt: "Attempt", code: str) -> str:
    known = code in attempt.policy.codes or attempt.policy.rule_of(code) is not None
    return code if not code or known or replays.is_name(code) else "unknown"


def _inputs(attempt: "Attempt", failure: Failure) -> Inputs:
    job, held = attempt.job, attempt.held
    task = Task(
        kind=job.action,
        repo=job.repository,
        target=job.branch,
        sha=attempt.base.commit if attempt.base else "",
        attempts=held.charged,
        max_attempts=held.max_attempts,
        failure=failure.code,
        risk=risk(attempt),
        stage=attempt.stage,
        has_diff=bool(attempt.snapshot),
        failed_check=failure.failed_check,
        open_intent=held.open_intent,
    )
    budget = _budget(attempt, frozenset((*attempt.tools, *failure.tool_types)))
    given = attempt.policy.budget_for(task.risk, task.kind).attempts
    return Inputs(
        task,
        budget,
        same_cause=1,
        window=Starts(0, 0),
        now=attempt.now(),
        granted=task.max_attempts != given,
    )


def _budget(attempt: "Attempt", tools: frozenset[str]) -> BudgetState:
    job, held = attempt.job, attempt.held
    return BudgetState(
        attempts=held.charged,
        max_attempts=held.max_attempts,
        seconds=job.seconds_spent + attempt.elapsed(),
        max_seconds=job.max_seconds,
        tokens=attempt.tokens_so_far(),
        max_tokens=job.max_tokens,
        deadline=job.deadline,
        tools_used=tools,
        tools_allowed=_tools(attempt),
        takeover=job.takeover_person,
    )


def _tools(attempt: "Attempt") -> frozenset[str]:
    """The tools that workflow and policy both allow; empty means any."""
    workflow = frozenset(attempt.job.definition.tools)
    policy = attempt.policy.budget_for(risk(attempt), attempt.job.action).tools
    if workflow and policy:
        return (workflow & policy) or NO_TOOL
    return frozenset(workflow or policy)


def _judged(attempt: "Attempt", decision: Decision, facts: dict[str, Any], inputs: Inputs) -> Judged:
    values = failures.row(
        job_id=attempt.held.id,
        fence=attempt.held.fence,
        at=attempt.now(),
        stage=str(attempt.stage),
        risk=inputs.task.risk,
        program=facts["program"],
        policy_number=attempt.held.policy,
        failure_class=decision.class_,
        code=decision.code,
        rule=decision.rules[0] if decision.rules else "no-rule",
        rules=list(decision.rules),
        confidence=decision.confidence,
        fingerprint=decision.fingerprint,
        action=str(decision.action),
        reason=decision.reason,
        trip=str(decision.trip or ""),
        delay_seconds=decision.delay_seconds,
        seconds=attempt.elapsed(),
        facts=facts,
        facts_digest=sha256_hex(canonical_json(facts)),
        inputs=to_json(inputs),
    )
    return Judged(decision, Insert(FailureRecord, values), _trips(attempt, decision))


def _trips(attempt: "Attempt", decision: Decision) -> list[Entry]:
    """The fact that a breaker should open, in the job's own history (T1)."""
    if decision.trip is None:
        return []
    facts = {
        "trip": str(decision.trip),
        "class": decision.class_,
        "code": decision.code,
        "fingerprint": decision.fingerprint,
        "fence": attempt.held.fence,
    }
    return [Entry("trip", attempt.actor, attempt.now(), str(decision.trip), attempt.held.policy, facts=facts)]


def given_back(decision: Decision) -> bool:
    """The attempt is not charged: the decision says so, and nothing else gives it back (pause does by itself)."""
    return not decision.charged and decision.event is Event.RETRY
