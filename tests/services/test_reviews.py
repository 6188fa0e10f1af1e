"""What a person decides on a review case, and what makes the decision more than words (H1, B1, X2)."""

import json
from datetime import timedelta

import pytest
from django.db import connection

from jobs import history, triggers
from jobs.core.stages import Stage
from jobs.core.states import Event, State
from jobs.errors import ClaimRefused, DecisionRefused, StaleJob
from jobs.models import Checkpoint, Job, ReviewCase, ReviewDecision, SideEffect, WorkflowVersion
from jobs.models.workflow_version import Risk
from jobs.services import checkpoints, clock, leases, policies, reconcile, reviews
from tests.services import situations
from tests.services.situations import DIGEST, act, claim, decide

pytestmark = pytest.mark.django_db


@pytest.fixture
def job(registered):
    return situations.new(registered, deadline=clock.now() + timedelta(days=1))


@pytest.fixture
def held(job):
    """In review, with a result that a person can approve."""
    claim(job)
    act(job, Event.HOLD, result_digest=DIGEST, next_stage="inspect", snapshot="a" * 40)
    return job


def stored(job: Job) -> Job:
    return Job.objects.get(pk=job.pk)


def refused(job: Job, event: Event, **values) -> str:
    before = Job.objects.values().get(pk=job.pk)
    with pytest.raises(DecisionRefused) as refusal:
        decide(job, event, **values)
    assert Job.objects.values().get(pk=job.pk) == before
    assert not ReviewDecision.objects.filter(job=job).exists()
    return str(refusal.value)


def test_a_decision_is_stored_with_what_it_was_bound_to(held):
    case = ReviewCase.objects.get(job=held)
    decide(held, Event.REQUEST_CHANGES, note="use the new name", stage=Stage.PLAN, grants={"attempts": 2})
    stored_one = ReviewDecision.objects.get(job=held)
    assert (stored_one.case_id, stored_one.decision, stored_one.actor) == (case.pk, "request_changes", "user:rea")
    assert (stored_one.stage, stored_one.note, stored_one.grants) == ("plan", "use the new name", {"attempts": 2})
    assert (stored_one.job_version, stored_one.result_digest) == (case.job_version, DIGEST)
    row = stored(held)
    assert (row.state, row.next_stage, row.max_attempts, row.crashes) == ("queued", "plan", 5, 0)
    assert "use the new name" not in situations.newest_event(held).body
    assert history.differences(row) == {}


def test_an_approval_leads_to_delivery_without_another_inspection(held):
    decide(held, Event.APPROVE)
    row = stored(held)
    assert (row.next_stage, row.result_digest, row.free_claim) == ("deliver", DIGEST, True)
    inspected = Checkpoint.objects.get(job=held, stage="inspect")
    wanted = checkpoints.digest(held.pk, Stage.INSPECT, workflow_digest=held.workflow.digest, payload=held.payload)
    assert (inspected.input_digest, inspected.output_digest) == (wanted, DIGEST)
    assert claim(held).held.state is State.VERIFYING


def test_what_was_approved_can_be_approved_again_after_another_stop(held):
    decide(held, Event.APPROVE)
    act(held, Event.HOLD, reason="target_moved")
    decide(held, Event.APPROVE)
    assert Checkpoint.objects.filter(job=held, stage="inspect").count() == 1


@pytest.mark.parametrize("event", [Event.RERUN, Event.REQUEST_CHANGES, Event.RESUME])
def test_a_result_that_is_made_anew_can_no_longer_be_approved(held, event):
    decide(held, event)
    assert stored(held).result_digest == ""
    claim(held)
    act(held, Event.HOLD)
    assert Event.APPROVE not in ReviewCase.objects.get(job=held, closed_at=None).allowed


@pytest.mark.parametrize("event", [Event.RESUME, Event.RERUN, Event.REQUEST_CHANGES])
def test_without_an_attempt_left_the_decision_needs_a_grant(held, event):
    Job.objects.filter(pk=held.pk).update(max_attempts=1)
    assert "attempts" in refused(held, event)
    decide(held, event, grants={"attempts": 1})
    assert claim(held).held.fence == 2


def test_without_time_left_the_decision_needs_a_grant(held):
    Job.objects.filter(pk=held.pk).update(seconds_spent=1e6)
    assert "working time" in refused(held, Event.APPROVE)
    decide(held, Event.APPROVE, grants={"seconds": 2_000_000})
    claim(held)


def test_after_the_deadline_the_decision_needs_a_later_one(held):
    Job.objects.filter(pk=held.pk).update(deadline=clock.now())
    assert "deadline" in refused(held, Event.RESUME)
    assert "later" in refused(held, Event.RESUME, deadline=clock.now() - timedelta(days=1))
    later = clock.now() + timedelta(days=3)
    decide(held, Event.RESUME, deadline=later)
    assert stored(held).deadline == later
    assert ReviewDecision.objects.get(job=held).grants == {"deadline": later.isoformat()}
    assert history.differences(stored(held)) == {}
    claim(held)


@pytest.mark.parametrize("grants", [{"attempts": -1}, {"wishes": 3}])
def test_a_grant_is_a_positive_number_of_what_a_job_has(held, grants):
    assert "Grants" in refused(held, Event.RESUME, grants=grants)


def test_only_what_the_case_offers_is_decided(held):
    assert "allows" in refused(held, Event.CONFIRM)
    assert "allows" in refused(held, Event.RESOLVE, outcome="absent", reference="x")


def test_a_decision_needs_a_reason_and_a_short_note(held):
    case = ReviewCase.objects.get(job=held)
    version = stored(held).version
    for values in ({"reason": "  "}, {"reason": "ok", "note": "é" * 2049}):
        with pytest.raises(DecisionRefused):
            reviews.decide(case.pk, reviews.Decision(Event.RESUME, job_version=version, **values), actor="user:rea")


def test_a_decision_on_what_moved_meanwhile_is_stale(held):
    case = ReviewCase.objects.get(job=held)
    decision = reviews.Decision(Event.REJECT, "no", job_version=case.job_version)
    decide(held, Event.RESUME)
    with pytest.raises(StaleJob):
        reviews.decide(case.pk, decision, actor="user:bob")
    assert stored(held).state == State.QUEUED


@pytest.mark.parametrize(("event", "state"), [(Event.REJECT, "failed_terminal"), (Event.CANCEL, "cancelled")])
def test_a_decision_that_ends_the_job_needs_no_budget(held, event, state):
    Job.objects.filter(pk=held.pk).update(max_attempts=1, deadline=clock.now())
    decide(held, event)
    assert stored(held).state == state


@pytest.mark.parametrize("outcome", ["confirmed", "absent"])
def test_resolving_settles_the_ledger_and_goes_on_with_a_free_claim(job, outcome):
    claim(job)
    situations.intend(job)
    act(job, Event.RETRY)
    assert stored(job).state == State.REVIEW
    assert "happened" in refused(job, Event.RESOLVE, outcome="", reference="x")
    decide(job, Event.RESOLVE, outcome=outcome, reference="PR 7")
    effect = SideEffect.objects.get(job=job)
    assert (effect.outcome, effect.reference, effect.resolved_by) == (outcome, "PR 7", "user:sol")
    assert effect.settled_at and stored(job).free_claim
    claim(job)


def test_a_rerun_starts_at_the_first_stage_that_the_workflow_has(registered):
    job = in_workflow(situations.new(registered), {"stages": ["modify", "test", "inspect", "deliver"]})
    claim(job)
    act(job, Event.HOLD)
    decide(job, Event.RERUN)
    assert stored(job).next_stage == "modify"


# --- An executor that itself acts outside ---------------------------------------------------------------------------


@pytest.fixture
def outside(registered):
    """Confirmed once by a person, and queued."""
    job = in_workflow(situations.new(registered), {"risk": "external_side_effect"}, risk=Risk.EXTERNAL)
    act(job, Event.HOLD, reason="confirm")
    decide(job, Event.CONFIRM)
    return job


def in_workflow(job: Job, changes: dict, **values) -> Job:
    """The same job as if it had been enqueued with another version of its workflow."""
    workflow = WorkflowVersion.objects.create(
        name=job.action,
        version="other",
        document=json.dumps(json.loads(job.workflow.document) | changes),
        digest="d" * 64,
        created_at=clock.now(),
    )
    with triggers.lifted(connection):
        Job.objects.filter(pk=job.pk).update(workflow=workflow, **values)
    return Job.objects.get(pk=job.pk)


def test_a_confirmed_act_is_claimed(outside):
    assert claim(outside).held.state is State.RUNNING


def test_a_confirmation_ends_when_the_policy_changes_and_the_job_asks_again(outside):
    move_policy_on()
    assert reconcile.sweep().held == 1
    assert ReviewCase.objects.get(job=outside, closed_at=None).allowed[0] == Event.CONFIRM
    decide(outside, Event.CONFIRM)
    claim(outside)


def test_a_worker_that_meets_an_unconfirmed_act_hands_it_to_a_person(outside):
    move_policy_on()
    with pytest.raises(ClaimRefused) as refusal:
        claim(outside)
    assert refusal.value.code == "unconfirmed"
    assert (stored(outside).state, stored(outside).stop_reason) == (State.REVIEW, "confirm")


def test_another_decision_on_an_unconfirmed_act_leads_to_its_confirmation_not_to_the_queue(outside):
    act(outside, Event.HOLD, reason="deadline")
    move_policy_on()
    assert decide(outside, Event.RESUME).state is State.REVIEW
    assert ReviewCase.objects.get(job=outside, closed_at=None).reason == "confirm"
    assert history.differences(stored(outside)) == {}


def move_policy_on() -> None:
    first = policies.builtin()
    again = first.model_copy(update={"backoff": first.backoff.model_copy(update={"base_seconds": 16.0})})
    policies.publish(again, author="user:owner", note="slower")
    policies.activate(2, actor="user:owner", reason="slower")
    assert leases.candidate(Job.objects.latest("pk").pk).policy_number == 2
