"""The state machine at the database's own prompt: what plain SQL can and cannot do to a job (S2, A1)."""

import pytest
from django.db import IntegrityError, transaction

from jobs.core.states import ACTIVE, FINAL, PAIRS, Event, State
from jobs.models import AuditEvent, Job
from jobs.services import audit, clock
from jobs.services.audit import Entry
from tests.services import situations
from tests.services.situations import DIGEST, act, in_state

pytestmark = pytest.mark.django_db


def sql_change(job: Job, target: State) -> dict:
    """Everything that a legal change to this state would set, so that only the rule in question can refuse it."""
    lease = {"lease_owner": "w", "lease_expires_at": clock.now()} if target in ACTIVE else {}
    return {
        "lease_owner": "",
        "lease_expires_at": None,
        **lease,
        "state": target,
        "version": job.version + 1,
        "finished_at": clock.now() if target in FINAL else None,
        "pause_reason": "requested" if target is State.PAUSED else "",
        "stop_reason": "because",
        "result_digest": DIGEST,
    }


def audited(job: Job, target: State, **values) -> dict:
    """The audit row that the change needs, written beforehand; the job's columns that go with it."""
    entry = Entry("sql", "user:dba", clock.now(), version=job.version + 1, to_state=target)
    rows, head, seq = audit.chain(f"job:{job.pk}", job.audit_head, job.audit_seq, [entry])
    AuditEvent.objects.create(**rows[0] | values)
    return {"audit_seq": seq, "audit_head": head}


@pytest.mark.parametrize("source", State)
def test_by_sql_exactly_the_pairs_of_the_table_pass_and_only_with_their_audit_row(registered, source):
    for target in set(State) - {source}:
        job = in_state(situations.new(registered), source)
        row = Job.objects.filter(pk=job.pk)
        with pytest.raises(IntegrityError), transaction.atomic():
            row.update(**sql_change(job, target))
        if (source, target) in PAIRS:
            row.update(**sql_change(job, target) | audited(job, target))
            assert row.get().state == target
        else:
            with pytest.raises(IntegrityError, match="illegal change"), transaction.atomic():
                row.update(**sql_change(job, target) | audited(job, target))
            assert row.get().state == source


@pytest.mark.parametrize(
    "wrong",
    [{"to_state": "cancelled"}, {"version": 7}, {"stream": "job:0"}, {"version": None}],
    ids=["other state", "other version", "other stream", "no version"],
)
def test_an_audit_row_of_something_else_does_not_cover_a_change(registered, wrong):
    job = in_state(situations.new(registered), State.QUEUED)
    with pytest.raises(IntegrityError, match="audit event"), transaction.atomic():
        Job.objects.filter(pk=job.pk).update(**sql_change(job, State.PAUSED) | audited(job, State.PAUSED, **wrong))
    assert Job.objects.get(pk=job.pk).state == State.QUEUED


def test_an_old_audit_row_does_not_cover_a_new_change(registered):
    job = in_state(situations.new(registered), State.PAUSED)
    act(job, Event.RECOVER)
    row = Job.objects.get(pk=job.pk)
    with pytest.raises(IntegrityError), transaction.atomic():
        Job.objects.filter(pk=job.pk).update(**sql_change(row, State.PAUSED) | {"version": 2})


@pytest.mark.parametrize("state", [state for state in State if state is not State.QUEUED])
def test_a_job_is_born_queued_and_in_no_other_state(registered, state):
    job = situations.new(registered)
    values = Job.objects.values().get(pk=job.pk) | sql_change(job, state)
    with pytest.raises(IntegrityError, match="starts as queued"), transaction.atomic():
        Job.objects.create(**values | {"id": job.pk + 1, "idempotency_key": "f" * 64})


@pytest.mark.parametrize("number", ["fence", "version", "audit_seq"])
def test_the_numbers_of_a_job_never_fall(registered, number):
    job = in_state(situations.new(registered), State.RUNNING)
    with pytest.raises(IntegrityError, match="never fall"), transaction.atomic():
        Job.objects.filter(pk=job.pk).update(**{number: getattr(job, number) - 1})


OTHER = {
    "idempotency_key": "f" * 64,
    "payload": "{}",
    "branch": "other",
    "action": "other",
    "risk": "read_only",
    "requested_by": "user:eve",
    "created_at": "2026-01-01 00:00:00+00:00",
    "id": 999_999,
    "repository_id": 999_999,
    "workflow_id": 999_999,
    "policy_id": 999_999,
}


@pytest.mark.parametrize("column", OTHER)
def test_the_input_of_a_job_never_changes(registered, column):
    job = situations.new(registered)
    with pytest.raises(IntegrityError, match="keeps its input"), transaction.atomic():
        situations.execute(f"UPDATE jobs_job SET {column} = %s WHERE id = %s", OTHER[column], job.pk)
