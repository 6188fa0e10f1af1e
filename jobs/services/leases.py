"""Who may write a job, and for how long: reserve, claim, beat, expire, surrender (L1 to L4)."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from django.conf import settings
from django.db import connection, transaction
from django.db.models.functions import Now

from jobs.core.budgets import Room
from jobs.core.claims import HOLDS, ClaimFacts, blockers
from jobs.core.keys import canonical_json, sha256_hex
from jobs.core.stages import VERIFY_STAGES
from jobs.core.states import ACTIVE, READY, Event, State
from jobs.errors import ClaimRefused, StaleJob
from jobs.models import Attempt, Job, SideEffect
from jobs.models.attempt import Outcome
from jobs.services import clock, policies, reservations, teams, transitions
from jobs.services.audit import Entry
from jobs.services.candidates import Candidate, acts_outside, candidate, definition
from jobs.services.reservations import Reserved as Reserved
from jobs.services.statement import Insert, Sql, Update
from jobs.services.transitions import Change, Held

CRASHES_BEFORE_REVIEW = 2
ENGINE = "engine:lease"

_ACTIVE = "state IN ('running', 'verifying')"


def reserve(cluster: str, queue: str) -> Reserved | None:
    """The best ready job is set aside for this cluster for some seconds; None when nothing is ready.

    Not a right to run it: only the claim is. A reservation that lapses is merely a delay.
    """
    return reservations.reserve(cluster, queue)


def still_reserved(job_ids: list[int], cluster: str) -> set[int]:
    """Which of these jobs this cluster set aside and no worker has claimed yet."""
    jobs = Job.objects.filter(pk__in=job_ids, reserved_by=cluster, state__in=READY)
    return set(jobs.values_list("pk", flat=True))


def short_ready(queue: str) -> int | None:
    """The best ready job whose workflow is short and that nobody set aside, for a worker that goes on by itself."""
    now = clock.now()
    jobs = Job.objects.filter(queue=queue, state__in=READY, short=True, next_run_at__lte=now, reserved_by="")
    return jobs.order_by("-priority", "next_run_at", "pk").values_list("pk", flat=True).first()


def ready_count(queue: str) -> int:
    """Jobs that wait in this queue, due or not."""
    return Job.objects.filter(queue=queue, state__in=READY).count()


@dataclass(frozen=True, slots=True)
class Claimed:
    """A job that this worker holds: its numbers, and all that the attempt needs to know of it."""

    held: Held
    job: Candidate
    started_at: datetime


def claim(job_id: int, *, worker: str, at: datetime | None = None) -> Claimed:
    """This worker holds the job: fence + 1, attempt open, lease running, audited.

    Raises ClaimRefused with the first blocker's code, or StaleJob when another was faster. A refusal gives the
    reservation back; a job that no claim can take any more waits for a person at once, not at the queue's head.
    """
    job = candidate(job_id)
    at = at or job.now
    held = _held(job)
    if found := blockers(facts(job), at):
        if job.state in READY and (reason := HOLDS.get(found[0].code)):
            transitions.transition(held, Event.HOLD, actor=ENGINE, at=at, reason=reason)
        else:
            unreserve(job_id, job.reserved_by)
        raise ClaimRefused(found[0].code)
    service = job.definition.service or ""
    budget = teams.budget_of(policies.rules(job.policy_number), service) if service and job.policy_number else None
    if budget is None:
        return _take(job, held, worker, at)
    with transaction.atomic():
        teams.take_turns(service)
        share = teams.share(budget, at)
        if share.room.free:
            return _take(job, held, worker, at, reserved=share.tokens)
    _wait_for_window(held, service, share.room, at)
    raise ClaimRefused("team_budget")


def _take(job: Candidate, held: Held, worker: str, at: datetime, reserved: int | None = None) -> Claimed:
    values = {
        "fence": job.fence + 1,
        "charged": job.charged if job.free_claim else job.charged + 1,
        "free_claim": False,
        "lease_owner": worker,
        "reserved_by": "",
        "reserved_until": None,
        **clock.lease(settings.AGENTQ_LEASE_SECONDS),
    }
    room, also = reservations.room(job.repository_id, job.concurrency), [_attempt(job, worker, at, reserved)]
    change = Change(job=values, facts={"stage": job.next_stage}, also=also, only_if=room)
    actor = f"worker:{worker}"
    # Where the work is done already, this attempt starts among the checks.
    checks = job.next_stage in VERIFY_STAGES
    with reservations.turn(job.repository_id, job.live_beside, job.concurrency, always=checks):
        held = transitions.transition(held, Event.CLAIM, actor=actor, at=at, change=change)
        if checks:
            held = transitions.transition(held, Event.VERIFY, actor=actor, at=at)
    return Claimed(replace(held, worker=worker, attempt_charged=not job.free_claim), job, at)


@dataclass(frozen=True, slots=True)
class Beat:
    """What a good heartbeat tells the worker."""

    cancel_requested: bool
    pause_requested: str


def beat(job_id: int, *, worker: str, fence: int) -> Beat | None:
    """The lease runs anew from now; None when this worker no longer holds the job (L2)."""
    values = clock.lease(settings.AGENTQ_LEASE_SECONDS)
    assignments: list[str] = []
    params: list[Any] = []
    for name, value in values.items():
        assignments.append(f"{name} = {value.text if isinstance(value, Sql) else '%s'}")
        params += value.params if isinstance(value, Sql) else (value,)
    text = (
        f"UPDATE jobs_job SET {', '.join(assignments)} WHERE id = %s AND lease_owner = %s AND fence = %s AND {_ACTIVE}"
        " RETURNING cancel_requested, pause_requested"
    )
    with connection.cursor() as cursor:
        cursor.execute(text, [*params, job_id, worker, fence])
        row = cursor.fetchone()
    return None if row is None else Beat(bool(row[0]), str(row[1]))


def surrender(job_id: int, *, worker: str, fence: int) -> bool:
    """The lease is over at once, by its holder, who has proven that nothing of the attempt lives; True when it held."""
    ended = {"lease_expires_at": Now(), "lease_until": 0.0}
    return bool(Job.objects.filter(pk=job_id, lease_owner=worker, fence=fence, state__in=ACTIVE).update(**ended))


def expired(queue: str | None = None, limit: int = 100) -> list[int]:
    """Ids of jobs whose lease is over, oldest first."""
    over = clock.lapsed()
    text, params = f"SELECT id FROM jobs_job WHERE {_ACTIVE} AND {over.text}", list(over.params)
    if queue is not None:
        text, params = f"{text} AND queue = %s", [*params, queue]
    with connection.cursor() as cursor:
        cursor.execute(f"{text} ORDER BY id LIMIT %s", [*params, limit])
        return [row[0] for row in cursor.fetchall()]


def expire(job_id: int, *, at: datetime | None = None) -> State | None:
    """A job whose lease is over is let go, and the state it went to is returned; None when somebody was faster.

    To failed_retryable and due now; instead to review when an external act was under way, by its flags to
    cancelled or paused, else to review when its attempts are used up or it crashed twice in a row (L3).
    """
    at = at or clock.now()
    held = transitions.load(job_id)
    if held.state not in ACTIVE:
        return None
    row = Job.objects.values("seconds_spent", "lease_owner", "workflow_id").get(pk=job_id)
    attempt = Attempt.objects.get(job_id=job_id, fence=held.fence)
    held = replace(held, policy=attempt.policy_number)
    spent = max(0.0, (at - attempt.started_at).total_seconds())
    change = Change(
        job={
            "crashes": held.crashes + 1,
            "next_run_at": at,
            "seconds_spent": row["seconds_spent"] + spent,
        },
        facts={"worker": row["lease_owner"], "fence": held.fence, "crashes": held.crashes + 1},
        attempt={
            "seconds": spent,
            "outcome": Outcome.EXPIRED,
            "failure_class": "environment",
            "failure_code": "lease_expired",
        },
        also=[Update(SideEffect, {"outcome": "unknown", "settled_at": at}, {"job_id": job_id, "outcome": ""})],
        only_if=clock.lapsed(),  # a beat that came first keeps the lease
    )
    try:
        event, reason = expiry(held, outside=acts_outside(definition(row["workflow_id"])))
        return transitions.transition(held, event, actor=ENGINE, at=at, reason=reason, change=change).state
    except StaleJob:
        return None


def expiry(held: Held, *, outside: bool) -> tuple[Event, str]:
    """What an expired lease means for this job before its flags are read; they win over all of it (L3).

    An executor that itself acts outside may have acted before it died: it never runs again by itself (X2).
    """
    if held.flags.open_intent or held.cancel_requested or held.pause_requested:
        return Event.EXPIRE, "lease_expired"
    if outside:
        return Event.HOLD, "side_effect_unknown"
    if held.crashes + 1 >= CRASHES_BEFORE_REVIEW:
        return Event.HOLD, "crashed_twice"
    if held.charged >= held.max_attempts and not held.free_claim:
        return Event.HOLD, "attempts_used_up"
    return Event.EXPIRE, "lease_expired"


def unreserve(job_id: int, cluster: str) -> None:
    """A reservation that led to no claim is given back, so that it does not count as a lapse."""
    if cluster:
        Job.objects.filter(pk=job_id, reserved_by=cluster, state__in=READY).update(reserved_by="", reserved_until=None)


def facts(job: Candidate) -> ClaimFacts:
    """What the claim's guards look at."""
    return ClaimFacts(
        state=job.state,
        due_at=job.next_run_at,
        deadline=job.deadline,
        charged=job.charged,
        max_attempts=job.max_attempts,
        free_claim=job.free_claim,
        seconds_spent=job.seconds_spent,
        max_seconds=job.max_seconds,
        batch_paused=job.batch_paused,
        repository_full=job.live_beside >= job.concurrency,
        open_intent=job.open_intent,
        cancel_requested=job.cancel_requested,
        pause_requested=bool(job.pause_requested),
        acts_outside=job.acts_outside,
        confirmed_digest=job.confirmed_digest,
        expected_digest=confirmation_digest(job.payload, job.workflow_digest, job.policy_number),
    )


def confirmation_digest(payload: str, workflow_digest: str, policy_number: int) -> str:
    """What a confirmation of an executor that acts outside is bound to (X3)."""
    return sha256_hex(canonical_json([payload, workflow_digest, policy_number]))


def _held(job: Candidate) -> Held:
    return Held(
        id=job.id,
        state=job.state,
        version=job.version,
        fence=job.fence,
        audit_seq=job.audit_seq,
        audit_head=job.audit_head,
        charged=job.charged,
        max_attempts=job.max_attempts,
        free_claim=job.free_claim,
        crashes=job.crashes,
        cancel_requested=job.cancel_requested,
        pause_requested=job.pause_requested,
        pause_reason="",
        result_digest=job.result_digest,
        open_intent=job.open_intent,
        policy=job.policy_number,
    )


def _wait_for_window(held: Held, service: str, room: Room, at: datetime) -> None:
    """The team's budget is used up: the job is due when the window ends, and history says why (B3)."""
    facts = {"service": service, "full": room.full}
    entry = Entry("waits_for_window", ENGINE, at, reason="team_budget", facts=facts)
    transitions.record(held, entry, job={"next_run_at": room.until, "reserved_by": "", "reserved_until": None})


def _attempt(job: Candidate, worker: str, at: datetime, reserved: int | None) -> Insert:
    values: Mapping[str, Any] = {
        **dict.fromkeys(_SAID_AT_THE_END, ""),
        "job_id": job.id,
        "fence": job.fence + 1,
        "charged": not job.free_claim,
        "worker": worker,
        "policy_number": job.policy_number,
        "executor": job.definition.executor,
        "isolation": "process",
        "first_stage": job.next_stage,
        "started_at": at,
        "base_commit": job.base_commit,
        "tool_types": [],
        "service": job.definition.service or "",
        "reserved_tokens": reserved,
    }
    return Insert(Attempt, values)


_SAID_AT_THE_END = (
    *("outcome", "last_stage", "failure_class", "failure_code", "rule", "fingerprint", "stop_reason", "error_tail"),
    *("snapshot", "account", "plan", "model", "cli_version"),
)
