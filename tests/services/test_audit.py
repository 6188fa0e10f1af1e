"""Every change of an audit stream is found and named, and many writers share one stream (A1)."""

import json

import pytest
from django.db import connection

from jobs import triggers
from jobs.core.keys import canonical_json, sha256_hex
from jobs.core.states import Event
from jobs.models import AuditEvent, Job
from jobs.services import audit, clock
from jobs.services.audit import Entry
from tests.services import situations

pytestmark = pytest.mark.django_db


@pytest.fixture
def stream(registered):
    """A job's stream of five events, and a second whole one beside it."""
    job = situations.new(registered)
    situations.claim(job)
    for event in (Event.RELEASE, Event.PAUSE, Event.RECOVER):
        situations.act(job, event)
    situations.new(registered)
    return f"job:{job.pk}"


def events(stream: str) -> list[AuditEvent]:
    return list(AuditEvent.objects.filter(stream=stream).order_by("seq"))


def change(event: AuditEvent, /, **values) -> None:
    with triggers.lifted(connection):
        AuditEvent.objects.filter(pk=event.pk).update(**values)


def rewritten(event: AuditEvent, **body) -> dict:
    """What somebody who knows how the chain is made would write."""
    text = canonical_json(json.loads(event.body) | body)
    return {"body": text, "hash": sha256_hex(text)} | {name: body[name] for name in ("actor",) if name in body}


def found(stream: str) -> tuple[int, str]:
    """What `verify` says; `verify_all` must say the same, and of this stream only."""
    fault = audit.verify(stream)
    assert fault is not None and fault.stream == stream
    count, faults = audit.verify_all()
    assert faults == [fault]
    assert count == AuditEvent.objects.count()
    return fault.seq, fault.why


def test_whole_chains_are_whole(stream):
    assert len(events(stream)) == 5
    assert audit.verify(stream) is None
    assert audit.verify_all() == (AuditEvent.objects.count(), [])


@pytest.mark.parametrize("seq", [1, 3, 5])
@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("actor", "user:eve"), ("event", "accept"), ("to_state", "accepted"), ("version", 77),
        ("at", clock.timezone.now()), ("body", "{}"), ("hash", "0" * 64),
    ],
)  # fmt: skip
def test_an_edited_column_is_found_at_its_event(stream, seq, column, value):
    change(events(stream)[seq - 1], **{column: value})
    assert found(stream)[0] == seq


@pytest.mark.parametrize("seq", [1, 3])
def test_an_edit_with_a_right_hash_is_found_at_the_next_event(stream, seq):
    event = events(stream)[seq - 1]
    change(event, **rewritten(event, actor="user:eve"))
    assert found(stream) == (seq + 1, "it does not follow the event before it")


def test_an_edit_of_the_last_event_with_a_right_hash_is_found_by_the_job_s_row(stream):
    event = events(stream)[-1]
    change(event, **rewritten(event, actor="user:eve"))
    assert found(stream) == (5, "the job's row names another event as its last one")


def test_a_body_that_is_no_event_is_a_fault_and_no_crash(stream):
    for text in ("not json", "[]", '"x"', "{}"):
        change(events(stream)[1], body=text, hash=sha256_hex(text))
        assert found(stream) == (2, "the body is no audit event")


@pytest.mark.parametrize("seq", [1, 2, 4])
def test_a_deleted_event_is_missed(stream, seq):
    with triggers.lifted(connection):
        AuditEvent.objects.filter(stream=stream, seq=seq).delete()
    assert found(stream) == (seq + 1, f"event {seq} is missing")


def test_a_deleted_end_is_missed(stream):
    with triggers.lifted(connection):
        AuditEvent.objects.filter(stream=stream, seq__gte=4).delete()
    assert found(stream)[1] == "the job's row names another event as its last one"


def test_a_whole_stream_that_was_deleted_is_missed(stream):
    with triggers.lifted(connection):
        AuditEvent.objects.filter(stream=stream).delete()
    assert found(stream)[1] == "the job's row names another event as its last one"


def test_an_event_put_at_the_end_is_found(stream):
    last = events(stream)[-1]
    rows, _, _ = audit.chain(stream, last.hash, last.seq, [Entry("accept", "user:eve", clock.now())])
    AuditEvent.objects.create(**rows[0])
    assert found(stream)[1] == "the job's row names another event as its last one"


def test_an_event_put_in_between_is_found(stream):
    chain = events(stream)
    with triggers.lifted(connection):
        for event in reversed(chain[2:]):
            AuditEvent.objects.filter(pk=event.pk).update(seq=event.seq + 1)
    rows, _, _ = audit.chain(stream, chain[1].hash, 2, [Entry("note", "user:eve", clock.now())])
    AuditEvent.objects.create(**rows[0])
    assert found(stream)[0] == 4


def test_two_events_that_changed_places_are_found(stream):
    second, third = events(stream)[1:3]
    with triggers.lifted(connection):
        AuditEvent.objects.filter(pk=second.pk).update(seq=99)
        AuditEvent.objects.filter(pk=third.pk).update(seq=2)
        AuditEvent.objects.filter(pk=second.pk).update(seq=3)
    assert found(stream)[0] == 2


def test_an_event_moved_from_another_stream_is_found(stream):
    other = AuditEvent.objects.exclude(stream=stream).filter(stream__startswith="job:").get()
    with triggers.lifted(connection):
        AuditEvent.objects.filter(pk=other.pk).update(stream=stream, seq=6)
    assert audit.verify(stream).seq == 6
    assert {fault.stream for fault in audit.verify_all()[1]} == {stream, other.stream}


def test_the_first_fault_of_each_broken_stream_is_named(stream):
    job_id = Job.objects.latest("pk").pk
    for broken in (stream, f"job:{job_id}"):
        for event in events(broken):
            change(event, actor="user:eve")
    assert [(fault.stream, fault.seq) for fault in audit.verify_all()[1]] == [(stream, 1), (f"job:{job_id}", 1)]


def test_streams_without_rows_count_up_from_one_and_verify():
    assert [audit.note("node", "seen", "node:1", load=number) for number in range(3)] == [1, 2, 3]
    assert audit.verify("node") is None
    assert events("node")[0].body.startswith("{")
    assert json.loads(events("node")[0].body)["prev"] == sha256_hex("node")


def test_a_writer_that_loses_the_race_for_a_number_takes_the_next(monkeypatch):
    audit.note("node", "first", "node:1")
    chained, lost = audit.chain, []

    def slow(stream, head, seq, entries):
        if not lost:
            lost.append(seq)
            audit.note("node", "faster", "node:2")
        return chained(stream, head, seq, entries)

    monkeypatch.setattr(audit, "chain", slow)
    assert audit.append("node", Entry("slower", "node:1", clock.now())) == 3
    assert [event.event for event in events("node")] == ["first", "faster", "slower"]
    assert audit.verify("node") is None


def test_no_event_is_without_an_actor_and_all_times_are_utc(stream):
    for event in events(stream):
        body = json.loads(event.body)
        assert event.actor and body["actor"] == event.actor
        assert body["at"].endswith("+00:00")
