"""H1, H2: nobody decides a risky case alone or on what moved; claims, hand-over, snooze, escalation, break-glass."""

import json
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from django.db import IntegrityError, transaction

from jobs import history
from jobs.core.states import Event, State
from jobs.errors import DecisionRefused, StaleJob
from jobs.models import AuditEvent, Evidence, FollowUp, Job, ReviewCase, ReviewDecision
from jobs.services import audit, cases, clock, reviews, supplies, transitions
from jobs.services.statement import Insert
from jobs.services.transitions import Change
from tests.services import situations

pytestmark = pytest.mark.django_db
OPERATOR = "user:operator"  # asked for every job of these tests


def make(name: str, group: str, **values: Any) -> User:
    user = User.objects.create_user(name, **values)
    user.groups.add(Group.objects.get_or_create(name=group)[0])
    return user


def in_review(repository, *, hits=("billing",), reason="path_rule", secrets=False, text="") -> ReviewCase:
    """A result that hit these path rules waits for a person."""
    job = situations.new(repository, text=text)
    situations.claim(job)
    now = clock.now()
    found = {"paths": list(hits), "secrets": ["token"] if secrets else []}
    rows = [
        Insert(
            Evidence,
            {
                "job_id": job.pk, "fence": 1, "check_name": name, "argv": "", "argv_digest": "", "exit_code": None,
                "verdict": "fail" if notes else "pass", "base_verdict": "", "seconds": 0.0, "output_digest": "",
                "notes": notes, "created_at": now,
            },
        )
        for name, notes in found.items()
    ]  # fmt: skip
    change = Change(job={"result_digest": situations.DIGEST, "next_stage": "inspect"}, also=rows)
    transitions.transition(situations.held(job), Event.HOLD, actor="worker:w", at=now, reason=reason, change=change)
    return ReviewCase.objects.get(job=job)


def decide(case, actor, event=Event.APPROVE, **values):
    version = values.pop("job_version", case.job_version)
    decision = reviews.Decision(event=event, reason=values.pop("reason", "looked at it"), job_version=version, **values)
    return reviews.decide(case.pk, decision, actor=actor)


@pytest.fixture
def risky(registered):
    return in_review(registered)


@pytest.fixture
def plain(registered):
    return in_review(registered, hits=())


# --- What makes a case risky ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("found", "risk", "people"),
    [
        ({"hits": ("billing",)}, "high", 2),
        ({"hits": ("ci",)}, "medium", 1),
        ({"hits": (), "reason": "attempts_used_up"}, "low", 1),
        ({"hits": (), "secrets": True, "reason": "check_failed"}, "high", 2),
        ({"hits": (), "reason": "unknown"}, "medium", 1),
    ],
)
def test_a_case_is_as_risky_as_what_was_found_in_its_result(registered, found, risk, people):
    case = in_review(registered, **found)
    assert (case.risk, case.required_approvals, case.requested_by) == (risk, people, OPERATOR)
    assert case.due_at > case.opened_at


def test_an_act_of_unknown_outcome_is_risky_and_due_soonest(registered):
    job = situations.new(registered)
    situations.claim(job)
    situations.intend(job)
    situations.act(job, Event.RETRY)
    case = ReviewCase.objects.get(job=job)
    assert (case.risk, case.due_at - case.opened_at) == ("high", timedelta(minutes=30))


# --- Two people ---------------------------------------------------------------------------------------------------


def test_a_risky_case_moves_with_the_second_person_only(risky):
    assert decide(risky, "user:ana").state is State.REVIEW
    assert decide(risky, "user:ben").state is State.QUEUED
    assert list(ReviewDecision.objects.values_list("actor", "closing")) == [("user:ana", False), ("user:ben", True)]
    events = AuditEvent.objects.filter(stream=f"job:{risky.job_id}").values_list("event", "actor")
    assert ("first_decision", "user:ana") in events and ("approve", "user:ben") in events
    assert history.differences(Job.objects.get(pk=risky.job_id)) == {}
    assert audit.verify(f"job:{risky.job_id}") is None


def test_the_same_person_does_not_count_twice(risky):
    decide(risky, "user:ana")
    with pytest.raises(DecisionRefused, match="second person"):
        decide(risky, "user:ana")
    assert Job.objects.get(pk=risky.job_id).state == "review"


@pytest.mark.parametrize("event", [Event.APPROVE, Event.REJECT, Event.RESUME])
def test_nobody_decides_the_risky_job_they_asked_for_superusers_included(risky, event):
    User.objects.create_superuser("operator")
    with pytest.raises(DecisionRefused, match="another person"):
        decide(risky, OPERATOR, event)
    assert not ReviewDecision.objects.exists()


def test_whoever_asked_may_end_a_risky_job_and_work_on_a_plain_one(risky, plain):
    assert decide(risky, OPERATOR, Event.CANCEL).state is State.CANCELLED
    with pytest.raises(DecisionRefused):
        decide(plain, OPERATOR)
    assert decide(plain, OPERATOR, Event.SUPPLY, note="the branch is main").state is State.QUEUED


def test_ending_or_repeating_a_risky_job_takes_one_person(risky):
    assert decide(risky, "user:ana", Event.REQUEST_CHANGES, note="smaller, please").state is State.QUEUED


def test_two_who_disagree_need_a_third(registered, monkeypatch):
    monkeypatch.setattr("jobs.services.proofs.refuse_unproven", lambda _job_id: None)
    job = situations.new(registered)
    situations.claim(job)
    situations.intend(job)
    situations.act(job, Event.RETRY)
    case = ReviewCase.objects.get(job=job)
    for actor, outcome in (("user:ana", "confirmed"), ("user:ben", "absent")):
        assert decide(case, actor, Event.RESOLVE, outcome=outcome, reference="PR 7").state is State.REVIEW
    assert decide(case, "user:cho", Event.RESOLVE, outcome="absent", reference="PR 7").state is State.QUEUED


def test_a_command_cannot_give_the_second_approval(risky):
    assert decide(risky, "user:ana", by_command=True).state is State.REVIEW
    with pytest.raises(DecisionRefused, match="command"):
        decide(risky, "user:ben", by_command=True)


# --- The database itself ------------------------------------------------------------------------------------------


def row(case, actor, **values):
    given = {
        "case": case, "job_id": case.job_id, "decision": "approve", "actor": actor, "reason": "x", "job_version": 3,
        "policy_number": 1, "requested_by": OPERATOR, "risk": case.risk, "created_at": clock.now(),
    }  # fmt: skip
    with transaction.atomic():
        return ReviewDecision.objects.create(**{**given, **values})


def test_plain_rows_do_not_get_round_the_rules(risky):
    for actor, values in (
        (OPERATOR, {}),
        (OPERATOR, {"requested_by": "user:nobody"}),
        ("user:ana", {"risk": "low"}),
        ("user:ana", {"closing": False, "break_glass": True}),
    ):
        with pytest.raises(IntegrityError):
            row(risky, actor, **values)
    row(risky, "user:ana", closing=False)
    with pytest.raises(IntegrityError):
        row(risky, "user:ana", closing=False)
    for values in ({"required_approvals": 1, "risk": "low"}, {"requested_by": "user:x"}, {"closed_at": clock.now()}):
        with pytest.raises(IntegrityError), transaction.atomic():
            ReviewCase.objects.filter(pk=risky.pk).update(**values)


def test_the_door_itself_does_not_close_a_risky_case_for_one(risky):
    held = transitions.load(risky.job_id, policy=1)
    with pytest.raises(IntegrityError), transaction.atomic():
        transitions.transition(held, Event.APPROVE, actor="user:ana", at=clock.now())
    assert Job.objects.get(pk=risky.job_id).state == "review"


# --- Stale, claimed, at once ----------------------------------------------------------------------------------------


def test_what_was_read_binds_the_decision_and_the_refusal_says_what_changed(plain):
    for values, word in (
        ({"job_version": 1}, "moved on"),
        ({"result_digest": "f" * 64}, "result"),
        ({"policy": 99}, "Policy"),
    ):
        with pytest.raises(StaleJob, match=word):
            decide(plain, "user:ana", **values)
    decide(plain, "user:ana", Event.REJECT)
    with pytest.raises(StaleJob, match="ana decided meanwhile: reject"):
        decide(plain, "user:ben")
    refused = AuditEvent.objects.filter(stream="auth", event="decision_refused")
    assert refused.count() == 4


def test_a_secret_in_a_decision_is_stored_nowhere(plain):
    secret = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    with pytest.raises(DecisionRefused, match="secret"):
        decide(plain, "user:ana", Event.REJECT, reason=f"the log shows {secret}")
    assert not AuditEvent.objects.filter(body__contains=secret).exists()


def test_a_claim_keeps_others_out_until_it_ends_and_can_then_be_taken_over(plain):
    until = cases.claim(plain.pk, actor="user:ana")
    for act in (lambda: cases.claim(plain.pk, actor="user:ben"), lambda: decide(plain, "user:ben")):
        with pytest.raises(DecisionRefused, match="ana is on this case"):
            act()
    ReviewCase.objects.filter(pk=plain.pk).update(claimed_until=clock.now())
    assert cases.claim(plain.pk, actor="user:ben") >= until - timedelta(minutes=15)
    assert '"taken_over_from":"user:ana"' in situations.newest_event(plain.job).body
    assert decide(plain, "user:ben").state is State.QUEUED


# --- Assign, snooze, escalate, alone --------------------------------------------------------------------------------


def test_a_case_is_handed_to_a_reviewer_who_may_decide_it(risky):
    make("rita", "reviewers")
    make("vera", "viewers")
    make("operator", "reviewers")
    cases.claim(risky.pk, actor="user:ana")
    for name in ("vera", "nobody", "operator"):
        with pytest.raises(DecisionRefused):
            cases.assign(risky.pk, to=name, actor="user:ana", reason="")
    cases.assign(risky.pk, to="rita", actor="user:ana", reason="knows billing")
    risky.refresh_from_db()
    assert (risky.assigned_to, risky.claimed_by) == ("user:rita", "")


def test_a_snooze_ends_and_does_not_stop_the_target(plain):
    for days in (-1, 15):
        with pytest.raises(DecisionRefused):
            cases.snooze(plain.pk, until=clock.now() + timedelta(days=days), actor="user:ana", reason="")
    cases.snooze(plain.pk, until=clock.now() + timedelta(days=2), actor="user:ana", reason="waits for the vendor")
    assert cases.escalate_due() == 0
    ReviewCase.objects.filter(pk=plain.pk).update(due_at=clock.now())
    assert cases.escalate_due() == 1
    plain.refresh_from_db()
    assert plain.escalated_at and plain.snoozed_until is None and plain.closed_at is None
    assert Job.objects.get(pk=plain.job_id).state == "review"
    assert cases.escalate_due() == 0


def test_one_owner_alone_leaves_a_follow_up_that_another_person_closes(risky):
    make("olga", "owners")
    make("rita", "reviewers")
    reason = "the shop is down and nobody else is awake"
    with pytest.raises(DecisionRefused, match="owner"):
        decide(risky, "user:rita", break_glass=True, reason=reason)
    with pytest.raises(DecisionRefused, match="20"):
        decide(risky, "user:olga", break_glass=True, reason="hurry")
    assert decide(risky, "user:olga", break_glass=True, reason=reason).state is State.QUEUED
    follow_up = FollowUp.objects.get(case=risky)
    assert (follow_up.opened_by, follow_up.reason) == ("user:olga", reason)
    with pytest.raises(DecisionRefused):
        cases.close_follow_up(follow_up.pk, actor="user:olga", note="was fine")
    cases.close_follow_up(follow_up.pk, actor="user:rita", note="the change is right")
    follow_up.refresh_from_db()
    assert follow_up.closed_by == "user:rita"
    with pytest.raises(StaleJob):
        cases.close_follow_up(follow_up.pk, actor="user:ben", note="too")


# --- Another input ------------------------------------------------------------------------------------------------


def supply(case, payload, actor="user:ana"):
    decision = reviews.Decision(Event.SUPPLY, "it meant the other file", job_version=case.job_version)
    return supplies.supersede(case.pk, decision, payload, actor=actor)


def test_another_input_makes_another_job_and_ends_this_one(plain):
    made = supply(plain, {"paths": ["other.md"], "text": "new"})
    old, new = Job.objects.get(pk=plain.job_id), Job.objects.get(pk=made.job_id)
    assert (old.state, new.state, new.requested_by) == ("cancelled", "queued", "user:ana")
    assert new.idempotency_key != old.idempotency_key
    assert f'"superseded_by":{new.pk}' in situations.newest_event(old).body
    assert ReviewDecision.objects.get(job=old).decision == "supply"


def test_an_input_that_is_none_or_that_a_job_has_already_moves_nothing(plain, registered):
    other = situations.new(registered, text="taken")
    for payload in (
        {"paths": ["notes.md"], "text": "taken"},
        json.loads(plain.job.payload),
    ):
        with pytest.raises(DecisionRefused):
            supply(plain, payload)
    assert Job.objects.get(pk=plain.job_id).state == "review"
    assert Job.objects.count() == 2 and other.pk


def test_a_clarification_keeps_the_key(plain):
    key = plain.job.idempotency_key
    decide(plain, "user:ana", Event.SUPPLY, note="use the staging address")
    job = Job.objects.get(pk=plain.job_id)
    assert (job.state, job.idempotency_key) == ("queued", key)
    assert ReviewDecision.objects.get(job=job).stage == job.next_stage
