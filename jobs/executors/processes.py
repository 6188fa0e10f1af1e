"""Processes of this host as /proc shows them: whose they are, and their sure end."""
# ruff: noqa: PTH123, PTH208
# No pathlib here: the shim loads this file and must start fast.

import contextlib
import os
import signal
import time
from collections.abc import Callable
from typing import NamedTuple

from jobs.executors.channel import clock

MARK_NAME = "AGENTQ_TOKEN"
SWEEP_SECONDS = 10.0


def make_token(site: str, job_id: int, fence: int) -> str:
    """The mark that every process of one attempt carries. `site` tells two installations (or two databases) on
    one host apart: without it a sweep for job 1 here would kill job 1 there."""
    if not site or ":" in site or "\0" in site:
        raise ValueError("a site is a short text without a colon")
    return f"{site}:{job_id}:{fence}"


def alive(token: str) -> list[int]:
    """Pids of this host that belong to the attempt with this token; empty is the proof that it can act no more.

    A process belongs when its environment holds the token, when it descends from one that does, or when it shares
    a session of the attempt's own with one. What emptied its environment and left both is not seen here: the
    shim, being its parent in the end, kills that one too, as long as the shim itself lives.
    """
    return sorted(_find(lambda held: held == token).living)


def sweep(token: str) -> int:
    """Kill every process of this host that belongs to the token; the number of processes killed.

    Gives up after 10 seconds on what SIGKILL cannot end: ask `alive` for proof. Never kills the caller.
    """
    return _sweep(lambda held: held == token)


def sweep_job(site: str, job_id: int, below_fence: int) -> int:
    """Kill what earlier attempts of a job left on this host: every token of it with a fence below the given one."""
    return _sweep(lambda held: _is_earlier(held, site, job_id, below_fence))


def alive_job(site: str, job_id: int, below_fence: int) -> list[int]:
    """Pids of this host that belong to earlier attempts of a job."""
    return sorted(_find(lambda held: _is_earlier(held, site, job_id, below_fence)).living)


def _is_earlier(held: str, site: str, job_id: int, below_fence: int) -> bool:
    prefix, _, fence = held.rpartition(":")
    return prefix == f"{site}:{job_id}" and fence.isdecimal() and int(fence) < below_fence


def _sweep(matches: Callable[[str], bool]) -> int:
    killed: set[tuple[int, int]] = set()
    give_up = clock() + SWEEP_SECONDS
    while found := freeze_and_kill(lambda: _find(matches)):
        killed |= found
        if clock() > give_up:
            break
        time.sleep(0.005)
    return len(killed)


def _find(matches: Callable[[str], bool]) -> "Prey":
    """What belongs to a matching token, the caller left out."""
    stats = read_all_stats()
    holders = {pid for pid in stats if (held := _token_of(pid)) is not None and matches(held)}
    sessions = {stats[pid].session for pid in holders} - {os.getsid(0)}
    # A session is the attempt's own when its leader carries the token too, or is gone. Any other one was only
    # joined, as by a program that a person started by hand with this environment.
    sessions = {one for one in sessions if one in holders or one not in stats or not stats[one].living}
    below = _below(holders, stats)
    ours = {pid for pid, stat in stats.items() if pid in holders or pid in below or stat.session in sessions}
    groups = {stat.group for stat in stats.values() if stat.session in sessions}
    return Prey({pid: stats[pid].start for pid in ours - {os.getpid()} if stats[pid].living}, groups)


def _token_of(pid: int) -> str | None:
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            entries = file.read().split(b"\0")
    except OSError:
        return None
    prefix = f"{MARK_NAME}=".encode()
    return next((os.fsdecode(entry[len(prefix) :]) for entry in entries if entry.startswith(prefix)), None)


class Stat(NamedTuple):
    """What /proc says about one process; `start` (clock ticks since boot) tells two users of one pid apart."""

    state: str
    parent: int
    group: int
    session: int
    threads: int
    start: int

    @property
    def living(self) -> bool:
        """A zombie leader with more than one thread still runs."""
        return self.state not in "ZX" or self.threads > 1


def read_stat(pid: int) -> Stat:
    """Raises OSError when there is no such process."""
    with open(f"/proc/{pid}/stat", "rb") as file:
        fields = file.read().rpartition(b")")[2].split()
    return Stat(fields[0].decode(), int(fields[1]), int(fields[2]), int(fields[3]), int(fields[17]), int(fields[19]))


def read_all_stats() -> dict[int, Stat]:
    stats = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                stats[int(name)] = read_stat(int(name))
            except OSError:
                continue
    return stats


class Prey(NamedTuple):
    """Living processes (pid to start time), and the process groups that hold only such processes.

    A program that forks and exits faster than /proc can be read is seen only by the zombies that it leaves; a
    signal to their group reaches it, because the kernel lets no fork slip past one."""

    living: dict[int, int]
    groups: set[int]


def descendants(root: int) -> Prey:
    """Every process below `root`, which must have put them into sessions of their own."""
    stats = read_all_stats()
    below = _below({root}, stats)
    groups = {stats[pid].group for pid in below if stats[pid].session != stats[root].session}
    return Prey({pid: stats[pid].start for pid in below if stats[pid].living}, groups)


def _below(roots: set[int], stats: dict[int, Stat]) -> set[int]:
    children: dict[int, list[int]] = {}
    for pid, stat in stats.items():
        children.setdefault(stat.parent, []).append(pid)
    found: set[int] = set()
    waiting = list(roots)
    while waiting:
        below = children.pop(waiting.pop(), [])
        found.update(below)
        waiting += below
    return found


def freeze_and_kill(find: Callable[[], Prey]) -> set[tuple[int, int]]:
    """Stop what `find` finds until it finds nothing new, then kill it all: what is stopped cannot fork."""
    frozen: set[tuple[int, int]] = set()
    groups: set[int] = set()
    for _ in range(20):
        prey = find()
        groups |= prey.groups
        new = set(prey.living.items()) - frozen
        if not new:
            break
        for pid, start in new:
            send(pid, start, signal.SIGSTOP)
        frozen |= new
    for group in groups:
        with contextlib.suppress(OSError):
            os.killpg(group, signal.SIGKILL)
    for pid, start in frozen:
        send(pid, start, signal.SIGKILL)
    return frozen


def send(pid: int, start: int, number: int) -> None:
    """Signal the process that was seen, not another one that got its pid since."""
    try:
        if read_stat(pid).start == start:
            os.kill(pid, number)
    except OSError:
        return
