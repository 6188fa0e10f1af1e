"""A measured figure beside its raw one, its floor and its goal."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Figure:
    """`raw` is the same done by raw SQL in the same run, `rows` raw SQL that writes the very same rows.

    `judged` is what floor and goal are about: the value itself or its ratio to `raw`. `least` says which way is
    good. None where there is nothing to compare with. `ratios` are those of single rounds: their median counts more
    than the ratio of two medians while the machine's own speed goes up and down.
    """

    name: str
    value: float
    unit: str
    raw: float | None = None
    rows: float | None = None
    floor: float | None = None
    goal: float | None = None
    by_ratio: bool = False
    least: bool = False
    middle: float | None = None  # the median, where the value is a percentile
    ratios: tuple[float, ...] = ()

    @property
    def ratio(self) -> float | None:
        if self.ratios:
            return middle(self.ratios)
        return self.value / self.raw if self.raw else None

    @property
    def judged(self) -> float:
        return (self.ratio or 0.0) if self.by_ratio else self.value

    @property
    def verdict(self) -> str:
        """`goal`, `floor` or `below`: the best bar that is reached; empty without a bar."""
        if self._reaches(self.goal):
            return "goal"
        if self.floor is None and self.goal is None:
            return ""
        return "floor" if self._reaches(self.floor) else "below"

    def _reaches(self, bar: float | None) -> bool:
        if bar is None:
            return False
        return self.judged <= bar if self.least else self.judged >= bar

    def row(self) -> dict[str, Any]:
        """What `--json` prints of it."""
        return {
            "name": self.name,
            "value": round(self.value, 3),
            "unit": self.unit,
            "median": _rounded(self.middle),
            "raw": _rounded(self.raw),
            "same_rows": _rounded(self.rows),
            "ratio": _rounded(self.ratio),
            "floor": self.floor,
            "goal": self.goal,
            "judged_by": "ratio" if self.by_ratio else "value",
            "reached": self.verdict,
        }


def percentile(values: Sequence[float], percent: int) -> float:
    """The smallest value that so many per cent of the values do not exceed."""
    ordered = sorted(values)
    return ordered[max(0, -(-len(ordered) * percent // 100) - 1)]


def middle(values: Sequence[float]) -> float:
    return statistics.median(values)


def table(rows: Sequence[dict[str, Any]]) -> str:
    """The figures for a person, one a line."""
    head = ("what", "figure", "unit", "median", "raw", "same rows", "ratio", "floor", "goal", "judged by", "reached")
    keys = ("name", "value", "unit", "median", "raw", "same_rows", "ratio", "floor", "goal", "judged_by", "reached")
    lines = [head, *(tuple(_text(row[key]) for key in keys) for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
    return "\n".join(
        "  ".join(
            text.ljust(width) if column in (0, 2) else text.rjust(width)
            for column, (text, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    )


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 3)


def _text(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
    return str(value)
