"""A real agent CLI, a stand-in for its model service on the loopback, and one stage of a job."""

import itertools
import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from jobs import executors
from jobs.core.adapters.runs import EndedRun, gather
from jobs.core.failures import Classification, classify
from jobs.executors.base import StageContext, StageLimits, StageResult
from jobs.executors.channel import clock
from jobs.executors.outputs import tail
from jobs.executors.processes import alive, make_token, sweep
from jobs.policies.loading import builtin, to_policy
from tests import needs
from tests.agents.model_server import ModelServer

NUMBERS = itertools.count(1)
KEYS = {
    "codex": ("OPENAI_API_KEY", "OPENAI_BASE_URL", "/v1"),
    "claude": ("ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL", ""),
}


class Worker:
    """A worker that renews its lease all the time; `reason` makes it stop the stage."""

    reason: str | None = None

    def should_stop(self) -> str | None:
        return self.reason

    def beaten(self) -> float:
        return clock()


@dataclass(frozen=True)
class Ran:
    """How one stage ended, how the built-in policy classifies it, and how often the model was asked."""

    result: StageResult
    seen: Classification | None
    calls: int


@pytest.fixture(scope="session")
def server() -> Iterator[ModelServer]:
    with ModelServer() as running:
        yield running


class Stage:
    """One job's stages by a real CLI, each `run` against a scenario of the stand-in."""

    def __init__(self, name: str, server: ModelServer, root: Path, token: str) -> None:
        self.name, self.server, self.root, self.token = name, server, root, token
        self.worker = Worker()
        self.tree = root / "work" / "tree"
        for folder in (self.tree, root / "work" / "home", root / "work" / "tmp"):
            folder.mkdir(parents=True)
        (self.tree / "README.md").write_text("# demo\nhello world\n")
        author = ("-c", "user.name=t", "-c", "user.email=t@example.org")
        for words in (("init", "-q"), ("add", "-A"), (*author, "commit", "-qm", "base")):
            subprocess.run(["git", *words], cwd=self.tree, check=True)

    @property
    def edited(self) -> bool:
        return "hello agent" in (self.tree / "README.md").read_text()

    def run(
        self,
        scenario: str,
        stage: str = "modify",
        *,
        fence: int = 1,
        session: str = "",
        service: str = "",
        **inputs: Any,
    ) -> Ran:
        """One stage; `service` is another address than the stand-in's."""
        key, address, suffix = KEYS[self.name]
        run = f"{self.name}-{self.root.name}-{fence}-{stage}"
        before = self.server.calls[run]
        context = StageContext(
            stage=stage,
            token=self.token,
            checkout=self.tree,
            home=self.root / "work" / "home",
            tmp=self.root / "work" / "tmp",
            output=self.root / "jobs" / str(fence),
            inputs={"prompt": "Change hello world to hello agent in README.md.", **inputs},
            limits=StageLimits(seconds=120, grace_seconds=2),
            environment={key: "canary-key", address: (service or self.server.address(scenario, run)) + suffix},
            session=session,
        )
        result = executors.get(self.name).run_stage(context, self.worker)
        return Ran(result, self._classified(result, stage), self.server.calls[run] - before)

    def _classified(self, result: StageResult, stage: str) -> Classification | None:
        """None when AgentQ itself has named the failure."""
        error = result.facts.get("error", {})
        if error.get("code"):
            return None
        run = EndedRun(
            program=self.name,
            stage=stage,
            exit_code=result.exit_code,
            signal=result.signal,
            exception_type=error.get("exception") or result.start_error,
            http_status=error.get("http_status"),
            stdout=tail(result.stdout_path, 16384) if result.stdout_path else "",
            stderr=tail(result.stderr_path, 16384) if result.stderr_path else "",
            events=result.events,
            wall_clock_kill=result.timed_out,
        )
        return classify(gather(run), to_policy(builtin()))


@pytest.fixture(params=["codex", "claude"])
def stage(request: pytest.FixtureRequest, server: ModelServer, tmp_path: Path) -> Iterator[Stage]:
    needs.agent_cli(request.param)
    token = make_token(f"agents{os.getpid()}", next(NUMBERS), 1)
    yield Stage(request.param, server, tmp_path, token)
    sweep(token)
    assert alive(token) == []
