"""The way of one job through its states as a drawing: boxes that were visited, arrows that were walked."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from jobs.core.states import FINAL, State
from reviews.templatetags.console import age
from reviews.timeline import Happening

BOX = (150.0, 42.0)
# Upper left corners in a drawing of 976 × 176. Failed and cancelled share a place: a job ends in one of them.
PLACES = {
    State.QUEUED: (1.0, 10.0),
    State.RUNNING: (276.0, 10.0),
    State.VERIFYING: (551.0, 10.0),
    State.ACCEPTED: (825.0, 10.0),
    State.PAUSED: (1.0, 122.0),
    State.FAILED_RETRYABLE: (276.0, 122.0),
    State.REVIEW: (551.0, 122.0),
    State.FAILED_TERMINAL: (825.0, 122.0),
    State.CANCELLED: (825.0, 122.0),
}
USUAL = (
    (State.QUEUED, State.RUNNING),
    (State.RUNNING, State.VERIFYING),
    (State.VERIFYING, State.ACCEPTED),
    (State.VERIFYING, State.REVIEW),
    (State.RUNNING, State.FAILED_RETRYABLE),
    (State.FAILED_RETRYABLE, State.RUNNING),
    (State.REVIEW, State.FAILED_TERMINAL),
)


@dataclass(frozen=True, slots=True)
class Box:
    """A state: `kind` is was, now or can; `note` is how long or how often."""

    state: str
    kind: str
    x: float
    y: float
    note: str


@dataclass(frozen=True, slots=True)
class Arrow:
    """From one box to another: `kind` is was or can; `note` stands at (`x`, `y`) when it was walked repeatedly."""

    kind: str
    line: str
    x: float
    y: float
    note: str


@dataclass(frozen=True, slots=True)
class StatePath:
    """The whole drawing and the same in a sentence."""

    boxes: list[Box]
    arrows: list[Arrow]
    title: str


def state_path(happenings: Sequence[Happening], now: datetime) -> StatePath:
    """The drawing for these events, oldest first; the last state is held until `now` or for ever."""
    moves = [each for each in happenings if each.target]
    if not moves:
        return StatePath([], [], "")
    here = State(moves[-1].target)
    spent: Counter[str] = Counter()
    for move, after in zip(moves, [*moves[1:], None], strict=True):
        spent[move.target] += max(0, int(((after.at if after else now) - move.at).total_seconds()))
    visits = Counter(move.target for move in moves)
    hidden = State.FAILED_TERMINAL if here is State.CANCELLED else State.CANCELLED
    boxes = [_box(state, here, visits, spent) for state in PLACES if state is not hidden]
    walked = Counter((State(move.source), State(move.target)) for move in moves if move.source)
    usual = [pair for pair in USUAL if pair not in walked and hidden not in pair]
    arrows = [_arrow(pair, "can", 0) for pair in usual] + [_arrow(pair, "was", n) for pair, n in walked.items()]
    steps = " → ".join(move.target for move in moves)
    return StatePath(boxes, arrows, _("The job's way so far: %(steps)s.") % {"steps": steps})


def _box(state: State, here: State, visits: Counter[str], spent: Counter[str]) -> Box:
    x, y = PLACES[state]
    if state not in visits:
        return Box(state, "can", x, y, _("not reached"))
    if state is here:
        note = _("now") if state in FINAL else _("now, for %(time)s") % {"time": age(spent[state])}
        return Box(state, "now", x, y, note)
    times = ngettext("%(n)d time", "%(n)d times", visits[state]) % {"n": visits[state]}
    return Box(state, "was", x, y, f"{times}, {age(spent[state])}")


def _arrow(pair: tuple[State, State], kind: str, walked: int) -> Arrow:
    (x1, y1), (x2, y2) = PLACES[pair[0]], PLACES[pair[1]]
    width, height = BOX
    if y1 == y2:  # along a row, from side to side
        start, end = (x1 + width, x2 - 2) if x1 < x2 else (x1, x2 + width + 2)
        y = y1 + height / 2
        return _made(kind, walked, (start, y), (end, y), (0, -9))
    down = y1 < y2
    start_y, end_y = (y1 + height, y2 - 2) if down else (y1, y2 + height + 2)
    if x1 == x2:  # in a column: down on the left, up on the right
        x = x1 + (55 if down else 95)
        return _made(kind, walked, (x, start_y), (x, end_y), (-30 if down else 30, 4))
    left, right = (x1 + width - 12, x2 + 12) if x1 < x2 else (x1 + 12, x2 + width - 12)
    return _made(kind, walked, (left, start_y), (right, end_y), (14, -4))


def _made(
    kind: str, walked: int, start: tuple[float, float], end: tuple[float, float], shift: tuple[float, float]
) -> Arrow:
    note = _("%(n)d times") % {"n": walked} if walked > 1 else ""
    x, y = (start[0] + end[0]) / 2 + shift[0], (start[1] + end[1]) / 2 + shift[1]
    return Arrow(kind, f"M{start[0]:g} {start[1]:g}L{end[0]:g} {end[1]:g}", x, y, note)
