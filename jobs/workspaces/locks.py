"""Advisory file locks: one process at a time on one mirror or on one delivered branch."""

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from jobs import errors
from jobs.workspaces.git import clear_disk_errors

_PAUSE = 0.05  # seconds between two tries


@contextmanager
def held(path: Path, seconds: float) -> Iterator[int]:
    """Hold the lock file `path` exclusively; yields its descriptor. Raises WorkspaceBusy after `seconds`.

    A git started with this descriptor in `keep` goes on holding the lock when this process is killed, so that the
    next one never works beside it.
    """
    with clear_disk_errors():
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        _acquire(descriptor, time.monotonic() + seconds)
        yield descriptor
    finally:
        os.close(descriptor)


def _acquire(descriptor: int, deadline: float) -> None:
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= deadline:
                raise errors.WorkspaceBusy from None
            time.sleep(_PAUSE)
        else:
            return
