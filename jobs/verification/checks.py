"""The rows that verification produces, and what it needs from whoever runs programs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Protocol


class Verdict(StrEnum):
    """PASS and FAIL are answers. MISSING: nothing was there to run. ERROR: no answer was reached."""

    PASS = "pass"  # noqa: S105  (a verdict, not a password)
    FAIL = "fail"
    MISSING = "missing"
    ERROR = "error"


@dataclass(frozen=True)
class Check:
    """One check of one result. `details` are sorted codes, never text of the repository.

    `argv_digest` is None for AgentQ's own checks, `output_digest` is the SHA-256 of the file at `output_path`.
    """

    name: str
    argv_digest: str | None
    exit_code: int | None
    verdict: Verdict
    seconds: float = 0.0
    output_digest: str | None = None
    output_path: Path | None = None
    details: tuple[str, ...] = ()


class ProgramRun(Protocol):
    """How a program ended. `stopped` names who ended it (timeout, output_cap, or a reason of the worker)."""

    @property
    def exit_code(self) -> int | None: ...
    @property
    def signal(self) -> int | None: ...
    @property
    def timed_out(self) -> bool: ...
    @property
    def stopped(self) -> str | None: ...
    @property
    def start_error(self) -> str | None: ...
    @property
    def survivors(self) -> int: ...
    @property
    def duration_seconds(self) -> float: ...


class Runner(Protocol):
    """Runs one program to its end under the worker's control, its output in the capped file `output_path`."""

    def __call__(
        self, argv: Sequence[str], cwd: Path, env: Mapping[str, str], seconds: float, output_path: Path
    ) -> ProgramRun: ...
