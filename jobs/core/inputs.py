"""All that one decision looked at beside the failure itself, in a form that is stored and decided again (P1, P2)."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from jobs.core.backoff import Random
from jobs.core.budgets import BudgetState
from jobs.core.decisions import Decision, Starts, Task, decide
from jobs.core.failures import Classification
from jobs.core.policy import Policy

_TASK = ("kind", "repo", "target", "sha", "attempts", "max_attempts", "risk", "stage")
_TASK_FLAGS = ("has_diff", "failed_check", "open_intent")
_BUDGET = ("seconds", "max_seconds", "tokens", "max_tokens")
_TOOLS = ("tools_used", "tools_allowed")


@dataclass(frozen=True, slots=True)
class Inputs:
    """`same_cause`: failures in a row with this fingerprint, this one included. `window`: starts and retries in it.

    `granted`: the job's attempts are not the ones its policy gives; a person or the workflow set them.
    """

    task: Task
    budget: BudgetState
    same_cause: int
    window: Starts
    now: datetime
    granted: bool = False


def decide_on(inputs: Inputs, policy: Policy, classification: Classification, rng: Random | None = None) -> Decision:
    """The decision of this policy on these inputs."""
    return decide(
        inputs.task,
        policy=policy,
        classification=classification,
        budget=inputs.budget,
        same_cause=inputs.same_cause,
        window=inputs.window,
        rng=rng,
        now=inputs.now,
    )


def under(inputs: Inputs, policy: Policy) -> Inputs:
    """The same inputs with the attempts that this policy gives, unless they were granted."""
    if inputs.granted:
        return inputs
    most = policy.budget_for(inputs.task.risk, inputs.task.kind).attempts
    task = replace(inputs.task, max_attempts=most)
    return replace(inputs, task=task, budget=replace(inputs.budget, max_attempts=most))


def to_json(inputs: Inputs) -> dict[str, Any]:
    """JSON values, readable by name on a page."""
    budget, deadline = inputs.budget, inputs.budget.deadline
    return {
        **{name: getattr(inputs.task, name) for name in (*_TASK, *_TASK_FLAGS)},
        **{name: getattr(budget, name) for name in _BUDGET},
        **{name: sorted(getattr(budget, name)) for name in _TOOLS},
        "deadline": deadline.isoformat() if deadline else None,
        "takeover": budget.takeover,
        "same_cause": inputs.same_cause,
        "starts": inputs.window.starts,
        "retries": inputs.window.retries,
        "now": inputs.now.isoformat(),
        "granted": inputs.granted,
    }


def from_json(stored: Mapping[str, Any]) -> Inputs:
    """What `to_json` stored."""
    deadline = stored["deadline"]
    budget = BudgetState(
        attempts=stored["attempts"],
        max_attempts=stored["max_attempts"],
        deadline=datetime.fromisoformat(deadline) if deadline else None,
        takeover=stored["takeover"],
        seconds=stored["seconds"],
        max_seconds=stored["max_seconds"],
        tokens=stored["tokens"],
        max_tokens=stored["max_tokens"],
        tools_used=frozenset(stored["tools_used"]),
        tools_allowed=frozenset(stored["tools_allowed"]),
    )
    return Inputs(
        task=Task(**{name: stored[name] for name in (*_TASK, *_TASK_FLAGS)}),
        budget=budget,
        same_cause=stored["same_cause"],
        window=Starts(stored["starts"], stored["retries"]),
        now=datetime.fromisoformat(stored["now"]),
        granted=stored["granted"],
    )
