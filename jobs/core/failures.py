"""Which class of failure is this? A pure function of facts and policy (F1, F2, F3).

Structured evidence first, text last. Text alone may only make the answer more careful: it never allows a
repetition. What no rule knows goes to a person.
"""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from jobs.core import patterns
from jobs.core.policy import ACTIONS, REPEATS, Policy, Rule, Signal

HIGH, LOW, NONE = "high", "low", "none"

# Marks that only describe the surroundings. They narrow a rule but prove nothing about the failure itself.
CONTEXT_MARKS: Final = frozenset(
    {"outward", "agent", "verifier", "installer", "runner", "publisher", "exit_zero", "model_call"}
)


@dataclass(frozen=True, slots=True)
class FailureFacts:
    """What is known about one ended run, in the order of its weight (F2).

    `marks` are named facts found by the adapters and by our own records (cancel_requested, tool_denied, intent_open,
    not_sent, retries_spent ...); `codes` are typed codes, lower case; `text` is cut and folded and counts last.
    Times in seconds. `retry_after` is what the upstream asked for.
    """

    program: str = ""
    stage: str = ""
    risk: str = "writes_files"
    exit_code: int | None = None
    signal: int | None = None
    exception_types: tuple[str, ...] = ()
    http_status: int | None = None
    codes: frozenset[str] = frozenset()
    marks: frozenset[str] = frozenset()
    text: str = ""
    retry_after: float | None = None
    retry_forbidden: bool = False
    failed: bool = True

    @property
    def outward(self) -> bool:
        """True when the run may have acted outside this machine."""
        return self.risk == "external_side_effect" or "outward" in self.marks


@dataclass(frozen=True, slots=True)
class Classification:
    """The class, its code, the action and why (F1). `rules`: ids of all that matched, the deciding one first."""

    class_: str
    code: str
    action: str
    rules: tuple[str, ...] = ()
    confidence: str = NONE
    fingerprint: str = ""
    retry_after: float | None = None
    max_retries: int | None = None

    @property
    def rule(self) -> str:
        """The id of the rule that decided, with the floor that changed its action after a plus sign."""
        return self.rules[0] if self.rules else "no-rule"


@dataclass(frozen=True, slots=True)
class Seen:
    """The signals that were seen: name to True when typed evidence showed it, False when text alone did."""

    strength: Mapping[str, bool]

    def holds(self, rule: Rule) -> bool:
        seen = self.strength
        return (
            all(name in seen for name in rule.all)
            and (not rule.any or any(name in seen for name in rule.any))
            and not any(name in seen for name in rule.none)
        )

    def structured(self, rule: Rule) -> bool:
        # Context marks are False in `strength`: knowing that it was a download proves no network fault.
        return any(self.strength.get(name, False) for name in (*rule.all, *rule.any))


def classify(facts: FailureFacts, policy: Policy) -> Classification:
    """The classification of these facts under this policy; an end without any sign of failure has the action accept.

    The first rule that holds gives class and code. A repetition needs typed evidence and yields to every other rule
    that holds and is more careful; with risk external_side_effect it never happens (B2).
    """
    seen = observe(facts, policy)
    return conclude(facts, seen, [rule for rule in policy.rules if applies(rule, facts) and seen.holds(rule)])


def named(code: str, facts: FailureFacts, policy: Policy, shown: Classification) -> Classification:
    """The classification of a failure that our own checks or the executor named by a code.

    Its meaning is the policy's for that code. A repetition yields to `shown`, what the evidence of the same run gives,
    where that is more careful.
    """
    class_, action = policy.meaning_of(code)
    rule = policy.rule_of(code)
    known = rule is not None or code in policy.codes
    if action in REPEATS and shown.rules and ACTIONS.index(shown.action) < ACTIONS.index(action):
        return shown
    if action in REPEATS and (facts.retry_forbidden or facts.outward or "acted" in facts.marks):
        action = "review"
    return Classification(
        class_=class_,
        code=code,
        action=action,
        rules=(rule.id,) if rule else (f"code:{code}",) if known else (),
        confidence=HIGH if known else NONE,
        fingerprint=fingerprint(class_, code, facts),
        retry_after=facts.retry_after,
        max_retries=rule.max_retries if rule else None,
    )


def conclude(facts: FailureFacts, seen: Seen, held: list[Rule]) -> Classification:
    """The classification when exactly these rules hold, in their order."""
    if not held:
        return _without_rule(facts)
    first = held[0]
    structured = seen.structured(first)
    action = _floored(first, held, facts, structured)
    return Classification(
        class_=first.class_,
        code=first.code,
        action=action,
        rules=tuple(rule.id for rule in held),
        confidence=HIGH if structured else LOW,
        fingerprint=fingerprint(first.class_, first.code, facts),
        retry_after=facts.retry_after,
        max_retries=first.max_retries,
    )


def observe(facts: FailureFacts, policy: Policy) -> Seen:
    """Every signal of the policy and every mark (as `is:<mark>`) that these facts show."""
    strength = marks_seen(facts)
    for signal in policy.signals:
        if typed(signal, facts):
            strength[signal.name] = True
        elif _any_match(signal.text, facts.text):
            strength[signal.name] = False
    return Seen(strength)


def marks_seen(facts: FailureFacts) -> dict[str, bool]:
    """Every mark as `is:<mark>`; False for those that only describe the surroundings."""
    strength = {f"is:{mark}": mark not in CONTEXT_MARKS for mark in facts.marks}
    strength.setdefault("is:outward", False)
    if not facts.outward:
        del strength["is:outward"]
    return strength


def fingerprint(class_: str, code: str, facts: FailureFacts) -> str:
    """16 hex digits, equal for the same root cause: class, code, program, types; no ids, numbers or paths."""
    words = " ".join(word for word in facts.program.lower().split()[:2] if word.isalpha())
    types = sorted({name.rpartition(".")[2].lower() for name in facts.exception_types})
    parts = [class_, code, words, str(facts.http_status or ""), *types]
    return hashlib.sha256("|".join(parts).encode()).hexdigest()[:16]


def applies(rule: Rule, facts: FailureFacts) -> bool:
    """True when the rule may look at these facts at all: stage, risk, and whether the run failed."""
    if not facts.failed and not rule.even_on_success:
        return False
    if rule.stages and facts.stage not in rule.stages:
        return False
    return not rule.risks or facts.risk in rule.risks


def typed(signal: Signal, facts: FailureFacts) -> bool:
    """True when typed evidence shows the signal: status, exit code, typed code or exception type."""
    return (
        (facts.http_status is not None and facts.http_status in signal.statuses)
        or (facts.exit_code is not None and facts.exit_code in signal.exit_codes)
        or not signal.codes.isdisjoint(facts.codes)
        or any(_any_match(signal.types, patterns.fold(name)) for name in facts.exception_types)
    )


def _any_match(options: Iterable[str], text: str) -> bool:
    return bool(text) and any(patterns.matches(option, text) for option in options)


def _floored(first: Rule, held: list[Rule], facts: FailureFacts, structured: bool) -> str:
    action = first.action
    if action in REPEATS:
        action = min((rule.action for rule in held if rule.id not in first.overrides), key=ACTIONS.index)
        if action in REPEATS and (not structured or facts.retry_forbidden or "acted" in facts.marks):
            action = "review"
    if action == "freeze" and not structured and not facts.failed:
        # A summary may speak of money; without an error it reaches a person, but does not freeze the account.
        action = "review"
    if facts.outward and (action in REPEATS or (action == "stop" and facts.stage in ("", "deliver"))):
        action = "review"
    return action


def _without_rule(facts: FailureFacts) -> Classification:
    if not facts.failed:
        return Classification(class_="", code="", action="accept")
    return Classification(
        class_="unknown",
        code="unknown",
        action="review",
        fingerprint=fingerprint("unknown", "unknown", facts),
        retry_after=facts.retry_after,
    )
