"""A job's life as its audit events tell it: when, who, what, from where to where, and what each event set (A2)."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.utils.translation import gettext as _

from jobs.history import Moment
from jobs.wording import decision_text, reason_text, stage_text


@dataclass(frozen=True, slots=True)
class Happening:
    """One audit event in words. `values` are the fields that it set and the facts it carries, as stored."""

    seq: int
    at: datetime
    kind: str
    actor: str
    text: str
    source: str
    target: str
    reason: str
    policy: int | None
    values: dict[str, Any]


def happenings(moments: Iterable[Moment]) -> list[Happening]:
    """The events in order, oldest first."""
    return [_happening(moment.event) for moment in moments]


def _happening(event: dict[str, Any]) -> Happening:
    kind = event["actor"].partition(":")[0]
    return Happening(
        seq=event["seq"],
        at=datetime.fromisoformat(event["at"]),
        kind=_KINDS[kind]() if kind in _KINDS else kind,
        actor=event["actor"],
        text=event_text(event["event"], event["facts"]),
        source=event["from"],
        target=event["to"],
        reason=reason_text(event["reason"]),
        policy=event["policy"],
        values=dict(event["set"]) | dict(event["facts"]),
    )


def event_text(event: str, facts: dict[str, Any]) -> str:
    """What happened, in words; an event that has none is shown as its code."""
    words = _EVENTS.get(event)
    text = words() if words else event.replace("_", " ")
    stage = facts.get("stage")
    return f"{text}, {stage_text(stage)}" if stage else text


Words = dict[str, Callable[[], str]]

_KINDS: Words = {
    "user": lambda: _("person"),
    "worker": lambda: _("worker"),
    "engine": lambda: _("engine"),
    "node": lambda: _("cluster"),
}
_EVENTS: Words = {
    "intent": lambda: _("act outside intended"),
    "effect_settled": lambda: _("outcome of an act on record"),
    "effect_found": lambda: _("act found to have happened before"),
    "effect_looked_up": lambda: _("looked for an act's result"),
    "effect_not_told": lambda: _("a person cannot tell what came of an act"),
    "processes_gone": lambda: _("the old attempt's processes are proven gone"),
    "host_down": lambda: _("an owner stated that the attempt's host is down"),
    "rescued": lambda: _("a dead attempt's work stored"),
    "resumed_earlier": lambda: _("starts again at an earlier stage"),
    "enqueue": lambda: _("enqueued"),
    "claim": lambda: _("claimed by a worker"),
    "verify": lambda: _("work done, checks begin"),
    "accept": lambda: _("accepted on evidence"),
    "retry": lambda: _("failed, runs again"),
    "expire": lambda: _("lease expired"),
    "release": lambda: _("given back by a worker that drains"),
    "pause": lambda: _("paused"),
    "stop": lambda: _("stopped for good"),
    "hold": lambda: _("stopped for a person"),
    "recover": lambda: _("queued again: the condition is met"),
    "confirm": lambda: _("confirmed by a person"),
    "approve": lambda: _("approved by a person"),
    "resume": lambda: decision_text("resume"),
    "rerun": lambda: decision_text("rerun"),
    "supply": lambda: decision_text("supply"),
    "request_changes": lambda: decision_text("request_changes"),
    "resolve": lambda: _("outcome of the act settled by a person"),
    "reject": lambda: _("rejected by a person"),
    "cancel": lambda: _("cancelled"),
    "cancel_requested": lambda: _("asked to cancel"),
    "first_decision": lambda: _("first of two people decided"),
    "case_claimed": lambda: _("review taken by a person"),
    "case_released": lambda: _("review given back"),
    "case_assigned": lambda: _("review handed over"),
    "case_snoozed": lambda: _("review snoozed"),
    "case_escalated": lambda: _("review escalated: past its target"),
    "follow_up_closed": lambda: _("what one owner decided alone was looked at"),
    "pause_requested": lambda: _("asked to pause"),
    "checkpoint": lambda: _("stage verified"),
    "trip": lambda: _("asked for a breaker to open"),
    "waits_for_window": lambda: _("held back: the team's budget of this window is used up"),
}
