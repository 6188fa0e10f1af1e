"""The table of transitions, and what flags make of a leaving event (S1, S2, S3, design section 2)."""

import itertools

import pytest

from jobs.core.states import ACTIVE, DECISIONS, FINAL, LIVE, PAIRS, TRANSITIONS, Event, Flags, State, leaving, mermaid

LEAVING = [event for (state, event), target in TRANSITIONS.items() if state in ACTIVE and target not in ACTIVE]


def test_the_states_are_the_nine_of_the_spec():
    assert {str(state) for state in State} == {
        "queued", "running", "verifying", "accepted", "failed_retryable", "failed_terminal", "review", "paused",
        "cancelled",
    }  # fmt: skip


def test_no_event_leaves_a_final_state():
    assert not [pair for pair in TRANSITIONS if pair[0] in FINAL]


def test_every_live_state_can_be_cancelled_and_only_failed_retryable_and_queued_are_claimed():
    assert all(TRANSITIONS[state, Event.CANCEL] is State.CANCELLED for state in LIVE)
    assert {state for state, event in TRANSITIONS if event is Event.CLAIM} == {State.QUEUED, State.FAILED_RETRYABLE}


def test_review_is_left_by_people_only_and_never_paused_away():
    assert {event for state, event in TRANSITIONS if state is State.REVIEW} == {*DECISIONS, Event.REJECT, Event.CANCEL}


def test_paused_goes_on_only_through_recover_hold_or_cancel():
    ways = {event for state, event in TRANSITIONS if state is State.PAUSED}
    assert ways == {Event.RECOVER, Event.HOLD, Event.CANCEL}


def test_accepted_is_reached_from_verifying_only():
    assert [source for source, target in PAIRS if target is State.ACCEPTED] == [State.VERIFYING]


def test_every_state_is_reachable_and_every_live_state_leads_to_acceptance():
    reached = {State.QUEUED}
    for _ in State:
        reached |= {target for source, target in PAIRS if source in reached}
    assert reached == set(State)
    leads = {State.ACCEPTED}
    for _ in State:
        leads |= {source for source, target in PAIRS if target in leads}
    assert leads == {*LIVE, State.ACCEPTED}


def test_the_diagram_shows_every_arrow_of_the_table():
    shown = mermaid()
    for (source, event), target in TRANSITIONS.items():
        line = next(line for line in shown.splitlines() if line.startswith(f"    {source or '[*]'} --> {target}:"))
        assert event in line.split(": ")[1].split(", ")


def expected(event: Event, flags: Flags) -> Event:
    """Design section 2 in its own order, said a second time."""
    if flags.open_intent:
        return Event.HOLD
    if flags.cancel_requested:
        return event if event is Event.ACCEPT else Event.CANCEL
    if flags.pause_requested:
        # Finished work stays finished, a review is never paused away, a job that failed for good has ended.
        return event if event in (Event.ACCEPT, Event.HOLD, Event.STOP, Event.CANCEL) else Event.PAUSE
    return event


@pytest.mark.parametrize("event", sorted(set(LEAVING)))
def test_flags_are_read_in_order_open_intent_then_cancel_then_pause(event):
    for intent, cancel, pause in itertools.product((False, True), repeat=3):
        flags = Flags(open_intent=intent, cancel_requested=cancel, pause_requested=pause)
        happened = leaving(event, flags)
        assert happened is expected(event, flags), flags
        # `accept` exists from verifying only, so ask the state that knows the event.
        assert any((state, happened) in TRANSITIONS for state in ACTIVE)


def test_every_event_that_flags_can_make_is_legal_where_it_can_happen():
    for state, event in [pair for pair, target in TRANSITIONS.items() if pair[0] in ACTIVE and target not in ACTIVE]:
        for flags in itertools.starmap(Flags, itertools.product((False, True), repeat=3)):
            assert (state, leaving(event, flags)) in TRANSITIONS
