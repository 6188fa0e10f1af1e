"""Which decisions a review case allows, and where the job goes on after each (H1, X2, V1)."""

import itertools

import pytest

from jobs.core.cases import ENDING, allowed, may_decide_own, needed, next_stage, risk, target
from jobs.core.stages import Stage
from jobs.core.states import DECISIONS, TRANSITIONS, Event, State

REASONS = ["confirm", "crashed_twice", "attempts_used_up", "deadline", "side_effect_unknown", "verification_failed"]
ALL = list(itertools.product(REASONS, (False, True), (False, True)))


@pytest.mark.parametrize(("reason", "open_intent", "has_digest"), ALL)
def test_every_case_offers_a_decision_and_each_is_legal_from_review(reason, open_intent, has_digest):
    offered = allowed(reason=reason, open_intent=open_intent, has_digest=has_digest)
    assert offered
    assert all((State.REVIEW, Event(decision)) in TRANSITIONS for decision in offered)
    assert len(set(offered)) == len(offered)


@pytest.mark.parametrize(("reason", "has_digest"), list(itertools.product(REASONS, (False, True))))
def test_an_act_of_unknown_outcome_can_only_be_resolved(reason, has_digest):
    assert allowed(reason=reason, open_intent=True, has_digest=has_digest) == [Event.RESOLVE]


def test_approval_needs_a_result_digest():
    assert Event.APPROVE in allowed(reason="auth_path", open_intent=False, has_digest=True)
    assert Event.APPROVE not in allowed(reason="auth_path", open_intent=False, has_digest=False)


@pytest.mark.parametrize("has_digest", (False, True))
def test_an_unconfirmed_act_is_confirmed_or_ended(has_digest):
    offered = allowed(reason="confirm", open_intent=False, has_digest=has_digest)
    assert offered == [Event.CONFIRM, *ENDING]


@pytest.mark.parametrize("current", list(Stage))
def test_each_decision_names_the_stage_where_the_job_goes_on(current):
    stages = {event: next_stage(event, current=current) for event in DECISIONS}
    assert stages.pop(Event.APPROVE) is Stage.DELIVER
    assert stages.pop(Event.RERUN) is Stage.READ
    assert stages.pop(Event.REQUEST_CHANGES) is Stage.MODIFY
    assert set(stages.values()) == {current}


def test_requested_changes_can_name_an_earlier_stage():
    assert next_stage(Event.REQUEST_CHANGES, current=Stage.DELIVER, named=Stage.PLAN) is Stage.PLAN


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        ({}, "medium"),
        ({"reason": "attempts_used_up"}, "low"),
        ({"reason": "input_missing"}, "low"),
        ({"reason": "attempts_used_up", "two_people": True}, "high"),
        ({"secrets": True}, "high"),
        ({"acts_outside": True}, "high"),
        ({"open_intent": True}, "high"),
        ({"reason": "confirm"}, "high"),
    ],
)
def test_a_case_is_as_risky_as_the_worst_that_a_wrong_decision_could_do(seen, expected):
    plain = {"reason": "unknown", "open_intent": False, "acts_outside": False, "two_people": False, "secrets": False}
    assert risk(**{**plain, **seen}) == expected


def test_a_riskier_case_is_due_sooner_and_an_open_act_soonest():
    due = [target(level, open_intent=False) for level in ("high", "medium", "low")]
    assert target("high", open_intent=True) < due[0] < due[1] < due[2]


@pytest.mark.parametrize("decision", list(DECISIONS))
def test_only_what_lets_something_out_or_says_so_takes_two(decision):
    lets_out = decision in (Event.APPROVE, Event.CONFIRM, Event.RESOLVE)
    assert needed(decision, 2) == (2 if lets_out else 1)
    assert needed(decision, 1) == 1
    assert not may_decide_own(decision, "high")
    assert may_decide_own(decision, "medium") is not lets_out


def test_whoever_asked_for_a_job_may_always_cancel_it():
    assert may_decide_own(Event.CANCEL, "high")
