"""Watches a running agent through its event stream, and ends what has stalled or goes round in circles (B1)."""

import os
import stat
from dataclasses import dataclass
from pathlib import Path

from jobs.executors.base import Control
from jobs.executors.channel import CHUNK_BYTES, clock
from jobs.executors.outputs import TAIL_BYTES
from jobs.executors.story import Story

NO_FIRST_EVENT = "agent_no_first_event"
SILENT = "agent_silent"
COMMAND_SILENT = "agent_command_silent"
OFFLINE = "agent_offline"
REPEATS = "agent_repeats"


@dataclass(frozen=True)
class Patience:
    """How long an agent may say nothing, in seconds, and how often the same call may fail.

    Silence alone is no death: while a command of the agent runs, `command` holds instead of `silence`. `offline` is
    how long it may only report that it cannot reach its service.
    """

    first_event: float = 60.0
    silence: float = 300.0
    command: float = 1800.0
    offline: float = 60.0
    repeats: int = 5


class Watch:
    """The worker's control with the agent's own signs of life added. The worker's word goes first."""

    def __init__(self, control: Control, story: Story, path: Path, patience: Patience, cap_bytes: int) -> None:
        self.reason = ""
        self._control, self._story, self._path, self._patience = control, story, path, patience
        # Beyond its head the file grows only at the end of the run: what cannot be seen is not judged.
        self._visible = cap_bytes - min(cap_bytes // 2, TAIL_BYTES)
        self._read_bytes = 0
        self._heard = clock()
        self._offline_since = 0.0

    def beaten(self) -> float:
        return self._control.beaten()

    def should_stop(self) -> str | None:
        if (reason := self._control.should_stop()) is not None:
            return reason
        if not self.reason:
            self._listen()
            self.reason = self._judge(clock())
        return self.reason or None

    def finish(self) -> None:
        """The run has ended: take in all that it printed."""
        self._listen()
        self._story.finish()

    def _listen(self) -> None:
        """Take in what was printed since the last time."""
        before = self._story.events
        try:
            file = os.open(self._path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        except OSError:
            return
        try:
            if not stat.S_ISREG(os.fstat(file).st_mode):
                return
            while data := os.pread(file, CHUNK_BYTES, self._read_bytes):
                self._read_bytes += len(data)
                self._story.feed(data)
        finally:
            os.close(file)
        if self._story.events > before:
            self._heard = clock()

    def _judge(self, now: float) -> str:
        story, patience = self._story, self._patience
        if story.terminal:
            return ""
        if patience.repeats and story.repeats >= patience.repeats:
            return REPEATS
        self._offline_since = (self._offline_since or now) if story.retries else 0.0
        if self._offline_since and now - self._offline_since > patience.offline:
            return OFFLINE
        if self._read_bytes >= self._visible:
            return ""
        silent = now - self._heard
        if not story.events:
            return NO_FIRST_EVENT if silent > patience.first_event else ""
        if story.running:
            return COMMAND_SILENT if silent > patience.command else ""
        return SILENT if silent > patience.silence else ""
