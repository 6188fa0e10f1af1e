"""Jobs brought into every situation by the services themselves, for the tests of rows and rules."""

from datetime import datetime, timedelta
from typing import Any

from django.db import connection

from jobs.core import cases
from jobs.core.keys import sha256_hex
from jobs.core.states import Event, State
from jobs.models import Attempt, AuditEvent, Checkpoint, Job, ReviewCase, SideEffect
from jobs.services import clock, control, leases, proofs, reviews, transitions
from jobs.services.audit import Entry
from jobs.services.leases import Claimed
from jobs.services.statement import Insert
from jobs.services.transitions import Change, Held
from tests import factories

WORKER = "host:1:1"
PEOPLE = ("user:rea", "user:sol")
DIGEST = sha256_hex("a result")


def claim(job: Job, worker: str = WORKER, **values: Any) -> Claimed:
    return leases.claim(job.pk, worker=worker, **values)


def held(job: Job, worker: str = "") -> Held:
    return transitions.load(job.pk, policy=1, worker=worker)


def act(
    job: Job, event: Event, *, reason: str = "because", worker: str = "", at: datetime | None = None, **values: Any
) -> Held:
    """One event through the door, from what is stored now."""
    change = Change(job=values)
    return transitions.transition(
        held(job, worker), event, actor="user:ana", at=at or clock.now(), reason=reason, change=change
    )


def lapse(job: Job) -> None:
    """The lease is over, as if its time had passed."""
    row = Job.objects.values("lease_owner", "fence").get(pk=job.pk)
    assert leases.surrender(job.pk, worker=row["lease_owner"], fence=row["fence"])


def expire(job: Job) -> State | None:
    lapse(job)
    return leases.expire(job.pk)


def intend(job: Job, holder: Held | None = None, key: str = "") -> Held:
    """An external act is under way: its ledger row is written with its audit event."""
    holder = holder or held(job)
    now = clock.now()
    values = {
        "job_id": job.pk,
        "fence": holder.fence,
        "key": key or sha256_hex(f"{job.pk}:{holder.audit_seq}")[:16],
        "number": 1,
        "kind": "test-act",
        "target": "somewhere",
        "sha": "0" * 40,
        "outcome": "",
        "reference": "",
        "resolved_by": "",
        "intended_at": now,
        "not_after": now + timedelta(seconds=60),
        "settled_at": None,
    }
    return transitions.record(holder, Entry("intent", "worker:w", now), also=[Insert(SideEffect, values)])


def checkpoint(holder: Held, stage: str, **job: Any) -> Held:
    now = clock.now()
    values = {
        "job_id": holder.id,
        "fence": holder.fence,
        "stage": stage,
        "input_digest": "a" * 64,
        "output_digest": "b" * 64,
        "snapshot": "",
        "session": "",
        "seconds": 0.0,
        "created_at": now,
    }
    return transitions.record(holder, Entry("checkpoint", "worker:w", now), job=job, also=[Insert(Checkpoint, values)])


def in_state(job: Job, state: State) -> Job:
    """The job in this state, by the shortest way that the services know."""
    steps: dict[State, list[Event]] = {
        State.QUEUED: [],
        State.RUNNING: [Event.CLAIM],
        State.VERIFYING: [Event.CLAIM, Event.VERIFY],
        State.ACCEPTED: [Event.CLAIM, Event.VERIFY, Event.ACCEPT],
        State.FAILED_RETRYABLE: [Event.CLAIM, Event.RETRY],
        State.FAILED_TERMINAL: [Event.CLAIM, Event.STOP],
        State.REVIEW: [Event.CLAIM, Event.HOLD],
        State.PAUSED: [Event.PAUSE],
        State.CANCELLED: [Event.CANCEL],
    }
    for event in steps[state]:
        if event is Event.CLAIM:
            claim(job)
        else:
            act(job, event, **({"result_digest": DIGEST} if event is Event.ACCEPT else {}))
    job.refresh_from_db()
    assert job.state == state
    return job


def decide(job: Job, event: Event, **values: Any) -> Held:
    case = ReviewCase.objects.get(job=job, closed_at=None)
    version = Job.objects.values_list("version", flat=True).get(pk=job.pk)
    if values.get("outcome") == "absent":
        gone(job)
    decision = reviews.Decision(event=event, reason="I looked at it", job_version=version, **values)
    for person in PEOPLE[: cases.needed(event, case.required_approvals)]:
        decided = reviews.decide(case.pk, decision, actor=person)
    return decided


def gone(job: Job) -> None:
    """The attempts behind the job's open acts are proven unable to act."""
    for effect in proofs.open_effects(job.pk):
        proofs.record_gone(effect, actor="engine:proof")


def requested(job: Job, *, cancel: bool = False, pause: str = "") -> None:
    if cancel:
        control.cancel(job.pk, actor="user:ana", reason="not needed")
    if pause:
        control.pause(job.pk, actor="user:ana", reason=pause)


def newest_event(job: Job) -> AuditEvent:
    return AuditEvent.objects.filter(stream=f"job:{job.pk}").latest("seq")


def attempt(job: Job) -> Attempt:
    return Attempt.objects.filter(job=job).latest("fence")


def execute(text: str, *params: Any) -> int:
    """Plain SQL, as somebody would type it at the database's own prompt."""
    with connection.cursor() as cursor:
        cursor.execute(text, params)
        return cursor.rowcount


def new(repository: Any, **values: Any) -> Job:
    return factories.job(repository, **values)
