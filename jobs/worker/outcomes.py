"""How a stage ends: done, failed with evidence, or stopped by the worker's own decision."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from jobs.core.adapters.runs import EndedRun
from jobs.core.budgets import StopReason
from jobs.services.statement import Insert


@dataclass(frozen=True, slots=True)
class Done:
    """A stage that ended well. `output` is its output digest; `job` are columns that it settled; `session`
    is the agent's, to go on with."""

    output: str
    job: Mapping[str, Any] = field(default_factory=dict)
    snapshot: str = ""
    facts: Mapping[str, Any] = field(default_factory=dict)
    rows: Sequence[Insert] = ()
    session: str = ""


@dataclass(frozen=True, slots=True)
class Failure:
    """What went wrong. `code` names what AgentQ itself found (tests_failed, input_missing …) and then decides the
    class by the policy; otherwise `run` is classified. `job` and `rows` are kept with the decision."""

    code: str = ""
    run: EndedRun = field(default_factory=EndedRun)
    failed_check: bool = False
    job: Mapping[str, Any] = field(default_factory=dict)
    rows: Sequence[Insert] = ()
    tail: str = ""
    tool_types: tuple[str, ...] = ()


class StageFailed(Exception):
    """Carries a failure to where it is decided about; never leaves the worker."""

    def __init__(self, failure: Failure) -> None:
        self.failure = failure
        super().__init__(failure.code)


class StageStopped(Exception):
    """The worker ended the stage: cancel, pause, drain, deadline, budget or lease_lost; never leaves the worker."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(reason)


class BudgetSpent(Exception):
    """A used-up budget forbids the next step (B1); never leaves the worker."""

    def __init__(self, reason: StopReason) -> None:
        self.reason = reason
        super().__init__(reason)
