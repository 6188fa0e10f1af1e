"""What differs between two policies by meaning, not by text line, and whether that is tighter or looser (P2).

Tighter: a person sees more, or less runs by itself. Looser: more runs by itself.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Any, Final

from jobs.core.policy import ACTIONS, REPEATS, Budget, PathRule, Policy, Rule, Signal, TeamBudget


class Effect(StrEnum):
    """What a difference does."""

    TIGHTER = "tighter"
    LOOSER = "looser"
    NEUTRAL = "neutral"


@dataclass(frozen=True, slots=True)
class Difference:
    """One setting that differs. `old` is None for what was added, `new` is None for what was removed.

    `area` is rules, signals, budgets, team_budgets, paths or the name of a table of numbers; `name` is the rule, budget
    or path in it; `setting` the field, "" for the whole thing.
    """

    area: str
    name: str
    setting: str
    old: Any
    new: Any
    effect: Effect


# Which way a number is tighter: -1 lower, 1 higher. What is not named is neutral.
_DIRECTIONS: Final[Mapping[str, Mapping[str, int]]] = {
    "budgets": {"attempts": -1, "seconds": -1, "context_tokens": -1},
    "team_budgets": {"tokens": -1, "attempts": -1},
    "paths": {"reviewers": 1},
    "breakers": {
        "same_cause": -1,
        "window_minimum": -1,
        "failure_share": -1,
        "open_seconds": 1,
        "open_cap_seconds": 1,
        "probe_successes": 1,
    },
    "gates": {"usage_share": -1, "max_target_commits": -1, "max_diff_bytes": -1, "max_changed_files": -1},
    "retry_ratio": {"share": -1, "minimum_starts": -1, "hold_seconds": 1},
}
_TABLES: Final = ("backoff", "breakers", "gates", "retry_ratio", "retention")


def differences(old: Policy, new: Policy) -> list[Difference]:
    """Every difference, in the order in which a person checks them: rules, budgets, paths, gates, the rest."""
    return [
        *_rules(old.rules, new.rules),
        *_named(
            "budgets",
            {_budget_name(each): each for each in old.budgets},
            {_budget_name(each): each for each in new.budgets},
        ),
        *_named("team_budgets", _by_service(old.team_budgets), _by_service(new.team_budgets)),
        *_paths(old.paths, new.paths),
        *(found for table in _TABLES for found in _settings(table, "", getattr(old, table), getattr(new, table))),
        *_signals(old.signals, new.signals),
    ]


def retry_table(policy: Policy) -> dict[str, Rule]:
    """Every rule that repeats by itself, by its id."""
    return {rule.id: rule for rule in policy.rules if rule.action in REPEATS}


def _rules(old: Iterable[Rule], new: Iterable[Rule]) -> Iterator[Difference]:
    before, after = {rule.id: rule for rule in old}, {rule.id: rule for rule in new}
    for name in (*after, *(name for name in before if name not in after)):
        was, now = before.get(name), after.get(name)
        if was is None or now is None:
            rule = was or now
            assert rule is not None
            loosens = (rule.action in REPEATS) == (was is None)
            yield Difference("rules", name, "", was, now, Effect.LOOSER if loosens else Effect.TIGHTER)
        else:
            yield from _rule(was, now)
    shared = [name for name in before if name in after]
    if shared != [name for name in after if name in before]:
        yield Difference("rules", "", "order", tuple(before), tuple(after), Effect.NEUTRAL)


def _rule(was: Rule, now: Rule) -> Iterator[Difference]:
    for field in fields(Rule):
        before, after = getattr(was, field.name), getattr(now, field.name)
        if before == after:
            continue
        effect = Effect.NEUTRAL
        if field.name == "action":
            effect = _compared(ACTIONS.index(before), ACTIONS.index(after), -1)
        elif field.name == "max_retries":
            effect = _compared(before, after, -1)
        yield Difference("rules", was.id, field.name, before, after, effect)


def _signals(old: Iterable[Signal], new: Iterable[Signal]) -> Iterator[Difference]:
    before, after = {signal.name: signal for signal in old}, {signal.name: signal for signal in new}
    for name in (*after, *(name for name in before if name not in after)):
        if before.get(name) != after.get(name):
            yield Difference("signals", name, "", before.get(name), after.get(name), Effect.NEUTRAL)


def _paths(old: Iterable[PathRule], new: Iterable[PathRule]) -> Iterator[Difference]:
    before, after = {rule.name: rule for rule in old}, {rule.name: rule for rule in new}
    for name in (*after, *(name for name in before if name not in after)):
        was, now = before.get(name), after.get(name)
        if was is None or now is None:
            yield Difference("paths", name, "", was, now, Effect.TIGHTER if was is None else Effect.LOOSER)
            continue
        if set(was.globs) != set(now.globs):
            lost = set(was.globs) - set(now.globs)
            yield Difference("paths", name, "globs", was.globs, now.globs, Effect.LOOSER if lost else Effect.TIGHTER)
        yield from _settings("paths", name, was, now, skip=("globs",))


def _named(area: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[Difference]:
    """Limits by name: one more limit is tighter, one fewer is looser."""
    for name in (*after, *(name for name in before if name not in after)):
        was, now = before.get(name), after.get(name)
        if was is None or now is None:
            yield Difference(area, name, "", was, now, Effect.TIGHTER if was is None else Effect.LOOSER)
        else:
            yield from _settings(area, name, was, now)


def _settings(area: str, name: str, was: Any, now: Any, skip: tuple[str, ...] = ()) -> Iterator[Difference]:
    for field in fields(was):
        before, after = getattr(was, field.name), getattr(now, field.name)
        if before == after or field.name in skip:
            continue
        if field.name == "tools":
            yield Difference(area, name, "tools", before, after, _tools(before, after))
        else:
            direction = _DIRECTIONS.get(area, {}).get(field.name, 0)
            yield Difference(area, name, field.name, before, after, _compared(before, after, direction))


def _compared(before: float | None, after: float | None, direction: int) -> Effect:
    """None is no limit: larger than any number."""
    if not direction:
        return Effect.NEUTRAL
    grew = (float("inf") if after is None else after) > (float("inf") if before is None else before)
    return Effect.TIGHTER if grew == (direction > 0) else Effect.LOOSER


def _tools(before: frozenset[str], after: frozenset[str]) -> Effect:
    """Empty allows any tool."""
    if not before or (after and after < before):
        return Effect.TIGHTER
    return Effect.LOOSER


def _budget_name(budget: Budget) -> str:
    return f"{budget.risk}/{budget.action}" if budget.action else budget.risk


def _by_service(budgets: Iterable[TeamBudget]) -> dict[str, TeamBudget]:
    return {budget.service: budget for budget in budgets}
