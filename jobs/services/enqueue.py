"""Enqueue: one validation, one write, one answer, for the form and the command alike (E1, K1, K2).

`prepare` reads and refuses; `store` writes. The unique constraint on the key decides who made the job: whoever
comes second gets the existing one and its state.
"""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

from django.db import connection, transaction
from django.utils.translation import gettext as _

from jobs import history
from jobs.core.states import FINAL, Event, State
from jobs.errors import EnqueueRefused
from jobs.models import AuditEvent, Job
from jobs.payloads import add_reserved
from jobs.services import audit, inserts, transitions, workflows
from jobs.services.audit import Entry
from jobs.services.candidates import acts_outside
from jobs.services.job_rows import JobRows
from jobs.services.requests import Prepared, Preparing, Request, job_key

BULK = 200


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


def _insert(found: list[tuple[Prepared, dict[str, Any]]]) -> dict[str, Enqueued]:
    """Key → the answer for each; the rows that no other process was faster with are stored with their first event."""
    new: dict[str, tuple[Prepared, dict[str, Any]]] = {}
    for prepared, row in found:
        new.setdefault(prepared.key, (prepared, row))  # of equal requests the first makes the job
    ids = inserts.next_ids(Job, len(new))
    born = [_born(job_id, *each) for job_id, each in zip(ids, new.values(), strict=True)]
    stored = inserts.insert_new(Job, [values for values, _ in born], unique="idempotency_key")
    events = [event for values, rows in born if values["idempotency_key"] in stored for event in rows]
    if events:
        inserts.insert_all(AuditEvent, events)
    answers = {} if len(stored) == len(new) else _known(list(new))
    for job_id, (prepared, row) in zip(ids, new.values(), strict=True):
        if prepared.key in stored:
            answers[prepared.key] = Enqueued(job_id, True, prepared.key, _first_state(job_id, prepared, row))
    return answers


def _born(job_id: int, prepared: Prepared, row: dict[str, Any]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The columns of a new job, and the row of its first event."""
    columns = {name: value for name, value in row.items() if not name.startswith("_")}
    entry = Entry(
        Event.ENQUEUE,
        row["requested_by"],
        row["created_at"],
        reason=row["_reason"],
        policy=row["_policy"],
        version=1,
        to_state=State.QUEUED,
        set=history.snapshot(columns),
        facts={"key": prepared.key, "action": row["action"], "workflow": prepared.definition.version},
    )
    stream = f"job:{job_id}"
    audited, head, seq = audit.chain(stream, audit.origin(stream), 0, [entry])
    return {"id": job_id, **columns, "audit_seq": seq, "audit_head": head}, audited


def _first_state(job_id: int, prepared: Prepared, row: dict[str, Any]) -> State:
    """Queued; a job whose executor acts outside waits for a person's confirmation first (X3)."""
    if not acts_outside(prepared.definition):
        return State.QUEUED
    held = transitions.load(job_id, policy=row["_policy"])
    transitions.transition(held, Event.HOLD, actor="engine:enqueue", at=row["created_at"], reason="confirm")
    return State.REVIEW


def _known(keys: list[str]) -> dict[str, Enqueued]:
    found = Job.objects.filter(idempotency_key__in=keys).values_list("idempotency_key", "pk", "state")
    return {key: Enqueued(job_id, False, key, State(state)) for key, job_id, state in found}


def _chunks(requests: Iterable[Request]) -> Iterator[list[Request]]:
    rest = iter(requests)
    while chunk := list(islice(rest, BULK)):
        yield chunk


def _store_together(
    prepared: list[Prepared | EnqueueRefused], actor: str, reason: str = ""
) -> list[Enqueued | EnqueueRefused]:
    rows = JobRows()
    checked = [each if isinstance(each, EnqueueRefused) else _registered(each, rows) for each in prepared]
    accepted = [each for each in checked if isinstance(each, Prepared)]
    answers = _known([each.key for each in accepted])
    new = [each for each in accepted if each.key not in answers]
    if new:
        with transaction.atomic():
            if len(new) > 1 or any(each.request.batch for each in new):
                _take_turns()
            # Every row that jobs share before the first job, so that who holds a key never waits for one of them.
            answers |= _insert([(each, rows.of(each, actor, reason)) for each in new])
            if any(answer.created for answer in answers.values()):
                _wake()
    return list(_in_order(checked, answers))


def _registered(each: Prepared, rows: JobRows) -> Prepared | EnqueueRefused:
    try:
        rows.workflow(each.definition)
    except EnqueueRefused as refusal:  # its version is stored with other content
        return refusal
    return each


def _in_order(
    checked: list[Prepared | EnqueueRefused], answers: dict[str, Enqueued]
) -> Iterator[Enqueued | EnqueueRefused]:
    """Of several requests with one input the first made the job."""
    for each in checked:
        if isinstance(each, EnqueueRefused):
            yield each
            continue
        yield answers[each.key]
        answers[each.key] = replace(answers[each.key], created=False)


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
