"""An attempt as a card: its stages as bars, how it ended, what came too late."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from django.utils.translation import gettext as _

from jobs.models import Attempt, Checkpoint
from jobs.services import artifacts
from jobs.wording import reason_text, stage_text

WIDTH = 960
LEAST = 120.0  # a bar's words need this much room, whatever its share of the time
LATE_FILES = 10
TEXT_BYTES = 16 * 1024


@dataclass(frozen=True, slots=True)
class Bar:
    """One stage of an attempt: its place in a drawing 960 wide, its tone, its words. `reached`: it was begun."""

    x: float
    width: float
    tone: str
    reached: bool
    name: str
    note: str


@dataclass(frozen=True, slots=True)
class Card:
    """An attempt with what belongs to it."""

    attempt: Attempt
    tone: str
    bars: list[Bar]
    todo: str
    late: list[tuple[str, str]]
    why: str


def cards(attempts: Iterable[Attempt], checkpoints: Sequence[Checkpoint], stages: Sequence[str]) -> list[Card]:
    """The attempts in the order given."""
    return [
        Card(
            attempt=attempt,
            tone=_TONES.get(attempt.outcome, "warn"),
            bars=_bars(attempt, [point for point in checkpoints if point.fence == attempt.fence], stages),
            todo=_text(artifacts.attempt_dir(attempt.job_id, attempt.fence) / "todo.md"),
            late=late_results(artifacts.attempt_dir(attempt.job_id, attempt.fence)),
            why=reason_text(attempt.stop_reason),
        )
        for attempt in attempts
    ]


def late_results(folder: Path) -> list[tuple[str, str]]:
    """Name and text of what an attempt brought after it had lost its lease: kept, never used (L2)."""
    return [(path.name, _text(path)) for path in sorted(folder.glob("late-*.json"))[:LATE_FILES]]


def _text(path: Path) -> str:
    """The first 16 KiB of a kept file; "" when it is not there or not on this machine."""
    try:
        with path.open("rb") as file:
            text = file.read(TEXT_BYTES + 1)
    except OSError:
        return ""
    whole = text[:TEXT_BYTES].decode(errors="replace")
    return f"{whole}\n{_('(the rest is left out)')}" if len(text) > TEXT_BYTES else whole


def _bars(attempt: Attempt, points: Sequence[Checkpoint], stages: Sequence[str]) -> list[Bar]:
    seconds = {point.stage: point.seconds for point in points}
    begun = stages.index(attempt.first_stage) if attempt.first_stage in stages else 0
    at = next((place for place in range(begun, len(stages)) if stages[place] not in seconds), len(stages))
    parts = [_part(place, stage, begun, at, seconds, attempt) for place, stage in enumerate(stages)]
    total = sum(share for share, *_rest in parts) or 1.0
    spare = max(0.0, WIDTH - LEAST * len(parts))
    bars, x = [], 0.0
    for share, tone, reached, note, name in parts:
        width = LEAST + spare * share / total
        bars.append(Bar(round(x + 0.5, 1), round(width - 4, 1), tone, reached, name, note))
        x += width
    return bars


def _part(
    place: int, stage: str, begun: int, at: int, seconds: dict[str, float], attempt: Attempt
) -> tuple[float, str, bool, str, str]:
    """A stage's share of the time, tone, whether it was begun, note, name."""
    name = stage_text(stage)
    if place < begun:
        return 0.0, "idle", False, _("kept from before"), name
    if stage in seconds:
        took = seconds[stage]
        return took, "good", True, _("%(seconds).1f s, verified") % {"seconds": took}, name
    if place > at:
        return 0.0, "idle", False, _("not reached"), name
    if attempt.ended_at is None:
        return 0.0, "live", True, _("now"), name
    rest = max(0.0, (attempt.seconds or 0.0) - sum(seconds.values()))
    return rest, "warn", True, _("ended here"), name


_TONES = {"": "live", "accepted": "good", "cancelled": "idle", "released": "idle", "paused": "warn", "stopped": "bad"}
