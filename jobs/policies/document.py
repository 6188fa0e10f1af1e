"""The schema of a policy document: what it may say, and what it can never allow (P1)."""

import hashlib
import json
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, field_validator, model_validator

from jobs.core import patterns, policy

Name = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9_\-]{0,59}$")]
Typed = Annotated[str, StringConstraints(pattern=r"^[a-z0-9_\-]{1,100}$")]
Text = Annotated[str, StringConstraints(min_length=1, max_length=400)]
Risk = Literal["read_only", "writes_files", "external_side_effect"]
Stage = Literal["read", "plan", "modify", "test", "review", "deliver"]
FailureClass = Literal[
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
]
Action = Literal["retry", "wait", "pause", "freeze", "review", "stop"]
REPEATABLE_CLASSES = frozenset({"transient", "rate_limited", "environment"})


class Part(BaseModel):
    """Base of all parts: unknown keys are refused, values do not change."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class SignalPart(Part):
    """One signal: patterns stay within the bounded subset of `jobs.core.patterns`."""

    name: Name
    text: tuple[str, ...] = ()
    codes: tuple[Typed, ...] = ()
    types: tuple[str, ...] = ()
    statuses: tuple[Annotated[int, Field(ge=100, le=599)], ...] = ()
    exit_codes: tuple[Annotated[int, Field(ge=1, le=255)], ...] = ()

    @field_validator("text", "types")
    @classmethod
    def stays_in_the_subset(cls, values: tuple[str, ...]) -> tuple[str, ...]:
        """Refuses a pattern outside the subset and names it."""
        for value in values:
            try:
                patterns.check(value)
            except patterns.PatternRefused as error:
                raise ValueError(f"pattern {value!r}: {error}") from error
        return values


class RulePart(Part):
    """One failure rule; `why` is shown to people beside each decision it made."""

    id: Name
    class_: Annotated[FailureClass, Field(alias="class")]
    code: Typed
    action: Action
    why: Text
    all: tuple[str, ...] = ()
    any: tuple[str, ...] = ()
    none: tuple[str, ...] = ()
    stages: tuple[Stage, ...] = ()
    risks: tuple[Risk, ...] = ()
    even_on_success: bool = False
    overrides: tuple[str, ...] = ()
    max_retries: Annotated[int, Field(ge=1, le=10)] | None = None

    @model_validator(mode="after")
    def repeats_only_what_may_be_repeated(self) -> Self:
        """Refuses a rule without a condition, and a repetition of an outward act or of a class that never repeats."""
        if not self.all and not self.any:
            raise ValueError("a rule needs at least one signal in `all` or `any`")
        if self.action in policy.REPEATS:
            if "external_side_effect" in self.risks:
                raise ValueError("external_side_effect is never retried automatically: use review")
            if self.class_ not in REPEATABLE_CLASSES:
                raise ValueError(f"class {self.class_} may not retry or wait: use review, pause, freeze or stop")
        return self


class BudgetPart(Part):
    """Limits of one risk, optionally of one action: attempts, seconds of wall clock, tokens, tools."""

    risk: Risk
    action: str = ""
    attempts: Annotated[int, Field(ge=1, le=20)]
    seconds: Annotated[int, Field(ge=1, le=7 * 86400)] | None = None
    context_tokens: Annotated[int, Field(ge=1)] | None = None
    tools: tuple[str, ...] = ()

    @model_validator(mode="after")
    def outward_acts_once(self) -> Self:
        """Refuses automatic retries of external side effects (B2)."""
        if self.risk == "external_side_effect" and self.attempts != 1:
            raise ValueError("external_side_effect gets exactly 1 attempt: it is never retried automatically")
        return self


class BackoffPart(Part):
    """R1, in seconds."""

    base_seconds: Annotated[float, Field(gt=0, le=3600)] = 15
    factor: Annotated[float, Field(ge=1, le=10)] = 2
    cap_seconds: Annotated[float, Field(gt=0, le=86400)] = 900
    jitter_seconds: Annotated[float, Field(ge=0, le=600)] = 10


class BreakersPart(Part):
    """When breakers open and how they come back (T1, T3), in seconds."""

    same_cause: Annotated[int, Field(ge=2, le=100)] = 3
    window_attempts: Annotated[int, Field(ge=2, le=1000)] = 10
    window_minimum: Annotated[int, Field(ge=2, le=1000)] = 4
    failure_share: Annotated[float, Field(gt=0, le=1)] = 0.5
    open_seconds: Annotated[int, Field(ge=1)] = 300
    open_cap_seconds: Annotated[int, Field(ge=1)] = 3600
    probe_seconds: Annotated[int, Field(ge=1)] = 900
    probe_successes: Annotated[int, Field(ge=1, le=10)] = 2
    ramp: tuple[Annotated[int, Field(ge=1, le=1000)], ...] = (1, 2, 4)
    open_mode: Literal["wait", "prepare", "checklist"] = "wait"


class PathPart(Part):
    """Files that go to a person (V2)."""

    name: Name
    globs: Annotated[tuple[Annotated[str, StringConstraints(min_length=1, max_length=200)], ...], Field(min_length=1)]
    decision: Literal["review"] = "review"
    reviewers: Annotated[int, Field(ge=1, le=5)] = 1


class RetryRatioPart(Part):
    """The share of retries among all starts above which a new retry waits; times in seconds."""

    share: Annotated[float, Field(gt=0, le=1)] = 0.2
    minimum_starts: Annotated[int, Field(ge=1)] = 10
    window_seconds: Annotated[int, Field(ge=1)] = 3600
    hold_seconds: Annotated[int, Field(ge=1)] = 300


class GatesPart(Part):
    """Team usage gate, drift of the target, size of a diff, how long a cancel waits for a stage (seconds)."""

    usage_share: Annotated[float, Field(gt=0, le=1)] = 0.9
    max_target_commits: Annotated[int, Field(ge=0)] = 50
    max_diff_bytes: Annotated[int, Field(ge=1)] = 1_000_000
    max_changed_files: Annotated[int, Field(ge=1)] = 200
    stage_wait_seconds: Annotated[int, Field(ge=0)] = 600


class TeamBudgetPart(Part):
    """Tokens and attempts per service and window (B3)."""

    service: Name
    window_seconds: Annotated[int, Field(ge=60)]
    tokens: Annotated[int, Field(ge=1)] | None = None
    attempts: Annotated[int, Field(ge=1)] | None = None


class RetentionPart(Part):
    """Days until artefacts are pruned."""

    artefact_days: Annotated[int, Field(ge=1)] = 90
    transcript_days: Annotated[int, Field(ge=1)] = 30


class CasePart(Part):
    """One failure with the answer that this policy must give: the test of a rule (P3). Fields as in a failure case of
    `classify_failures`; `code` is what AgentQ or the executor named it. Made-up or redacted text only."""

    id: Name
    program: Annotated[str, StringConstraints(max_length=100)] = ""
    stage: Annotated[str, StringConstraints(max_length=20)] = ""
    risk: Risk = "writes_files"
    code: Annotated[str, StringConstraints(max_length=100)] = ""
    exit_code: Annotated[int, Field(ge=-255, le=255)] | None = None
    signal: Annotated[int, Field(ge=1, le=64)] | None = None
    exception_type: Annotated[str, StringConstraints(max_length=200)] = ""
    http_status: Annotated[int, Field(ge=100, le=599)] | None = None
    stdout_tail: Annotated[str, StringConstraints(max_length=4096)] = ""
    stderr_tail: Annotated[str, StringConstraints(max_length=4096)] = ""
    cancel_requested: bool = False
    wall_clock_kill: bool = False
    request_sent: bool | None = None
    retry_after: Annotated[float, Field(ge=0)] | None = None
    expected_class: FailureClass | Literal[""]
    expected_action: Action | Literal["accept"]
    expected_rule: str = ""


class PolicyDocument(Part):
    """A whole policy. The four path rules of V2 and a budget for each risk must be there."""

    version: Name
    note: Annotated[str, StringConstraints(max_length=500)] = ""
    signals: tuple[SignalPart, ...] = ()
    rules: Annotated[tuple[RulePart, ...], Field(min_length=1)]
    budgets: tuple[BudgetPart, ...]
    team_budgets: tuple[TeamBudgetPart, ...] = ()
    backoff: BackoffPart = BackoffPart()
    breakers: BreakersPart = BreakersPart()
    paths: tuple[PathPart, ...]
    retry_ratio: RetryRatioPart = RetryRatioPart()
    gates: GatesPart = GatesPart()
    retention: RetentionPart = RetentionPart()
    cases: tuple[CasePart, ...] = ()

    @model_validator(mode="after")
    def is_whole(self) -> Self:
        """Refuses doubled names, unknown signals, a missing budget and a missing path rule."""
        _refuse_doubles("signals", [signal.name for signal in self.signals])
        _refuse_doubles("rules", [rule.id for rule in self.rules])
        _refuse_doubles("cases", [case.id for case in self.cases])
        _refuse_doubles("budgets", [f"{budget.risk}/{budget.action}" for budget in self.budgets])
        known = {signal.name for signal in self.signals}
        for rule in self.rules:
            for name in (*rule.all, *rule.any, *rule.none):
                if name not in known and not name.startswith("is:"):
                    raise ValueError(f"rule {rule.id!r} names the signal {name!r}, which is not defined")
            for name in rule.overrides:
                if name not in {other.id for other in self.rules}:
                    raise ValueError(f"rule {rule.id!r} overrides {name!r}, which is not defined")
        for case in self.cases:
            if case.expected_rule and case.expected_rule not in {rule.id for rule in self.rules}:
                raise ValueError(f"case {case.id!r} expects the rule {case.expected_rule!r}, which is not defined")
        if missing := set(policy.RISKS) - {budget.risk for budget in self.budgets if not budget.action}:
            raise ValueError(f"a budget is missing for: {', '.join(sorted(missing))}")
        if missing := {"auth", "billing", "permissions", "deployment"} - {path.name for path in self.paths}:
            raise ValueError(f"a path rule is missing for: {', '.join(sorted(missing))}")
        return self

    def canonical(self) -> str:
        """The document as canonical JSON: sorted keys, no blanks; equal documents give equal text."""
        data = self.model_dump(mode="json", by_alias=True)
        return json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=False)

    def digest(self) -> str:
        """SHA-256 hex of the canonical JSON."""
        return hashlib.sha256(self.canonical().encode()).hexdigest()


def _refuse_doubles(what: str, names: list[str]) -> None:
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"{what}: {name!r} is there twice")
