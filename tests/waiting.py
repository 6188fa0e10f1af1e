"""Waiting for a condition, never for a time."""

import time
from collections.abc import Callable
from pathlib import Path
from subprocess import Popen
from typing import Any


def until(
    condition: Callable[[], Any], *, seconds: float = 90, process: "Popen[bytes] | None" = None, log: Path | None = None
) -> Any:
    """The condition's first true answer. Fails after `seconds`, or when the process it depends on has ended."""
    limit = time.monotonic() + seconds
    while not (answer := condition()):
        told = log.read_text() if log else ""
        assert process is None or process.poll() is None, f"the process ended early\n{told}"
        assert time.monotonic() < limit, f"waited {seconds} s in vain\n{told}"
        time.sleep(0.05)
    return answer
