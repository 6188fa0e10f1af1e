"""Claims: one worker holds a job, each claim has its number and its price, the rest waits its turn (L1, B1)."""

import pytest
from django.db import transaction
from django.utils import timezone

from jobs import history
from jobs.core.states import Event, State
from jobs.errors import ClaimRefused, StaleJob
from jobs.models import Attempt, Batch, Job, ReviewCase
from jobs.services import control, leases, reconcile
from tests import factories
from tests.services import situations
from tests.services.situations import DIGEST, act, claim, expire

pytestmark = pytest.mark.django_db


@pytest.fixture
def job(registered):
    return situations.new(registered)


def stored(job: Job) -> Job:
    return Job.objects.get(pk=job.pk)


# --- Claim ------------------------------------------------------------------------------------------------------------


def test_a_claim_opens_the_lease_and_the_attempt_and_charges_one(job):
    claimed = claim(job, worker="host:1:1")
    row, attempt = stored(job), situations.attempt(job)
    assert (row.state, row.fence, row.charged, row.lease_owner) == (State.RUNNING, 1, 1, "host:1:1")
    assert (attempt.fence, attempt.charged, attempt.ended_at, attempt.worker) == (1, True, None, "host:1:1")
    assert attempt.policy_number == 1
    assert (claimed.held.fence, claimed.held.worker, claimed.held.attempt_charged) == (1, "host:1:1", True)
    assert history.differences(row) == {}


def test_the_fence_rises_by_one_with_each_claim_and_never_falls(job):
    fences = []
    for event in (Event.RELEASE, Event.RELEASE, Event.RETRY):
        fences.append(claim(job).held.fence)
        act(job, event)
    claim(job)
    act(job, Event.HOLD)
    situations.decide(job, Event.RESUME)
    fences.append(stored(job).fence)
    fences.append(claim(job).held.fence)
    assert fences == [1, 2, 3, 4, 5]
    assert list(Attempt.objects.filter(job=job).order_by("pk").values_list("fence", flat=True)) == [1, 2, 3, 4, 5]


def test_a_second_claim_is_refused_and_changes_nothing(job):
    claim(job, worker="first")
    before = Job.objects.values().get(pk=job.pk)
    with pytest.raises(ClaimRefused) as refusal:
        claim(job, worker="second")
    assert refusal.value.code == "state_running"
    assert Job.objects.values().get(pk=job.pk) == before


def test_two_that_read_the_same_row_do_not_both_claim_it(job, monkeypatch):
    seen = leases.candidate(job.pk)
    claim(job, worker="first")
    monkeypatch.setattr(leases, "candidate", lambda _id: seen)
    with pytest.raises(StaleJob):
        claim(job, worker="second")
    assert stored(job).lease_owner == "first"
    assert Attempt.objects.filter(job=job).count() == 1


def test_a_job_whose_next_stage_is_a_check_starts_in_verifying(job):
    claim(job)
    act(job, Event.RELEASE, next_stage="test")
    held = claim(job).held
    assert (held.state, stored(job).state) == (State.VERIFYING, State.VERIFYING)
    assert history.differences(stored(job)) == {}


def test_a_claim_voids_the_reservation_that_led_to_it(job):
    assert leases.reserve("cluster", "agentq").job_id == job.pk
    claim(job)
    assert (stored(job).reserved_by, stored(job).reserved_until) == ("", None)


def test_a_refused_claim_gives_the_reservation_back(registered):
    batch = factories.batch("b")
    job = situations.new(registered, batch="b")
    leases.reserve("cluster", "agentq")
    Batch.objects.filter(pk=batch.pk).update(paused_at=timezone.now())
    with pytest.raises(ClaimRefused):
        claim(job)
    assert stored(job).reserved_by == ""


# --- What an attempt costs --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("event", "charged"),
    [(Event.RELEASE, 0), (Event.PAUSE, 0), (Event.RETRY, 1), (Event.HOLD, 1), (Event.STOP, 1), (Event.EXPIRE, 1)],
)
def test_only_pause_and_release_give_an_attempt_back(job, event, charged):
    claim(job)
    act(job, event)
    assert stored(job).charged == charged
    assert not stored(job).free_claim


def test_a_free_claim_is_used_up_by_one_claim_and_charges_nothing(job):
    free = held_free(job)
    claimed = claim(free)
    row = stored(job)
    assert (row.charged, row.free_claim, claimed.held.attempt_charged) == (3, False, False)
    assert not situations.attempt(job).charged
    assert history.differences(row) == {}


@pytest.mark.parametrize(("event", "free"), [(Event.RELEASE, True), (Event.PAUSE, True), (Event.RETRY, False)])
def test_what_gives_a_charge_back_gives_a_free_claim_back_as_one(job, event, free):
    claim(held_free(job))
    act(job, event)
    row = stored(job)
    assert (row.charged, row.free_claim) == (3, free)


def test_an_expired_free_claim_is_gone_and_the_job_waits_for_a_person(job):
    claim(held_free(job))
    assert expire(job) is State.REVIEW
    assert (stored(job).stop_reason, stored(job).free_claim) == ("attempts_used_up", False)


def held_free(job: Job) -> Job:
    """All attempts used up, then approved: queued with a free claim."""
    for _ in range(job.max_attempts - 1):
        claim(job)
        act(job, Event.RETRY)
    claim(job)
    act(job, Event.HOLD, result_digest=DIGEST)
    situations.decide(job, Event.APPROVE)
    assert (stored(job).charged, stored(job).free_claim) == (3, True)
    return job


# --- Reservation ------------------------------------------------------------------------------------------------------


def test_the_best_ready_job_is_reserved_once(registered):
    low, high = situations.new(registered), situations.new(registered, priority=5)
    assert [each and each.job_id for each in (leases.reserve("c", "agentq") for _ in range(3))] == [
        high.pk,
        low.pk,
        None,
    ]


UNCLAIMABLE = {
    "deadline": {"deadline": timezone.now()},
    "attempts_used_up": {"charged": 3},
    "seconds_used_up": {"seconds_spent": 1e9},
}


@pytest.mark.parametrize("reason", UNCLAIMABLE)
def test_what_nobody_can_claim_is_not_offered_and_waits_for_a_person(job, reason):
    Job.objects.filter(pk=job.pk).update(**UNCLAIMABLE[reason])
    assert leases.reserve("c", "agentq") is None
    assert reconcile.sweep().held == 1
    assert (stored(job).state, stored(job).stop_reason) == (State.REVIEW, reason)
    assert reconcile.sweep().held == 0


@pytest.mark.parametrize("reason", UNCLAIMABLE)
def test_a_worker_that_meets_such_a_job_hands_it_to_a_person_at_once(job, reason):
    Job.objects.filter(pk=job.pk).update(**UNCLAIMABLE[reason])
    with pytest.raises(ClaimRefused):
        claim(job)
    assert stored(job).state == State.REVIEW
    assert ReviewCase.objects.get(job=job).reason == reason


def test_a_job_of_a_paused_batch_is_not_offered(registered):
    batch = factories.batch("b")
    job = situations.new(registered, batch="b")
    control.pause_batch(batch, actor="user:ana")
    assert (stored(job).state, leases.reserve("c", "agentq")) == (State.PAUSED, None)
    later = situations.new(registered, batch="b")
    assert leases.reserve("c", "agentq") is None
    control.resume_batch(batch, actor="user:ana")
    assert {leases.reserve("c", "agentq").job_id for _ in range(2)} == {job.pk, later.pk}


def test_a_reservation_lapses_by_itself(job, settings):
    settings.AGENTQ_RESERVATION_SECONDS = 0.0
    assert leases.reserve("c", "agentq").job_id == job.pk
    assert leases.reserve("other", "agentq").job_id == job.pk


def test_a_claim_and_its_verify_are_one_transaction(job):
    claim(job)
    act(job, Event.RELEASE, next_stage="test")
    seq = stored(job).audit_seq
    with pytest.raises(ZeroDivisionError), transaction.atomic():
        claim(job)
        raise ZeroDivisionError
    assert (stored(job).state, stored(job).audit_seq) == (State.FAILED_RETRYABLE, seq)
