"""The worker's side of a child process: start it in a shim, keep it alive by heartbeats, end it for sure."""

import contextlib
import json
import os
import re
import select
import subprocess
import sys
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Self

from jobs.executors.channel import CHUNK_BYTES, clock
from jobs.executors.processes import MARK_NAME, alive, read_stat, sweep

SHIM = Path(__file__).with_name("shim.py")
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
START_SECONDS = 20.0
SLACK_SECONDS = 20.0  # the shim's own kill loop takes up to 10; later than that it counts as lost
OURS = re.compile(r"AGENTQ_|DJANGO_|DATABASE_URL$|SECRET_KEY$|PG[A-Z]+$|Q_CLUSTER")


@dataclass(frozen=True)
class ProcessSpec:
    """One program to run. The environment is complete: nothing is inherited, and only the token is added.

    `output_cap_bytes` holds for each of the two files (at least 1024); beyond it `on_cap` either kills the
    program or keeps the head and the last 64 KiB. `fence_seconds` None means that no heartbeat is expected.
    `not_after` (seconds of `clock()`) is a hard end: nothing starts from then on, and what runs is killed (X2).
    `limits` are rlimits by name without the prefix: FSIZE (bytes), NPROC (processes; not applied to root).
    """

    argv: tuple[str, ...]
    cwd: Path
    env: Mapping[str, str]
    stdout_path: Path
    stderr_path: Path
    token: str
    seconds: float
    grace_seconds: float = 10.0
    fence_seconds: float | None = 75.0
    output_cap_bytes: int = 8 * 1024 * 1024
    on_cap: Literal["kill", "discard"] = "discard"
    stdin_path: Path | None = None
    not_after: float | None = None
    limits: Mapping[Literal["FSIZE", "NPROC"], int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.argv or self.output_cap_bytes < 1024 or self.seconds <= 0:
            raise ValueError("a process needs an argument list, at least 1024 bytes of output and some seconds")


@dataclass(frozen=True)
class ProcessIdentity:
    """Which process it was, also after its pid went to another one. Start times are clock ticks since boot."""

    host: str
    boot_id: str
    pid: int
    start_ticks: int
    shim_pid: int
    shim_start_ticks: int


@dataclass(frozen=True)
class ProcessResult:
    """How a process ended. Only `survivors` = 0 says that nothing of it is left on this host.

    `stopped` is the first reason to stop: the worker's own word, or timeout, output_cap, silence, worker_gone,
    terminated. `start_error` is `step:code` (exec:ENOENT, cwd:ENOENT, output:ENOSPC, late:not_after, late:fence) for
    what never ran.
    """

    exit_code: int | None = None
    signal: int | None = None
    start_error: str | None = None
    timed_out: bool = False
    stopped: str | None = None
    silence: bool = False
    shim_lost: bool = False
    orphans_killed: int = 0
    survivors: int = 0
    stdout_bytes: int = 0
    stderr_bytes: int = 0
    truncated: bool = False
    output_error: str | None = None
    duration_seconds: float = 0.0

    @property
    def clean(self) -> bool:
        """Ran to its own end, with exit code 0."""
        return self.exit_code == 0 and self.stopped is None and not self.shim_lost


def start(spec: ProcessSpec, *, last_beat: float | None = None) -> "RunningProcess":
    """Start the program; it runs, or has failed to, when this returns. Use as a context manager.

    `last_beat` (seconds of `clock()`) is when the lease was last renewed; the fence counts from there."""
    for path in (spec.stdout_path, spec.stderr_path):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    # Pipes made by subprocess are close-on-exec: no other job's shim inherits this one's control pipe, whose
    # end would then never be seen. The token marks the shim as well, so a sweep leaves no gap before the exec.
    shim = subprocess.Popen(
        [sys.executable, "-I", "-S", str(SHIM)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={MARK_NAME: spec.token},
        cwd="/",
        start_new_session=True,
        bufsize=0,
    )
    running = RunningProcess(spec, shim)
    try:
        running.introduce(clock() if last_beat is None else last_beat)
    except BaseException:
        running.close()
        raise
    return running


class RunningProcess:
    """A started program. Leaving the `with` block ends it and all its descendants, whatever the way out."""

    def __init__(self, spec: ProcessSpec, shim: "subprocess.Popen[bytes]") -> None:
        self.spec = spec
        self.identity: ProcessIdentity | None = None
        self.result: ProcessResult | None = None
        self._shim = shim
        self._begun = clock()
        self._overdue_at = self._begun + spec.seconds + spec.grace_seconds + SLACK_SECONDS
        self._lock = threading.Lock()
        self._buffer = b""
        self._ended: dict[str, Any] | None = None
        assert shim.stdin is not None and shim.stdout is not None
        self._control, self._status = shim.stdin, shim.stdout
        os.set_blocking(self._control.fileno(), False)
        os.set_blocking(self._status.fileno(), False)

    def introduce(self, last_beat: float) -> None:
        """Hand the spec over and wait until the program runs or has failed to start."""
        env = {**self.spec.env, MARK_NAME: self.spec.token}
        words = vars(self.spec) | {"last_beat": last_beat, "env": env, "limits": dict(self.spec.limits)}
        data = json.dumps(words, default=os.fspath).encode() + b"\n"
        give_up = clock() + START_SECONDS
        with contextlib.suppress(BrokenPipeError):  # the shim is dead already: the wait below finds out
            while data and clock() < give_up:
                _await(self._control.fileno(), select.POLLOUT, 0.1)
                with contextlib.suppress(BlockingIOError):
                    data = data[os.write(self._control.fileno(), data) :]
        while self.identity is None and self.wait(0.1) is None:
            if clock() > give_up:
                self._shim.kill()

    def beat(self, at: float | None = None) -> None:
        """The lease was renewed at `at` (seconds of `clock()`, default now). Never blocks; safe from any thread."""
        self._say(f"b {clock() if at is None else at}")

    def stop(self, reason: str, *, at_once: bool = False) -> None:
        """TERM to every descendant, the grace, then KILL; with `at_once` KILL now. `poll` brings the result."""
        self._overdue_at = min(self._overdue_at, clock() + self.spec.grace_seconds + SLACK_SECONDS)
        self._say(f"{'k' if at_once else 's'} {' '.join(reason.split())}")

    def poll(self) -> ProcessResult | None:
        """The result once the shim is gone, with every descendant dead; None while anything runs."""
        if self.result is None:
            if clock() > self._overdue_at:
                self._shim.kill()
            if self._shim_is_gone():
                self.result = self._conclude()
        return self.result

    def wait(self, interval: float) -> ProcessResult | None:
        """`poll`, after waiting for news for at most `interval` seconds."""
        if self.result is None:
            _await(self._status.fileno(), select.POLLIN, interval)
        return self.poll()

    def close(self) -> None:
        """End everything now and wait for it; a process whose result is known is left as it is."""
        with self._lock:
            self._control.close()
        self._overdue_at = min(self._overdue_at, clock() + SLACK_SECONDS)
        while self.wait(0.1) is None:
            pass

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _say(self, line: str) -> None:
        """A full pipe means a frozen shim, a broken one a dead shim: `poll` finds out about both."""
        with self._lock:
            if not self._control.closed:
                with contextlib.suppress(BlockingIOError, BrokenPipeError):
                    os.write(self._control.fileno(), line.encode() + b"\n")

    def _shim_is_gone(self) -> bool:
        """Take in what the shim reported; True at the end of its pipe, which it alone holds."""
        while True:
            try:
                data = os.read(self._status.fileno(), CHUNK_BYTES)
            except BlockingIOError:
                return False
            if not data:
                return True
            *lines, self._buffer = (self._buffer + data).split(b"\n")
            for line in lines:
                self._take(json.loads(line))

    def _take(self, words: dict[str, Any]) -> None:
        event = words.pop("event")
        if event == "started":
            self.identity = identify(self._shim.pid, words["pid"], words["start_ticks"])
        elif event == "ended":
            self._ended = words

    def _conclude(self) -> ProcessResult:
        self._shim.wait()
        with self._lock:
            self._control.close()
        self._status.close()
        if self._ended is None:
            killed = sweep(self.spec.token)
            return ProcessResult(
                shim_lost=True,
                orphans_killed=killed,
                survivors=len(alive(self.spec.token)),
                duration_seconds=clock() - self._begun,
            )
        stdout_bytes, stderr_bytes = (*self._ended.pop("output_bytes"), 0, 0)[:2]
        seconds = self._ended.pop("seconds")
        return ProcessResult(
            **self._ended, stdout_bytes=stdout_bytes, stderr_bytes=stderr_bytes, duration_seconds=seconds
        )


def _await(fd: int, event: int, seconds: float) -> None:
    poll = select.poll()  # select() refuses descriptors above 1023
    poll.register(fd, event)
    poll.poll(int(seconds * 1000))


def identify(shim_pid: int, pid: int, start_ticks: int) -> ProcessIdentity:
    """What tells this process from any other, of any host and any boot."""
    boot_id = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return ProcessIdentity(os.uname().nodename, boot_id, pid, start_ticks, shim_pid, read_stat(shim_pid).start)


def minimal_environment(*, home: Path, tmp: Path, extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """A complete environment for a child (Z3): PATH, LANG, HOME, TMPDIR and what the caller adds.

    Raises ValueError when `extra` names something of AgentQ's own (its database, its keys, its settings)."""
    extra = dict(extra or {})
    ours = sorted(name for name in extra if OURS.match(name))
    if ours:
        raise ValueError(f"not for a child process: {', '.join(ours)}")
    return {"PATH": PATH, "LANG": "C.UTF-8", "HOME": str(home), "TMPDIR": str(tmp)} | extra
