"""Finding and ending the processes of one attempt by the token that they carry (L2, L3, X2)."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from jobs.executors.processes import (
    Prey,
    alive,
    alive_job,
    freeze_and_kill,
    make_token,
    read_stat,
    send,
    sweep,
    sweep_job,
)

Until = Callable[[Callable[[], Any]], Any]
SITE = f"sweep{os.getpid()}"


@pytest.fixture
def sleeper() -> Iterator[Callable[..., "subprocess.Popen[bytes]"]]:
    """Processes that a test starts by hand, with a token or without."""
    started: list[subprocess.Popen[bytes]] = []

    def sleep(token: str | None, *argv: str, own_session: bool = True) -> "subprocess.Popen[bytes]":
        env = {"PATH": os.environ["PATH"]} | ({"AGENTQ_TOKEN": token} if token else {})
        started.append(
            subprocess.Popen(argv or ("sleep", "1000"), env=env, start_new_session=own_session, stdout=subprocess.PIPE)
        )
        return started[-1]

    yield sleep
    for process in started:
        with process:
            process.kill()


def test_sweep_ends_one_attempt_and_no_other(sleeper: Callable[..., Any]) -> None:
    mine = sleeper(make_token(SITE, 1, 2))
    others = [
        sleeper(make_token(SITE, 1, 3)),
        sleeper(make_token(SITE, 11, 2)),
        sleeper(make_token(SITE + "x", 1, 2)),
        sleeper(None),
    ]
    assert alive(make_token(SITE, 1, 2)) == [mine.pid]
    assert sweep(make_token(SITE, 1, 2)) == 1
    assert mine.wait() == -9
    assert [other.poll() for other in others] == [None] * 4


def test_sweep_of_a_job_ends_every_earlier_fence(sleeper: Callable[..., Any]) -> None:
    first, second, third = (sleeper(make_token(SITE, 2, fence)) for fence in (1, 9, 10))
    other_job = sleeper(make_token(SITE, 12, 1))
    assert alive_job(SITE, 2, 10) == sorted([first.pid, second.pid])
    assert sweep_job(SITE, 2, below_fence=10) == 2
    assert alive_job(SITE, 2, 10) == []
    assert (first.wait(), second.wait()) == (-9, -9)
    assert (third.poll(), other_job.poll()) == (None, None)


def test_a_descendant_that_emptied_its_environment_belongs(sleeper: Callable[..., Any], until: Until) -> None:
    token = make_token(SITE, 3, 1)
    sleeper(token, "sh", "-c", "setsid env -i /bin/sleep 1000 & wait")
    until(lambda: len(alive(token)) == 2)
    assert sweep(token) == 2
    assert alive(token) == []


def test_a_bystander_in_the_callers_own_session_is_left_alone(sleeper: Callable[..., Any]) -> None:
    token = make_token(SITE, 4, 1)
    carrier = sleeper(token, own_session=False)
    bystander = sleeper(None, own_session=False)
    assert read_stat(carrier.pid).session == os.getsid(0)
    assert sweep(token) == 1
    assert (carrier.wait(), bystander.poll()) == (-9, None)


def test_the_callers_own_session_is_spared_also_when_its_leader_is_gone(tmp_path: Path, until: Until) -> None:
    script = """
import os, subprocess, sys, time
from jobs.executors.processes import read_all_stats, sweep
while os.getsid(0) in read_all_stats():
    time.sleep(0.01)
carrier = subprocess.Popen(["sleep", "1000"], env={"AGENTQ_TOKEN": "orphan:7:1", "PATH": os.environ["PATH"]})
bystander = subprocess.Popen(["sleep", "1000"])
swept = sweep("orphan:7:1")
print(swept, carrier.wait(), bystander.poll(), flush=True)
bystander.kill()
"""
    (tmp_path / "said").touch()
    leader = ["sh", "-c", '"$0" -c "$1" > "$2" & exit 0', sys.executable, script, str(tmp_path / "said")]
    subprocess.run(leader, start_new_session=True, check=True)
    until(lambda: (tmp_path / "said").read_text().endswith("\n"))
    assert (tmp_path / "said").read_text() == "1 -9 None\n"


def test_a_signal_to_a_group_reaches_what_a_scan_missed(sleeper: Callable[..., Any]) -> None:
    missed = sleeper(None)
    assert freeze_and_kill(lambda: Prey({}, {missed.pid})) == set()
    assert missed.wait(timeout=30) == -9


def test_a_pid_that_another_process_got_since_is_left_alone(sleeper: Callable[..., Any]) -> None:
    later = sleeper(None)
    send(later.pid, read_stat(later.pid).start - 1, signal.SIGTERM)
    send(later.pid, read_stat(later.pid).start, signal.SIGKILL)
    assert later.wait() == -9


def test_the_caller_is_never_its_own_prey() -> None:
    script = "from jobs.executors.processes import alive, sweep; token = 'self:5:1'; print(alive(token), sweep(token))"
    env = {"AGENTQ_TOKEN": "self:5:1", "PATH": os.environ["PATH"]}
    done = subprocess.run([sys.executable, "-c", script], env=env, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[] 0"


def test_a_zombie_is_not_alive(sleeper: Callable[..., Any], until: Until) -> None:
    token = make_token(SITE, 6, 1)
    process = sleeper(token)
    process.kill()
    until(lambda: read_stat(process.pid).state == "Z")
    assert alive(token) == []


@pytest.mark.parametrize("site", ["", "a:b", "a\0b"])
def test_a_site_that_could_be_mistaken_is_refused(site: str) -> None:
    with pytest.raises(ValueError, match="site"):
        make_token(site, 1, 1)
