"""What was to start too late never starts: the fence and the hard end are asked right before exec (L2, X2)."""

import os
import signal
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from jobs.executors import process
from jobs.executors.channel import clock
from jobs.executors.process import ProcessResult, ProcessSpec, start

pytestmark = pytest.mark.engine
Make = Callable[..., ProcessSpec]


def run(spec: ProcessSpec, last_beat: float | None = None) -> ProcessResult:
    with start(spec, last_beat=last_beat) as running:
        while (result := running.wait(0.2)) is None:
            pass
    return result


def test_nothing_starts_after_its_hard_end(make_spec: Make, tmp_path: Path) -> None:
    result = run(make_spec("touch", "acted", not_after=clock()))
    assert (result.start_error, result.exit_code, result.clean) == ("late:not_after", None, False)
    assert not (tmp_path / "acted").exists()


def test_nothing_starts_under_a_lease_that_may_be_over(make_spec: Make, tmp_path: Path) -> None:
    result = run(make_spec("touch", "acted", fence_seconds=5.0), last_beat=clock() - 6)
    assert (result.start_error, result.silence, result.clean) == ("late:fence", True, False)
    assert not (tmp_path / "acted").exists()


def test_a_shim_frozen_before_it_starts_its_program_starts_nothing_once_it_wakes_up(
    make_spec: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual, end = subprocess.Popen, clock() + 0.3

    def frozen(*args: object, **more: object) -> "subprocess.Popen[bytes]":
        shim = usual(*args, **more)  # type: ignore[call-overload]
        os.kill(shim.pid, signal.SIGSTOP)
        threading.Timer(end - clock() + 0.2, os.kill, (shim.pid, signal.SIGCONT)).start()
        return shim

    monkeypatch.setattr(process.subprocess, "Popen", frozen)
    spec = make_spec("touch", "acted", not_after=end)
    with start(spec) as running:
        while (result := running.wait(0.2)) is None:
            pass
    assert result.start_error == "late:not_after"
    assert not (tmp_path / "acted").exists()


def test_what_runs_at_its_hard_end_is_killed_without_a_grace(make_spec: Make, tmp_path: Path) -> None:
    script = "trap '' TERM; while :; do sleep 0.05; done"
    result = run(make_spec("sh", "-c", script, grace_seconds=600, not_after=clock() + 1))
    assert (result.timed_out, result.stopped, result.signal) == (True, "timeout", signal.SIGKILL)
    assert result.survivors == 0
