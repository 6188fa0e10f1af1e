"""What a job and a team may still use, checked before the next step and never after the bill (B1, B2, B3)."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Final

from jobs.core.policy import RetryRatio, TeamBudget

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class StopReason(StrEnum):
    """Which budget is used up."""

    ATTEMPTS = "attempts_used_up"
    SECONDS = "seconds_used_up"
    TOKENS = "tokens_used_up"
    DEADLINE = "deadline"
    TOOLS = "tools"


@dataclass(frozen=True, slots=True)
class BudgetState:
    """A job's use and its maxima. `seconds` is wall clock over all attempts, `tokens` context tokens over all attempts.

    `tokens` None means that an attempt did not report its use: unknown, which is never counted as 0. A maximum of
    None is no limit. `tools_allowed` empty means any tool. `takeover` names the person who is told (H3).
    """

    attempts: int
    max_attempts: int
    seconds: float = 0.0
    max_seconds: float | None = None
    tokens: int | None = 0
    max_tokens: int | None = None
    deadline: datetime | None = None
    tools_used: frozenset[str] = frozenset()
    tools_allowed: frozenset[str] = frozenset()
    takeover: str = ""


@dataclass(frozen=True, slots=True)
class Remaining:
    """What is left. None: no limit, or for tokens (with `tokens_known` False) nobody knows."""

    attempts: int
    seconds: float | None = None
    tokens: int | None = None
    tokens_known: bool = True


@dataclass(frozen=True, slots=True)
class TeamUse:
    """What a team has used of one service in the current window and what running attempts have reserved."""

    tokens: int = 0
    attempts: int = 0
    reserved_tokens: int = 0
    reserved_attempts: int = 0


@dataclass(frozen=True, slots=True)
class Room:
    """Whether a claim may start under a team budget; if not, what is full and when the window ends (B3)."""

    free: bool
    full: str = ""
    until: datetime | None = None


def used_up(
    state: BudgetState, now: datetime | None = None, *, charging: bool = True, delay: float = 0.0
) -> StopReason | None:
    """Which budget forbids the next step; None when it may go on.

    `charging` False leaves out the attempts, for steps that are not charged (B1). `delay` is the wait in seconds before
    the next step: a step that could only start after the deadline is forbidden now.
    """
    if state.tools_allowed and not state.tools_used <= state.tools_allowed:
        return StopReason.TOOLS
    if state.deadline is not None and now is not None:
        _refuse_naive(now, state.deadline)
        if now + timedelta(seconds=delay) >= state.deadline:
            return StopReason.DEADLINE
    if state.max_seconds is not None and state.seconds >= state.max_seconds:
        return StopReason.SECONDS
    if state.max_tokens is not None and state.tokens is not None and state.tokens >= state.max_tokens:
        return StopReason.TOKENS
    if charging and state.attempts >= state.max_attempts:
        return StopReason.ATTEMPTS
    return None


def remaining(state: BudgetState) -> Remaining:
    """What is left of each budget, never below 0."""
    known = state.tokens is not None
    tokens = None
    if state.max_tokens is not None and state.tokens is not None:
        tokens = max(0, state.max_tokens - state.tokens)
    return Remaining(
        attempts=max(0, state.max_attempts - state.attempts),
        seconds=None if state.max_seconds is None else max(0.0, state.max_seconds - state.seconds),
        tokens=tokens,
        tokens_known=known,
    )


def retries_over_share(retries: int, starts: int, ratio: RetryRatio) -> bool:
    """True when one more retry would exceed the policy's share of all starts in the window; few starts never do."""
    if starts < ratio.minimum_starts:
        return False
    return (retries + 1) / (starts + 1) > ratio.share


def window_of(now: datetime, seconds: int) -> tuple[datetime, datetime]:
    """Start and end of the team window that holds `now`; windows are aligned to UTC, so every host sees the same."""
    _refuse_naive(now)
    passed = int((now - _EPOCH).total_seconds()) // seconds
    start = _EPOCH + timedelta(seconds=passed * seconds)
    return start, start + timedelta(seconds=seconds)


def team_room(use: TeamUse, budget: TeamBudget, now: datetime, tokens: int = 0) -> Room:
    """Whether one more attempt expected to need `tokens` may start. Reservations of running attempts count as used."""
    _start, end = window_of(now, budget.window_seconds)
    if budget.attempts is not None and use.attempts + use.reserved_attempts + 1 > budget.attempts:
        return Room(free=False, full="attempts", until=end)
    taken = use.tokens + use.reserved_tokens
    if budget.tokens is not None and (taken >= budget.tokens or taken + tokens > budget.tokens):
        return Room(free=False, full="tokens", until=end)
    return Room(free=True)


def _refuse_naive(*times: datetime) -> None:
    for time in times:
        if time.tzinfo is None:
            raise ValueError("a time without a zone cannot be compared (L4)")
