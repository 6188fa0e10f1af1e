"""How long an idle cluster takes to start a job: a real one, with its broker, wake-up and worker processes."""

import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from django.conf import settings
from django.db import connection
from django.utils import timezone

from jobs.core.states import READY
from jobs.drills.bench import scene
from jobs.drills.bench.figures import Figure, middle, percentile
from jobs.models import Attempt, Job, WorkerNode
from jobs.services import enqueue
from jobs.services.requests import Prepared, Preparing

SAMPLES = 40
STARTED_WITHIN_SECONDS = 60.0
GOAL_MS = {"postgresql": 10.0, "sqlite": 60.0}


def measure(repository: str, workers: int) -> list[Figure]:
    """From the call that enqueues to the attempt's start, one job at a time after a random pause."""
    scene.clear()
    preparing = Preparing()
    prepared = [preparing(request) for request in scene.requests(repository, SAMPLES + 2, "latency")]
    # Its attempts end at once, at a source that is gone: only their start is of interest here.
    source = settings.DATA_DIR / "source"
    source.rename(source.with_suffix(".gone"))
    times: list[float] = []
    try:
        with _cluster(workers):
            for each in prepared:
                time.sleep(random.uniform(0.1, 0.4))  # noqa: S311
                times.append(_start_of(each))
    finally:
        source.with_suffix(".gone").rename(source)
    return [_figure(times[2:])]  # the first ones also open connections


def _figure(times: list[float]) -> Figure:
    milliseconds = [value * 1000 for value in times]
    return Figure(
        "idle, from enqueue to start", percentile(milliseconds, 95), "ms p95",
        goal=GOAL_MS[connection.vendor], least=True, middle=middle(milliseconds),
    )  # fmt: skip


def _start_of(prepared: Prepared) -> float:
    before = timezone.now()
    job_id = enqueue.store(prepared, actor=scene.ACTOR).job_id
    _await(lambda: not Job.objects.filter(pk=job_id, state__in=(*READY, "running", "verifying")).exists())
    started = Attempt.objects.filter(job_id=job_id).order_by("fence").values_list("started_at", flat=True).first()
    assert started is not None
    return (started - before).total_seconds()


@contextmanager
def _cluster(workers: int) -> Iterator[None]:
    argv = [sys.executable, str(settings.BASE_DIR / "manage.py"), "run_workers", "--workers", str(workers)]
    process = subprocess.Popen(argv, stdout=subprocess.DEVNULL)
    try:
        _await(lambda: process.poll() is not None or WorkerNode.objects.exists())
        yield
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(STARTED_WITHIN_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()


def _await(condition: Callable[[], bool]) -> None:
    limit = time.monotonic() + STARTED_WITHIN_SECONDS
    while not condition():
        if time.monotonic() > limit:
            raise RuntimeError("the cluster did not do what it was waited for")
        time.sleep(0.02)
