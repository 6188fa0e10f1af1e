"""What the processes of one cluster tell each other without the database: who is busy, whether to drain.

Anonymous shared memory, made when this module is first imported: in the cluster's main process or its sentinel,
before workers and pusher are forked from it. A worker that dies by SIGKILL leaves its pid behind, so readers look
whether it lives.
"""

import mmap
import os
import struct

WORKERS_AT_MOST = 128
_PLACE = struct.Struct("<II")  # pid, and how many messages were taken at this place
_DRAIN, _FIRST = 0, 8
_memory = mmap.mmap(-1, _FIRST + WORKERS_AT_MOST * _PLACE.size)


def take() -> None:
    """This worker has a message in hand; it is not free until `free`."""
    pid = os.getpid()
    while True:
        for offset in _offsets():
            other, taken = _PLACE.unpack_from(_memory, offset)
            if other == pid or not _lives(other):
                _PLACE.pack_into(_memory, offset, pid, (taken + 1) % 2**32)
                # Two workers may have chosen one place at once: whoever reads back another's pid looks again.
                if _PLACE.unpack_from(_memory, offset)[0] == pid:
                    return
        raise RuntimeError(f"more than {WORKERS_AT_MOST} workers in one cluster")


def free() -> None:
    """This worker waits for its next message."""
    pid = os.getpid()
    for offset in _offsets():
        other, taken = _PLACE.unpack_from(_memory, offset)
        if other == pid:
            _PLACE.pack_into(_memory, offset, 0, taken)


def busy_count() -> int:
    """Workers of this cluster that have a message in hand."""
    return sum(_lives(_PLACE.unpack_from(_memory, offset)[0]) for offset in _offsets())


def taken_count() -> int:
    """Changes whenever a worker takes a message."""
    return sum(int(_PLACE.unpack_from(_memory, offset)[1]) for offset in _offsets())


def drain() -> None:
    """From now on nothing new is reserved; running attempts end at their stage's end, then by the drain's limit."""
    _memory[_DRAIN] = 1


def draining() -> bool:
    return _memory[_DRAIN] == 1


def _offsets() -> range:
    return range(_FIRST, _FIRST + WORKERS_AT_MOST * _PLACE.size, _PLACE.size)


def _lives(pid: int) -> bool:
    if pid == 0:
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
