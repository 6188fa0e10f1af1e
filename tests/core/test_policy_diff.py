"""P2: two policies are compared by meaning, and each difference says whether it is tighter or looser."""

from dataclasses import replace
from typing import Any

import pytest

from jobs.core.policy import Budget, PathRule, Policy, Rule, Signal, TeamBudget
from jobs.core.policy_diff import Difference, differences, retry_table
from jobs.policies.loading import builtin, to_policy

POLICY = to_policy(builtin())
RETRY = Rule(id="r", class_="transient", code="c", action="retry", any=("s",), max_retries=2)
STOP = replace(RETRY, id="s", action="stop", max_retries=None)
BASE = Policy(
    rules=(RETRY, STOP), paths=(PathRule("auth", ("a/**", "b/**")),), team_budgets=(TeamBudget("api", 60, 10),)
)


def only(old: Policy, new: Policy) -> Difference:
    (found,) = differences(old, new)
    return found


def test_a_policy_does_not_differ_from_itself() -> None:
    assert differences(POLICY, POLICY) == []


@pytest.mark.parametrize(
    ("new", "effect"),
    [
        (replace(BASE, rules=(replace(RETRY, action="wait"), STOP)), "tighter"),
        (replace(BASE, rules=(replace(RETRY, action="review"), STOP)), "tighter"),
        (replace(BASE, rules=(RETRY, replace(STOP, action="retry"))), "looser"),
        (replace(BASE, rules=(RETRY, replace(STOP, action="pause"))), "tighter"),
        (replace(BASE, rules=(replace(RETRY, max_retries=1), STOP)), "tighter"),
        (replace(BASE, rules=(replace(RETRY, max_retries=None), STOP)), "looser"),
        (replace(BASE, rules=(replace(RETRY, why="better said"), STOP)), "neutral"),
        (replace(BASE, rules=(RETRY,)), "looser"),
        (replace(BASE, rules=(STOP,)), "tighter"),
        (replace(BASE, rules=(STOP, RETRY)), "neutral"),
        (replace(BASE, rules=(RETRY, STOP, replace(STOP, id="new"))), "tighter"),
        (replace(BASE, rules=(RETRY, STOP, replace(RETRY, id="new"))), "looser"),
        (replace(BASE, paths=(PathRule("auth", ("a/**",)),)), "looser"),
        (replace(BASE, paths=(PathRule("auth", ("a/**", "b/**", "c/**")),)), "tighter"),
        (replace(BASE, paths=(PathRule("auth", ("a/**", "b/**"), reviewers=2),)), "tighter"),
        (replace(BASE, paths=()), "looser"),
        (replace(BASE, team_budgets=()), "looser"),
        (replace(BASE, team_budgets=(TeamBudget("api", 60, 9),)), "tighter"),
        (replace(BASE, team_budgets=(TeamBudget("api", 60, None),)), "looser"),
        (replace(BASE, backoff=replace(BASE.backoff, jitter_seconds=15.0)), "neutral"),
        (replace(BASE, retry_ratio=replace(BASE.retry_ratio, share=0.1)), "tighter"),
        (replace(BASE, gates=replace(BASE.gates, max_diff_bytes=2_000_000)), "looser"),
        (replace(BASE, breakers=replace(BASE.breakers, same_cause=2)), "tighter"),
        (replace(BASE, signals=(Signal("s"),)), "neutral"),
    ],
)
def test_each_difference_has_its_effect(new: Policy, effect: str) -> None:
    assert only(BASE, new).effect == effect


def budget(**values: Any) -> Policy:
    return replace(BASE, budgets=(Budget(risk="read_only", **values),))


@pytest.mark.parametrize(
    ("old", "new", "setting", "effect"),
    [
        ({"attempts": 3}, {"attempts": 2}, "attempts", "tighter"),
        ({"seconds": None}, {"seconds": 60}, "seconds", "tighter"),
        ({"context_tokens": 5}, {"context_tokens": None}, "context_tokens", "looser"),
        ({}, {"tools": frozenset({"edit"})}, "tools", "tighter"),
        ({"tools": frozenset({"edit"})}, {}, "tools", "looser"),
        ({"tools": frozenset({"edit", "run"})}, {"tools": frozenset({"edit"})}, "tools", "tighter"),
    ],
)
def test_budgets_are_tighter_when_less_is_allowed(
    old: dict[str, Any], new: dict[str, Any], setting: str, effect: str
) -> None:
    found = only(budget(**old), budget(**new))
    assert (found.area, found.name, found.setting, found.effect) == ("budgets", "read_only", setting, effect)


def test_the_retry_table_holds_every_rule_that_repeats_by_itself() -> None:
    assert set(retry_table(BASE)) == {"r"}
    assert all(rule.action in ("retry", "wait") for rule in retry_table(POLICY).values())
