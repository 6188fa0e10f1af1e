"""B1, B2, B4, S4, T1: every cell of class x risk x budget, and what no input may ever yield."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import product
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.core.budgets import BudgetState
from jobs.core.decisions import Action, Decision, OpenBreaker, Starts, Task, Trip, decide, risk_in_stage
from jobs.core.failures import Classification
from jobs.core.policy import ACTIONS, CLASSES, RISKS
from jobs.core.states import Event
from jobs.policies.loading import builtin, to_policy

NOW = datetime(2026, 5, 4, 12, 0, tzinfo=UTC)
TASK = Task(
    kind="test", repo="shop-api", target="unit", sha="abc123", attempts=1, max_attempts=3, failure="network_reset"
)
DEFAULT_ACTION = {
    "transient": "retry",
    "rate_limited": "wait",
    "upstream_unavailable": "pause",
    "usage_limit": "pause",
    "billing_unknown": "freeze",
    "permission": "review",
    "missing_input": "review",
    "deterministic": "stop",
    "environment": "review",
    "side_effect_unknown": "review",
    "conflict": "review",
    "cancelled": "stop",
    "unknown": "review",
}
BUDGETS = {
    "free": BudgetState(attempts=1, max_attempts=3),
    "attempts_used_up": BudgetState(attempts=3, max_attempts=3),
    "seconds_used_up": BudgetState(attempts=1, max_attempts=3, seconds=60, max_seconds=60),
    "tokens_used_up": BudgetState(attempts=1, max_attempts=3, tokens=9, max_tokens=9),
    "deadline": BudgetState(attempts=1, max_attempts=3, deadline=NOW),
    "unknown tokens": BudgetState(attempts=1, max_attempts=3, tokens=None, max_tokens=9),
}
SPENT = {"attempts_used_up", "seconds_used_up", "tokens_used_up", "deadline"}


def named(class_: str, action: str) -> Classification:
    return Classification(class_=class_, code=f"{class_}_code", action=action, rules=("r1",), confidence="high")


def test_a_network_reset_is_retried_with_two_attempts_left() -> None:
    decision = decide(TASK)
    assert (decision.action, decision.remaining, decision.event) == ("retry_with_backoff", 2, "retry")
    assert decision.policy_version


@pytest.mark.parametrize("failure", ["network_reset", "temporary_unavailable"])
def test_the_built_in_document_decides_like_the_default(failure: str) -> None:
    policy = to_policy(builtin())
    decision = decide(replace(TASK, failure=failure), policy=policy)
    assert (decision.action, decision.class_) == ("retry_with_backoff", "transient")
    assert decision.policy_version == "builtin-v1"
    assert decide(replace(TASK, failure="tests_failed"), policy=policy).reason == "not_retryable"


def test_a_side_effect_goes_to_a_person_before_anything_else() -> None:
    for attempts in (1, 3):
        decision = decide(replace(TASK, side_effect=True, attempts=attempts))
        assert (decision.action, decision.reason) == ("human_check", "external_side_effect")


def test_used_up_attempts_open_the_circuit() -> None:
    decision = decide(replace(TASK, attempts=3))
    assert (decision.action, decision.reason, decision.remaining) == ("open_circuit", "budget_exhausted", 0)
    assert (decision.event, decision.stop_reason, decision.trip) == (Event.HOLD, "attempts_used_up", Trip.BUDGET)


def test_failed_tests_stop_unchanged_and_go_to_a_person() -> None:
    decision = decide(replace(TASK, failure="tests_failed"))
    assert (decision.action, decision.reason, decision.event) == ("stop", "not_retryable", Event.HOLD)


def test_bad_input_that_leaves_nothing_behind_ends_the_job() -> None:
    assert decide(replace(TASK, failure="bad_input")).event == Event.STOP
    assert decide(replace(TASK, failure="bad_input", has_diff=True)).event == Event.HOLD


def test_a_failure_nobody_named_goes_to_a_person() -> None:
    decision = decide(replace(TASK, failure="never_seen"))
    assert (decision.action, decision.class_) == ("human_check", "unknown")


def expected(class_: str, risk: str, budget: str) -> tuple[str, str, Trip | None, bool]:
    action = DEFAULT_ACTION[class_]
    trips = {"upstream_unavailable": Trip.DEPENDENCY, "usage_limit": Trip.USAGE, "billing_unknown": Trip.BILLING}
    if risk == "external_side_effect":
        return "human_check", "hold", trips.get(class_), True
    if action in ("pause", "freeze"):
        return "pause", "pause", trips[class_], False
    if action == "stop":
        return "stop", "stop", None, True
    if action == "review":
        return "human_check", "hold", None, True
    if budget in SPENT and not (action == "wait" and budget == "attempts_used_up"):
        return "open_circuit", "hold", Trip.BUDGET, True
    return ("wait", "retry", None, False) if action == "wait" else ("retry_with_backoff", "retry", None, True)


@pytest.mark.parametrize(("class_", "risk", "budget"), list(product(CLASSES, RISKS, BUDGETS)))
def test_every_cell_of_class_risk_and_budget(class_: str, risk: str, budget: str) -> None:
    decision = decide(
        replace(TASK, risk=risk), classification=named(class_, DEFAULT_ACTION[class_]), budget=BUDGETS[budget], now=NOW
    )
    assert (decision.action, decision.event, decision.trip, decision.charged) == expected(class_, risk, budget)
    assert (decision.class_, decision.rules) == (class_, ("r1",))
    if decision.action == "open_circuit":
        assert decision.stop_reason == budget


@pytest.mark.parametrize("class_", ["transient", "rate_limited"])
def test_an_open_breaker_pauses_what_would_run_again(class_: str) -> None:
    decision = decide(
        TASK, classification=named(class_, DEFAULT_ACTION[class_]), breakers=[OpenBreaker(id=4, kind="dependency")]
    )
    assert (decision.action, decision.pause_reason, decision.blocked_by) == ("pause", "breaker", (4,))
    assert not decision.charged


def test_the_same_cause_three_times_in_a_row_opens_a_breaker() -> None:
    assert decide(TASK, same_cause=2).action == "retry_with_backoff"
    decision = decide(TASK, same_cause=3)
    assert (decision.action, decision.trip, decision.charged) == ("pause", Trip.ROOT_CAUSE, False)


def test_used_up_attempts_go_to_a_person_even_when_the_cause_repeats() -> None:
    assert decide(replace(TASK, attempts=3), same_cause=3).action == "open_circuit"


def test_a_held_back_retry_is_still_charged() -> None:
    decision = decide(TASK, window=Starts(starts=20, retries=10), now=NOW)
    assert (decision.action, decision.reason, decision.charged) == ("retry_with_backoff", "retry_ratio", True)
    assert decision.not_before == NOW + timedelta(seconds=300)


def test_a_rule_that_allows_one_retry_gets_one() -> None:
    once = replace(named("environment", "retry"), max_retries=1)
    assert decide(TASK, classification=once).action == "retry_with_backoff"
    again = decide(replace(TASK, attempts=2), classification=once)
    assert (again.action, again.reason) == ("human_check", "retries_used")


def test_a_wait_lasts_as_long_as_the_upstream_asked() -> None:
    asked = replace(named("rate_limited", "wait"), retry_after=77.0)
    assert decide(TASK, classification=asked, now=NOW).not_before == NOW + timedelta(seconds=77)


def test_a_wait_past_the_deadline_is_not_started() -> None:
    asked = replace(named("rate_limited", "wait"), retry_after=77.0)
    budget = BudgetState(attempts=1, max_attempts=3, deadline=NOW + timedelta(seconds=60), takeover="mia")
    decision = decide(TASK, classification=asked, budget=budget, now=NOW)
    assert (decision.action, decision.stop_reason, decision.takeover) == ("open_circuit", "deadline", "mia")


def test_an_open_intent_is_never_repeated() -> None:
    assert decide(replace(TASK, open_intent=True)).action == "human_check"


def test_a_workflow_with_effects_counts_by_its_own_risk_until_deliver() -> None:
    assert risk_in_stage("external_side_effect", "modify") == "writes_files"
    assert risk_in_stage("external_side_effect", "deliver") == "external_side_effect"
    assert risk_in_stage("external_side_effect", "") == "external_side_effect"


tasks = st.builds(
    Task,
    kind=st.just("test"),
    repo=st.just("r"),
    target=st.just("t"),
    sha=st.just("s"),
    attempts=st.integers(1, 9),
    max_attempts=st.integers(1, 5),
    side_effect=st.booleans(),
    risk=st.sampled_from(RISKS),
    has_diff=st.booleans(),
    open_intent=st.booleans(),
)
classifications = st.builds(
    Classification,
    class_=st.sampled_from(CLASSES),
    code=st.just("c"),
    action=st.sampled_from(ACTIONS),
    retry_after=st.none() | st.floats(0, 5000),
)


def decided(task: Task, seen: Classification, repeats: int) -> Decision:
    return decide(task, classification=seen, same_cause=repeats, rng=Random(1), now=NOW)


@given(task=tasks, seen=classifications, repeats=st.integers(0, 5))
def test_no_outward_act_is_ever_repeated(task: Task, seen: Classification, repeats: int) -> None:
    decision = decided(task, seen, repeats)
    if task.side_effect or task.risk == "external_side_effect" or task.open_intent:
        assert decision.event != Event.RETRY
        assert decision.action not in (Action.RETRY, Action.WAIT)


@given(task=tasks, seen=classifications, repeats=st.integers(0, 5))
def test_attempts_never_exceed_their_maximum(task: Task, seen: Classification, repeats: int) -> None:
    decision = decided(task, seen, repeats)
    if decision.event == Event.RETRY and decision.charged:
        assert task.attempts < task.max_attempts
    assert decision.remaining == max(0, task.max_attempts - task.attempts)


@given(seen=classifications)
def test_a_job_that_always_fails_ends_within_its_attempts(seen: Classification) -> None:
    task, charged = TASK, 1
    for _ in range(20):
        decision = decided(replace(task, attempts=charged), seen, 0)
        if decision.event != Event.RETRY or not decision.charged:
            break
        charged += 1
    assert charged <= task.max_attempts
    assert decision.event != Event.RETRY or not decision.charged
