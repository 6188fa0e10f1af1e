"""What the processes of one cluster tell each other without the database: who is busy, whether to drain.

Anonymous shared memory, made when this module is first imported: in the cluster's main process or its sentinel,
before workers and pusher are forked from it. A worker that dies by SIGKILL leaves its pid behind, so readers look
whether it lives.
"""

import mmap
import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager

WORKERS_AT_MOST = 128
_PID = struct.Struct("<I")
_DRAIN, _FIRST = 0, 8
_memory = mmap.mmap(-1, _FIRST + WORKERS_AT_MOST * _PID.size)


@contextmanager
def busy() -> Iterator[None]:
    """This worker has a message in hand; it is not free until the block ends."""
    offset = _take()
    try:
        yield
    finally:
        _PID.pack_into(_memory, offset, 0)


def busy_count() -> int:
    """Workers of this cluster that have a message in hand."""
    return sum(_lives(_PID.unpack_from(_memory, offset)[0]) for offset in _offsets())


def drain() -> None:
    """From now on nothing new is reserved; running attempts end at their stage's end, then by the drain's limit."""
    _memory[_DRAIN] = 1


def draining() -> bool:
    return _memory[_DRAIN] == 1


def _take() -> int:
    pid = os.getpid()
    while True:
        for offset in _offsets():
            if not _lives(_PID.unpack_from(_memory, offset)[0]):
                _PID.pack_into(_memory, offset, pid)
                # Two workers may have chosen one place at once: whoever reads back another's pid looks again.
                if _PID.unpack_from(_memory, offset)[0] == pid:
                    return offset
        raise RuntimeError(f"more than {WORKERS_AT_MOST} workers in one cluster")


def _offsets() -> range:
    return range(_FIRST, _FIRST + WORKERS_AT_MOST * _PID.size, _PID.size)


def _lives(pid: int) -> bool:
    if pid == 0:
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
