"""Holds one child process and everything it starts, so that nothing outlives its worker (design section 3).

Run as `python -I -S shim.py`, one per attempt or check. Standard library only and few imports: it must start in
tens of milliseconds, and it must not die of what kills a worker. Descriptor 0 comes from the worker, 1 goes back.
"""

import os
import select
import signal
import sys
import time
from typing import Any

if __name__ == "__main__":
    sys.path.append(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))

from jobs.executors.channel import CHUNK_BYTES, Control, clock, code_of, report
from jobs.executors.child import become, become_subreaper
from jobs.executors.outputs import Output
from jobs.executors.processes import descendants, freeze_and_kill, read_stat, send

KILL_SECONDS = 10.0  # after this a process that even SIGKILL cannot end is reported as a survivor


def main() -> None:
    """Hold the child that descriptor 0 describes until neither it nor a descendant is left."""
    become_subreaper()
    control = Control(0)
    spec = control.read_spec()
    if spec is None:
        return
    keeper = Keeper(spec, control)
    try:
        keeper.run()
    except Exception as error:  # noqa: BLE001  (whatever happens here, nothing may stay alive)
        keeper.kill_all()
        report(event="failed", error=code_of(error))


class Keeper:
    """One child, its descendants, its outputs and its limits."""

    def __init__(self, spec: dict[str, Any], control: Control) -> None:
        self.spec = spec
        self.control = control
        self.outputs: list[Output] = []
        self.pid = 0
        self.exit: int | None = None
        self.ended = 0.0
        self.stopped: str | None = None
        self.timed_out = False
        self.silence = False
        self.kill_at: float | None = None
        self.killed: set[tuple[int, int]] = set()
        self.survivors = 0
        self.begun = clock()
        self.wakeup = self.listen_to_signals()

    def run(self) -> None:
        """Start, keep to the limits, end everything, report."""
        failure = self.start()
        if failure is None:
            report(event="started", pid=self.pid, start_ticks=read_stat(self.pid).start)
            while self.exit is None and not self.kill_is_due():
                self.wait_for_news()
                self.reap()
                self.judge(clock())
        self.kill_all()
        for output in self.outputs:
            output.finish()
        self.report_end(failure)

    def start(self) -> str | None:
        """Fork and exec; None when the program runs, else `step:reason`."""
        try:
            for name in ("stdout_path", "stderr_path"):
                self.outputs.append(Output(self.spec[name], self.spec["output_cap_bytes"]))
        except OSError as error:
            return f"output:{code_of(error)}"
        hear, tell = os.pipe()
        keeper = os.getpid()
        self.pid = os.fork()
        if self.pid == 0:
            told = self.spec | {"last_beat": self.control.last_beat}
            become(told, [output.child_end for output in self.outputs], keeper, tell)
        os.close(tell)
        for output in self.outputs:
            os.close(output.child_end)
        failure = os.read(hear, 200).decode()  # the end of the pipe comes with a successful exec
        os.close(hear)
        self.silence = failure == "late:fence"
        return failure or None

    def listen_to_signals(self) -> int:
        """Wake the loop for SIGCHLD and SIGTERM; ignore what a terminal sends."""
        hear, tell = os.pipe()
        os.set_blocking(hear, False)
        os.set_blocking(tell, False)
        signal.set_wakeup_fd(tell, warn_on_full_buffer=False)
        signal.pthread_sigmask(signal.SIG_SETMASK, [])  # the starting thread may have blocked some
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGTERM, lambda *_: self.control.take("s", "terminated"))
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        return hear

    def wait_for_news(self) -> None:
        poll = select.poll()
        poll.register(self.wakeup, select.POLLIN)
        poll.register(self.control.fd, select.POLLIN)
        outputs = {output.pipe: output for output in self.outputs if output.open}
        for fd in outputs:
            poll.register(fd, select.POLLIN)
        for fd, _ in poll.poll(self.milliseconds()):
            if fd == self.wakeup:
                os.read(self.wakeup, CHUNK_BYTES)
            elif fd == self.control.fd:
                self.control.read()
            else:
                outputs[fd].read()

    def milliseconds(self) -> int:
        """Until the next limit, at most one second: poll's own clock stands still while the machine sleeps."""
        limits = [1.0]
        if self.stopped is None:
            limits.append(self.begun + self.spec["seconds"] - clock())
        if self.spec["fence_seconds"] is not None:
            limits.append(self.control.last_beat + self.spec["fence_seconds"] - clock())
        if self.kill_at is not None:
            limits.append(self.kill_at - clock())
        elif self.spec["not_after"] is not None:
            limits.append(self.spec["not_after"] - clock())
        return max(5, int(min(limits) * 1000) + 1)

    def judge(self, now: float) -> None:
        """Apply the worker's words, then the limits, to the child."""
        if self.control.order is not None:
            verb, reason = self.control.order
            self.control.order = None
            self.stop(reason, at_once=verb == "k")
        if self.control.eof:
            self.stop("worker_gone", at_once=True)
        fence = self.spec["fence_seconds"]
        if fence is not None and now - self.control.last_beat > fence and not self.silence:
            self.silence = True
            self.stop("silence", at_once=True)
        if self.spec["on_cap"] == "kill" and any(output.over for output in self.outputs):
            self.stop("output_cap", at_once=True)
        if self.spec["not_after"] is not None and now >= self.spec["not_after"]:
            self.timed_out = self.stopped in (None, "timeout")
            self.stop("timeout", at_once=True)
        if now > self.begun + self.spec["seconds"] and self.stopped is None:
            self.timed_out = True
            self.stop("timeout")

    def stop(self, reason: str, at_once: bool = False) -> None:
        """TERM for every descendant and the grace, or no grace at all. The first reason stays."""
        now = clock()
        if at_once:
            self.kill_at = now
        elif self.stopped is None:
            self.kill_at = now + self.spec["grace_seconds"]
            for pid, start in descendants(os.getpid()).living.items():
                send(pid, start, signal.SIGTERM)
        self.stopped = self.stopped or reason

    def kill_is_due(self) -> bool:
        return self.kill_at is not None and clock() >= self.kill_at

    def kill_all(self) -> None:
        """Only ECHILD proves the end: as subreaper we are the parent of every orphan, so without a child there
        is no descendant, whatever a scan of /proc may have missed."""
        give_up = clock() + KILL_SECONDS
        while not self.reap():
            self.killed |= freeze_and_kill(lambda: descendants(os.getpid()))
            if clock() > give_up:
                self.survivors = len(descendants(os.getpid()).living)
                return
            time.sleep(0.005)

    def reap(self) -> bool:
        """True when no child is left."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return True
            if pid == 0:
                return False
            if pid == self.pid:
                self.exit = os.waitstatus_to_exitcode(status)
                self.ended = clock()

    def report_end(self, failure: str | None) -> None:
        code = None if failure else self.exit
        report(
            event="ended",
            exit_code=code if code is not None and code >= 0 else None,
            signal=-code if code is not None and code < 0 else None,
            start_error=failure,
            timed_out=self.timed_out,
            stopped=self.stopped,
            silence=self.silence,
            orphans_killed=len({pid for pid, _ in self.killed} - {self.pid}),
            survivors=self.survivors,
            output_bytes=[output.total for output in self.outputs],
            truncated=any(output.over for output in self.outputs),
            output_error=next((output.error for output in self.outputs if output.error), None),
            seconds=(self.ended or clock()) - self.begun,
        )


if __name__ == "__main__":
    main()
