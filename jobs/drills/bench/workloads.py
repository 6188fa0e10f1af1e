"""The benchmark's parts by name, and all of their figures in one document."""

import os
import platform
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from django.db import connection

from jobs.drills.bench import claims, drains, enqueueing, latency, scene
from jobs.drills.bench.figures import Figure


@dataclass(frozen=True, slots=True)
class Plan:
    """How much to measure: jobs for a rate, processes that run them, finished jobs for the growth figures."""

    jobs: int
    workers: int
    history: int


def measure(names: Sequence[str], plan: Plan, say: Callable[[str], None]) -> dict[str, Any]:
    """Every named part's figures, in order, with what is needed to read them."""
    before = os.getloadavg()[0]
    repository = scene.set_up()
    figures: list[Figure] = []
    for name in names:
        say(name)
        figures += NAMES[name](repository, plan)
    return {
        "database": _database(),
        "python": platform.python_version(),
        "workers": plan.workers,
        "jobs": plan.jobs,
        "history": plan.history,
        "load": [before, os.getloadavg()[0]],
        "figures": [figure.row() for figure in figures],
    }


def _minimal(repository: str, plan: Plan) -> list[Figure]:
    return drains.measure(drains.kinds()[0], repository, plan.jobs, plan.workers)


def _full(repository: str, plan: Plan) -> list[Figure]:
    return drains.measure(drains.kinds()[1], repository, plan.jobs, plan.workers)


def _enqueue(repository: str, plan: Plan) -> list[Figure]:
    return enqueueing.measure(repository, plan.jobs)


def _latency(repository: str, plan: Plan) -> list[Figure]:
    return latency.measure(repository, plan.workers)


def _history(repository: str, plan: Plan) -> list[Figure]:
    return claims.measure(repository, plan.jobs, plan.workers, plan.history)


def _database() -> str:
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            cursor.execute("SELECT 'PostgreSQL ' || current_setting('server_version')")
        else:
            cursor.execute("SELECT 'SQLite ' || sqlite_version()")
        return str(cursor.fetchone()[0])


NAMES: dict[str, Callable[[str, Plan], list[Figure]]] = {
    "minimal": _minimal,
    "full": _full,
    "enqueue": _enqueue,
    "latency": _latency,
    "history": _history,
}
