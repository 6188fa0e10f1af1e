"""The guards of a claim: each refuses for itself, in the order in which a person reads them (S2, S3, B1, X3)."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from jobs.core.claims import HOLDS, ClaimFacts, blockers
from jobs.core.states import FINAL, READY, State

NOW = datetime(2026, 9, 1, 12, tzinfo=UTC)
CLAIMABLE = ClaimFacts(
    state=State.QUEUED,
    due_at=NOW,
    deadline=None,
    charged=0,
    max_attempts=3,
    free_claim=False,
    seconds_spent=0,
    max_seconds=60,
    batch_paused=False,
    repository_full=False,
    open_intent=False,
    cancel_requested=False,
    pause_requested=False,
    acts_outside=False,
    confirmed_digest="",
    expected_digest="d",
)
# In the order in which they are told.
GUARDS = {
    "open_intent": {"open_intent": True},
    "cancel_requested": {"cancel_requested": True},
    "pause_requested": {"pause_requested": True},
    "deadline_passed": {"deadline": NOW},
    "seconds_used_up": {"seconds_spent": 60},
    "attempts_used_up": {"charged": 3},
    "batch_paused": {"batch_paused": True},
    "unconfirmed": {"acts_outside": True, "confirmed_digest": "another"},
    "repository_full": {"repository_full": True},
    "not_due": {"due_at": NOW + timedelta(microseconds=1)},
}


def codes(**changes) -> list[str]:
    return [blocker.code for blocker in blockers(replace(CLAIMABLE, **changes), NOW)]


@pytest.mark.parametrize("state", READY)
def test_a_ready_job_without_a_blocker_is_claimable(state):
    assert codes(state=state) == []


@pytest.mark.parametrize("code", GUARDS)
def test_each_guard_refuses_alone(code):
    assert codes(**GUARDS[code]) == [code]


def test_all_guards_are_told_in_order():
    everything = {name: value for change in GUARDS.values() for name, value in change.items()}
    assert codes(**everything) == list(GUARDS)


def test_a_free_claim_needs_no_attempt_left_but_every_other_guard():
    assert codes(charged=3, free_claim=True) == []
    assert codes(charged=3, free_claim=True, deadline=NOW) == ["deadline_passed"]


def test_a_confirmation_counts_only_for_exactly_what_would_run():
    assert codes(acts_outside=True, confirmed_digest="d") == []
    assert codes(acts_outside=True) == ["unconfirmed"]


def test_a_deadline_in_a_moment_does_not_block_yet():
    assert codes(deadline=NOW + timedelta(microseconds=1)) == []


def test_a_job_that_is_not_due_says_until_when():
    until = NOW + timedelta(minutes=5)
    (blocker,) = blockers(replace(CLAIMABLE, due_at=until), NOW)
    assert (blocker.until, blocker.self_clearing) == (until, True)


@pytest.mark.parametrize("state", [state for state in State if state not in READY])
def test_no_other_state_is_claimed_whatever_else_holds(state):
    (blocker,) = blockers(replace(CLAIMABLE, state=state), NOW)
    assert blocker.code == ("finished" if state in FINAL else f"state_{state}")
    assert blocker.self_clearing == (state in (State.RUNNING, State.VERIFYING))


def test_every_guard_that_nothing_clears_by_itself_names_the_case_that_waits_for_a_person():
    stuck = {
        blocker.code
        for change in GUARDS.values()
        for blocker in blockers(replace(CLAIMABLE, **change), NOW)
        if not blocker.self_clearing
    }
    assert stuck - {"batch_paused"} == set(HOLDS)  # a paused batch is resumed as a whole
