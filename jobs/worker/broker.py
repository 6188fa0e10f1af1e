"""The django-q2 broker whose queue is the jobs table, and the only place that knows django-q2's classes.

A message is a hint: it holds a job's id, may be lost, late or delivered four times, and none of that matters,
since only the claim gives the right to run. Maintenance (`async_task`, schedules) goes through the inherited queue.
"""

import logging
import os
import signal
import time
from typing import Any

from django import db
from django.conf import settings
from django.utils import timezone
from django_q.brokers.orm import ORM
from django_q.conf import Conf
from django_q.models import OrmQ
from django_q.signals import post_execute_in_worker, pre_execute
from django_q.signing import SignedPackage
from django_q.tasks import async_task

from jobs.core.states import State
from jobs.services import leases, nodes
from jobs.worker import board, identity
from jobs.worker.wakeup import WakeUp

logger = logging.getLogger("jobs.broker")

RUN = "jobs.worker.runner.run_message"
MAINTENANCE = "jobs.worker.maintenance.run"
PREFIX = "job:"
MESSAGE_SLACK_SECONDS = 180  # the engine's own limits act first; this is django-q2's backstop
GATED_SECONDS = 0.02
SWEEP_SECONDS = 0.5
MAINTENANCE_SECONDS = 1.0
LAPSES_OF_A_WEDGE = 3


class JobsBroker(ORM):
    """Offers the best ready job while a worker is free, expires lapsed leases, and notices a wedged cluster."""

    def __init__(self, list_key: str | None = None) -> None:
        super().__init__(list_key)
        self._reset()

    def __setstate__(self, state: Any) -> None:
        super().__setstate__(state)
        self._reset()

    def _reset(self) -> None:
        self._wake_up: WakeUp | None = None
        self._reserved: dict[int, float] = {}
        self._taken = self._lapses = 0
        self._due = {"sweep": 0.0, "maintenance": 0.0, "report": 0.0}

    def dequeue(self) -> list[tuple[str | int, str]] | None:
        """At most one message, within a second. Never raises: django-q2 would sleep for ten seconds and restart us."""
        try:
            return self._next()
        except Exception:
            logger.warning("the broker could not look for work; it tries again", exc_info=True)
            self.close()
            time.sleep(settings.AGENTQ_POLL_SECONDS)
            return None

    def acknowledge(self, task_id: str | int) -> None:
        """A job's row says itself how it stands; only maintenance messages are deleted."""
        if not str(task_id).startswith(PREFIX):
            super().acknowledge(task_id)

    def fail(self, task_id: str | int) -> None:
        self.acknowledge(task_id)

    def close(self) -> None:
        """Nothing is connected to the database; the next `dequeue` connects anew."""
        db.connections.close_all()
        if self._wake_up is not None:
            self._wake_up.close()
        self._wake_up = None

    def queue_size(self) -> int:
        return leases.ready_count(self._queue) + int(super().queue_size())

    def ping(self) -> bool:
        with db.connection.cursor() as cursor:
            cursor.execute("SELECT 1")
        return True

    @property
    def _queue(self) -> str:
        return self.list_key or Conf.CLUSTER_NAME

    def _next(self) -> list[tuple[str | int, str]] | None:
        if self._wake_up is None:
            self._wake_up = WakeUp()
            self._lead()
        self._report()
        if self._now_and_then("sweep", SWEEP_SECONDS):
            self._sweep()
        if board.draining() or self._wedged():
            time.sleep(GATED_SECONDS * 5)
            return None
        if board.busy_count() + len(self._reserved) >= Conf.WORKERS:
            time.sleep(GATED_SECONDS)
            return None
        if self._now_and_then("maintenance", MAINTENANCE_SECONDS) and self._maintenance_waits():
            return super().dequeue()
        reserved = leases.reserve(identity.cluster(), self._queue)
        if reserved is None:
            self._wake_up.wait(settings.AGENTQ_POLL_SECONDS)
            return None
        self._reserved[reserved.job_id] = time.monotonic()
        return [(f"{PREFIX}{reserved.job_id}", _message(reserved))]

    def _maintenance_waits(self) -> bool:
        return OrmQ.objects.using(Conf.ORM).filter(key=self._queue, lock__lt=timezone.now()).exists()

    def _sweep(self) -> None:
        ended = [leases.expire(job_id) for job_id in leases.expired(self._queue)]
        if State.REVIEW in ended:
            # No next attempt will store what the dead one left, and a person is to decide about it.
            async_task(MAINTENANCE, broker=self)

    def _wedged(self) -> bool:
        """True while nobody picks up this cluster's messages: it offers no more, and ends once no job runs in it.

        An idle worker killed while it holds the queue's lock leaves a cluster that looks alive and starts nothing.
        Several reservations that lapse with no message taken since tell it.
        """
        self._look_at_reservations()
        if (taken := board.taken_count()) != self._taken:
            self._taken, self._lapses = taken, 0
        if self._lapses < LAPSES_OF_A_WEDGE:
            return False
        if board.busy_count() == 0:
            logger.error("workers pick up no message; the cluster ends to be started anew")
            nodes.wedged(identity.cluster(), lapses=self._lapses)
            _end_cluster()
        return True

    def _look_at_reservations(self) -> None:
        if not self._reserved:
            return
        waiting = leases.still_reserved(list(self._reserved), identity.cluster())
        now = time.monotonic()
        for job_id, since in list(self._reserved.items()):
            if job_id not in waiting:
                del self._reserved[job_id]
            elif now - since > settings.AGENTQ_RESERVATION_SECONDS:
                del self._reserved[job_id]
                leases.unreserve(job_id, identity.cluster())
                self._lapses += 1

    def _lead(self) -> None:
        nodes.started(
            identity=identity.cluster(),
            host=os.uname().nodename,
            pid=os.getppid(),
            queue=self._queue,
            workers=Conf.WORKERS,
            version=settings.AGENTQ_VERSION,
        )

    def _report(self) -> None:
        if not self._now_and_then("report", nodes.REPORT_SECONDS):
            return
        if board.draining():
            nodes.draining(identity.cluster())
        else:
            nodes.seen(identity.cluster())

    def _now_and_then(self, what: str, seconds: float) -> bool:
        now = time.monotonic()
        if now < self._due[what]:
            return False
        self._due[what] = now + seconds
        return True


def _take(**_signal: object) -> None:
    board.take()


def _free(**_signal: object) -> None:
    board.free()


# Sent in the worker around each message, maintenance too: until it ends, that worker is not free.
pre_execute.connect(_take)
post_execute_in_worker.connect(_free)


def _message(reserved: leases.Reserved) -> str:
    task_id = f"{PREFIX}{reserved.job_id}"
    task = {
        "id": task_id,
        "name": task_id,
        "func": RUN,
        "args": (reserved.job_id,),
        "kwargs": {},
        "started": timezone.now(),
        "timeout": int(reserved.max_seconds) + MESSAGE_SLACK_SECONDS,
        "ack_failure": True,
        "save": False,
    }
    return str(SignedPackage.dumps(task))


def _end_cluster() -> None:
    """Kill the cluster's processes, main first so that it cannot report a clean end; a supervisor starts it anew."""
    sentinel = os.getppid()
    main = identity.parent_of(sentinel)
    siblings = [pid for pid in identity.children_of(sentinel) if pid != os.getpid()]
    # A main process that is gone has left its sentinel to somebody else's parent, which is not ours to kill.
    ours = [main] if os.getpgid(main) == os.getpgrp() else []
    for pid in (*ours, sentinel, *siblings, os.getpid()):
        os.kill(pid, signal.SIGKILL)
