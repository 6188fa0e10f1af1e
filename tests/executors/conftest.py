"""What the executor tests share: a spec with few words, a condition to wait for, no process left behind."""

import itertools
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from jobs.executors.base import StageContext, StageLimits
from jobs.executors.channel import clock
from jobs.executors.process import ProcessSpec, minimal_environment
from jobs.executors.processes import alive, make_token, sweep

NUMBERS = itertools.count(1)


class FakeControl:
    """A worker that renews its lease all the time and stops when a file appears."""

    def __init__(self, stop_at: Path | None = None, reason: str = "cancel", beats: bool = True) -> None:
        self.stop_at, self.reason, self.last, self.beats = stop_at, reason, clock(), beats

    def should_stop(self) -> str | None:
        return self.reason if self.stop_at is not None and self.stop_at.exists() else None

    def beaten(self) -> float:
        return clock() if self.beats else self.last


@pytest.fixture
def token() -> Iterator[str]:
    token = make_token(f"test{os.getpid()}", next(NUMBERS), 1)
    yield token
    sweep(token)
    assert alive(token) == []


@pytest.fixture
def make_spec(tmp_path: Path, token: str) -> Callable[..., ProcessSpec]:
    def make(*argv: str, **given: Any) -> ProcessSpec:
        values: dict[str, Any] = {
            "argv": argv,
            "cwd": tmp_path,
            "env": minimal_environment(home=tmp_path, tmp=tmp_path),
            "stdout_path": tmp_path / "out" / "stdout",
            "stderr_path": tmp_path / "out" / "stderr",
            "token": token,
            "seconds": 60,
            "grace_seconds": 0.3,
        }
        return ProcessSpec(**{**values, **given})

    return make


@pytest.fixture
def until() -> Callable[[Callable[[], Any]], Any]:
    def wait(condition: Callable[[], Any]) -> Any:
        give_up = time.monotonic() + 30
        while not (value := condition()):
            assert time.monotonic() < give_up, "the condition never came true"
            time.sleep(0.01)
        return value

    return wait


@pytest.fixture
def context(tmp_path: Path, token: str) -> Callable[..., StageContext]:
    checkout = tmp_path / "checkout"
    checkout.mkdir()

    def make(inputs: dict[str, Any], stage: str = "modify", **limits: Any) -> StageContext:
        return StageContext(
            stage=stage,
            token=token,
            checkout=checkout,
            home=tmp_path,
            tmp=tmp_path,
            output=tmp_path / "output",
            inputs=inputs,
            limits=StageLimits(**{"seconds": 60, "grace_seconds": 0.3, **limits}),
        )

    return make


@pytest.fixture
def make_control() -> type[FakeControl]:
    return FakeControl
