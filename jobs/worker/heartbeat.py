"""Keeps one attempt's lease alive and tells the attempt when to stop (L2)."""

import contextlib
import threading
from datetime import datetime
from types import TracebackType
from typing import Self

from django.conf import settings
from django.db import DatabaseError, connection
from django.utils import timezone

from jobs.executors.channel import clock
from jobs.services import leases
from jobs.worker import board

# A pause acts at the end of the stage; a stage that goes on for longer than this is stopped for it.
PAUSE_WAIT_SECONDS = 600.0


class Heartbeat:
    """The `control` that an executor asks; a thread beats with a database connection of its own.

    A database error is not a lost lease: beats go on until the fence, then the worker stops itself, so that
    nothing of the attempt lives when another worker may claim the job.
    """

    def __init__(self, job_id: int, *, worker: str, fence: int, deadline: datetime | None) -> None:
        self.lost = False
        self.cancel_requested = False
        self.pause_requested = ""
        self._job_id, self._worker, self._fence = job_id, worker, fence
        self._seconds_to_deadline = (deadline - timezone.now()).total_seconds() if deadline else None
        self._started = self._beaten = clock()
        self._paused_since = self._drained_since = 0.0
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._beat_on, name=f"heartbeat-{job_id}", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end.set()
        self._thread.join()

    def beaten(self) -> float:
        """When the lease was last renewed, in seconds of the boot clock."""
        return self._beaten

    def renewed(self) -> None:
        """A checkpoint renewed the lease."""
        self._beaten = clock()

    def should_stop(self) -> str | None:
        """Why the running stage must end now; None while it may go on."""
        now = clock()
        if self.lost or now - self._beaten > settings.AGENTQ_FENCE_SECONDS:
            self.lost = True
            return "lease_lost"
        if self.cancel_requested:
            return "cancel"
        if self._seconds_to_deadline is not None and now - self._started > self._seconds_to_deadline:
            return "deadline"
        if self.draining() and now - self._drained_since > settings.AGENTQ_DRAIN_SECONDS:
            return "drain"
        if self.pause_requested and now - self._paused_since > PAUSE_WAIT_SECONDS:
            return "pause"
        return None

    def draining(self) -> bool:
        """The cluster is stopping: no further stage is begun."""
        if board.draining() and not self._drained_since:
            self._drained_since = clock()
        return board.draining()

    def _beat_on(self) -> None:
        try:
            while not self._end.wait(settings.AGENTQ_BEAT_SECONDS) and not self.lost:
                with contextlib.suppress(DatabaseError):
                    self._beat()
        finally:
            connection.close()

    def _beat(self) -> None:
        asked = clock()
        answer = leases.beat(self._job_id, worker=self._worker, fence=self._fence)
        if answer is None:
            # Between the last write of an attempt and the end of this thread there is no lease to renew.
            self.lost = not self._end.is_set()
            return
        # The lease runs from the moment the database saw the beat, so the earlier of the two times is safe.
        self._beaten = max(self._beaten, asked)
        self.cancel_requested = answer.cancel_requested
        if answer.pause_requested and not self.pause_requested:
            self._paused_since = clock()
        self.pause_requested = answer.pause_requested
