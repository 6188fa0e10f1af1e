"""What is kept of a failure so that another policy can judge it later: the facts, and never their text (P2, Z1).

Of the text only one thing is kept: which patterns of the policy it matched. A pattern that another policy brings
along was never tried on it, so whatever hangs on such a pattern cannot be decided again, and that is said.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from jobs.core import patterns
from jobs.core.failures import Classification, FailureFacts, Seen, applies, conclude, marks_seen, named, typed
from jobs.core.policy import ACTIONS, REPEATS, Policy, Rule

# Codes and type names come out of other programs' output. What is not plainly a name could be anything.
_CODE: Final = re.compile(r"[a-z]{1,24}(?:[_\-](?:[a-z]{1,24}|[0-9]{1,4})){0,6}|[a-z]{1,6}[0-9]{1,4}")
_TYPE: Final = re.compile(r"[A-Za-z_]{1,40}[0-9]{0,3}(?:\.[A-Za-z_]{1,40}[0-9]{0,3}){0,6}")


@dataclass(frozen=True, slots=True)
class Kept:
    """A stored failure. `matched` and `tried`: patterns of the policy that judged it. `whole` False: a code or type
    name looked like more than a name and was left out, so no other policy can judge it."""

    facts: FailureFacts
    code: str
    matched: frozenset[str]
    tried: frozenset[str]
    silent: bool
    whole: bool


def is_name(code: str) -> bool:
    """True for a code that is plainly one: words and short numbers."""
    return _CODE.fullmatch(code) is not None


def keep(facts: FailureFacts, policy: Policy, code: str = "") -> dict[str, Any]:
    """What is stored, as JSON values. `code` is what AgentQ or the executor named the failure."""
    known = {known for signal in policy.signals for known in signal.codes}
    codes = sorted(each for each in facts.codes if each in known or is_name(each))
    types = [name for name in facts.exception_types if _TYPE.fullmatch(name)]
    return {
        "program": facts.program,
        "stage": facts.stage,
        "risk": facts.risk,
        "exit_code": facts.exit_code,
        "signal": facts.signal,
        "exception_types": types,
        "http_status": facts.http_status,
        "codes": codes,
        "marks": sorted(facts.marks),
        "retry_after": facts.retry_after,
        "retry_forbidden": facts.retry_forbidden,
        "failed": facts.failed,
        "named": code,
        "said": _said(facts, policy),
        "silent": not facts.text.strip(),
        "whole": len(codes) == len(facts.codes) and len(types) == len(facts.exception_types),
    }


def restore(stored: Mapping[str, Any], policy: Policy) -> Kept:
    """The stored failure; `policy` is the version that judged it."""
    facts = FailureFacts(
        program=stored["program"],
        stage=stored["stage"],
        risk=stored["risk"],
        exit_code=stored["exit_code"],
        signal=stored["signal"],
        exception_types=tuple(stored["exception_types"]),
        http_status=stored["http_status"],
        codes=frozenset(stored["codes"]),
        marks=frozenset(stored["marks"]),
        retry_after=stored["retry_after"],
        retry_forbidden=stored["retry_forbidden"],
        failed=stored["failed"],
    )
    texts = {signal.name: signal.text for signal in policy.signals}
    matched = {texts[name][place] for name, places in stored["said"].items() for place in places}
    tried = {pattern for text in texts.values() for pattern in text}
    return Kept(facts, stored["named"], frozenset(matched), frozenset(tried), stored["silent"], stored["whole"])


def reclassify(kept: Kept, policy: Policy) -> Classification | None:
    """What this policy says of the stored failure; None when that hangs on text that was not kept."""
    if not kept.whole:
        return None
    shown = _shown(kept, policy)
    if not kept.code:
        return shown
    answer = named(kept.code, kept.facts, policy, shown or Classification(class_="", code="", action="accept"))
    return None if shown is None and answer.action in REPEATS else answer


def _shown(kept: Kept, policy: Policy) -> Classification | None:
    strength, unknown = marks_seen(kept.facts), set()
    for signal in policy.signals:
        if typed(signal, kept.facts):
            strength[signal.name] = True
        elif any(pattern in kept.matched for pattern in signal.text):
            strength[signal.name] = False
        elif not kept.silent and any(pattern not in kept.tried for pattern in signal.text):
            unknown.add(signal.name)
    # With every unknown signal seen in `all` and `any`, and none of them in `none`, a rule holds if it ever can.
    seen, most = Seen(strength), Seen(strength | dict.fromkeys(unknown, False))
    able = [rule for rule in policy.rules if applies(rule, kept.facts)]
    held = [rule for rule in able if seen.holds(rule) and unknown.isdisjoint(rule.none)]
    open_rules = [rule for rule in able if rule not in held and _may_hold(rule, seen, most)]
    answer = conclude(kept.facts, seen, held)
    return None if _hangs_on(open_rules, held, able) else answer


def _may_hold(rule: Rule, seen: Seen, most: Seen) -> bool:
    return most.holds(replace(rule, none=())) and not any(name in seen.strength for name in rule.none)


def _hangs_on(open_rules: list[Rule], held: list[Rule], able: list[Rule]) -> bool:
    if not open_rules or not held:
        return bool(open_rules)
    first = held[0]
    if any(able.index(rule) < able.index(first) for rule in open_rules):
        return True
    careful = [rule for rule in open_rules if rule.id not in first.overrides]
    return first.action in REPEATS and any(ACTIONS.index(rule.action) < ACTIONS.index(first.action) for rule in careful)


def _said(facts: FailureFacts, policy: Policy) -> dict[str, list[int]]:
    if not facts.text:
        return {}
    found = {
        signal.name: [place for place, pattern in enumerate(signal.text) if patterns.matches(pattern, facts.text)]
        for signal in policy.signals
    }
    return {name: places for name, places in found.items() if places}
