"""Whether a job may be claimed now, and what blocks it: the guards in the order a person reads them (S2)."""

from dataclasses import dataclass
from datetime import datetime

from jobs.core.states import FINAL, READY, State


@dataclass(frozen=True, slots=True)
class ClaimFacts:
    """All that the guards look at, read from one row and its neighbours at one moment."""

    state: State
    due_at: datetime
    deadline: datetime | None
    charged: int
    max_attempts: int
    free_claim: bool
    seconds_spent: float
    max_seconds: int
    batch_paused: bool
    repository_full: bool
    open_intent: bool
    cancel_requested: bool
    pause_requested: bool
    acts_outside: bool
    confirmed_digest: str
    expected_digest: str


# Blockers that no time and no engine clears: the job waits for a person, in a case with this reason.
HOLDS = {
    "open_intent": "side_effect_unknown",
    "deadline_passed": "deadline",
    "seconds_used_up": "seconds_used_up",
    "attempts_used_up": "attempts_used_up",
    "unconfirmed": "confirm",
}


@dataclass(frozen=True, slots=True)
class Blocker:
    """One reason why a job does not start. `self_clearing` when no person is needed; `until` when it is known."""

    code: str
    self_clearing: bool
    until: datetime | None = None


def blockers(facts: ClaimFacts, now: datetime) -> list[Blocker]:
    """Every guard that refuses a claim now, in the order in which they clear; empty means claimable."""
    if facts.state in FINAL:
        return [Blocker("finished", self_clearing=False)]
    if facts.state not in READY:
        return [Blocker(f"state_{facts.state}", self_clearing=facts.state not in (State.REVIEW, State.PAUSED))]
    checks = (
        (facts.open_intent, Blocker("open_intent", self_clearing=False)),
        (facts.cancel_requested, Blocker("cancel_requested", self_clearing=True)),
        (facts.pause_requested, Blocker("pause_requested", self_clearing=True)),
        (past(facts.deadline, now), Blocker("deadline_passed", self_clearing=False)),
        (facts.seconds_spent >= facts.max_seconds, Blocker("seconds_used_up", self_clearing=False)),
        (exhausted(facts), Blocker("attempts_used_up", self_clearing=False)),
        (facts.batch_paused, Blocker("batch_paused", self_clearing=False)),
        (unconfirmed(facts), Blocker("unconfirmed", self_clearing=False)),
        (facts.repository_full, Blocker("repository_full", self_clearing=True)),
        (facts.due_at > now, Blocker("not_due", self_clearing=True, until=facts.due_at)),
    )
    return [blocker for applies, blocker in checks if applies]


def exhausted(facts: ClaimFacts) -> bool:
    """No attempt is left that this claim could charge; a person's free claim does not charge one (B1)."""
    return facts.charged >= facts.max_attempts and not facts.free_claim


def unconfirmed(facts: ClaimFacts) -> bool:
    """An executor that acts outside needs a person's confirmation of exactly this input (X3)."""
    return facts.acts_outside and facts.confirmed_digest != facts.expected_digest


def past(deadline: datetime | None, now: datetime) -> bool:
    return deadline is not None and deadline <= now
