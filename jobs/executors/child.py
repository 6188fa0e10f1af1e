"""The step from the forked shim to the program that it was asked to run."""
# ruff: noqa: PTH123
# No pathlib here: the shim loads this file and must start fast.

import ctypes
import os
import resource
import signal
from typing import Any

from jobs.executors.channel import clock, code_of

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
LIBC = ctypes.CDLL(None, use_errno=True)


class Late(Exception):
    """The time in which the program might start is over; says which limit passed."""


def become_subreaper() -> None:
    """Every orphan below this process becomes its child, whatever sessions it made."""
    LIBC.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def become(spec: dict[str, Any], outputs: list[int], keeper: int, tell: int) -> None:
    """In the forked child: own session, default signals, the given descriptors, then exec. Never returns."""
    step = "setup"
    try:
        os.setsid()
        LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != keeper:  # the shim died before the line above
            os._exit(127)
        for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
            signal.signal(number, signal.SIG_DFL)
        os.umask(0o022)
        step = "stdin"
        os.dup2(os.open(spec["stdin_path"] or os.devnull, os.O_RDONLY), 0)
        os.dup2(outputs[0], 1)
        os.dup2(outputs[1], 2)
        step = "limits"
        set_limits(spec["limits"])
        step = "cwd"
        os.chdir(spec["cwd"])
        step = "late"
        refuse_late(spec, clock())
        step = "exec"
        os.execvpe(spec["argv"][0], spec["argv"], spec["env"])  # noqa: S606
    except BaseException as error:  # noqa: BLE001  (told to the shim; this process ends here)
        code = str(error) if isinstance(error, Late) else code_of(error)
        os.write(tell, f"{step}:{code}".encode())
    finally:
        os._exit(127)


def refuse_late(spec: dict[str, Any], now: float) -> None:
    """Whoever was frozen on the way here wakes up when another worker may hold the job: nothing starts then (X2).

    Asked right before exec. What is frozen even later than that still carries the token, and a sweep ends it."""
    if spec["not_after"] is not None and now >= spec["not_after"]:
        raise Late("not_after")
    if spec["fence_seconds"] is not None and now - spec["last_beat"] > spec["fence_seconds"]:
        raise Late("fence")


def set_limits(limits: dict[str, int]) -> None:
    """No core files; the largest file and the number of processes where asked. Short of memory, the kernel
    shall choose this child before the worker: an idle worker that it kills can hang the cluster."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for name, value in limits.items():
        if name != "NPROC" or os.geteuid() != 0:
            resource.setrlimit(getattr(resource, f"RLIMIT_{name}"), (value, value))
    try:
        with open("/proc/self/oom_score_adj", "w") as file:
            file.write("500")
    except OSError:  # a sandbox may forbid it, and it is only a preference
        return
