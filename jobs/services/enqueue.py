"""Enqueue: one validation, one write, one answer, for the form and the command alike (E1, K1, K2).

`prepare` reads and refuses; `store` writes. The unique constraint on the key decides who made the job: whoever
comes second gets the existing one and its state.
"""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import Any

from django.db import connection, transaction
from django.utils import timezone
from django.utils.translation import gettext as _

from jobs import history
from jobs.core.keys import canonical_json
from jobs.core.states import FINAL, Event, State
from jobs.errors import EnqueueRefused
from jobs.models import AuditEvent, Batch, Job
from jobs.payloads import add_reserved
from jobs.services import audit, policies, statement, transitions, workflows
from jobs.services.audit import Entry
from jobs.services.candidates import acts_outside
from jobs.services.requests import Prepared, Preparing, Request, job_key
from jobs.workflows.definition import WorkflowDefinition

BULK = 200
UNLIMITED_SECONDS = 7 * 24 * 3600


@dataclass(frozen=True, slots=True)
class Enqueued:
    """The one answer: the job that has this input, and whether this request made it."""

    job_id: int
    created: bool
    idempotency_key: str
    state: State

    @property
    def way_on(self) -> str:
        """What a person can do with an answer that made nothing new."""
        return "" if self.created else _WAY_ON[self.state]()


def enqueue(request: Request, *, actor: str) -> Enqueued:
    """The job with this input exists. Raises EnqueueRefused, with the field; then nothing is stored."""
    return store(prepare(request), actor=actor)


def again(job_id: int, *, reason: str, actor: str) -> Enqueued:
    """A new job with the input of one that ended (K2): its payload says of which, and the how-manieth.

    While one of the line is live, that one is returned. Refuses without a reason.
    """
    if not reason.strip():
        raise EnqueueRefused(_("Say why this is to run again."), field="reason")
    job = Job.objects.select_related("repository", "workflow", "batch").filter(pk=job_id).first()
    if job is None:
        raise EnqueueRefused(_("There is no job J-%(id)d.") % {"id": job_id}, field="again")
    first = job.line_id or job.pk
    line = list(Job.objects.filter(pk=first).union(Job.objects.filter(line_id=first)).order_by("id"))
    for other in line:
        if other.state not in FINAL:
            return Enqueued(other.pk, False, other.idempotency_key, State(other.state))
    definition = workflows.find(job.action, job.workflow.version)
    payload = add_reserved(_given(line[0]), again={"of": first, "n": len(line)})
    request = Request(job.repository.name, job.branch, job.action, payload, job.workflow.version, job.priority)
    key = job_key(job.repository, job.branch, definition, payload)
    prepared = Prepared(request, job.repository, definition, payload, key, line=first)
    return store(prepared, actor=actor, reason=reason.strip()[:500])


def prepare(request: Request) -> Prepared:
    """The request, checked against everything that can refuse it; reads only."""
    return Preparing()(request)


def store(prepared: Prepared, *, actor: str, reason: str = "") -> Enqueued:
    """The prepared job exists, queued and audited, or the one that has its key already is named."""
    (answer,) = _store_together([prepared], actor, reason)
    if isinstance(answer, EnqueueRefused):
        raise answer
    return answer


def enqueue_many(requests: Iterable[Request], *, actor: str) -> Iterator[Enqueued | EnqueueRefused]:
    """As `enqueue` for each request in turn, many to a transaction; a refused one does not stop the others."""
    preparing = Preparing()
    for chunk in _chunks(requests):
        prepared = [_prepared_or_refusal(preparing, request) for request in chunk]
        yield from _store_together(prepared, actor)


class _Rows:
    """Makes job rows; remembers workflow versions, policy and batches within one call."""

    def __init__(self) -> None:
        self._workflows: dict[str, int] = {}
        self._batches: dict[str, int] = {}
        self._policy = policies.active()

    def of(self, prepared: Prepared, actor: str, reason: str) -> dict[str, Any]:
        request, definition = prepared.request, prepared.definition
        budget = self._policy.rules.budget_for(definition.risk, definition.name)
        now = timezone.now()
        return {
            "idempotency_key": prepared.key,
            "repository_id": prepared.repository.pk,
            "branch": request.branch.strip(),
            "action": definition.name,
            "payload": canonical_json(prepared.payload),
            "workflow_id": self._workflow(definition),
            "risk": definition.risk,
            "queue": "agentq",
            "short": definition.short,
            "priority": request.priority,
            "batch_id": self._batch(request.batch, actor, now),
            "line_id": prepared.line,
            "requested_by": actor,
            "takeover_person": request.takeover_person,
            "policy_id": self._policy.pk,
            "created_at": now,
            "state": State.QUEUED,
            "version": 1,
            "fence": 0,
            "next_stage": definition.stages[0],
            "next_run_at": now,
            "pause_reason": "",
            "stop_reason": "",
            "result_digest": "",
            "confirmed_digest": "",
            "cancel_requested": False,
            "pause_requested": "",
            "base_commit": prepared.payload.get("base_sha", ""),
            "base_tree": "",
            "snapshot": "",
            "finished_at": None,
            "charged": 0,
            "max_attempts": definition.max_attempts or budget.attempts,
            "free_claim": False,
            "crashes": 0,
            "seconds_spent": 0.0,
            "max_seconds": budget.seconds or UNLIMITED_SECONDS,
            "tokens_spent": None,
            "max_tokens": budget.context_tokens,
            "deadline": request.deadline,
            "reserved_by": "",
            "reserved_until": None,
            "lease_owner": "",
            "lease_expires_at": None,
            "lease_boot": "",
            "lease_until": 0.0,
            "_reason": reason,
            "_policy": self._policy.number,
        }

    def _workflow(self, definition: WorkflowDefinition) -> int:
        if definition.digest not in self._workflows:
            self._workflows[definition.digest] = workflows.register(definition).pk
        return self._workflows[definition.digest]

    def _batch(self, name: str, actor: str, now: datetime) -> int | None:
        if not name:
            return None
        if name not in self._batches:
            batch, _made = Batch.objects.get_or_create(name=name, defaults={"requested_by": actor, "created_at": now})
            self._batches[name] = batch.pk
        return self._batches[name]


def _insert(prepared: Prepared, row: dict[str, Any]) -> Enqueued:
    reason, policy = row.pop("_reason"), row.pop("_policy")
    known = _known(prepared.key)
    if known is not None:
        return known
    job_id = statement.next_id(Job)
    entry = Entry(
        Event.ENQUEUE,
        row["requested_by"],
        row["created_at"],
        reason=reason,
        policy=policy,
        version=1,
        to_state=State.QUEUED,
        set=history.snapshot(row),
        facts={"key": prepared.key, "action": row["action"], "workflow": prepared.definition.version},
    )
    stream = f"job:{job_id}"
    audited, head, seq = audit.chain(stream, audit.origin(stream), 0, [entry])
    values = {"id": job_id, **row, "audit_seq": seq, "audit_head": head}
    if not statement.insert_new(Job, values, unique="idempotency_key", also=(AuditEvent, audited)):
        # Another process was faster between the look and the insert: its row is the job.
        answer = _known(prepared.key)
        assert answer is not None
        return answer
    if acts_outside(prepared.definition):
        held = transitions.load(job_id, policy=policy)
        transitions.transition(held, Event.HOLD, actor="engine:enqueue", at=row["created_at"], reason="confirm")
        return Enqueued(job_id, True, prepared.key, State.REVIEW)
    return Enqueued(job_id, True, prepared.key, State.QUEUED)


def _known(key: str) -> Enqueued | None:
    found = Job.objects.filter(idempotency_key=key).values_list("pk", "state").first()
    return found and Enqueued(found[0], False, key, State(found[1]))


def _chunks(requests: Iterable[Request]) -> Iterator[list[Request]]:
    rest = iter(requests)
    while chunk := list(islice(rest, BULK)):
        yield chunk


def _store_together(
    prepared: list[Prepared | EnqueueRefused], actor: str, reason: str = ""
) -> list[Enqueued | EnqueueRefused]:
    rows = _Rows()
    with transaction.atomic():
        if len(prepared) > 1 or any(isinstance(each, Prepared) and each.request.batch for each in prepared):
            _take_turns()
        # Every row that jobs share before the first job, so that who holds a key never waits for one of them.
        found = [_row_or_refusal(each, rows, actor, reason) for each in prepared]
        answers = [each if isinstance(each, EnqueueRefused) else _insert(*each) for each in found]
        if any(isinstance(answer, Enqueued) and answer.created for answer in answers):
            _wake()
    return answers


def _row_or_refusal(
    each: Prepared | EnqueueRefused, rows: _Rows, actor: str, reason: str
) -> tuple[Prepared, dict[str, Any]] | EnqueueRefused:
    if isinstance(each, EnqueueRefused):
        return each
    try:
        return each, rows.of(each, actor, reason)
    except EnqueueRefused as refusal:  # its workflow's version is stored with other content
        return refusal


def _take_turns() -> None:
    """Two transactions that store the same inputs in another order would lock each other out (PostgreSQL ends one
    with "deadlock detected", over and over); SQLite has one writer anyway."""
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_xact_lock(hashtext('agentq enqueue'))")


def _prepared_or_refusal(preparing: Preparing, request: Request) -> Prepared | EnqueueRefused:
    try:
        return preparing(request)
    except EnqueueRefused as refusal:
        return refusal


def _given(job: Job) -> dict[str, Any]:
    payload: dict[str, Any] = json.loads(job.payload)
    payload.pop("again", None)
    return payload


def _wake() -> None:
    """Tell idle clusters, once per transaction; on SQLite they poll."""
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_notify('agentq', '')")


_WAY_ON = {
    State.QUEUED: lambda: _("It waits in the queue; nothing more is needed."),
    State.RUNNING: lambda: _("It is running now; nothing more is needed."),
    State.VERIFYING: lambda: _("Its result is being checked now; nothing more is needed."),
    State.FAILED_RETRYABLE: lambda: _("It failed and runs again by itself."),
    State.PAUSED: lambda: _("It is paused until its condition is met; open it to see which."),
    State.REVIEW: lambda: _("A person decides how it goes on; open its review."),
    State.ACCEPTED: lambda: _("It is done. To do it once more, ask for it again and say why."),
    State.FAILED_TERMINAL: lambda: _("It failed for good. To try once more, ask for it again and say why."),
    State.CANCELLED: lambda: _("It was cancelled. To do it after all, ask for it again and say why."),
}
