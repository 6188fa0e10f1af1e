"""Cancel, pause and recover, of one job and of a batch (E2, S3, L3)."""

import pytest

from jobs.core.states import FINAL, Event, State
from jobs.errors import IllegalTransition
from jobs.models import Job
from jobs.services import control
from tests import factories
from tests.services import situations
from tests.services.situations import act, claim, in_state

pytestmark = pytest.mark.django_db
ANA = "user:ana"


@pytest.fixture
def batch(registered):
    return factories.batch("b")


def stored(job: Job) -> Job:
    return Job.objects.get(pk=job.pk)


@pytest.mark.parametrize("state", [State.QUEUED, State.FAILED_RETRYABLE, State.PAUSED, State.REVIEW])
def test_a_waiting_job_is_cancelled_at_once(registered, state):
    job = in_state(situations.new(registered), state)
    assert control.cancel(job.pk, actor=ANA, reason="no") is State.CANCELLED


@pytest.mark.parametrize("state", [State.RUNNING, State.VERIFYING])
def test_a_held_job_is_asked_and_stays_with_its_worker(registered, state):
    job = in_state(situations.new(registered), state)
    assert control.cancel(job.pk, actor=ANA, reason="no") is state
    assert control.pause(job.pk, actor=ANA) is state
    assert (stored(job).cancel_requested, stored(job).pause_requested) == (True, "requested")


@pytest.mark.parametrize("state", FINAL)
def test_a_finished_job_takes_nothing(registered, state):
    job = in_state(situations.new(registered), state)
    for refuse in (control.cancel, control.pause):
        with pytest.raises(IllegalTransition, match="finished"):
            refuse(job.pk, actor=ANA, reason="no")


def test_a_review_is_not_paused_away(registered):
    job = in_state(situations.new(registered), State.REVIEW)
    with pytest.raises(IllegalTransition, match="decision"):
        control.pause(job.pk, actor=ANA)


def test_an_act_without_a_known_outcome_is_not_cancelled_away(registered):
    job = in_state(situations.new(registered), State.RUNNING)
    situations.intend(job)
    with pytest.raises(IllegalTransition, match="outcome"):
        control.cancel(job.pk, actor=ANA, reason="no")
    act(job, Event.RELEASE)
    with pytest.raises(IllegalTransition, match="outcome"):
        control.cancel(job.pk, actor=ANA, reason="no")


def test_a_pause_ends_by_the_condition_it_names_and_by_no_other(registered):
    job = situations.new(registered)
    control.pause(job.pk, actor=ANA, reason="usage_limit")
    with pytest.raises(IllegalTransition, match="usage_limit"):
        control.recover(job.pk, actor=ANA, condition="requested")
    due = stored(job).next_run_at
    assert control.recover(job.pk, actor=ANA, condition="usage_limit") is State.QUEUED
    assert (stored(job).pause_reason, stored(job).next_run_at) == ("", due)


def test_a_job_that_is_not_there_is_said_to_be_not_there(db):
    for act_on in (control.cancel, control.pause):
        with pytest.raises(IllegalTransition, match="no job J-404"):
            act_on(404, actor=ANA, reason="no")


def test_pausing_a_batch_pauses_what_waits_and_asks_what_runs(registered, batch):
    waiting, running, held = (situations.new(registered, batch="b") for _ in range(3))
    claim(running)
    act(held, Event.HOLD)
    result = control.pause_batch(batch, actor=ANA)
    assert (result.changed, result.left) == (2, 0)
    assert [stored(job).state for job in (waiting, running, held)] == ["paused", "running", "review"]
    act(running, Event.PAUSE, reason="requested")
    assert stored(running).pause_reason == "batch_paused"


def test_resuming_a_batch_recovers_only_what_the_batch_paused(registered, batch):
    own, theirs, running = (situations.new(registered, batch="b") for _ in range(3))
    control.pause(own.pk, actor=ANA)
    claim(running)
    control.pause_batch(batch, actor=ANA)
    result = control.resume_batch(batch, actor=ANA)
    assert result.changed == 1
    assert [stored(job).state for job in (own, theirs, running)] == ["paused", "queued", "running"]
    assert stored(running).pause_requested == ""
    act(running, Event.RELEASE)
    assert stored(running).state == State.FAILED_RETRYABLE


def test_a_pause_that_somebody_asked_of_one_job_outlives_its_batch_s(registered, batch):
    job = situations.new(registered, batch="b")
    claim(job)
    control.pause(job.pk, actor=ANA)
    control.pause_batch(batch, actor=ANA)
    control.resume_batch(batch, actor=ANA)
    assert stored(job).pause_requested == "requested"


def test_cancelling_a_batch_leaves_reviews_to_their_reviewers(registered, batch):
    waiting, running, held, done = (situations.new(registered, batch="b") for _ in range(4))
    claim(running)
    act(held, Event.HOLD)
    act(done, Event.CANCEL)
    control.cancel_batch(batch, actor=ANA, reason="no")
    assert [stored(job).state for job in (waiting, running, held)] == ["cancelled", "running", "review"]
    assert stored(running).cancel_requested
