"""The door: the only code that writes `Job.state` (S2).

`transition` looks the event up in the one table and writes job, audit and everything that belongs to the change
in one fenced write. `record` writes an audited fact that changes no state. Both compare-and-set on the numbers
the caller last saw; when only the audit number moved (somebody set a flag), they read again and try again.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from jobs.core.states import ACTIVE, FINAL, READY, TRANSITIONS, Event, Flags, State, leaving
from jobs.errors import IllegalTransition, LeaseLost, StaleJob
from jobs.history import AUDITED
from jobs.models import Attempt, Job, ReviewCase, SideEffect
from jobs.models.attempt import Outcome
from jobs.models.side_effect import OPEN_OUTCOMES
from jobs.services import audit, statement
from jobs.services.audit import Entry
from jobs.services.openings import opening
from jobs.services.statement import Insert, Sql, Update, Write

ENDED_AS = {
    Event.ACCEPT: Outcome.ACCEPTED,
    Event.RETRY: Outcome.RETRY,
    Event.EXPIRE: Outcome.EXPIRED,
    Event.RELEASE: Outcome.RELEASED,
    Event.PAUSE: Outcome.PAUSED,
    Event.STOP: Outcome.STOPPED,
    Event.HOLD: Outcome.HELD,
    Event.CANCEL: Outcome.CANCELLED,
}
# These end an attempt that did not use up a try of the budget (B1).
GIVES_BACK = (Event.RELEASE, Event.PAUSE)


@dataclass(frozen=True, slots=True)
class Held:
    """What a writer last saw of a job: its numbers for compare-and-set, its flags, its budget."""

    id: int
    state: State
    version: int
    fence: int
    audit_seq: int
    audit_head: str
    charged: int
    max_attempts: int
    free_claim: bool
    crashes: int
    cancel_requested: bool
    pause_requested: str
    pause_reason: str
    result_digest: str
    open_intent: bool
    policy: int
    worker: str = ""
    attempt_charged: bool = False

    @property
    def flags(self) -> Flags:
        return Flags(self.open_intent, self.cancel_requested, bool(self.pause_requested))


@dataclass(frozen=True, slots=True)
class Change:
    """What goes with an event: columns of the job, facts for the audit, columns of the attempt, further rows."""

    job: Mapping[str, Any] = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict)
    attempt: Mapping[str, Any] = field(default_factory=dict)
    also: Sequence[Insert | Update] = ()
    before: Sequence[Entry] = ()  # audited first, in the same write: a checkpoint, an intent's fate
    only_if: Sql | None = None  # a condition over jobs_job that must hold at the moment of the write


def load(job_id: int, *, policy: int = 0, worker: str = "") -> Held:
    """The job as it stands. Raises Job.DoesNotExist. `policy` is the version that the next events will name."""
    row = Job.objects.values(*_COLUMNS).get(pk=job_id)
    row["state"] = State(row["state"])
    charged = row["state"] in ACTIVE and bool(
        Attempt.objects.filter(job_id=job_id, fence=row["fence"], charged=True).exists()
    )
    return Held(**row, open_intent=_has_open_intent(job_id), policy=policy, worker=worker, attempt_charged=charged)


def transition(
    held: Held, event: Event, *, actor: str, at: datetime, reason: str = "", change: Change | None = None
) -> Held:
    """The job is in the event's target state, audited; or nothing is written.

    Out of running and verifying the job's flags decide first (`core.states.leaving`), so the event that happens
    may be another one: read `state` of what is returned. Raises IllegalTransition, StaleJob (LeaseLost when
    `held.worker` is set).
    """
    while True:
        _require_legal(held, event)
        happened, why = _happens(held, event, reason)
        written = _write(held, happened, actor, at, why, change or Change())
        if written is not None:
            return written
        held = _again(held)


def record(
    held: Held,
    entry: Entry,
    *,
    job: Mapping[str, Any] | None = None,
    also: Sequence[Insert | Update] = (),
    only_if: Sql | None = None,
) -> Held:
    """The entry is the job's newest event; its state and version stay. Raises StaleJob or LeaseLost."""
    while True:
        values = dict(job or {})
        whole = replace(entry, policy=held.policy or None, set=_audited(values) | dict(entry.set))
        rows, head, seq = audit.chain(f"job:{held.id}", held.audit_head, held.audit_seq, [whole])
        where = _fence(held) | ({"only_if": only_if} if only_if else {})
        if statement.run(Write(where, {**values, "audit_seq": seq, "audit_head": head}, rows, also)):
            return replace(_refreshed(held, values, also), audit_seq=seq, audit_head=head)
        held = _again(held)


def _require_legal(held: Held, event: Event) -> None:
    """Asked before the flags are: they turn a legal event into another one, never an illegal event into a legal one."""
    if (held.state, event) not in TRANSITIONS:
        raise IllegalTransition(f"Job J-{held.id} is {held.state}: {event} is not possible from there.")


def _happens(held: Held, event: Event, reason: str) -> tuple[Event, str]:
    if held.state not in ACTIVE or event is Event.VERIFY:
        return event, reason
    happened = leaving(event, held.flags)
    if happened is Event.PAUSE and held.pause_requested:
        return happened, held.pause_requested  # who asked names the condition that ends the pause
    if happened is event:
        return event, reason
    return happened, "side_effect_unknown" if held.open_intent else "cancel_requested"


def _write(held: Held, event: Event, actor: str, at: datetime, reason: str, change: Change) -> Held | None:
    target = TRANSITIONS[held.state, event]
    values = {**_follows(held, event, target, at, reason, change), "state": target, "version": held.version + 1}
    entry = Entry(
        event,
        actor,
        at,
        reason,
        held.policy or None,
        held.version + 1,
        held.state,
        target,
        _audited(values),
        change.facts,
    )
    rows, head, seq = audit.chain(f"job:{held.id}", held.audit_head, held.audit_seq, [*change.before, entry])
    values |= {"audit_seq": seq, "audit_head": head}
    also = [*change.also, *_belongs(held, event, target, at, reason, change, values)]
    where = _fence(held) | ({"only_if": change.only_if} if change.only_if else {})
    if not statement.run(Write(where, values, rows, also)):
        return None
    return _refreshed(held, values, also)


def _follows(held: Held, event: Event, target: State, at: datetime, reason: str, change: Change) -> dict[str, Any]:
    """Columns that a transition always sets: nobody has to remember them."""
    values = dict(change.job)
    if held.state in ACTIVE and target not in ACTIVE:
        values |= {"lease_owner": "", "lease_expires_at": None, "lease_boot": "", "lease_until": 0.0}
        values |= {"cancel_requested": False, "pause_requested": ""}
        values |= _given_back(held, event)
    if target not in READY:
        values |= {"reserved_by": "", "reserved_until": None}
    if held.state is State.PAUSED:
        values["pause_reason"] = ""
    if target is State.PAUSED:
        values["pause_reason"] = reason or "requested"
    if target is State.REVIEW or target is State.FAILED_TERMINAL:
        # A person's reason is a sentence, which the audit keeps; the column holds codes.
        values["stop_reason"] = event if held.state is State.REVIEW else reason[:64] or event
    elif target in READY and held.state is State.REVIEW:
        values["stop_reason"] = ""
    if target in FINAL:
        values["finished_at"] = at
    return values


def _given_back(held: Held, event: Event) -> dict[str, Any]:
    if event not in GIVES_BACK:
        return {}
    return {"charged": held.charged - 1} if held.attempt_charged else {"free_claim": True}


def _belongs(
    held: Held, event: Event, target: State, at: datetime, reason: str, change: Change, values: Mapping[str, Any]
) -> list[Insert | Update]:
    """Rows that live and die with the state: the running attempt, the open review case."""
    rows: list[Insert | Update] = []
    if held.state in ACTIVE and target not in ACTIVE:
        ended = {"ended_at": at, "outcome": ENDED_AS[event], "stop_reason": reason[:64], **change.attempt}
        rows.append(Update(Attempt, ended, {"job_id": held.id, "fence": held.fence}))
    if held.state is State.REVIEW:
        rows.append(Update(ReviewCase, {"closed_at": at}, {"job_id": held.id, "closed_at": None}))
    if target is State.REVIEW:
        rows.append(Insert(ReviewCase, opening(held, at, reason or event, values, change.also)))
    return rows


def _again(held: Held) -> Held:
    """The same job with its newest audit number, when nothing else moved; else the loser is told."""
    now = load(held.id, policy=held.policy, worker=held.worker)
    if (now.state, now.version, now.fence) != (held.state, held.version, held.fence) or now.audit_seq == held.audit_seq:
        raise LeaseLost() if held.worker else StaleJob()
    return replace(now, attempt_charged=held.attempt_charged)


def _fence(held: Held) -> dict[str, Any]:
    where: dict[str, Any] = {
        "id": held.id,
        "state": held.state,
        "version": held.version,
        "audit_seq": held.audit_seq,
        "fence": held.fence,
    }
    return where | ({"lease_owner": held.worker} if held.worker else {})


def _refreshed(held: Held, values: Mapping[str, Any], also: Sequence[Insert | Update]) -> Held:
    known = {name: value for name, value in values.items() if name in _REFRESHED}
    if any(part.model is SideEffect for part in also):
        known["open_intent"] = _has_open_intent(held.id)
    return replace(held, **known)


def _has_open_intent(job_id: int) -> bool:
    return SideEffect.objects.filter(job_id=job_id, outcome__in=OPEN_OUTCOMES).exists()


def _audited(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if name in AUDITED}


_COLUMNS = (
    "id",
    "state",
    "version",
    "fence",
    "audit_seq",
    "audit_head",
    "charged",
    "max_attempts",
    "free_claim",
    "crashes",
    "cancel_requested",
    "pause_requested",
    "pause_reason",
    "result_digest",
)
_REFRESHED = frozenset(_COLUMNS) - {"id"}
