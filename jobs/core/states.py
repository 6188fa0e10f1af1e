"""The state machine as one table: states, events, legal pairs, what flags make of a leaving event (S1, S2)."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class State(StrEnum):
    """Where a job is. The words are the spec's (S1)."""

    QUEUED = "queued"
    RUNNING = "running"
    VERIFYING = "verifying"
    ACCEPTED = "accepted"
    FAILED_RETRYABLE = "failed_retryable"
    FAILED_TERMINAL = "failed_terminal"
    REVIEW = "review"
    PAUSED = "paused"
    CANCELLED = "cancelled"


READY = (State.QUEUED, State.FAILED_RETRYABLE)
ACTIVE = (State.RUNNING, State.VERIFYING)
FINAL = (State.ACCEPTED, State.FAILED_TERMINAL, State.CANCELLED)
LIVE = tuple(state for state in State if state not in FINAL)


class Event(StrEnum):
    """What moves a job. `retry`, `expire` and `release` are the engine's; `rerun` is a person's."""

    ENQUEUE = "enqueue"
    CLAIM = "claim"
    VERIFY = "verify"
    ACCEPT = "accept"
    RETRY = "retry"
    EXPIRE = "expire"
    RELEASE = "release"
    PAUSE = "pause"
    STOP = "stop"
    HOLD = "hold"
    RECOVER = "recover"
    CONFIRM = "confirm"
    APPROVE = "approve"
    RESUME = "resume"
    RERUN = "rerun"
    SUPPLY = "supply"
    REQUEST_CHANGES = "request_changes"
    RESOLVE = "resolve"
    REJECT = "reject"
    CANCEL = "cancel"


DECISIONS = (
    Event.CONFIRM,
    Event.APPROVE,
    Event.RESUME,
    Event.RERUN,
    Event.SUPPLY,
    Event.REQUEST_CHANGES,
    Event.RESOLVE,
)


def _table() -> dict[tuple[State | None, Event], State]:
    table: dict[tuple[State | None, Event], State] = {
        (None, Event.ENQUEUE): State.QUEUED,
        (State.QUEUED, Event.CLAIM): State.RUNNING,
        (State.FAILED_RETRYABLE, Event.CLAIM): State.RUNNING,
        (State.RUNNING, Event.VERIFY): State.VERIFYING,
        (State.VERIFYING, Event.ACCEPT): State.ACCEPTED,
        (State.PAUSED, Event.RECOVER): State.QUEUED,
        (State.REVIEW, Event.REJECT): State.FAILED_TERMINAL,
    }
    for state in ACTIVE:
        table[state, Event.RETRY] = State.FAILED_RETRYABLE
        table[state, Event.EXPIRE] = State.FAILED_RETRYABLE
        table[state, Event.RELEASE] = State.FAILED_RETRYABLE
        table[state, Event.STOP] = State.FAILED_TERMINAL
    for state in (*READY, *ACTIVE):
        table[state, Event.PAUSE] = State.PAUSED
        table[state, Event.HOLD] = State.REVIEW
    table[State.PAUSED, Event.HOLD] = State.REVIEW
    for event in DECISIONS:
        table[State.REVIEW, event] = State.QUEUED
    for state in LIVE:
        table[state, Event.CANCEL] = State.CANCELLED
    return table


TRANSITIONS: Mapping[tuple[State | None, Event], State] = _table()

# What the database lets through: pairs of states, whatever the event was called.
PAIRS = tuple(sorted({(source, target) for (source, _), target in TRANSITIONS.items() if source is not None}))


@dataclass(frozen=True, slots=True)
class Flags:
    """What was asked of a job while a worker held it, and whether an external act has no known outcome."""

    open_intent: bool = False
    cancel_requested: bool = False
    pause_requested: bool = False


def leaving(event: Event, flags: Flags) -> Event:
    """The event that really happens when a job leaves running or verifying (design section 2).

    Order: open intent → review; else cancel → cancelled; else pause → paused; else the event's own target.
    A finished job is finished: `accept` yields only to an open intent. A hold is never paused away (S3).
    """
    if flags.open_intent:
        return Event.HOLD
    if event is Event.ACCEPT:
        return event
    if flags.cancel_requested:
        return Event.CANCEL
    if flags.pause_requested and event not in (Event.HOLD, Event.STOP, Event.CANCEL):
        return Event.PAUSE
    return event


def mermaid() -> str:
    """The diagram in jobs/README.md, generated so that it cannot drift from the table."""
    arrows: dict[tuple[str, str], list[str]] = {}
    for (source, event), target in TRANSITIONS.items():
        arrows.setdefault((source or "[*]", target), []).append(event)
    lines = [f"    {source} --> {target}: {', '.join(events)}" for (source, target), events in arrows.items()]
    lines += [f"    {state} --> [*]" for state in FINAL]
    return "\n".join(["stateDiagram-v2", *lines])
