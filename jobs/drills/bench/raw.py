"""The raw SQL loops that the engine is compared with: the driver alone, on the same database in the same run.

`claim_and_finish` is the bare minimum of any queue, in a narrow table of its own: two commits a job. `Recording`
sends the very writes that the engine sent for one job again for other jobs: the same rows without its Python.
"""

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from django.db import connection

from jobs.drills.bench.counting import writes

_TABLE = {
    "postgresql": "CREATE TABLE IF NOT EXISTS bench_raw (id bigserial PRIMARY KEY, status text NOT NULL,"
    " priority int NOT NULL, payload text NOT NULL, worker text, finished timestamptz)",
    "sqlite": "CREATE TABLE IF NOT EXISTS bench_raw (id integer PRIMARY KEY AUTOINCREMENT, status text NOT NULL,"
    " priority int NOT NULL, payload text NOT NULL, worker text, finished text)",
}
_INDEX = "CREATE INDEX IF NOT EXISTS bench_raw_ready ON bench_raw (priority DESC, id) WHERE status = 'queued'"
_PICK = "SELECT id FROM bench_raw WHERE status = 'queued' ORDER BY priority DESC, id LIMIT 1"
_CLAIM = (
    f"UPDATE bench_raw SET status = 'running', worker = %s WHERE id = ({_PICK} FOR UPDATE SKIP LOCKED) RETURNING id"  # noqa: S608
)
_START = "UPDATE bench_raw SET status = 'running', worker = ? WHERE id = ?"
_FINISH = "UPDATE bench_raw SET status = 'done', finished = CURRENT_TIMESTAMP WHERE id = {}"


def fill(count: int) -> None:
    """So many rows wait in the narrow table."""
    with connection.cursor() as cursor:
        cursor.execute(_TABLE[connection.vendor])
        cursor.execute("DELETE FROM bench_raw")
        cursor.execute(_INDEX)
        row = ("queued", 0, "x" * 200)
        cursor.executemany("INSERT INTO bench_raw (status, priority, payload) VALUES (%s, %s, %s)", [row] * count)


def claim_and_finish(_number: int) -> int:
    """Takes rows of the narrow table one by one until none waits; how many."""
    done, worker = 0, str(os.getpid())
    cursor = driver_cursor()
    if connection.vendor == "postgresql":
        while row := cursor.execute(_CLAIM, [worker]).fetchone():
            cursor.execute(_FINISH.format("%s"), [row[0]])
            done += 1
        return done
    while row := _claim_sqlite(cursor, worker):
        cursor.execute(_FINISH.format("?"), [row[0]])
        done += 1
    return done


def claim_times(count: int) -> list[float]:
    """Seconds of each of so many bare claims: one commit each."""
    fill(count)
    cursor, times = driver_cursor(), []
    for _ in range(count):
        start = time.perf_counter()
        if connection.vendor == "postgresql":
            cursor.execute(_CLAIM, ["raw"]).fetchone()
        else:
            _claim_sqlite(cursor, "raw")
        times.append(time.perf_counter() - start)
    return times


def _claim_sqlite(cursor: Any, worker: str) -> Any:
    cursor.execute("BEGIN IMMEDIATE")
    row = cursor.execute(_PICK).fetchone()
    if row is not None:
        cursor.execute(_START, [worker, row[0]])
    cursor.execute("COMMIT")
    return row


def driver_cursor() -> Any:
    """The driver's own cursor on this process's connection, past Django."""
    connection.ensure_connection()
    return connection.connection.cursor()


@dataclass(slots=True)
class _Sent:
    text: str
    params: list[Any]
    alone: bool  # a transaction of its own


@dataclass(slots=True)
class Recording:
    """The writes of what happened while it listened (as an execute wrapper), to be sent again for another job."""

    job_id: int
    _sent: list[_Sent] = field(default_factory=list)

    def __call__(self, execute: Callable[..., Any], sql: str, params: Any, many: bool, context: Any) -> Any:
        result = execute(sql, params, many, context)
        if sql.startswith("BEGIN") or writes(sql):
            text = sql if connection.vendor == "postgresql" else sql.replace("%s", "?")
            self._sent.append(_Sent(text, list(params or ()), not connection.in_atomic_block))
        return result

    def replay(self, cursor: Any, job_id: int) -> None:
        """The same rows are written for this job, which stands where the recorded one stood."""
        swap = {self.job_id: job_id, f"job:{self.job_id}": f"job:{job_id}"}
        open_ = False
        for sent in self._sent:
            begins = sent.text.startswith("BEGIN")
            if open_ and (begins or sent.alone):
                cursor.execute("COMMIT")
                open_ = False
            if (not sent.alone and not open_) or begins:
                cursor.execute(sent.text if begins else "BEGIN")
                open_ = True
            if not begins:
                cursor.execute(sent.text, [swap.get(value, value) if _plain(value) else value for value in sent.params])
        if open_:
            cursor.execute("COMMIT")


def _plain(value: Any) -> bool:
    return isinstance(value, str) or (isinstance(value, int) and not isinstance(value, bool))


def replayer(recording: Recording, job_ids: Sequence[int], processes: int) -> Callable[[int], int]:
    """Work for `processes.together`: each process writes the recorded rows for its share of these jobs."""

    def work(number: int) -> int:
        cursor, share = driver_cursor(), job_ids[number::processes]
        for job_id in share:
            recording.replay(cursor, job_id)
        return len(share)

    return work


class Copied:
    """Inserts copies of one stored row under another identity; its `id` is left to the database unless given."""

    def __init__(self, table: str, which: str) -> None:
        with connection.cursor() as cursor:
            cursor.execute(f"SELECT * FROM {table} WHERE {which}")  # noqa: S608
            self._values = dict(zip((column[0] for column in cursor.description), cursor.fetchone(), strict=True))
        self._table = table

    def insert(self, cursor: Any, **different: Any) -> None:
        row = {name: value for name, value in self._values.items() if name != "id"} | different
        place = "%s" if connection.vendor == "postgresql" else "?"
        names = ", ".join(row)
        cursor.execute(f"INSERT INTO {self._table} ({names}) VALUES ({', '.join([place] * len(row))})", [*row.values()])  # noqa: S608
