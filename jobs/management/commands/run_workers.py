"""Runs the workers under supervision: one django-q2 cluster, drained on TERM, restarted when it dies.

`run_workers` is the supervisor. `run_workers --cluster` is one cluster as the supervisor starts it: the end of its
standard input stops it.
"""

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from argparse import ArgumentParser
from types import FrameType
from typing import IO, Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from django.db import connection

from jobs import triggers
from jobs.errors import AgentQError
from jobs.services import nodes

# After the drain's own limit: the grace of the stopped agents and their snapshots.
SLACK_SECONDS = 20.0
RESTART_SECONDS = (0.2, 1.0, 5.0, 15.0)
HEALTHY_SECONDS = 60.0
MAINTENANCE = "AgentQ maintenance"


class Command(BaseCommand):
    help = "Runs the workers. TERM or Ctrl-C drains them: running jobs end at their stage's end and go on later."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--workers", type=int, help="how many jobs run at once (default: AGENTQ_WORKERS)")
        parser.add_argument("--cluster", action="store_true", help="run one cluster without supervision")

    def handle(self, *_args: Any, **options: Any) -> None:
        if options["workers"] is not None and options["workers"] < 1:
            raise CommandError("--workers needs a number of at least 1.", returncode=2)
        try:
            triggers.require(connection)
        except AgentQError as error:
            raise CommandError(str(error)) from None
        connection.close()
        if options["cluster"]:
            _run_cluster()
            return
        environment = dict(os.environ)
        if options["workers"]:
            environment["AGENTQ_WORKERS"] = str(options["workers"])
        sys.exit(Supervisor(environment).run())


class Supervisor:
    """Keeps one cluster alive until it is told to stop.

    It tells only the cluster's main process to stop, through a pipe: a signal to the whole group kills workers in
    the middle of a job and leaves main hanging. What does not end in time is killed with all of its session. Were
    this supervisor to die, the pipe's end tells the cluster.
    """

    def __init__(self, environment: dict[str, str]) -> None:
        self._environment = environment
        self._stopping = threading.Event()

    def run(self) -> int:
        """Blocks until TERM or INT and the drain; the exit code."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._stop)
        failures = 0
        while not self._stopping.is_set():
            started = time.monotonic()
            process = self._start()
            self._watch(process)
            _kill_session(process)
            if self._stopping.is_set():
                break
            failures = 0 if time.monotonic() - started > HEALTHY_SECONDS else failures + 1
            self._stopping.wait(RESTART_SECONDS[min(failures, len(RESTART_SECONDS)) - 1])
        return 0

    def _start(self) -> "subprocess.Popen[bytes]":
        argv = [sys.executable, sys.argv[0], "run_workers", "--cluster"]
        return subprocess.Popen(argv, stdin=subprocess.PIPE, env=self._environment, start_new_session=True)

    def _watch(self, process: "subprocess.Popen[bytes]") -> None:
        """Until the cluster ends by itself, or has been drained or has used up the time for it."""
        while process.poll() is None and not self._stopping.wait(0.1):
            pass
        if process.poll() is not None:
            return
        assert process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            process.stdin.close()
        limit = settings.AGENTQ_DRAIN_SECONDS + settings.AGENTQ_GRACE_SECONDS + SLACK_SECONDS
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(limit)

    def _stop(self, _number: int, _frame: FrameType | None) -> None:
        self._stopping.set()


def _run_cluster() -> None:
    """The cluster, ending when standard input does or when it is told to by TERM."""
    # The board is shared memory: it must be there before anything is forked.
    from django_q.cluster import Cluster

    from jobs.worker import board, runner  # noqa: F401  what every worker needs is read once, here

    ended = threading.Event()

    def _drain_then_stop() -> None:
        board.drain()
        ended.set()

    _schedule_maintenance()
    cluster = Cluster()
    # Both would stop the cluster without a drain.
    signal.signal(signal.SIGTERM, lambda *_: _drain_then_stop())
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    cluster.start()
    threading.Thread(target=_await_end_of, args=(sys.stdin.buffer, _drain_then_stop), daemon=True).start()
    while not ended.wait(0.2):
        if not cluster.sentinel.is_alive():
            # Its workers run on unguarded then: end with an error, so that the session is killed and started anew.
            sys.exit(1)
    _await_idle_workers()
    cluster.stop()
    nodes.stopped_on(os.uname().nodename, cluster.sentinel.pid)


def _schedule_maintenance() -> None:
    """One row for all clusters; two of it would do no harm."""
    from django_q.models import Schedule

    values = {"func": "jobs.worker.maintenance.run", "schedule_type": Schedule.MINUTES, "minutes": 1, "repeats": -1}
    if not Schedule.objects.filter(name=MAINTENANCE).exists():
        Schedule.objects.create(name=MAINTENANCE, **values)
    connection.close()


def _await_end_of(stream: IO[bytes], act: Any) -> None:
    while stream.read(1):
        pass
    act()


def _await_idle_workers() -> None:
    """The running attempts see the drain, end their stage and release; django-q2 itself would wait for ever."""
    from jobs.worker import board

    limit = time.monotonic() + settings.AGENTQ_DRAIN_SECONDS + settings.AGENTQ_GRACE_SECONDS + SLACK_SECONDS / 2
    while board.busy_count() and time.monotonic() < limit:
        time.sleep(0.05)


def _kill_session(process: "subprocess.Popen[bytes]") -> None:
    """Nothing of the cluster is left; its agents' shims see their workers die and follow."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
