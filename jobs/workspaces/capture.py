"""Runs one program with a time limit and a cap on what it may print, so that no output can flood memory."""

import os
import selectors
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

STDERR_TAIL = 4096  # bytes
_CHUNK = 64 * 1024


@dataclass(frozen=True)
class Captured:
    """What a program printed. `exit_code` is None when we ended it (time limit or byte cap)."""

    exit_code: int | None
    stdout: bytes
    stderr_tail: bytes
    truncated: bool
    timed_out: bool


def capture(
    argv: Sequence[str | bytes],
    *,
    cwd: Path,
    env: Mapping[str, str],
    stdin: bytes = b"",
    seconds: float,
    cap: int,
    keep: Sequence[int] = (),
) -> Captured:
    """Run `argv` to its end, for at most `seconds`, and return at most `cap` bytes of its output.

    At the time limit or the cap the whole session is killed. `keep` are file descriptors the program inherits:
    a lock held through one of them lasts until the program has ended, even when this process is killed first.
    """
    with _fed(stdin) as feed:
        process = subprocess.Popen(
            argv,
            cwd=cwd,
            env=dict(env),
            stdin=feed,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            pass_fds=tuple(keep),
        )
    try:
        reading = _Reading(process, cap)
        timed_out = not reading.finish(time.monotonic() + seconds)
    except BaseException:
        _kill(process)
        raise
    ended_by_us = timed_out or reading.truncated
    if ended_by_us:
        _kill(process)
    exit_code = process.wait()
    return Captured(
        exit_code=None if ended_by_us else exit_code,
        stdout=bytes(reading.stdout),
        stderr_tail=bytes(reading.stderr),
        truncated=reading.truncated,
        timed_out=timed_out,
    )


class _Reading:
    def __init__(self, process: subprocess.Popen[bytes], cap: int) -> None:
        self.process, self.cap = process, cap
        self.stdout, self.stderr = bytearray(), bytearray()
        self.truncated = False

    def finish(self, deadline: float) -> bool:
        """Read until both pipes end or the cap is passed; False when the deadline came first."""
        assert self.process.stdout is not None and self.process.stderr is not None
        with self.process.stdout as out, self.process.stderr as err, selectors.DefaultSelector() as waiting:
            waiting.register(out, selectors.EVENT_READ, self._take_stdout)
            waiting.register(err, selectors.EVENT_READ, self._take_stderr)
            while waiting.get_map() and not self.truncated:
                ready = waiting.select(deadline - time.monotonic())
                if not ready and time.monotonic() >= deadline:
                    return False
                for key, _ in ready:
                    chunk = os.read(key.fd, _CHUNK)
                    if chunk:
                        key.data(chunk)
                    else:
                        waiting.unregister(key.fileobj)
        return self.truncated or self._ended(deadline)

    def _ended(self, deadline: float) -> bool:
        try:
            self.process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            return False
        return True

    def _take_stdout(self, chunk: bytes) -> None:
        room = self.cap - len(self.stdout)
        self.stdout += chunk[:room]
        self.truncated = len(chunk) > room

    def _take_stderr(self, chunk: bytes) -> None:
        self.stderr += chunk
        del self.stderr[:-STDERR_TAIL]


def _fed(data: bytes) -> IO[bytes]:
    # A file and not a pipe: a program that prints before it reads cannot block us.
    feed = tempfile.TemporaryFile()  # noqa: SIM115  (the caller closes it)
    feed.write(data)
    feed.seek(0)
    return feed


def _kill(process: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
