"""What the benchmark runs on: a made-up repository, real jobs, and bulk-loaded copies of jobs as ballast."""

import itertools
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta

from django.conf import settings
from django.db import connection, transaction
from django.utils import timezone

from jobs import triggers
from jobs.core.stages import Stage
from jobs.models import Batch
from jobs.services import enqueue, repositories, transitions
from jobs.services.audit import Entry
from jobs.services.requests import Request

ACTION = "sample-agent"
ACTOR = "engine:bench"
QUEUE = "agentq"
_TABLES = ("evidence", "checkpoint", "attempt", "reviewdecision", "reviewcase", "sideeffect", "job", "auditevent")


def set_up() -> str:
    """A repository with one commit is registered; its name."""
    source = settings.DATA_DIR / "source"
    source.mkdir()
    (source / "README.md").write_text("Made for the benchmark.\n")
    for words in (
        ("init", "--quiet", "--initial-branch=main"),
        ("add", "README.md"),
        ("commit", "--quiet", "-m", "first"),
    ):
        subprocess.run(["git", *_AUTHOR, *words], cwd=source, check=True, capture_output=True)
    registered, _facts = repositories.register(
        name="bench/source", location=str(source), actor=ACTOR, concurrency=30_000
    )
    with connection.cursor() as cursor:
        # Ids that no version, fence or sequence number of a job equals: a recording tells them apart by value.
        cursor.execute(_FIRST_ID[connection.vendor])
    return registered.name


_loads = itertools.count(1)
_AUTHOR = ("-c", "user.name=AgentQ", "-c", "user.email=agentq@localhost", "-c", "commit.gpgsign=false")


def requests(repository: str, count: int, label: str) -> Iterator[Request]:
    """Requests that differ in their text only: one job each."""
    for number in range(count):
        yield Request(repository, "main", ACTION, {"paths": ["notes.md"], "text": f"{label} {number}"})


def load(repository: str, count: int, first_stage: Stage = Stage.READ) -> list[int]:
    """New real jobs, enqueued as by a person and ready to start at this stage; their ids."""
    wanted = requests(repository, count, f"load {next(_loads)}")
    answers = enqueue.enqueue_many(wanted, actor=ACTOR)
    ids = [answer.job_id for answer in answers if isinstance(answer, enqueue.Enqueued)]
    if first_stage is not Stage.READ:
        with transaction.atomic():
            for job_id in ids:
                entry = Entry("starts_at", ACTOR, timezone.now(), facts={"stage": first_stage})
                transitions.record(transitions.load(job_id), entry, job={"next_stage": first_stage})
    settle()
    return ids


def clear() -> None:
    """No job and no audit event is left; the repository stays."""
    triggers.remove(connection)
    with connection.cursor() as cursor:
        for table in _TABLES:
            cursor.execute(f"DELETE FROM jobs_{table}")  # noqa: S608
    triggers.install(connection)
    settle()


def settle() -> None:
    """The planner knows what the tables hold, and no clean-up of earlier rows runs beside the measuring."""
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            cursor.execute("VACUUM ANALYZE")
        else:
            cursor.execute("ANALYZE")
            cursor.execute("PRAGMA wal_checkpoint(TRUNCATE)")


@dataclass(frozen=True, slots=True)
class Copies:
    """How many copies of a job to make, and which of its columns differ (SQL expressions)."""

    count: int
    job: dict[str, str]


def copy(template: int, copies: Copies) -> None:
    """Copies of a stored job with its attempt and its first two audit events, written with the triggers lifted.

    Their audit chains are copies too and do not verify: ballast, never to be run.
    """
    with triggers.lifted(connection), transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SELECT max(id) FROM jobs_job")
        base = cursor.fetchone()[0]
        number = f"(n + {base})"
        job = {"id": number, "idempotency_key": _KEY[connection.vendor].format(number=number), **copies.job}
        _copy_rows(cursor, "jobs_job", f"t.id = {template}", job, copies.count)
        own = {"id": None, "job_id": number}
        _copy_rows(cursor, "jobs_attempt", f"t.job_id = {template}", own, copies.count)
        event = {"id": None, "stream": f"'job:' || {number}"}
        _copy_rows(cursor, "jobs_auditevent", f"t.stream = 'job:{template}' AND t.seq <= 2", event, copies.count)
        if connection.vendor == "postgresql":
            cursor.execute("SELECT setval(pg_get_serial_sequence('jobs_job', 'id'), (SELECT max(id) FROM jobs_job))")
    settle()


def blocked(template: int, count: int) -> None:
    """Jobs that cannot start yet and stand before all others: one half not due, the other half in a paused batch."""
    now = timezone.now()
    batch = Batch.objects.create(name="paused", requested_by=ACTOR, created_at=now, paused_at=now)
    later = connection.ops.adapt_datetimefield_value(now + timedelta(days=1))
    copy(template, Copies(count // 2, {"priority": "100", "next_run_at": f"'{later}'"}))
    copy(template, Copies(count - count // 2, {"priority": "100", "batch_id": str(batch.pk)}))


def _copy_rows(cursor: object, table: str, which: str, different: Mapping[str, str | None], count: int) -> None:
    with connection.cursor() as look:
        columns = [column.name for column in connection.introspection.get_table_description(look, table)]
    kept = [name for name in columns if different.get(name, "") is not None]
    names = ", ".join(f'"{name}"' for name in kept)
    values = ", ".join(different.get(name) or f't."{name}"' for name in kept)
    series = _SERIES[connection.vendor].format(count=count)
    cursor.execute(f"INSERT INTO {table} ({names}) SELECT {values} FROM {table} t, {series} WHERE {which}")  # type: ignore[attr-defined]  # noqa: S608


_FIRST_ID = {
    "postgresql": "SELECT setval(pg_get_serial_sequence('jobs_job', 'id'), 1000000)",
    "sqlite": "REPLACE INTO sqlite_sequence (rowid, name, seq)"
    " VALUES ((SELECT rowid FROM sqlite_sequence WHERE name = 'jobs_job'), 'jobs_job', 1000000)",
}
_KEY = {"postgresql": "lpad(to_hex({number}), 64, '0')", "sqlite": "printf('%064x', {number})"}
_SERIES = {
    "postgresql": "generate_series(1, {count}) n",
    "sqlite": "(WITH RECURSIVE s(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < {count}) SELECT n FROM s)",
}
