"""How many jobs a second the engine finishes, and what each costs the database."""

from dataclasses import dataclass

from django.db import connection
from django.db.models import Count

from jobs import history
from jobs.core.stages import Stage
from jobs.core.states import State
from jobs.drills.bench import lifecycle, raw, scene
from jobs.drills.bench.counting import counted
from jobs.drills.bench.figures import Figure, middle
from jobs.drills.bench.processes import together
from jobs.models import Attempt, Job
from jobs.services import audit

ROUNDS = 5
COUNTED_JOBS = 20


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of job, named by where it starts, and the bars for its rate (jobs/s, or the ratio to raw)."""

    name: str
    first_stage: Stage
    floor: float | None
    goal: float | None
    by_ratio: bool


def kinds() -> tuple[Kind, Kind]:
    """Minimal: claim and accept (its work is done already, it only delivers). Full: all six stages."""
    if connection.vendor == "postgresql":
        full = Kind("full job", Stage.READ, 0.13, 0.22, by_ratio=True)
        return Kind("minimal job", Stage.DELIVER, 0.45, 0.48, by_ratio=True), full
    full = Kind("full job", Stage.READ, 300, 400, by_ratio=False)
    return Kind("minimal job", Stage.DELIVER, None, 900, by_ratio=False), full


def measure(kind: Kind, repository: str, jobs: int, workers: int) -> list[Figure]:
    """Rates in rounds, raw before and after the engine, so that what else the machine does meets both; then counts."""
    bare, rows, engine = [], [], []
    share = max(jobs // ROUNDS, 1)
    for _ in range(ROUNDS):
        scene.clear()
        before = raw_rate(share, workers)
        engine.append(engine_rate(kind, repository, share, workers))
        bare.append((before + raw_rate(share, workers)) / 2)
        scene.clear()
        rows.append(_same_rows(kind, repository, share, workers))
    rate = Figure(
        f"{kind.name}, rate",
        middle(engine),
        "jobs/s",
        middle(bare),
        middle(rows),
        kind.floor,
        kind.goal,
        kind.by_ratio,
        ratios=tuple(mine / its for mine, its in zip(engine, bare, strict=True)),
    )
    return [rate, *_costs(kind, repository)]


def raw_rate(count: int, workers: int) -> float:
    """The raw loop's claims and finishes a second."""
    raw.fill(count)
    scene.settle()
    return together(workers, raw.claim_and_finish).rate


def engine_rate(kind: Kind, repository: str, count: int, workers: int) -> float:
    """Jobs a second, all accepted by one attempt each, with whole audit chains; else RuntimeError."""
    ids = scene.load(repository, count, kind.first_stage)
    done = together(workers, drain)
    _require_all_done(ids, done.count)
    return done.rate


def drain(_number: int) -> int:
    """Runs what is ready until nothing is; how many jobs."""
    names, done = lifecycle.Names.own(), 0
    while lifecycle.run_next(names, scene.QUEUE) is not None:
        done += 1
    return done


def _same_rows(kind: Kind, repository: str, count: int, workers: int) -> float:
    *ids, recorded = scene.load(repository, count + 1, kind.first_stage)
    Job.objects.filter(pk=recorded).update(priority=1)
    recording = raw.Recording(recorded)
    with connection.execute_wrapper(recording):
        _run_one()
    done = together(workers, raw.replayer(recording, ids, workers))
    accepted = Job.objects.filter(pk__in=ids, state=State.ACCEPTED).count()
    if accepted != len(ids):
        raise RuntimeError(f"the raw loop wrote {accepted} of {len(ids)} jobs")
    return done.rate


def _costs(kind: Kind, repository: str) -> list[Figure]:
    scene.clear()
    scene.load(repository, COUNTED_JOBS + 1, kind.first_stage)
    _run_one()  # what a process looks up once is not a job's
    with counted() as counts:
        for _ in range(COUNTED_JOBS):
            _run_one()
    full = kind.first_stage is Stage.READ
    statements = 12.0 if full and connection.vendor == "postgresql" else None
    return [
        Figure(f"{kind.name}, commits", counts.commits / COUNTED_JOBS, "a job", goal=8.0 if full else None, least=True),
        Figure(f"{kind.name}, statements", counts.statements / COUNTED_JOBS, "a job", goal=statements, least=True),
    ]


def _run_one() -> None:
    if lifecycle.run_next(lifecycle.Names.own(), scene.QUEUE) is None:
        raise RuntimeError("no job is ready")


def _require_all_done(ids: list[int], done: int) -> None:
    attempts = Attempt.objects.filter(job_id__in=ids).values("job_id").annotate(number=Count("id"))
    duplicates = attempts.filter(number__gt=1).count()
    accepted = Job.objects.filter(pk__in=ids, state=State.ACCEPTED)
    if duplicates or accepted.count() != len(ids) or done != len(ids):
        raise RuntimeError(
            f"{done} jobs run of {len(ids)}, {accepted.count()} accepted, {duplicates} with two attempts"
        )
    for job in accepted.order_by("pk")[: len(ids) : max(len(ids) // 20, 1)]:
        if history.differences(job) or audit.verify(f"job:{job.pk}"):
            raise RuntimeError(f"J-{job.pk} is not what its events say")
