"""Counts what really goes to the database: statements, and transactions that write."""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from django.db import connection, transaction

_BEGIN = "BEGIN"
_WRITES = re.compile(r"\b(INSERT|UPDATE|DELETE)\b")


@dataclass(slots=True)
class Counts:
    """`statements` are round trips that carry SQL; `commits` are transactions that wrote, the ones a disk waits for.

    A rolled-back transaction's statements count, its commit does not.
    """

    statements: int = 0
    commits: int = 0
    _inside: bool = False

    def __call__(self, execute: Callable[..., Any], sql: str, params: Any, many: bool, context: Any) -> Any:
        result = execute(sql, params, many, context)
        if sql.startswith(_BEGIN):
            return result
        self.statements += 1
        if not writes(sql):
            return result
        if not connection.in_atomic_block:
            self.commits += 1
        elif not self._inside:
            self._inside = True
            transaction.on_commit(self._committed)
        return result

    def _committed(self) -> None:
        self.commits += 1
        self._inside = False


def writes(sql: str) -> bool:
    """Whether a statement changes rows, as one can see from its text; names in our schema hold no such word."""
    return _WRITES.search(sql) is not None


@contextmanager
def counted() -> Iterator[Counts]:
    """Counts what this process's default connection does inside the block."""
    counts = Counts()
    with connection.execute_wrapper(counts):
        yield counts
