"""Which ready job is the best, found without reading past those that cannot start yet (L1).

The queue's index is ordered by priority, then due time. One look for each priority that is in use: so jobs that are
not due are stepped over together, however many stand at the head.
"""
# ruff: noqa: S608 - the texts are constants, values are always parameters

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import lru_cache

from django.conf import settings
from django.db import connection, transaction
from django.utils import timezone

from jobs.services.statement import Sql

READY = "state IN ('queued', 'failed_retryable')"


NEAR = 16  # more claims than come in one moment


@dataclass(frozen=True, slots=True)
class Reserved:
    """A job that a cluster set aside; `max_seconds` bounds how long its attempt can take."""

    job_id: int
    max_seconds: int


def room(repository_id: int, concurrency: int) -> Sql:
    """A condition over jobs_job: the repository runs fewer jobs than it may (E3); a partial index holds those few.

    Exact where claims that come near the limit take turns; see `turn`.
    """
    live = "SELECT count(*) FROM jobs_job l WHERE l.repository_id = %s AND l.state IN ('running', 'verifying')"
    return Sql(f"({live}) < %s", (repository_id, concurrency))


@contextmanager
def turn(repository_id: int, live: int, concurrency: int, *, always: bool) -> Iterator[None]:
    """A transaction where one is needed: `always`, or because the repository is nearly full.

    Then claims of that repository take turns on PostgreSQL, whose statements count what was committed before they
    began; SQLite has one writer anyway. Far from the limit nobody waits for anybody.
    """
    near = connection.vendor == "postgresql" and concurrency - live <= NEAR
    if not near and not always:
        yield
        return
    with transaction.atomic():
        if near:
            with connection.cursor() as cursor:
                cursor.execute("SELECT pg_advisory_xact_lock(hashtext('agentq repository'), %s)", [repository_id])
        yield


def reserve(cluster: str, queue: str) -> Reserved | None:
    """See `leases.reserve`."""
    if connection.vendor == "postgresql":
        return _on_postgresql(cluster, queue)
    return _on_sqlite(cluster, queue)


def _on_postgresql(cluster: str, queue: str) -> Reserved | None:
    with connection.cursor() as cursor:
        cursor.execute(_text_postgresql(queue), [cluster, settings.AGENTQ_RESERVATION_SECONDS])
        row = cursor.fetchone()
    return None if row is None else Reserved(row[0], row[1])


def _on_sqlite(cluster: str, queue: str) -> Reserved | None:
    now, length = timezone.now(), timedelta(seconds=settings.AGENTQ_RESERVATION_SECONDS)
    # Twice the length: another process's clock was read a little later, and its reservation does count.
    moment, until, too_far = (
        connection.ops.adapt_datetimefield_value(value) for value in (now, now + length, now + 2 * length)
    )
    with connection.cursor() as cursor:
        cursor.execute(_pick_sqlite(queue), [moment, moment, too_far, moment])
        row = cursor.fetchone()
        if row is None:
            return None
        cursor.execute(_TAKE_SQLITE, [cluster, until, row[0], row[2], moment, too_far])
        return Reserved(row[0], row[1]) if cursor.rowcount == 1 else None


@lru_cache
def _text_postgresql(queue: str) -> str:
    # statement_timestamp() does not change while the index is read, clock_timestamp() could: it would be a filter.
    # No ORDER BY outside: priorities come in order, and each is looked at only when it is needed.
    # A crash of the server that loses a reservation costs a delay, so nobody waits for the disk: the setting holds
    # for this transaction only.
    return (
        "UPDATE jobs_job SET reserved_by = %s, reserved_until = clock_timestamp() + make_interval(secs => %s)"
        f" WHERE id = ({_priorities(queue)} SELECT best.id FROM used CROSS JOIN LATERAL ("
        f"SELECT id FROM jobs_job WHERE {_in(queue)} AND priority = used.priority"
        " AND next_run_at <= statement_timestamp()"
        " AND (reserved_until IS NULL OR reserved_until <= statement_timestamp())"
        f" AND (deadline IS NULL OR deadline > statement_timestamp()){_open_to_claim()}"
        " ORDER BY next_run_at, id LIMIT 1 FOR UPDATE SKIP LOCKED) best LIMIT 1)"
        " RETURNING id, max_seconds, set_config('synchronous_commit', 'off', true)"
    )


@lru_cache
def _pick_sqlite(queue: str) -> str:
    # LIMIT -1 keeps the planner from asking the inner question twice for each priority.
    return (
        f"{_priorities(queue)} SELECT id, max_seconds, version FROM jobs_job WHERE id = (SELECT best FROM ("
        f"SELECT (SELECT id FROM jobs_job WHERE {_in(queue)} AND priority = used.priority"
        f" AND next_run_at <= %s AND {_FREE_SQLITE} AND (deadline IS NULL OR deadline > %s){_open_to_claim()}"
        " ORDER BY next_run_at, id LIMIT 1) AS best FROM used LIMIT -1) WHERE best IS NOT NULL LIMIT 1)"
    )


# A reservation further ahead than any can be was made before the clock was set back: it does not count.
_FREE_SQLITE = "(reserved_until IS NULL OR reserved_until <= %s OR reserved_until > %s)"
_TAKE_SQLITE = (
    "UPDATE jobs_job SET reserved_by = %s, reserved_until = %s"
    f" WHERE id = %s AND version = %s AND {READY} AND {_FREE_SQLITE}"
)


def _priorities(queue: str) -> str:
    """Every priority of a ready job, the highest first: one look into the index for each."""
    return (
        f"WITH RECURSIVE used(priority) AS (SELECT max(priority) FROM jobs_job WHERE {_in(queue)} UNION ALL"
        f" SELECT (SELECT max(priority) FROM jobs_job WHERE {_in(queue)} AND priority < used.priority)"
        " FROM used WHERE used.priority IS NOT NULL)"
    )


def _open_to_claim() -> str:
    # The repositories that run as many jobs as they may are found once a statement: their jobs are stepped over
    # together (E3). SQLite would read a whole index to group them by; the one of running jobs holds only those.
    running = "jobs_job l" if connection.vendor == "postgresql" else "jobs_job l INDEXED BY job_leased"
    return (
        " AND (charged < max_attempts OR free_claim) AND seconds_spent < max_seconds AND (batch_id IS NULL"
        " OR batch_id NOT IN (SELECT id FROM jobs_batch WHERE paused_at IS NOT NULL))"
        f" AND repository_id NOT IN (SELECT l.repository_id FROM {running} WHERE l.state IN ('running', 'verifying')"
        " GROUP BY l.repository_id HAVING count(*) >="
        " (SELECT r.concurrency FROM jobs_repository r WHERE r.id = l.repository_id))"
    )


def _in(queue: str) -> str:
    # Part of the text, not a parameter: so PostgreSQL plans the statement once and not at each reservation.
    name = queue.replace("'", "''").replace("%", "%%")
    return f"queue = '{name}' AND {READY}"
