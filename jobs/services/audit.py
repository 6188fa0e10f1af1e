"""The hash chain: how an event becomes a row, how other streams are written, how a chain is verified (A1)."""

import itertools
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from django.db import IntegrityError, transaction
from django.db.models import CharField, Exists, OuterRef, QuerySet, Value
from django.db.models.functions import Cast, Concat
from django.utils import timezone

from jobs.core.keys import canonical_json, sha256_hex
from jobs.models import AuditEvent, Job

JOB = "job:"
# Losing this many races for a stream's next number in a row means something else is wrong.
ATTEMPTS_AT_A_SEQUENCE_NUMBER = 20


@dataclass(frozen=True, slots=True)
class Entry:
    """What happened, before it has a place in a chain. `set` names the fields whose value it changed."""

    event: str
    actor: str
    at: datetime
    reason: str = ""
    policy: int | None = None
    version: int | None = None
    from_state: str = ""
    to_state: str = ""
    set: Mapping[str, Any] = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict)


def origin(stream: str) -> str:
    """The previous hash of a stream's first event."""
    return sha256_hex(stream)


def chain(stream: str, head: str, seq: int, entries: Iterable[Entry]) -> tuple[list[dict[str, Any]], str, int]:
    """Rows for the entries behind event number `seq` whose hash is `head`; the new head and number."""
    rows = []
    for entry in entries:
        seq += 1
        body = canonical_json(_content(stream, head, seq, entry))
        head = sha256_hex(body)
        rows.append(
            {
                "stream": stream,
                "seq": seq,
                "event": entry.event,
                "actor": entry.actor,
                "at": entry.at,
                "version": entry.version,
                "to_state": entry.to_state,
                "body": body,
                "hash": head,
            }
        )
    return rows, head, seq


def append(stream: str, entry: Entry) -> int:
    """The entry is the newest event of a stream that no row numbers (`node`, `policy`, `auth` …); its number."""
    for _ in range(ATTEMPTS_AT_A_SEQUENCE_NUMBER):
        newest = AuditEvent.objects.filter(stream=stream).order_by("-seq").values_list("seq", "hash").first()
        seq, head = newest or (0, origin(stream))
        rows, _, seq = chain(stream, head, seq, [entry])
        try:
            with transaction.atomic():
                AuditEvent.objects.create(**rows[0])
        except IntegrityError:
            continue  # another process took this number: read the new head and try again
        return seq
    raise IntegrityError(f"no free sequence number in audit stream {stream}")


def note(stream: str, event: str, actor: str, *, reason: str = "", policy: int | None = None, **facts: Any) -> int:
    """`append` for the usual case: now, with facts."""
    return append(stream, Entry(event, actor, timezone.now(), reason=reason, policy=policy, facts=facts))


@dataclass(frozen=True, slots=True)
class Fault:
    """The first row of a stream that does not fit, and why."""

    stream: str
    seq: int
    why: str


def verify(stream: str) -> Fault | None:
    """None when the stream's chain is whole and, for a job's, ends where the job says; else its first fault."""
    faults = _faults(AuditEvent.objects.filter(stream=stream).order_by("seq"))
    jobs = Job.objects.filter(pk=stream.removeprefix(JOB)) if stream.startswith(JOB) else Job.objects.none()
    return next(itertools.chain(faults, _wrong_ends(jobs)), None)


def verify_all() -> tuple[int, list[Fault]]:
    """Number of events read, and the first fault of each broken stream."""
    count = 0

    def counted() -> Iterator[AuditEvent]:
        nonlocal count
        for event in AuditEvent.objects.order_by("stream", "seq").iterator(chunk_size=2000):
            count += 1
            yield event

    first: dict[str, Fault] = {}
    for fault in itertools.chain(_faults(counted()), _wrong_ends(Job.objects.all())):
        first.setdefault(fault.stream, fault)
    return count, list(first.values())


def _wrong_ends(jobs: QuerySet[Job]) -> Iterator[Fault]:
    """Chains that lack their last event or have one too many: a chain alone cannot tell, the job's row can.

    One statement, so that an event that is being written meanwhile is no fault.
    """
    events = AuditEvent.objects.filter(stream=Concat(Value(JOB), Cast(OuterRef("pk"), CharField())))
    last = events.filter(seq=OuterRef("audit_seq"), hash=OuterRef("audit_head"))
    later = events.filter(seq__gt=OuterRef("audit_seq"))
    for job_id, seq in jobs.filter(~Exists(last) | Exists(later)).order_by("pk").values_list("pk", "audit_seq"):
        yield Fault(f"{JOB}{job_id}", seq, "the job's row names another event as its last one")


def _faults(events: Iterable[AuditEvent]) -> Iterator[Fault]:
    stream, seq, head = "", 0, ""
    for event in events:
        if event.stream != stream:
            stream, seq, head = event.stream, 0, origin(event.stream)
        if why := _misfit(event, seq + 1, head):
            yield Fault(event.stream, event.seq, why)
        seq, head = event.seq, event.hash


def _misfit(event: AuditEvent, seq: int, head: str) -> str:
    if event.seq != seq:
        return f"event {seq} is missing"
    if sha256_hex(event.body) != event.hash:
        return "the body does not match its hash"
    try:
        body = json.loads(event.body)
        return _unlike(event, body, head)
    except (ValueError, KeyError, TypeError):
        return "the body is no audit event"


def _unlike(event: AuditEvent, body: dict[str, Any], head: str) -> str:
    if body["prev"] != head:
        return "it does not follow the event before it"
    columns = (event.stream, event.seq, event.event, event.actor, event.at.isoformat(), event.version, event.to_state)
    hashed = tuple(body[name] for name in ("stream", "seq", "event", "actor", "at", "version", "to"))
    return "" if columns == hashed else "a column differs from the hashed body"


def _content(stream: str, head: str, seq: int, entry: Entry) -> dict[str, Any]:
    return {
        "stream": stream,
        "seq": seq,
        "prev": head,
        "at": _plain(entry.at),
        "event": entry.event,
        "actor": entry.actor,
        "reason": entry.reason,
        "policy": entry.policy,
        "version": entry.version,
        "from": entry.from_state,
        "to": entry.to_state,
        "set": {name: _plain(value) for name, value in entry.set.items()},
        "facts": {name: _plain(value) for name, value in entry.facts.items()},
    }


def _plain(value: Any) -> Any:
    return value.astimezone(UTC).isoformat() if isinstance(value, datetime) else value
