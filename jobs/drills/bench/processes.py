"""Work shared by real processes that start together, and how fast they were."""

import multiprocessing
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from django.db import connection, connections

SECONDS_AT_MOST = 900.0


@dataclass(frozen=True, slots=True)
class Done:
    """`count` things in `seconds`, from the first process's start to the last one's end."""

    count: int
    seconds: float

    @property
    def rate(self) -> float:
        return self.count / self.seconds if self.seconds else 0.0


def together(processes: int, work: Callable[[int], int]) -> Done:
    """Each process calls `work` with its number, on a database connection of its own; it returns how many it did.

    Raises RuntimeError when one of them failed.
    """
    connections.close_all()  # a connection must not cross a fork
    context: Any = multiprocessing.get_context("fork")
    gate, answers = context.Barrier(processes), context.SimpleQueue()
    children = [context.Process(target=_child, args=(work, number, gate, answers)) for number in range(processes)]
    for child in children:
        child.start()
    for child in children:
        child.join(SECONDS_AT_MOST)
    if any(child.exitcode != 0 for child in children):
        for child in children:
            child.kill()
        raise RuntimeError("a process of the benchmark failed")
    found = [answers.get() for _ in children]
    first, last = min(start for _, start, _ in found), max(end for _, _, end in found)
    return Done(sum(count for count, _, _ in found), last - first)


def _child(work: Callable[[int], int], number: int, gate: Any, answers: Any) -> None:
    try:
        connection.ensure_connection()
        gate.wait()
        start = time.monotonic()
        count = work(number)
        answers.put((count, start, time.monotonic()))
    except BaseException:
        gate.abort()
        traceback.print_exc()
        raise
    finally:
        connections.close_all()
