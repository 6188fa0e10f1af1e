"""Enqueue: one job per input, decided by the database; the way on for what exists (K1, K2, K4, E1)."""

import json

import pytest

from jobs import history
from jobs.core.keys import make_idempotency_key
from jobs.core.states import Event, State
from jobs.errors import EnqueueRefused
from jobs.models import AuditEvent, Job
from jobs.services import audit, clock, control, enqueue, transitions
from tests import factories

pytestmark = pytest.mark.django_db


def request(repository, **values):
    payload = values.pop("payload", {"paths": ["notes.md"], "text": "hello"})
    return enqueue.Request(repository.name, "main", "sample-agent", payload, **values)


def test_a_new_input_is_queued_with_its_key_and_one_audit_event(repository):
    answer = enqueue.enqueue(request(repository), actor="user:ana")
    job = Job.objects.get(pk=answer.job_id)
    assert answer.created and answer.state is State.QUEUED
    assert job.idempotency_key == make_idempotency_key(
        repo=repository.name,
        branch="main",
        action="sample-agent",
        payload=json.loads(job.payload),
        workflow_version=job.workflow.version,
    )
    assert [event.event for event in AuditEvent.objects.filter(stream=f"job:{job.pk}")] == ["enqueue"]
    assert audit.verify(f"job:{job.pk}") is None
    assert history.differences(job) == {}


def test_the_same_input_gives_the_same_job_and_changes_nothing(repository):
    first = enqueue.enqueue(request(repository), actor="user:ana")
    again = enqueue.enqueue(
        enqueue.Request(
            f"  {repository.name.upper()} ", " main ", "sample-agent", {"text": "hello", "paths": ["notes.md"]}
        ),
        actor="user:bob",
    )
    assert (again.created, again.job_id, again.state) == (False, first.job_id, State.QUEUED)
    assert AuditEvent.objects.filter(stream=f"job:{first.job_id}").count() == 1
    assert Job.objects.get(pk=first.job_id).requested_by == "user:ana"


def test_a_finished_job_names_again_as_the_way_on(repository):
    first = enqueue.enqueue(request(repository), actor="user:ana")
    control.cancel(first.job_id, actor="user:ana", reason="not needed")
    answer = enqueue.enqueue(request(repository), actor="user:ana")
    assert (answer.created, answer.state) == (False, State.CANCELLED)
    assert "again" in answer.way_on


def test_again_makes_one_new_job_per_ended_one_and_a_double_click_returns_it(repository):
    first = enqueue.enqueue(request(repository), actor="user:ana")
    control.cancel(first.job_id, actor="user:ana", reason="not needed")
    second = enqueue.again(first.job_id, reason="needed after all", actor="user:ana")
    click = enqueue.again(first.job_id, reason="needed after all", actor="user:ana")
    assert second.created and not click.created and click.job_id == second.job_id
    payload = json.loads(Job.objects.get(pk=second.job_id).payload)
    assert payload["again"] == {"of": first.job_id, "n": 1}
    control.cancel(second.job_id, actor="user:ana", reason="no")
    third = enqueue.again(second.job_id, reason="yes", actor="user:ana")
    assert json.loads(Job.objects.get(pk=third.job_id).payload)["again"] == {"of": first.job_id, "n": 2}


def test_again_needs_a_reason(repository):
    first = enqueue.enqueue(request(repository), actor="user:ana")
    with pytest.raises(EnqueueRefused):
        enqueue.again(first.job_id, reason="  ", actor="user:ana")


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"repo": "nowhere"}, "repo"),
        ({"branch": "gone"}, "branch"),
        ({"branch": "bad..name"}, "branch"),
        ({"action": "sample-agnt"}, "action"),
        ({"workflow_version": "v999"}, "workflow_version"),
        ({"payload": {"paths": ["a"], "text": "b", "surprise": 1}}, "surprise"),
        ({"payload": {"paths": ["a"], "text": "b", "base_sha": "0"}}, "base_sha"),
        ({"priority": 1000}, "priority"),
        ({"deadline": clock.timezone.now()}, "deadline"),
    ],
)
def test_a_wrong_request_is_refused_at_its_field_and_stores_nothing(repository, change, field):
    values = {"repo": repository.name, "branch": "main", "action": "sample-agent"}
    values |= {"payload": {"paths": ["a"], "text": "b"}} | change
    with pytest.raises(EnqueueRefused) as refusal:
        enqueue.enqueue(enqueue.Request(**values), actor="user:ana")
    assert refusal.value.field == field
    assert not Job.objects.exists()


def test_identity_by_base_commit_makes_a_moved_branch_new_work(repository, tmp_path):
    asked = enqueue.Request(repository.name, "main", "format-code", {"paths": ["**"]})
    first = enqueue.enqueue(asked, actor="user:ana")
    assert not enqueue.enqueue(asked, actor="user:ana").created
    source = tmp_path / "source"
    (source / "new.txt").write_text("x\n")
    factories.git(source, "add", "--all")
    factories.git(source, "commit", "--quiet", "-m", "second")
    moved = enqueue.enqueue(asked, actor="user:ana")
    assert moved.created and moved.job_id != first.job_id
    assert json.loads(Job.objects.get(pk=moved.job_id).payload)["base_sha"] == factories.git(
        source, "rev-parse", "HEAD"
    )


def test_many_requests_are_answered_one_by_one_and_a_refused_one_stops_none(repository):
    requests = [request(repository, payload={"paths": ["a"], "text": str(number)}) for number in range(5)]
    requests.insert(2, request(repository, payload={"paths": ["a"]}))
    answers = list(enqueue.enqueue_many(requests, actor="user:ana"))
    assert [isinstance(answer, EnqueueRefused) for answer in answers] == [False, False, True, False, False, False]
    assert Job.objects.count() == 5
    second = list(enqueue.enqueue_many(requests, actor="user:ana"))
    assert [answer.created for answer in second if not isinstance(answer, EnqueueRefused)] == [False] * 5


def test_a_job_rebuilds_from_its_events_after_being_paused_and_cancelled(repository):
    job = factories.job(repository)
    control.pause(job.pk, actor="user:ana")
    control.recover(job.pk, actor="user:ana", condition="requested")
    control.cancel(job.pk, actor="user:ana", reason="enough")
    job.refresh_from_db()
    assert job.state == State.CANCELLED
    assert history.differences(job) == {}
    assert transitions.load(job.pk).version == 4
    assert Event.RECOVER in [moment.event["event"] for moment in history.replay(job.pk)]
