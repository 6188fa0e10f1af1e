"""What a job's record says, and that it holds: history, audit, sweep and blockers as commands (A1, A2, L3)."""

from datetime import timedelta

import pytest
from django.db import connection
from django.utils import timezone

from jobs import triggers
from jobs.core.keys import sha256_hex
from jobs.management import histories
from jobs.models import AuditEvent, Job, WorkflowVersion
from jobs.services import control
from tests import factories


@pytest.fixture
def job(repository):
    """A job with four events; the triggers are lifted, as for somebody who owns the database."""
    job = factories.job(repository)
    control.pause(job.pk, actor="user:ana")
    control.recover(job.pk, actor="user:ana", condition="requested")
    control.cancel(job.pk, actor="user:ana", reason="\x1b[31menough")
    job.refresh_from_db()
    return job


@pytest.fixture
def lifted(job):
    triggers.remove(connection)
    yield
    triggers.install(connection)


@pytest.mark.django_db
def test_the_history_is_one_line_for_each_event_with_the_state_after_it(call, job):
    said = call("job_history", str(job.pk))
    assert [line["event"]["event"] for line in said.lines] == ["enqueue", "pause", "recover", "cancel"]
    assert [line["state"]["state"] for line in said.lines] == ["queued", "paused", "queued", "cancelled"]
    assert said.lines[-1]["event"]["reason"] == "\x1b[31menough"
    assert all(line.isprintable() for line in said.stdout.splitlines())


@pytest.mark.django_db
def test_a_moment_in_the_past_shows_the_job_as_it_was_then(call, job):
    then = AuditEvent.objects.get(stream=f"job:{job.pk}", event="pause").at
    said = call("job_history", f"J-{job.pk}", "--at", then.isoformat())
    assert said.lines[-1]["state"]["state"] == "paused"
    earlier = call("job_history", f"J-{job.pk}", "--at", (then - timedelta(days=1)).isoformat())
    assert earlier.stdout == ""


@pytest.mark.django_db
def test_an_untouched_job_is_equal(call, job):
    assert call("job_history", str(job.pk), "--verify").stdout.startswith(f"J-{job.pk}: equal")
    (said,) = call("job_history", str(job.pk), "--verify", "--json").lines
    assert said == {"job_id": job.pk, "equal": True, "differences": {}, "fault": None}


@pytest.mark.django_db
def test_a_row_that_was_edited_differs_and_is_named(call, refusal, job, lifted):
    Job.objects.filter(pk=job.pk).update(priority=5)
    said = refusal("job_history", str(job.pk), "--verify")
    assert said.code == 1 and "priority: 0 by its events, 5 in its row" in said.stdout and "equal" not in said.stdout
    said = refusal("verify_audit", "--json")
    assert said.code == 1
    assert said.lines[0]["differences"] == [{"job_id": job.pk, "fields": {"priority": {"rebuilt": 0, "stored": 5}}}]


@pytest.mark.django_db
@pytest.mark.parametrize("body", ['{"changed": true}', "not JSON", "[]", "null"])
@pytest.mark.parametrize("rehashed", [False, True])
def test_an_audit_event_that_was_edited_is_named(refusal, job, lifted, body, rehashed):
    change = {"body": body} | ({"hash": sha256_hex(body)} if rehashed else {})
    AuditEvent.objects.filter(stream=f"job:{job.pk}", seq=2).update(**change)
    said = refusal("verify_audit")
    assert said.code == 1 and f"job:{job.pk}, event 2:" in said.stdout
    (found,) = refusal("verify_audit", "--json").lines
    assert [(fault["stream"], fault["seq"]) for fault in found["faults"]] == [(f"job:{job.pk}", 2)]
    said = refusal("job_history", str(job.pk), "--verify")
    assert said.code == 1 and f"Event 2 of J-{job.pk}" in said.stdout


@pytest.mark.django_db
def test_a_history_that_cannot_be_read_any_more_says_so(refusal, job, lifted):
    AuditEvent.objects.filter(stream=f"job:{job.pk}", seq=2).update(body="not JSON")
    said = refusal("job_history", str(job.pk))
    assert said.code == 1 and len(said.lines) == 1 and "--verify" in said.stderr


@pytest.mark.django_db
def test_a_chain_whose_end_was_cut_off_is_named(refusal, job, lifted):
    AuditEvent.objects.filter(stream=f"job:{job.pk}", seq=4).delete()
    assert refusal("verify_audit").code == 1
    assert refusal("job_history", str(job.pk), "--verify").code == 1


@pytest.mark.django_db
def test_a_whole_audit_trail_is_counted(call, job):
    factories.job(job.repository)
    (said,) = call("verify_audit", "--json").lines
    events = AuditEvent.objects.count()
    assert said == {"ok": True, "events": events, "jobs": 2, "faults": [], "differences": []}
    assert f"{events} events and 2 jobs" in call("verify_audit").stdout


@pytest.mark.django_db
def test_jobs_are_read_page_by_page_and_none_is_left_out(job, monkeypatch):
    monkeypatch.setattr(histories, "PAGE", 2)
    more = [factories.job(job.repository).pk for _number in range(4)]
    assert [found.pk for found in histories.all_jobs()] == [job.pk, *more]


@pytest.mark.django_db
def test_a_job_that_moves_on_while_it_is_compared_is_no_difference(job):
    queued = factories.job(job.repository)
    control.pause(queued.pk, actor="user:ana")  # `queued` is now what a reader saw a moment ago
    assert histories.differences(queued) == {}


@pytest.mark.django_db
@pytest.mark.parametrize("command", ["job_history", "why_not_running"])
def test_a_job_that_is_not_there_is_named(refusal, command):
    said = refusal(command, "987654")
    assert (said.code, said.stdout) == (2, "") and "J-987654" in said.stderr


@pytest.mark.django_db
def test_verifying_a_moment_in_the_past_is_bad_usage(refusal, job):
    assert refusal("job_history", str(job.pk), "--verify", "--at", "2026-01-01T00:00:00Z").code == 2


@pytest.mark.django_db
def test_a_sweep_hands_a_job_past_its_deadline_to_a_person_and_retires_lost_workflows(call, repository):
    job = factories.job(repository, deadline=timezone.now() + timedelta(hours=1))
    WorkflowVersion.objects.create(name="gone", version="v1", document="{}", digest="0" * 64, created_at=timezone.now())
    assert call("reconcile", "--json").lines == [{"expired": 0, "held": 0, "nodes_lost": 0, "workflow_versions": 1}]
    Job.objects.filter(pk=job.pk).update(deadline=timezone.now())
    assert call("reconcile", "--json").lines[0]["held"] == 1
    assert Job.objects.get(pk=job.pk).state == "review"
    assert "handed to a person: 0" in call("reconcile").stdout


@pytest.mark.django_db
def test_the_blockers_stand_in_order_with_what_happens_next(call, repository):
    job = factories.job(repository, batch="night")
    control.pause_batch(job.batch, actor="user:ana")
    said = call("why_not_running", str(job.pk)).stdout
    assert said.startswith(f"J-{job.pk} [paused]")
    assert "1. It is paused: its batch is paused. (state_paused; " in said and "Next" in said
    (found,) = call("why_not_running", f"J-{job.pk}", "--json").lines
    assert found["job_id"] == job.pk and found["claimable"] is False
    assert found["blockers"][0]["code"] == "state_paused"
