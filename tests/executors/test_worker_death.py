"""What a dead, frozen or interrupted worker leaves running: nothing (L2, L3; design section 3)."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from jobs.executors.processes import alive, sweep

pytestmark = pytest.mark.engine
Until = Callable[[Callable[[], Any]], Any]
ROOT = Path(__file__).resolve().parents[2]

# A worker that starts one program with a family of daemons, says so, beats, and tells how the program ended.
WORKER = """
import json, signal, sys
from pathlib import Path
from jobs.executors.process import ProcessSpec, minimal_environment, start

token, home, fence = sys.argv[1], Path(sys.argv[2]), float(sys.argv[3])
signal.signal(signal.SIGTERM, lambda *_: sys.exit(7))
family = "trap '' TERM HUP; setsid sleep 1000 & (setsid sh -c 'trap \\"\\" TERM; sleep 999; :' &) ; sleep 999"
spec = ProcessSpec(argv=("sh", "-c", family), cwd=home, env=minimal_environment(home=home, tmp=home), token=token,
                   stdout_path=home / "stdout", stderr_path=home / "stderr", seconds=300, fence_seconds=fence)
with start(spec) as running:
    print(json.dumps(running.identity.shim_pid), flush=True)
    while (result := running.wait(0.05)) is None:
        running.beat()
    print(json.dumps([result.silence, result.stopped, result.survivors]), flush=True)
"""


@contextmanager
def worker(token: str, home: Path, fence: float) -> Iterator["subprocess.Popen[str]"]:
    process = subprocess.Popen(
        [sys.executable, "-c", WORKER, token, str(home), str(fence)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    with process:
        try:
            yield process
        finally:
            process.kill()


def family_is_up(token: str) -> bool:
    names = []
    for pid in alive(token):
        with suppress(FileNotFoundError):  # a short-lived one of the family is gone between the look and the read
            names.append(Path(f"/proc/{pid}/comm").read_text().strip())
    return names.count("sleep") == 3


def test_after_kill_9_of_the_worker_every_descendant_dies(token: str, tmp_path: Path, until: Until) -> None:
    with worker(token, tmp_path, fence=600) as process:
        until(lambda: family_is_up(token))
        process.kill()
        process.wait()
        until(lambda: alive(token) == [])


def test_after_kill_9_of_the_workers_whole_session_every_descendant_dies(
    token: str, tmp_path: Path, until: Until
) -> None:
    with worker(token, tmp_path, fence=600) as process:
        until(lambda: family_is_up(token))
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        until(lambda: alive(token) == [])


def test_a_worker_frozen_past_the_fence_loses_its_program_and_learns_it(
    token: str, tmp_path: Path, until: Until
) -> None:
    with worker(token, tmp_path, fence=1.5) as process:
        assert process.stdout is not None
        until(lambda: family_is_up(token))
        process.stdout.readline()
        process.send_signal(signal.SIGSTOP)
        until(lambda: alive(token) == [])
        process.send_signal(signal.SIGCONT)
        assert json.loads(process.stdout.readline()) == [True, "silence", 0]


def test_a_signal_handler_that_exits_ends_the_program_first(token: str, tmp_path: Path, until: Until) -> None:
    with worker(token, tmp_path, fence=600) as process:
        until(lambda: family_is_up(token))
        process.terminate()
        assert process.wait() == 7
        assert alive(token) == []


def test_kill_9_of_worker_and_shim_together_leaves_what_a_sweep_ends(token: str, tmp_path: Path, until: Until) -> None:
    with worker(token, tmp_path, fence=600) as process:
        assert process.stdout is not None
        until(lambda: family_is_up(token))
        shim = int(process.stdout.readline())
        process.send_signal(signal.SIGSTOP)
        os.kill(shim, signal.SIGKILL)
        process.kill()
        process.wait()
        assert alive(token) != []
        assert sweep(token) >= 3
        assert alive(token) == []
