"""Policy versions as the console shows them: the list, differences in words, the matrix of a replay (P1, P2)."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import Count, Max, Min
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from jobs.core.decisions import Action
from jobs.core.policy import Budget, PathRule, Policy, Rule, Signal, TeamBudget
from jobs.core.policy_diff import Difference, differences, retry_table
from jobs.models import FailureRecord, PolicyActivation, PolicyVersion
from jobs.simulation import Simulation, effect_of
from reviews.decisions import action_text

EFFECTS = {"tighter": gettext_lazy("tighter"), "looser": gettext_lazy("looser"), "neutral": gettext_lazy("neutral")}
TONES = {"tighter": "good", "looser": "warn", "neutral": "idle"}
_SHADES = {"tighter": "tight", "looser": "loose", "neutral": ""}
COLUMNS = (Action.RETRY, Action.WAIT, Action.PAUSE, Action.HUMAN_CHECK, Action.OPEN_CIRCUIT, Action.STOP)
LONG = 160


@dataclass(frozen=True, slots=True)
class Listed:
    """A version in the list. `activated` is its newest activation; `jobs` were decided about under it."""

    version: PolicyVersion
    active: bool
    activated: PolicyActivation | None
    decisions: int
    jobs: int
    first: datetime | None
    last: datetime | None


@dataclass(frozen=True, slots=True)
class Row:
    """One difference in words."""

    setting: str
    old: str
    new: str
    effect: str
    tone: str


@dataclass(frozen=True, slots=True)
class Repeats:
    """A rule that repeats by itself in one of two versions, and how in each."""

    name: str
    class_: str
    old: str
    new: str

    @property
    def same(self) -> bool:
        return self.old == self.new


@dataclass(frozen=True, slots=True)
class Cell:
    """How often one action became another."""

    count: int
    effect: str
    tone: str


def listed() -> list[Listed]:
    """Every version, newest first."""
    used = {row.pop("policy_number"): row for row in _used()}
    activations: dict[int, PolicyActivation] = {}
    newest = None
    for activation in PolicyActivation.objects.order_by("pk"):
        activations[activation.version_id] = newest = activation
    return [
        Listed(
            version=version,
            active=newest is not None and newest.version_id == version.pk,
            activated=activations.get(version.pk),
            **used.get(version.number, {"decisions": 0, "jobs": 0, "first": None, "last": None}),
        )
        for version in PolicyVersion.objects.select_related("parent").defer("document", "source").order_by("-number")
    ]


def _used() -> Iterable[dict[str, Any]]:
    counts = FailureRecord.objects.order_by().values("policy_number")
    found = counts.annotate(decisions=Count("pk"), jobs=Count("job", distinct=True), first=Min("at"), last=Max("at"))
    return [dict(row) for row in found]


def rows(old: Policy, new: Policy) -> list[Row]:
    """What differs, in words."""
    return [_row(found) for found in differences(old, new)]


def repeats(old: Policy, new: Policy) -> list[Repeats]:
    """The retry table: every rule that repeats by itself in either version."""
    before, after = retry_table(old), retry_table(new)
    return [
        Repeats(name, (after.get(name) or before[name]).class_, _repeat(before.get(name)), _repeat(after.get(name)))
        for name in (*after, *(name for name in before if name not in after))
    ]


def matrix(found: Simulation) -> list[tuple[str, list[Cell], int]]:
    """Old action in rows, new action in columns, with the sum; rows without cases are left out."""
    counts = found.matrix
    table = []
    for old in COLUMNS:
        cells = [_cell(old, new, counts[old, new]) for new in COLUMNS]
        if total := sum(cell.count for cell in cells):
            table.append((action_text(old), cells, total))
    return table


def columns() -> list[str]:
    return [action_text(action) for action in COLUMNS]


def _cell(old: Action, new: Action, count: int) -> Cell:
    effect = effect_of(old, new)
    if not count or old is new:
        return Cell(count, "", "same")
    return Cell(count, str(EFFECTS[effect]), _SHADES[effect])


def _row(found: Difference) -> Row:
    old, new = _values(found)
    return Row(_setting(found), old, new, str(EFFECTS[found.effect]), TONES[found.effect])


def _setting(found: Difference) -> str:
    area = str(_AREAS.get(found.area, found.area))
    if found.setting:
        setting = str(_SETTINGS.get(found.setting, found.setting.replace("_", " ")))
        return f"{area} {found.name}: {setting}" if found.name else f"{area}: {setting}"
    if found.old is None:
        return _("New: %(what)s") % {"what": f"{area} {found.name}"}
    if found.new is None:
        return _("Gone: %(what)s") % {"what": f"{area} {found.name}"}
    return f"{area} {found.name}"


def _values(found: Difference) -> tuple[str, str]:
    if found.setting == "order":
        return _("as before"), _("another order; the first rule that holds decides")
    if isinstance(found.old, Signal) and isinstance(found.new, Signal):
        old, new = _parts(found.old), _parts(found.new)
        return _cut(", ".join(sorted(old - new))), _cut(", ".join(sorted(new - old)))
    return _text(found.old, found.setting), _text(found.new, found.setting)


def _text(value: Any, setting: str) -> str:
    if value is None:
        return _("none") if not setting else _("no limit")
    if isinstance(value, Rule):
        return _cut(f"{value.class_}, {_repeat(value)}: {value.why}")
    if isinstance(value, Budget | TeamBudget):
        most = {"attempts": value.attempts, "seconds": getattr(value, "seconds", None)}
        return ", ".join(f"{name} {amount}" for name, amount in most.items() if amount is not None)
    if isinstance(value, PathRule):
        return _cut(", ".join(value.globs))
    if isinstance(value, Signal):
        return _cut(", ".join(sorted(_parts(value))))
    if isinstance(value, frozenset | tuple):
        return _cut(", ".join(map(str, sorted(value) if isinstance(value, frozenset) else value))) or _("none")
    if isinstance(value, int | float) and not isinstance(value, bool):
        return f"{value:,}" if isinstance(value, int) else f"{value:g}"
    return _cut(str(value))


def _parts(signal: Signal) -> set[str]:
    typed = {*signal.codes, *map(str, signal.statuses), *(f"exit {code}" for code in signal.exit_codes)}
    return {*signal.text, *signal.types, *typed}


def _repeat(rule: Rule | None) -> str:
    if rule is None:
        return _("no rule")
    if rule.max_retries is None:
        return rule.action
    return _("%(action)s, at most %(count)d") % {"action": rule.action, "count": rule.max_retries}


def _cut(text: str) -> str:
    return text if len(text) <= LONG else f"{text[:LONG]}…"


_AREAS = {
    "rules": gettext_lazy("Rule"),
    "signals": gettext_lazy("Signal"),
    "budgets": gettext_lazy("Budget"),
    "team_budgets": gettext_lazy("Team budget"),
    "paths": gettext_lazy("Path rule"),
    "backoff": gettext_lazy("Backoff"),
    "breakers": gettext_lazy("Breakers"),
    "gates": gettext_lazy("Gates"),
    "retry_ratio": gettext_lazy("Retry ratio"),
    "retention": gettext_lazy("Retention"),
}
_SETTINGS = {
    "class_": gettext_lazy("class"),
    "why": gettext_lazy("explanation"),
    "all": gettext_lazy("all of"),
    "any": gettext_lazy("any of"),
    "none": gettext_lazy("none of"),
    "max_retries": gettext_lazy("retries at most"),
    "seconds": gettext_lazy("wall clock, seconds"),
    "context_tokens": gettext_lazy("context tokens"),
    "base_seconds": gettext_lazy("first wait, seconds"),
    "cap_seconds": gettext_lazy("longest wait, seconds"),
    "jitter_seconds": gettext_lazy("jitter, seconds"),
    "globs": gettext_lazy("paths"),
}
