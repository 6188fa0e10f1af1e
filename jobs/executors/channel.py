"""What worker and shim say to each other, and the one clock that both read.

Down, after one JSON line with the spec: `b <time>` a good heartbeat, `s <reason>` stop in order, `k <reason>` kill
at once; the end of the pipe means that the worker died. Up: one JSON line `started` or `failed`, one `ended`.
"""

import errno
import json
import os
import time
from typing import Any

CHUNK_BYTES = 65536


def clock() -> float:
    """Seconds since boot: the same for every process of this host, never set back, and a suspended machine's
    silence counts."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def report(**words: object) -> None:
    try:
        os.write(1, json.dumps(words).encode() + b"\n")
    except OSError:  # nobody listens any more
        return


def code_of(error: BaseException) -> str:
    number = getattr(error, "errno", None)
    return errno.errorcode.get(number, str(number)) if isinstance(number, int) else type(error).__name__


class Control:
    """The worker's words: the spec first, then heartbeats and orders."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self.buffer = b""
        self.eof = False
        self.last_beat = clock()
        self.order: tuple[str, str] | None = None

    def read_spec(self) -> dict[str, Any] | None:
        while b"\n" not in self.buffer:
            data = os.read(self.fd, CHUNK_BYTES)
            if not data:
                return None
            self.buffer += data
        line, self.buffer = self.buffer.split(b"\n", 1)
        os.set_blocking(self.fd, False)
        spec: dict[str, Any] = json.loads(line)
        self.last_beat = spec["last_beat"]
        return spec

    def read(self) -> None:
        try:
            data = os.read(self.fd, CHUNK_BYTES)
        except BlockingIOError:
            return
        self.eof = not data
        *lines, self.buffer = (self.buffer + data).split(b"\n")
        for line in lines:
            verb, _, rest = line.decode().partition(" ")
            if verb == "b":  # the time of the beat, not of its arrival: a beat read late is an old one
                self.last_beat = max(self.last_beat, min(float(rest), clock()))
            else:
                self.take(verb, rest)

    def take(self, verb: str, reason: str) -> None:
        """The first order stands, unless a later one is to kill at once."""
        if self.order is None or verb == "k":
            self.order = (verb, reason)
