"""How a program is ended: by order, by its limits, by silence, with its shim lost (L2, B1; design section 3)."""

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from jobs.executors.channel import clock
from jobs.executors.process import (
    ProcessResult,
    ProcessSpec,
    RunningProcess,
    start,
)
from jobs.executors.processes import alive, descendants, read_stat

pytestmark = pytest.mark.engine
Make = Callable[..., ProcessSpec]
Until = Callable[[Callable[[], object]], object]


def finish(running: RunningProcess) -> ProcessResult:
    while (result := running.wait(0.2)) is None:
        pass
    return result


def run(spec: ProcessSpec) -> ProcessResult:
    with start(spec) as running:
        return finish(running)


def test_an_orderly_stop_lets_the_program_say_goodbye(make_spec: Make, until: Until) -> None:
    script = "trap 'echo bye; exit 0' TERM; echo ready; while :; do sleep 0.05; done"
    spec = make_spec("sh", "-c", script, grace_seconds=30)
    with start(spec) as running:
        until(lambda: spec.stdout_path.read_text() == "ready\n")
        running.stop("drain")
        result = finish(running)
    assert (result.stopped, result.exit_code, result.clean) == ("drain", 0, False)
    assert spec.stdout_path.read_text().endswith("bye\n")


def test_a_term_deaf_program_is_killed_after_the_grace(make_spec: Make, until: Until) -> None:
    spec = make_spec("sh", "-c", "trap '' TERM; echo ready; while :; do sleep 0.05; done")
    with start(spec) as running:
        until(lambda: spec.stdout_path.read_text() == "ready\n")
        running.stop("cancel")
        result = finish(running)
    assert (result.stopped, result.signal, result.survivors) == ("cancel", signal.SIGKILL, 0)


def test_a_stop_at_once_leaves_no_grace(make_spec: Make, until: Until) -> None:
    spec = make_spec("sh", "-c", "trap 'echo bye' TERM; echo ready; while :; do sleep 0.05; done", grace_seconds=600)
    with start(spec) as running:
        until(lambda: spec.stdout_path.read_text() == "ready\n")
        running.stop("lease_lost", at_once=True)
        result = finish(running)
    assert (result.stopped, result.signal) == ("lease_lost", signal.SIGKILL)
    assert spec.stdout_path.read_text() == "ready\n"


def test_the_time_limit_ends_a_program_with_all_below_it(make_spec: Make, token: str) -> None:
    result = run(make_spec("sh", "-c", "trap '' TERM; setsid sleep 1000; sleep 1000", seconds=0.3))
    assert (result.timed_out, result.stopped, result.clean) == (True, "timeout", False)
    assert alive(token) == []


def test_heartbeats_keep_a_program_alive_past_the_fence_and_silence_ends_it(make_spec: Make) -> None:
    with start(make_spec("sleep", "1000", fence_seconds=1.0)) as running:
        begun = clock()
        while clock() < begun + 2.5:
            running.beat()
            assert running.wait(0.1) is None
        result = finish(running)
    assert (result.silence, result.stopped, result.signal) == (True, "silence", signal.SIGKILL)


def test_a_beat_counts_from_its_own_time_not_from_its_arrival(make_spec: Make) -> None:
    with start(make_spec("sleep", "1000", fence_seconds=30.0)) as running:
        running.beat(clock() - 40)
        running.stop("cancel")
        assert not finish(running).silence  # an older beat takes nothing back
    with start(make_spec("sleep", "1000", fence_seconds=30.0), last_beat=clock() - 40) as late:
        assert finish(late).silence


def test_leaving_the_block_by_an_exception_ends_everything(make_spec: Make, token: str) -> None:
    with pytest.raises(SystemExit), start(make_spec("sh", "-c", "setsid sleep 1000 & sleep 1000")) as running:
        assert running.identity is not None
        raise SystemExit(1)
    assert alive(token) == []
    assert running.result is not None
    assert running.result.stopped == "worker_gone"


def test_a_lost_shim_is_an_outcome_of_its_own_and_leaves_nothing(make_spec: Make, token: str, until: Until) -> None:
    script = "setsid sleep 1000 & setsid sh -c 'env -i /bin/sleep 1000 & sleep 1000' & sleep 1000"
    with start(make_spec("sh", "-c", script)) as running:
        assert running.identity is not None
        shim = running.identity.shim_pid
        until(lambda: sum(map(_is_sleep, descendants(shim).living)) == 4)
        below = descendants(shim).living
        os.kill(shim, signal.SIGKILL)
        result = finish(running)
    assert (result.shim_lost, result.clean, result.survivors) == (True, False, 0)
    assert result.orphans_killed >= 3
    assert alive(token) == []
    assert not [pid for pid in below if Path(f"/proc/{pid}").exists() and read_stat(pid).living]


def _is_sleep(pid: int) -> bool:
    return Path(f"/proc/{pid}/comm").read_text() == "sleep\n"


def test_a_stopped_shim_is_given_up_after_its_time(
    make_spec: Make, token: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jobs.executors.process.SLACK_SECONDS", 0.5)
    with start(make_spec("sleep", "1000")) as running:
        assert running.identity is not None
        os.kill(running.identity.shim_pid, signal.SIGSTOP)
        running.stop("cancel")
        result = finish(running)
    assert result.shim_lost
    assert alive(token) == []


def test_a_term_to_the_shim_is_an_orderly_stop(make_spec: Make, until: Until) -> None:
    spec = make_spec("sh", "-c", "trap 'echo bye; exit 0' TERM; echo ready; while :; do sleep 0.05; done")
    with start(spec) as running:
        assert running.identity is not None
        until(lambda: spec.stdout_path.read_text() == "ready\n")
        os.kill(running.identity.shim_pid, signal.SIGTERM)
        result = finish(running)
    assert (result.stopped, result.survivors) == ("terminated", 0)
