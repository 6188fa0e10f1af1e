"""Leases: what becomes of a job whose worker died, and whose clock says so (L2, L3, L4)."""

import itertools
from datetime import timedelta

import pytest
import time_machine
from django.utils import timezone

from jobs import history
from jobs.core.states import Event, State
from jobs.errors import StaleJob
from jobs.models import Job, SideEffect
from jobs.services import clock, control, leases, reconcile, transitions
from jobs.services.leases import Claimed
from jobs.services.transitions import Change
from jobs.workflows.definition import WorkflowDefinition
from tests import factories
from tests.services import situations
from tests.services.situations import claim, expire, lapse

pytestmark = pytest.mark.django_db


@pytest.fixture
def job(registered):
    return situations.new(registered)


def stored(job: Job) -> Job:
    return Job.objects.get(pk=job.pk)


# --- Expiry: L3 -------------------------------------------------------------------------------------------------------


def test_an_expired_lease_is_let_go_at_once_and_counts_a_crash(job):
    claim(job)
    before = clock.now()
    assert expire(job) is State.FAILED_RETRYABLE
    row, attempt = stored(job), situations.attempt(job)
    assert (row.crashes, row.charged, row.lease_owner) == (1, 1, "")
    assert before <= row.next_run_at <= clock.now()
    assert (attempt.outcome, attempt.failure_code) == ("expired", "lease_expired")
    assert situations.newest_event(job).actor == leases.ENGINE
    claim(job, worker="next")
    assert history.differences(stored(job)) == {}


def test_a_lease_that_runs_is_not_expired(job):
    claim(job)
    assert leases.expire(job.pk) is None
    assert leases.expired() == []
    assert stored(job).state == State.RUNNING


@pytest.mark.parametrize(
    ("intent", "cancel", "pause", "crashes", "used_up"),
    list(itertools.product((False, True), (False, True), (False, True), (0, 1), (False, True))),
)
def test_an_expired_lease_goes_where_the_spec_says(job, intent, cancel, pause, crashes, used_up):
    held = claim(job).held
    values = {"crashes": crashes} | ({"charged": 3} if used_up else {})
    held = situations.checkpoint(held, "read", **values)
    situations.requested(job, cancel=cancel, pause="requested" if pause else "")
    if intent:
        situations.intend(job)
    if intent:
        wanted = State.REVIEW, "side_effect_unknown"
    elif cancel:
        wanted = State.CANCELLED, ""
    elif pause:
        wanted = State.PAUSED, ""
    elif crashes:
        wanted = State.REVIEW, "crashed_twice"
    elif used_up:
        wanted = State.REVIEW, "attempts_used_up"
    else:
        wanted = State.FAILED_RETRYABLE, ""
    assert expire(job) is wanted[0]
    row = stored(job)
    assert (row.state, row.stop_reason, row.crashes) == (*wanted, crashes + 1)
    assert situations.attempt(job).outcome == "expired"
    assert [effect.outcome for effect in job.side_effects.all()] == (["unknown"] if intent else [])
    assert history.differences(row) == {}


def test_the_ledger_row_becomes_unknown_together_with_the_expiry_or_not_at_all(job, monkeypatch):
    claim(job)
    situations.intend(job)
    lapse(job)

    def clash(*_args, **_values):
        raise StaleJob()

    monkeypatch.setattr(transitions, "_again", clash)
    monkeypatch.setattr(transitions, "_fence", lambda held: {"id": held.id, "version": 0})
    assert leases.expire(job.pk) is None
    assert (SideEffect.objects.get(job=job).outcome, stored(job).state) == ("", State.RUNNING)


def test_two_expirers_at_once_let_the_job_go_once(job, monkeypatch):
    claim(job)
    lapse(job)
    seen = transitions.load(job.pk)
    assert leases.expire(job.pk) is State.FAILED_RETRYABLE
    monkeypatch.setattr(transitions, "load", lambda *_args, **_values: seen)
    assert leases.expire(job.pk) is None
    assert stored(job).crashes == 1


def test_a_beat_that_comes_before_the_expiry_keeps_the_lease(job, monkeypatch):
    claim(job)
    lapse(job)
    written = transitions.transition

    def late(*args, **values):
        assert leases.beat(job.pk, worker=situations.WORKER, fence=1)
        return written(*args, **values)

    monkeypatch.setattr(transitions, "transition", late)
    assert leases.expire(job.pk) is None
    assert (stored(job).state, stored(job).crashes) == (State.RUNNING, 0)


def test_a_checkpoint_between_two_crashes_starts_the_count_anew(job):
    claim(job)
    assert expire(job) is State.FAILED_RETRYABLE
    situations.checkpoint(claim(job).held, "read", crashes=0)
    assert expire(job) is State.FAILED_RETRYABLE
    claim(job)
    assert expire(job) is State.REVIEW


def test_a_person_s_decision_starts_the_count_of_crashes_anew(job):
    for _ in range(2):
        claim(job)
        expire(job)
    assert stored(job).stop_reason == "crashed_twice"
    situations.decide(job, Event.RESUME)
    claim(job)
    assert stored(job).crashes == 0


def test_an_executor_that_acts_outside_never_runs_again_by_itself_after_a_crash(job, monkeypatch):
    document = leases.candidate(job.pk).definition.model_dump(exclude_unset=True)
    outside = WorkflowDefinition.model_validate(document | {"risk": "external_side_effect"})
    claim(job)
    monkeypatch.setattr(leases, "definition", lambda _id: outside)
    assert expire(job) is State.REVIEW
    assert stored(job).stop_reason == "side_effect_unknown"


def test_reconcile_expires_every_lapsed_lease(registered):
    jobs = [situations.new(registered) for _ in range(3)]
    for job in jobs:
        claim(job)
    for job in jobs[:2]:
        lapse(job)
    assert reconcile.sweep().expired == 2
    assert [stored(job).state for job in jobs] == ["failed_retryable", "failed_retryable", "running"]


# --- Heartbeat and surrender ------------------------------------------------------------------------------------------


def test_a_beat_tells_the_holder_what_was_asked_and_is_not_audited(job):
    claim(job)
    control.pause(job.pk, actor="user:ana")
    control.cancel(job.pk, actor="user:ana", reason="no")
    numbers = stored(job).version, stored(job).audit_seq
    assert leases.beat(job.pk, worker=situations.WORKER, fence=1) == leases.Beat(True, "requested")
    assert (stored(job).version, stored(job).audit_seq) == numbers


@pytest.mark.parametrize("values", [{"worker": "another", "fence": 1}, {"worker": situations.WORKER, "fence": 0}])
def test_a_beat_of_somebody_else_is_none_and_changes_nothing(job, values):
    claim(job)
    before = Job.objects.values().get(pk=job.pk)
    assert leases.beat(job.pk, **values) is None
    assert not leases.surrender(job.pk, **values)
    assert Job.objects.values().get(pk=job.pk) == before


def test_a_beat_after_the_end_of_the_attempt_is_none(job):
    claim(job)
    expire(job)
    before = Job.objects.values().get(pk=job.pk)
    assert leases.beat(job.pk, worker=situations.WORKER, fence=1) is None
    assert not leases.surrender(job.pk, worker=situations.WORKER, fence=1)
    assert Job.objects.values().get(pk=job.pk) == before


def test_the_loser_of_a_takeover_neither_beats_nor_surrenders_nor_writes(job):
    old = claim(job, worker="old")
    expire(job)
    claim(job, worker="new")
    before = Job.objects.values().get(pk=job.pk)
    assert leases.beat(job.pk, worker="old", fence=1) is None
    assert leases.surrender(job.pk, worker="old", fence=1) is False
    with pytest.raises(StaleJob):
        finish(old)
    assert Job.objects.values().get(pk=job.pk) == before


def test_the_same_worker_with_an_old_fence_is_a_loser_too(job):
    old = claim(job)
    expire(job)
    claim(job)
    with pytest.raises(StaleJob):
        finish(old)
    assert leases.beat(job.pk, worker=situations.WORKER, fence=1) is None
    assert stored(job).state == State.RUNNING


def finish(claimed: Claimed) -> None:
    transitions.transition(claimed.held, Event.STOP, actor="worker:old", at=clock.now(), reason="late", change=Change())


# --- Whose clock (L4) -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("hours", [1, -1, 24 * 365])
def test_setting_the_clock_neither_ends_nor_stretches_a_lease(job, hours):
    claim(job)
    with time_machine.travel(timezone.now() + timedelta(hours=hours), tick=True):
        assert leases.expired() == []
        assert leases.expire(job.pk) is None
        assert leases.beat(job.pk, worker=situations.WORKER, fence=1)
    assert leases.expired() == []
    with time_machine.travel(timezone.now() + timedelta(hours=hours), tick=True):
        lapse(job)
        assert leases.expired() == [job.pk]
    assert leases.expired() == [job.pk]


def test_a_lease_granted_under_a_wrong_clock_still_ends_after_its_time(job, settings):
    settings.AGENTQ_LEASE_SECONDS = 0.0
    with time_machine.travel(timezone.now() + timedelta(hours=1), tick=True):
        claim(job, at=timezone.now() if not factories.on_postgresql() else None)
    assert leases.expired() == [job.pk]


def test_the_boot_clock_decides_on_sqlite_and_the_server_s_on_postgresql(job, monkeypatch):
    claim(job)
    monkeypatch.setattr(clock, "boot_seconds", lambda: 1e12)
    ended_by_boot_clock = leases.expired() == [job.pk]
    assert ended_by_boot_clock != factories.on_postgresql()


def test_a_lease_of_an_earlier_boot_is_over(job, monkeypatch):
    claim(job)
    monkeypatch.setattr(clock, "boot_id", lambda: "another boot")
    assert leases.expired() == ([] if factories.on_postgresql() else [job.pk])
