"""The policy as the pure rules see it: frozen values, no file, no schema library (P1).

`jobs.policies.document` validates a policy document and converts it into these classes. `DEFAULT_POLICY` holds
the numbers of the built-in version without its failure rules, so that a decision about an already named failure
needs no document at hand.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

CLASSES: Final = (
    "transient",
    "rate_limited",
    "upstream_unavailable",
    "usage_limit",
    "billing_unknown",
    "permission",
    "missing_input",
    "deterministic",
    "environment",
    "side_effect_unknown",
    "conflict",
    "cancelled",
    "unknown",
)
RISKS: Final = ("read_only", "writes_files", "external_side_effect")
# Most careful first: where several rules match, the one further left wins over a repetition.
ACTIONS: Final = ("freeze", "review", "pause", "stop", "wait", "retry")
REPEATS: Final = frozenset({"retry", "wait"})


@dataclass(frozen=True, slots=True)
class Signal:
    """One named thing that a failure can show. Typed evidence (all but `text`) counts as structured (F2)."""

    name: str
    text: tuple[str, ...] = ()
    codes: frozenset[str] = frozenset()
    types: tuple[str, ...] = ()
    statuses: frozenset[int] = frozenset()
    exit_codes: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class Rule:
    """One failure rule: holds when every `all`, one of `any` and none of `none` is seen, in these stages and risks.

    `overrides` names more careful rules that may hold beside it without turning its repetition into their action.
    """

    id: str
    class_: str
    code: str
    action: str
    why: str = ""
    all: tuple[str, ...] = ()
    any: tuple[str, ...] = ()
    none: tuple[str, ...] = ()
    stages: frozenset[str] = frozenset()
    risks: frozenset[str] = frozenset()
    even_on_success: bool = False
    overrides: frozenset[str] = frozenset()
    max_retries: int | None = None


@dataclass(frozen=True, slots=True)
class Budget:
    """What one job of a risk (and, if named, of one action) may use in all its attempts (B1, B2).

    `seconds` of wall clock, `context_tokens` in tokens; None means without a limit. `tools` empty means any tool.
    """

    risk: str
    action: str = ""
    attempts: int = 3
    seconds: int | None = 3600
    context_tokens: int | None = None
    tools: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Backoff:
    """Delay parameters in seconds (R1)."""

    base_seconds: float = 15.0
    factor: float = 2.0
    cap_seconds: float = 900.0
    jitter_seconds: float = 10.0


@dataclass(frozen=True, slots=True)
class BreakerThresholds:
    """When a breaker opens and how it comes back (T1, T3); times in seconds."""

    same_cause: int = 3
    window_attempts: int = 10
    window_minimum: int = 4
    failure_share: float = 0.5
    open_seconds: int = 300
    open_cap_seconds: int = 3600
    probe_seconds: int = 900
    probe_successes: int = 2
    ramp: tuple[int, ...] = (1, 2, 4)
    open_mode: str = "wait"


@dataclass(frozen=True, slots=True)
class PathRule:
    """Files that always go to a person (V2); `globs` are matched on both names of a rename."""

    name: str
    globs: tuple[str, ...]
    decision: str = "review"
    reviewers: int = 1


@dataclass(frozen=True, slots=True)
class RetryRatio:
    """Retries may be this share of all starts in the window; above it a new retry is held back for a while."""

    share: float = 0.2
    minimum_starts: int = 10
    window_seconds: int = 3600
    hold_seconds: int = 300


@dataclass(frozen=True, slots=True)
class Gates:
    """Limits that are checked around a run: team usage (share of the allowance), drift of the target, diff size."""

    usage_share: float = 0.9
    max_target_commits: int = 50
    max_diff_bytes: int = 1_000_000
    max_changed_files: int = 200
    stage_wait_seconds: int = 600


@dataclass(frozen=True, slots=True)
class TeamBudget:
    """What one team may use of one service in a window (B3)."""

    service: str
    window_seconds: int
    tokens: int | None = None
    attempts: int | None = None


@dataclass(frozen=True, slots=True)
class Retention:
    """How many days artefacts stay before they are pruned; rows are never pruned."""

    artefact_days: int = 90
    transcript_days: int = 30


_DEFAULT_BUDGETS: Final = (
    Budget(risk="read_only", attempts=4, seconds=3600, context_tokens=2_000_000),
    Budget(risk="writes_files", attempts=3, seconds=5400, context_tokens=3_000_000),
    Budget(risk="external_side_effect", attempts=1, seconds=1800, context_tokens=1_000_000),
)
_DEFAULT_CODES: Final[Mapping[str, tuple[str, str]]] = {
    "network_reset": ("transient", "retry"),
    "temporary_unavailable": ("transient", "retry"),
    "rate_limited": ("rate_limited", "wait"),
    "upstream_unavailable": ("upstream_unavailable", "pause"),
    "usage_limit": ("usage_limit", "pause"),
    "billing_unknown": ("billing_unknown", "freeze"),
    "permission_refused": ("permission", "review"),
    "input_missing": ("missing_input", "review"),
    "tests_failed": ("deterministic", "stop"),
    "check_failed": ("deterministic", "stop"),
    "bad_input": ("deterministic", "stop"),
    "environment_broken": ("environment", "review"),
    "side_effect_unknown": ("side_effect_unknown", "review"),
    "target_moved": ("conflict", "review"),
    "cancelled": ("cancelled", "stop"),
    "path_rule": ("permission", "review"),
    "tests_not_run": ("environment", "review"),
    "workspace_error": ("environment", "review"),
    "disk_full": ("environment", "review"),
    "processes_alive": ("environment", "review"),
    "delivery_refused": ("conflict", "review"),
    "no_terminal_event": ("unknown", "review"),
}


@dataclass(frozen=True, slots=True)
class Policy:
    """One policy version: everything that decides (P1)."""

    version: str = "default"
    signals: tuple[Signal, ...] = ()
    rules: tuple[Rule, ...] = ()
    budgets: tuple[Budget, ...] = _DEFAULT_BUDGETS
    team_budgets: tuple[TeamBudget, ...] = ()
    backoff: Backoff = Backoff()
    breakers: BreakerThresholds = BreakerThresholds()
    paths: tuple[PathRule, ...] = ()
    gates: Gates = Gates()
    retry_ratio: RetryRatio = RetryRatio()
    retention: Retention = Retention()
    codes: Mapping[str, tuple[str, str]] = field(default_factory=lambda: dict(_DEFAULT_CODES))

    def budget_for(self, risk: str, action: str = "") -> Budget:
        """The budget of a risk, the one that names the action first; an unknown risk gets the tightest."""
        same_risk = [budget for budget in self.budgets if budget.risk == risk]
        for budget in same_risk:
            if action and budget.action == action:
                return budget
        for budget in same_risk:
            if not budget.action:
                return budget
        return min(self.budgets, key=lambda budget: budget.attempts)

    def rule_of(self, code: str) -> Rule | None:
        """The first rule that gives this code."""
        return next((rule for rule in self.rules if rule.code == code), None)

    def meaning_of(self, code: str) -> tuple[str, str]:
        """(class, action) of a failure code; a code nobody defined is unknown and goes to a person (F2)."""
        rule = self.rule_of(code)
        return (rule.class_, rule.action) if rule else self.codes.get(code, ("unknown", "review"))


DEFAULT_POLICY: Final = Policy()
