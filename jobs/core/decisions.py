"""What happens after a failure: one pure function, six answers (B4).

The corpus action of a classification maps once: retry → retry_with_backoff, wait → wait, pause → pause, freeze →
pause and the billing breaker, review → human_check, stop → stop; a used-up budget → open_circuit. An external side
effect is tested before anything else.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from jobs.core import backoff, budgets
from jobs.core.budgets import BudgetState, Remaining
from jobs.core.failures import Classification, FailureFacts, named
from jobs.core.policy import DEFAULT_POLICY, REPEATS, Policy
from jobs.core.states import Event

OUTWARD: Final = "external_side_effect"


class Action(StrEnum):
    """The closed set of answers."""

    RETRY = "retry_with_backoff"
    WAIT = "wait"
    PAUSE = "pause"
    HUMAN_CHECK = "human_check"
    OPEN_CIRCUIT = "open_circuit"
    STOP = "stop"


class Trip(StrEnum):
    """Which kind of breaker the decision asks to open (T1)."""

    BILLING = "billing"
    USAGE = "usage"
    DEPENDENCY = "dependency"
    ROOT_CAUSE = "root_cause"
    BUDGET = "budget"


@dataclass(frozen=True, slots=True)
class Task:
    """What is decided about. `failure` is a failure code; it is read only when no classification is given.

    `risk` is the risk in the stage that failed (see `risk_in_stage`); `side_effect` says the same of one act.
    """

    kind: str
    repo: str
    target: str
    sha: str
    attempts: int
    max_attempts: int
    failure: str = ""
    side_effect: bool = False
    risk: str = "writes_files"
    stage: str = ""
    has_diff: bool = False
    failed_check: bool = False
    open_intent: bool = False


@dataclass(frozen=True, slots=True)
class OpenBreaker:
    """An open breaker on the task's path."""

    id: int | str
    kind: str = ""


@dataclass(frozen=True, slots=True)
class Starts:
    """Starts and the retries among them in the policy's retry-ratio window."""

    starts: int
    retries: int


@dataclass(frozen=True, slots=True)
class Decision:
    """One answer with its reasons. `remaining` counts attempts; `delay_seconds` and `not_before` say how soon.

    `event` is the state machine's; `charged` False gives the attempt back; `trip` asks for a breaker; `stop_reason`
    names the used-up budget or the failure that ended the job.
    """

    action: Action
    reason: str
    remaining: int
    policy_version: str
    event: Event
    class_: str = "unknown"
    code: str = "unknown"
    rules: tuple[str, ...] = ()
    confidence: str = "none"
    fingerprint: str = ""
    charged: bool = True
    delay_seconds: float = 0.0
    not_before: datetime | None = None
    pause_reason: str = ""
    stop_reason: str = ""
    trip: Trip | None = None
    blocked_by: tuple[int | str, ...] = ()
    left: Remaining = field(default_factory=lambda: Remaining(attempts=0))
    takeover: str = ""


@dataclass(frozen=True, slots=True)
class _Around:
    """What surrounds a repetition; see `decide`."""

    policy: Policy
    breakers: tuple[OpenBreaker, ...]
    same_cause: int
    window: Starts | None
    rng: backoff.Random | None
    now: datetime | None


_PAUSES: Final = {
    "usage_limit": ("usage_limit", Trip.USAGE),
    "billing_unknown": ("billing_unknown", Trip.BILLING),
}
_OTHER_PAUSE: Final = ("upstream_unavailable", Trip.DEPENDENCY)


def decide(
    task: Task,
    *,
    policy: Policy = DEFAULT_POLICY,
    classification: Classification | None = None,
    budget: BudgetState | None = None,
    breakers: Sequence[OpenBreaker] = (),
    same_cause: int = 0,
    window: Starts | None = None,
    rng: backoff.Random | None = None,
    now: datetime | None = None,
) -> Decision:
    """The answer to one failed step.

    `same_cause` counts the last failures in a row with this fingerprint, this one included. Without `budget` the task's
    own attempts are the budget; without `now` there is no `not_before` and no deadline; without `rng` no jitter.
    """
    seen = classification or _named(task, policy)
    state = budget or BudgetState(attempts=task.attempts, max_attempts=task.max_attempts)
    base = _base(seen, state, policy)
    if task.side_effect or task.risk == OUTWARD:
        return _to_person(base, OUTWARD, trip=_trip_of(seen))
    if task.open_intent or seen.class_ == "side_effect_unknown":
        return _to_person(base, "side_effect_unknown")
    if seen.action in ("pause", "freeze"):
        return _pause(base, seen)
    if seen.action == "stop":
        return _stop(base, task, seen)
    if seen.action in REPEATS:
        return _repeat(base, seen, state, _Around(policy, tuple(breakers), same_cause, window, rng, now))
    return _to_person(base, seen.class_)


def out_of_budget(reason: budgets.StopReason, state: BudgetState, policy: Policy) -> Decision:
    """The answer before a step that a used-up budget forbids: the job stops for a person and the budget is named."""
    nothing = Classification(class_="", code=str(reason), action="review", rules=(f"budget:{reason}",))
    base = _base(replace(nothing, confidence="high"), state, policy)
    return replace(
        base, action=Action.OPEN_CIRCUIT, reason="budget_exhausted", stop_reason=str(reason), trip=Trip.BUDGET
    )


def risk_in_stage(risk: str, stage: str, own_risk: str = "writes_files") -> str:
    """The risk that counts in a stage: a workflow with effects counts by its own risk until deliver (B2)."""
    if risk == OUTWARD and stage and stage != "deliver":
        return own_risk
    return risk


def _repeat(base: Decision, seen: Classification, state: BudgetState, around: _Around) -> Decision:
    waits = seen.action == "wait"
    policy = around.policy
    delay = backoff.delay_seconds(state.attempts, policy.backoff, around.rng, seen.retry_after)
    spent = budgets.used_up(state, around.now, charging=not waits, delay=delay)
    if spent is not None:
        stopped = replace(base, stop_reason=str(spent), trip=Trip.BUDGET)
        return replace(stopped, action=Action.OPEN_CIRCUIT, reason="budget_exhausted")
    if around.breakers:
        paused = _paused(base, "breaker_open", "breaker")
        return replace(paused, blocked_by=tuple(breaker.id for breaker in around.breakers))
    if around.same_cause >= policy.breakers.same_cause:
        return _paused(base, "same_root_cause", "breaker", Trip.ROOT_CAUSE)
    if waits:
        return _later(base, Action.WAIT, seen.class_, delay, around.now, charged=False)
    if seen.max_retries is not None and state.attempts > seen.max_retries:
        return _to_person(base, "retries_used")
    window = around.window
    if window and budgets.retries_over_share(window.retries, window.starts, policy.retry_ratio):
        # Still charged: a retry that is only held back must not become a free attempt.
        held = max(delay, float(policy.retry_ratio.hold_seconds))
        return _later(base, Action.RETRY, "retry_ratio", held, around.now)
    return _later(base, Action.RETRY, seen.class_, delay, around.now)


def _named(task: Task, policy: Policy) -> Classification:
    facts = FailureFacts(stage=task.stage, risk=task.risk)
    return named(task.failure or "unknown", facts, policy, Classification(class_="", code="", action="accept"))


def _base(seen: Classification, state: BudgetState, policy: Policy) -> Decision:
    left = budgets.remaining(state)
    return Decision(
        action=Action.HUMAN_CHECK,
        reason=seen.class_,
        remaining=left.attempts,
        policy_version=policy.version,
        event=Event.HOLD,
        class_=seen.class_,
        code=seen.code,
        rules=seen.rules,
        confidence=seen.confidence,
        fingerprint=seen.fingerprint,
        left=left,
        takeover=state.takeover,
    )


def _to_person(base: Decision, reason: str, trip: Trip | None = None) -> Decision:
    return replace(base, action=Action.HUMAN_CHECK, reason=reason, event=Event.HOLD, trip=trip)


def _trip_of(seen: Classification) -> Trip | None:
    return _PAUSES.get(seen.class_, _OTHER_PAUSE)[1] if seen.action in ("pause", "freeze") else None


def _pause(base: Decision, seen: Classification) -> Decision:
    pause_reason, trip = _PAUSES.get(seen.class_, _OTHER_PAUSE)
    if seen.action == "freeze":
        pause_reason, trip = _PAUSES["billing_unknown"]
    return _paused(base, seen.class_, pause_reason, trip)


def _paused(base: Decision, reason: str, pause_reason: str, trip: Trip | None = None) -> Decision:
    paused = replace(base, action=Action.PAUSE, event=Event.PAUSE, charged=False)
    return replace(paused, reason=reason, pause_reason=pause_reason, trip=trip)


def _stop(base: Decision, task: Task, seen: Classification) -> Decision:
    # Something left to look at goes to a person; failed_terminal is for stops that leave nothing behind.
    leaves_something = task.has_diff or task.failed_check or seen.code in ("tests_failed", "check_failed")
    return replace(
        base,
        action=Action.STOP,
        reason="cancelled" if seen.class_ == "cancelled" else "not_retryable",
        event=Event.HOLD if leaves_something else Event.STOP,
        stop_reason=seen.code,
    )


def _later(
    base: Decision, action: Action, reason: str, delay: float, now: datetime | None, *, charged: bool = True
) -> Decision:
    return replace(
        base,
        action=action,
        reason=reason,
        event=Event.RETRY,
        charged=charged,
        delay_seconds=delay,
        not_before=None if now is None else now + timedelta(seconds=delay),
    )
