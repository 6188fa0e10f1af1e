"""The walk over the whole table: every pair of state and event, allowed and refused, by code and by SQL (S2, S3)."""

import itertools

import pytest
from django.db import IntegrityError, transaction

from jobs import history
from jobs.core.cases import allowed
from jobs.core.states import ACTIVE, FINAL, TRANSITIONS, Event, Flags, State, leaving
from jobs.errors import IllegalTransition, LeaseLost, StaleJob
from jobs.models import AuditEvent, Job, ReviewCase
from jobs.services import audit, clock, control, transitions
from jobs.services.audit import Entry
from jobs.services.transitions import ENDED_AS, GIVES_BACK, Change
from tests.services import situations
from tests.services.situations import DIGEST, act, in_state

pytestmark = pytest.mark.django_db

LEGAL = {pair: target for pair, target in TRANSITIONS.items() if pair[0] is not None}
OUT = [(state, event) for (state, event), target in LEGAL.items() if state in ACTIVE and target not in ACTIVE]


def columns(event: Event) -> dict:
    """What the caller of an event brings along."""
    if event is Event.CLAIM:
        return {"fence": 99, "lease_owner": "w", **clock.lease(60)}
    return {"result_digest": DIGEST} if event is Event.ACCEPT else {}


@pytest.mark.parametrize("state", State)
def test_every_event_of_the_table_does_what_it_says(registered, state):
    for event in Event:
        if (state, event) in LEGAL:
            _does_what_the_table_says(in_state(situations.new(registered), state), state, event)


@pytest.mark.parametrize("state", State)
def test_every_other_event_is_refused_and_changes_nothing(registered, state):
    job = in_state(situations.new(registered), state)
    before = Job.objects.values().get(pk=job.pk)
    events = AuditEvent.objects.count()
    for event in Event:
        if (state, event) not in LEGAL:
            with pytest.raises(IllegalTransition):
                act(job, event, **columns(event))
    assert Job.objects.values().get(pk=job.pk) == before
    assert AuditEvent.objects.count() == events


def _does_what_the_table_says(job: Job, state: State, event: Event) -> None:
    target = LEGAL[state, event]
    case = ReviewCase.objects.filter(job=job, closed_at=None).first()
    after = act(job, event, **columns(event))
    row = Job.objects.get(pk=job.pk)
    assert (row.state, after.state) == (target, target)
    assert (row.version, row.audit_seq) == (job.version + 1, job.audit_seq + 1)
    assert (after.version, after.audit_seq, after.audit_head) == (row.version, row.audit_seq, row.audit_head)

    told = situations.newest_event(job)
    assert (told.event, told.seq, told.version, told.to_state) == (event, row.audit_seq, row.version, target)
    assert told.hash == row.audit_head
    assert audit.verify(told.stream) is None
    assert history.differences(row) == {}

    assert bool(row.lease_owner and row.lease_expires_at) == (target in ACTIVE)
    assert bool(row.finished_at) == (target in FINAL)
    assert bool(row.pause_reason) == (target is State.PAUSED)
    assert not row.cancel_requested and not row.pause_requested
    if target in (State.REVIEW, State.FAILED_TERMINAL):
        assert row.stop_reason == ("reject" if event is Event.REJECT else "because")

    if state in ACTIVE and target not in ACTIVE:
        ended = situations.attempt(job)
        assert (ended.outcome, bool(ended.ended_at)) == (ENDED_AS[event], True)
        assert row.charged == (job.charged - 1 if event in GIVES_BACK else job.charged)
    if case is not None:
        case.refresh_from_db()
        assert case.closed_at is not None
    opened = ReviewCase.objects.filter(job=job, closed_at=None)
    assert opened.count() == (target is State.REVIEW)
    if target is State.REVIEW:
        assert opened.get().job_version == row.version
        assert opened.get().allowed == allowed(reason="because", open_intent=False, has_digest=False)


@pytest.mark.parametrize(("state", "event"), OUT)
def test_leaving_reads_the_flags_in_the_order_of_the_design(registered, state, event):
    for intent, cancel, pause in itertools.product((False, True), (False, True), ("", "batch_paused")):
        job = in_state(situations.new(registered), state)
        situations.requested(job, cancel=cancel, pause=pause)
        if intent:
            situations.intend(job)
        happened = leaving(event, Flags(intent, cancel, bool(pause)))
        act(job, event, **columns(event))
        row = Job.objects.get(pk=job.pk)
        told = situations.newest_event(job)
        assert (row.state, told.event) == (LEGAL[state, happened], happened), (intent, cancel, pause)
        assert (row.cancel_requested, row.pause_requested) == (False, "")
        assert history.differences(row) == {}
        if row.state == State.PAUSED:
            assert row.pause_reason == (pause or "because")
        if row.state == State.REVIEW:
            case = ReviewCase.objects.get(job=job)
            assert (case.cancel_requested, case.pause_requested) == (cancel, pause)
            assert (case.allowed == [Event.RESOLVE]) == intent
        if happened is not event:
            assert situations.attempt(job).outcome == ENDED_AS[happened]


@pytest.mark.parametrize("event", [Event.RECOVER, Event.CLAIM, Event.APPROVE, Event.REJECT])
def test_a_flag_makes_no_illegal_event_legal(registered, event):
    job = in_state(situations.new(registered), State.RUNNING)
    situations.requested(job, cancel=True)
    with pytest.raises(IllegalTransition):
        act(job, event)
    assert Job.objects.get(pk=job.pk).state == State.RUNNING


def test_verify_does_not_leave_so_the_flags_wait(registered):
    job = in_state(situations.new(registered), State.RUNNING)
    situations.requested(job, cancel=True)
    act(job, Event.VERIFY)
    row = Job.objects.get(pk=job.pk)
    assert (row.state, row.cancel_requested) == (State.VERIFYING, True)


def test_a_flag_set_between_read_and_write_is_seen_and_is_no_lost_lease(registered):
    job = situations.new(registered)
    worker = situations.claim(job).held
    situations.requested(job, cancel=True)
    after = transitions.transition(worker, Event.RELEASE, actor="worker:w", at=clock.now(), reason="drain")
    assert after.state is State.CANCELLED
    assert audit.verify(f"job:{job.pk}") is None


def test_a_record_behind_a_flag_keeps_the_flag_and_learns_of_it(registered):
    job = situations.new(registered)
    worker = situations.claim(job).held
    situations.requested(job, pause="requested")
    after = situations.checkpoint(worker, "read", crashes=0)
    assert (after.pause_requested, after.audit_seq) == ("requested", worker.audit_seq + 2)
    assert (after.worker, after.attempt_charged) == (worker.worker, worker.attempt_charged)
    assert Job.objects.get(pk=job.pk).pause_requested == "requested"


def test_an_intent_written_through_the_door_is_known_to_the_next_write(registered):
    job = in_state(situations.new(registered), State.VERIFYING)
    holder = situations.intend(job, situations.held(job))
    assert holder.open_intent
    after = transitions.transition(
        holder, Event.ACCEPT, actor="worker:w", at=clock.now(), change=Change(job={"result_digest": DIGEST})
    )
    assert after.state is State.REVIEW


STALE_WRITES = {
    "transition": lambda held: transitions.transition(held, Event.RELEASE, actor="worker:w", at=clock.now()),
    "record": lambda held: transitions.record(held, Entry("note", "worker:w", clock.now())),
    "checkpoint": lambda held: situations.checkpoint(held, "read"),
    "intent": lambda held: situations.intend(Job(pk=held.id), held),
}


@pytest.mark.parametrize("write", STALE_WRITES)
def test_after_a_takeover_no_write_of_the_old_fence_is_accepted(registered, write):
    job = situations.new(registered)
    old = situations.claim(job, worker="old").held
    situations.expire(job)
    situations.claim(job, worker="new")
    before = Job.objects.values().get(pk=job.pk)
    rows = [model.objects.count() for model in (AuditEvent, ReviewCase)]
    with pytest.raises(LeaseLost):
        STALE_WRITES[write](old)
    assert Job.objects.values().get(pk=job.pk) == before
    assert [model.objects.count() for model in (AuditEvent, ReviewCase)] == rows
    assert not job.checkpoints.exists() and not job.side_effects.exists()


def test_a_person_who_comes_second_is_told_that_the_page_is_stale(registered):
    job = situations.new(registered)
    seen = situations.held(job)
    control.pause(job.pk, actor="user:bob")
    with pytest.raises(StaleJob) as refusal:
        transitions.transition(seen, Event.CANCEL, actor="user:ana", at=clock.now())
    assert not isinstance(refusal.value, LeaseLost)


def test_a_long_reason_of_a_person_is_kept_whole_in_the_audit_and_as_a_code_on_the_job(registered):
    job = in_state(situations.new(registered), State.REVIEW)
    reason = "The change touches billing. " * 17
    act(job, Event.REJECT, reason=reason)
    assert Job.objects.get(pk=job.pk).stop_reason == "reject"
    assert reason in situations.newest_event(job).body


def test_a_refused_constraint_writes_no_audit_event(registered):
    job = in_state(situations.new(registered), State.VERIFYING)
    events = AuditEvent.objects.count()
    with pytest.raises(IntegrityError), transaction.atomic():
        act(job, Event.ACCEPT)  # without a result digest
    assert AuditEvent.objects.count() == events
    assert Job.objects.get(pk=job.pk).state == State.VERIFYING
