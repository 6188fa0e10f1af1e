"""Review cases: what they are about, which decisions they allow, what each makes of the job (H1, H2, design 2)."""

from datetime import timedelta

from jobs.core.stages import Stage
from jobs.core.states import Event

ENDING = (Event.REJECT, Event.CANCEL)
# These let something out, or say what got out: on a high-risk case they take two people.
TWO_PEOPLE = ("approve", "confirm", "resolve")
# What the person who asked for a job may do about it: with high risk only end it.
OWN = (Event.RESUME, Event.RERUN, Event.SUPPLY, Event.REQUEST_CHANGES, *ENDING)

CLAIM = timedelta(minutes=15)
LONGEST_SNOOZE = timedelta(days=14)
FOLLOW_UP = timedelta(hours=24)
TARGETS = {"high": timedelta(hours=4), "medium": timedelta(hours=8), "low": timedelta(hours=24)}
UNKNOWN_TARGET = timedelta(minutes=30)  # an act outside may be doing harm while nobody looks

# Stops that put nothing at stake: work, time or an input is missing.
_HARMLESS = frozenset(
    {"attempts_used_up", "cancel_requested", "deadline", "input_missing", "seconds_used_up", "tokens_used_up"}
)
_OUTSIDE = frozenset({"side_effect_unknown", "confirm", "secret_found"})


def allowed(*, reason: str, open_intent: bool, has_digest: bool) -> list[str]:
    """The decisions of a case, in the order in which a page offers them.

    With an act whose outcome nobody knows, only resolving it or handing the job to its end by rejection is
    left: everything else could repeat the act (X2). Approval needs a result digest to be bound to (V1).
    """
    if open_intent:
        return [Event.RESOLVE]
    if reason == "confirm":
        return [Event.CONFIRM, *ENDING]
    decisions = [Event.APPROVE] if has_digest else []
    return [*decisions, Event.RESUME, Event.RERUN, Event.SUPPLY, Event.REQUEST_CHANGES, *ENDING]


def risk(*, reason: str, open_intent: bool, acts_outside: bool, two_people: bool, secrets: bool) -> str:
    """low, medium or high (H2). `two_people`: a path rule that was hit asks for two reviewers (V2)."""
    if open_intent or acts_outside or two_people or secrets or reason in _OUTSIDE:
        return "high"
    return "low" if reason in _HARMLESS else "medium"


def target(risk: str, *, open_intent: bool) -> timedelta:
    """How soon somebody should decide. Nothing is ever decided because it passed."""
    return UNKNOWN_TARGET if open_intent else TARGETS[risk]


def needed(decision: str, required: int) -> int:
    """How many people this decision takes on a case that requires so many."""
    return required if decision in TWO_PEOPLE else 1


def may_decide_own(decision: str, risk: str) -> bool:
    """Whether the person who asked for the job may decide this on it."""
    return decision == Event.CANCEL or (risk != "high" and decision in OWN)


def next_stage(decision: Event, *, current: Stage, named: Stage | None = None) -> Stage:
    """Where the job goes on after a decision that queues it."""
    if decision is Event.APPROVE:
        return Stage.DELIVER
    if decision is Event.RERUN:
        return Stage.READ
    if decision is Event.REQUEST_CHANGES:
        return named or Stage.MODIFY
    if decision is Event.SUPPLY:
        return named or current
    return current
