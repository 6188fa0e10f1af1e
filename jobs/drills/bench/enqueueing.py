"""How many jobs a second are written to the queue: one by one, in bulk, and when they are there already."""

from collections.abc import Callable, Iterable, Sequence
from functools import partial

from django.db import connection

from jobs.drills.bench import raw, scene
from jobs.drills.bench.figures import Figure, middle
from jobs.drills.bench.processes import together
from jobs.models import Job
from jobs.services import enqueue
from jobs.services.requests import Prepared, Preparing

ROUNDS = 3
BULK_FACTOR = 4  # bulk is so fast that it needs more jobs to be timed


def measure(repository: str, jobs: int) -> list[Figure]:
    """One process: each workload in rounds, raw and engine in turn."""
    share = max(jobs // ROUNDS, 1)
    bars = _BARS[connection.vendor]
    one: list[tuple[float, float]] = []
    whole: list[tuple[float, float]] = []
    bulk: list[tuple[float, float]] = []
    again: list[tuple[float, float]] = []
    for _ in range(ROUNDS):
        scene.clear()
        bare = _rate(partial(_raw_inserts, repository, share, one_by_one=True))
        scene.clear()
        preparing = Preparing()
        prepared = [preparing(request) for request in scene.requests(repository, share, "one")]
        one.append((_rate(partial(_store_each, prepared)), bare))
        again.append((_rate(partial(_store_each, prepared)), _rate(partial(_raw_duplicates, share))))
        whole.append((_rate(partial(_enqueue_each, repository, share // 4)), bare))
        scene.clear()
        bare = _rate(partial(_raw_inserts, repository, share * BULK_FACTOR, one_by_one=False))
        scene.clear()
        bulk.append((_rate(partial(_enqueue_many, repository, share * BULK_FACTOR)), bare))
    return [
        _figure("enqueue, one by one, the write", one, bars[0]),
        _figure("enqueue, one by one, checks and git look-up too", whole, (None, None)),
        _figure("enqueue, bulk, checks too", bulk, bars[1]),
        _figure("enqueue, duplicates, the write", again, bars[2]),
    ]


_BARS: dict[str, tuple[tuple[float | None, float | None], ...]] = {
    "postgresql": ((800, 1000), (None, 9000), (None, 3500)),
    "sqlite": ((800, 1000), (None, 9000), (None, 3500)),
}


def _figure(name: str, pairs: list[tuple[float, float]], bars: tuple[float | None, float | None]) -> Figure:
    mine, bare = (middle(column) for column in zip(*pairs, strict=True))
    return Figure(name, mine, "jobs/s", bare, None, *bars, ratios=tuple(one / other for one, other in pairs))


def _rate(work: Callable[[], int]) -> float:
    return together(1, lambda _number: work()).rate


def _store_each(prepared: Sequence[Prepared]) -> int:
    for each in prepared:
        enqueue.store(each, actor=scene.ACTOR)
    return len(prepared)


def _enqueue_each(repository: str, count: int) -> int:
    for request in scene.requests(repository, count, "whole"):
        enqueue.enqueue(request, actor=scene.ACTOR)
    return count


def _enqueue_many(repository: str, count: int) -> int:
    return len(list(enqueue.enqueue_many(scene.requests(repository, count, "bulk"), actor=scene.ACTOR)))


def _raw_inserts(repository: str, count: int, *, one_by_one: bool) -> int:
    """The rows of one real job, again and again under other ids and keys: a job and its audit event."""
    (template,) = scene.load(repository, 1)
    job, event = raw.Copied("jobs_job", f"id = {template}"), raw.Copied("jobs_auditevent", f"stream = 'job:{template}'")
    cursor = raw.driver_cursor()
    for numbers in _groups(count, 1 if one_by_one else enqueue.BULK):
        cursor.execute("BEGIN IMMEDIATE" if connection.vendor == "sqlite" else "BEGIN")
        for number in numbers:
            job.insert(cursor, id=template + number, idempotency_key=f"{number:064x}")
            event.insert(cursor, stream=f"job:{template + number}")
        cursor.execute("COMMIT")
    if connection.vendor == "postgresql":
        cursor.execute("SELECT setval(pg_get_serial_sequence('jobs_job', 'id'), (SELECT max(id) FROM jobs_job))")
    return count


def _raw_duplicates(count: int) -> int:
    """The least that tells a duplicate: look the key up."""
    keys = list(Job.objects.values_list("idempotency_key", flat=True)[:count])
    cursor = raw.driver_cursor()
    place = "%s" if connection.vendor == "postgresql" else "?"
    for key in keys:
        cursor.execute(f"SELECT id, state FROM jobs_job WHERE idempotency_key = {place}", [key]).fetchone()  # noqa: S608
    return len(keys)


def _groups(count: int, size: int) -> Iterable[range]:
    return (range(first, min(first + size, count + 1)) for first in range(1, count + 1, size))
