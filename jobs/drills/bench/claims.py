"""What a claim costs when the table is large or the queue's head is blocked, and whether the drain stays fast."""

import time
from collections.abc import Sequence

from jobs.core.stages import Stage
from jobs.drills.bench import drains, lifecycle, raw, scene
from jobs.drills.bench.figures import Figure, middle, percentile
from jobs.models import Job

BLOCKED = 10_000
TIMED_JOBS = 200
DRAIN_ROUNDS = 5
CLAIM_GOAL_MS = 1.0


def measure(repository: str, jobs: int, workers: int, history: int) -> list[Figure]:
    """Claims and drains on an empty table, behind `history` finished jobs, and claims behind blocked ones."""
    scene.clear()
    empty = _claims(repository, "empty table")
    of_empty = _drains(repository, jobs, workers)
    template = _finished()
    scene.copy(template, scene.Copies(history, {}))
    large = _claims(repository, f"{history:,} finished")
    of_large = _drains(repository, jobs, workers)
    growth = Figure(
        f"full job, rate at {history:,} finished to empty", middle(of_large) / middle(of_empty), "of empty",
        floor=0.8, goal=0.9,
    )  # fmt: skip
    (waiting,) = scene.load(repository, 1)
    scene.blocked(waiting, BLOCKED)
    return [*empty, *large, growth, *_claims(repository, f"{BLOCKED:,} blocked at the head")]


def _drains(repository: str, jobs: int, workers: int) -> list[float]:
    """Rates as ratios to the raw loop before and after each: the machine's own speed goes up and down meanwhile."""
    share, ratios = max(jobs // DRAIN_ROUNDS, 1), []
    for _ in range(DRAIN_ROUNDS):
        before = drains.raw_rate(share, workers)
        rate = drains.engine_rate(drains.kinds()[1], repository, share, workers)
        ratios.append(2 * rate / (before + drains.raw_rate(share, workers)))
    return ratios


def _claims(repository: str, where: str) -> list[Figure]:
    """Times of reservation and claim, one process; the jobs run to their end so that none stays claimed."""
    scene.load(repository, TIMED_JOBS, Stage.READ)
    names = lifecycle.Names.own()
    reserving: list[float] = []
    claiming: list[float] = []
    for _ in range(TIMED_JOBS):
        start = time.perf_counter()
        job_id = lifecycle.reserve_next(names, scene.QUEUE)
        reserved = time.perf_counter()
        if job_id is None:
            raise RuntimeError("no job is ready")
        claimed = lifecycle.claim(job_id, names)
        claiming.append(time.perf_counter() - reserved)
        reserving.append(reserved - start)
        lifecycle.run(claimed)
    bare = [value * 1000 for value in raw.claim_times(TIMED_JOBS)]
    both = [first + second for first, second in zip(reserving, claiming, strict=True)]
    return [
        _times(f"reserve, {where}", reserving, bare),
        _times(f"claim, {where}", claiming, bare, goal=CLAIM_GOAL_MS),
        _times(f"reserve and claim, {where}", both, bare),
    ]


def _times(name: str, seconds: Sequence[float], bare: Sequence[float], goal: float | None = None) -> Figure:
    times = [value * 1000 for value in seconds]
    slow, bare_slow = percentile(times, 95), percentile(bare, 95)
    return Figure(name, slow, "ms p95", bare_slow, goal=goal, least=True, middle=middle(times))


def _finished() -> int:
    newest = Job.objects.filter(finished_at__isnull=False).order_by("-pk").values_list("pk", flat=True).first()
    assert newest is not None
    return newest
