"""A whole installation in a temporary folder: its own database, its own data, its real workers as processes."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

from jobs import history
from jobs.core.states import ACTIVE, State
from jobs.executors.processes import Stat, alive, read_all_stats
from jobs.models import Attempt, AuditEvent, Job, Repository, WorkerNode
from jobs.services import audit, enqueue, leases
from jobs.services.requests import Request
from jobs.worker import identity
from tests import factories

ROOT = Path(__file__).resolve().parents[2]
# The times of the demo, so that what takes minutes in production takes seconds here.
TIMES = {
    "AGENTQ_LEASE_SECONDS": "6",
    "AGENTQ_BEAT_SECONDS": "1",
    "AGENTQ_FENCE_SECONDS": "3",
    "AGENTQ_GRACE_SECONDS": "0.5",
    "AGENTQ_BUSY_SECONDS": "1",
    "AGENTQ_RESERVATION_SECONDS": "1.2",
    "AGENTQ_BACKOFF_SECONDS": "1",
    "AGENTQ_DRAIN_SECONDS": "2",
}
HANG_ONCE: dict[str, Any] = {"fail_how": "hang", "fail_attempts": 1}
OUTER_SECONDS = 60.0


def until(condition: Callable[[], Any], seconds: float = OUTER_SECONDS) -> Any:
    """What the condition returns once it is true; the limit only ends a test that is broken."""
    give_up = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < give_up, "the condition never came true"
        time.sleep(0.02)
    return value


@dataclass
class Engine:
    """The installation under `room`. Rows are read and written in this process, through `connection`."""

    room: Path
    database_url: str
    started: list["subprocess.Popen[bytes]"] = field(default_factory=list)

    def environment(self, **more: str) -> dict[str, str]:
        own = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.room),
            "LANG": "C.UTF-8",
            "AGENTQ_DATA_DIR": str(self.room),
            "AGENTQ_WORKFLOWS": str(self.room / "workflows"),
            "DATABASE_URL": self.database_url,
        }
        return {**own, **TIMES, **more}

    def manage(self, *argv: str) -> None:
        command = [sys.executable, str(ROOT / "manage.py"), *argv]
        subprocess.run(command, env=self.environment(), cwd=ROOT, check=True, capture_output=True)

    def run_workers(self, workers: int = 2, **more: str) -> "Cluster":
        """The supervisor, started as a person would in a terminal of its own; returns when its cluster reported."""
        known = set(WorkerNode.objects.values_list("pk", flat=True))
        log = (self.room / f"workers-{len(self.started)}.log").open("wb")
        argv = [sys.executable, str(ROOT / "manage.py"), "run_workers", "--workers", str(workers)]
        process = subprocess.Popen(
            argv, env=self.environment(**more), cwd=ROOT, stdout=log, stderr=log, start_new_session=True
        )
        log.close()
        self.started.append(process)
        cluster = Cluster(process)
        until(lambda: process.poll() is not None or cluster.node(besides=known))
        assert process.poll() is None, self.logs()
        return cluster

    def logs(self) -> str:
        return "\n".join(path.read_text() for path in sorted(self.room.glob("workers-*.log")))

    def repository(self, name: str = "demo/sample", **values: Any) -> Repository:
        return factories.repository(self.room / "sources" / name.replace("/", "-"), name=name, **values)

    def job(self, repository: Repository, action: str = "sample-agent", **payload: Any) -> Job:
        """A queued job of the stand-in agent, which adds a line to notes.md and then does as told."""
        fields = {"paths": ["notes.md"], "text": f"{os.urandom(4).hex()}\n", **payload}
        return self.enqueue(Request(repository.name, "main", action, fields))

    def enqueue(self, request: Request) -> Job:
        return Job.objects.get(pk=enqueue.enqueue(request, actor="user:operator").job_id)

    def processes(self) -> dict[int, Stat]:
        """Everything of this installation that runs: workers by their environment, agents by their token."""
        marks = (f"AGENTQ_DATA_DIR={self.room}\0".encode(), f"AGENTQ_TOKEN={identity.site()}:".encode())
        found = {}
        for pid, stat in read_all_stats().items():
            try:
                environ = Path(f"/proc/{pid}/environ").read_bytes()
            except OSError:
                continue
            if stat.living and any(mark in environ for mark in marks):
                found[pid] = stat
        return found

    def end(self) -> None:
        """Kill what a test left, without asking."""
        while left := self.processes():
            for pid in left:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    continue
        for process in self.started:
            process.wait()


@dataclass
class Cluster:
    """One supervisor and whichever cluster it keeps now."""

    process: "subprocess.Popen[bytes]"

    def node(self, besides: Collection[int] = ()) -> WorkerNode | None:
        """The newest node whose sentinel descends from this supervisor."""
        main = self.main()
        for node in WorkerNode.objects.exclude(pk__in=besides).order_by("-pk"):
            if main is not None and node.pid in children(main):
                return node
        return None

    def main(self) -> int | None:
        """The cluster's main process, which leads its session."""
        return next(iter(children(self.process.pid)), None)

    def kill_session(self) -> None:
        main = self.main()
        assert main is not None
        os.killpg(main, signal.SIGKILL)

    def idle_workers(self) -> list[int]:
        """The sentinel's children in the order of their start: first its workers, then monitor and pusher."""
        node = self.node()
        assert node is not None
        return children(node.pid)[: node.workers]

    def exit_code(self) -> int:
        return int(until(lambda: self.process.poll() is not None and (self.process.poll(),))[0])


def children(pid: int) -> list[int]:
    stats = read_all_stats()
    found = [child for child, stat in stats.items() if stat.parent == pid and stat.living]
    return sorted(found, key=lambda child: (stats[child].start, child))


def running(job: Job, fence: int = 1) -> int:
    """Waits until this attempt's agent has made its edits; the pid of the worker that runs it."""
    marker = job_output(job, fence) / "modify.stdout"
    until(lambda: marker.exists() and '"hang"' in marker.read_text())
    job.refresh_from_db()
    assert job.fence == fence
    return int(job.lease_owner.rpartition("/")[2])


def job_output(job: Job, fence: int) -> Path:
    from jobs.services import artifacts

    return artifacts.attempt_dir(job.pk, fence)


def ended(job: Job, *states: State) -> Job:
    """Waits until the job is in one of these states (default: accepted); the job."""

    def there() -> bool:
        job.refresh_from_db()
        return job.state in (states or (State.ACCEPTED,))

    until(there)
    return job


def token_of(pid: int) -> str:
    """The mark of an attempt that this process carries, or nothing."""
    environ = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    return next((entry.decode().partition("=")[2] for entry in environ if entry.startswith(b"AGENTQ_TOKEN=")), "")


def audit_events(stream: str, event: str) -> list[dict[str, Any]]:
    """The facts of the stream's events of this name, oldest first."""
    bodies = AuditEvent.objects.filter(stream=stream, event=event).order_by("seq").values_list("body", flat=True)
    return [json.loads(body)["facts"] for body in bodies]


def attempts(job: Job) -> list[tuple[int, str]]:
    return list(Attempt.objects.filter(job=job).order_by("fence").values_list("fence", "outcome"))


def assert_whole(*jobs: Job) -> None:
    """Attempts follow one another, nothing of a past one lives or may write, and history equals the rows."""
    for job in jobs:
        job.refresh_from_db()
        rows = list(Attempt.objects.filter(job=job).order_by("fence"))
        assert [row.fence for row in rows] == list(range(1, job.fence + 1))
        for earlier, later in pairwise(rows):
            assert earlier.ended_at is not None and earlier.ended_at <= later.started_at
        for row in rows:
            if row.ended_at is not None:
                assert alive(identity.token(job.pk, row.fence)) == []
                assert leases.beat(job.pk, worker=row.worker, fence=row.fence) is None
                assert leases.surrender(job.pk, worker=row.worker, fence=row.fence) is False
        assert (job.state in ACTIVE) == any(row.ended_at is None for row in rows)
        assert history.differences(job) == {}
    _count, faults = audit.verify_all()
    assert faults == []


@contextmanager
def measured(what: str, job: Job, fence: int = 2) -> Iterator[None]:
    """Prints how long it took from here to the claim of this attempt (run pytest with -rP to read it)."""
    from django.utils import timezone

    begun = timezone.now()
    yield
    claimed = Attempt.objects.get(job=job, fence=fence).started_at
    sys.stdout.write(f"{what}: {(claimed - begun).total_seconds():.2f} s to the claim of attempt {fence}\n")
