"""What an executor is: one stage of an attempt in, plain facts out. It never judges the work that was done."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

from jobs.executors.process import ProcessResult, ProcessSpec, minimal_environment, start

POLL_SECONDS = 0.2
NO_GRACE = frozenset({"lease_lost"})  # another worker may hold the job by now


class Control(Protocol):
    """The worker's say over a running stage."""

    def should_stop(self) -> str | None:
        """The reason to stop now (cancel, pause, drain, lease_lost, deadline), or None."""

    def beaten(self) -> float:
        """When the lease was last renewed, in seconds of `channel.clock()`."""


@dataclass(frozen=True)
class StageLimits:
    """What is left for this stage. `seconds` is wall clock, `output_cap_bytes` holds per output file."""

    seconds: float
    grace_seconds: float = 10.0
    fence_seconds: float | None = 75.0
    output_cap_bytes: int = 8 * 1024 * 1024


@dataclass(frozen=True)
class StageContext:
    """One stage to run. `output` is a directory outside the checkout; `environment` holds only what the child
    needs beyond PATH, LANG, HOME and TMPDIR. `inputs` is {"argv": [...]}, {"params": {...}} or {"prompt": ...} by
    executor. `session` names an agent's earlier session on the same tree, `readable` what lies outside and is needed.
    """

    stage: str
    token: str
    checkout: Path
    home: Path
    tmp: Path
    output: Path
    inputs: Mapping[str, Any]
    limits: StageLimits
    environment: Mapping[str, str] = field(default_factory=dict)
    session: str = ""
    readable: tuple[Path, ...] = ()


@dataclass(frozen=True)
class StageResult:
    """What happened, for the classifier and the gate. `ok` says that the stage ran to its proper end: it is the
    executor's claim, never acceptance. `facts` holds plain codes, counts and digests, no text of the agent. `events`
    are an agent's own, shortened: for the classifier, in memory only."""

    ok: bool
    exit_code: int | None = None
    signal: int | None = None
    start_error: str | None = None
    timed_out: bool = False
    stopped: str | None = None
    silence: bool = False
    shim_lost: bool = False
    survivors: int = 0
    duration_seconds: float = 0.0
    stdout_path: Path | None = None
    stderr_path: Path | None = None
    truncated: bool = False
    facts: Mapping[str, Any] = field(default_factory=dict)
    claim_path: Path | None = None
    tool_types: tuple[str, ...] = ()
    events: tuple[Mapping[str, Any], ...] = ()


class Executor(Protocol):
    """One way to work on a checkout. `acts_outside` executors may change the world beyond it by themselves; `takes`
    are the names that its child's environment may hold beyond the usual ones, credentials among them (Z5)."""

    name: str
    acts_outside: bool
    takes: frozenset[str]

    def run_stage(self, context: StageContext, control: Control) -> StageResult:
        """Run read, plan or modify to its end or until `control` says stop; nothing of it runs afterwards,
        unless `survivors` says so. Raises BadStageInputs when `inputs` do not fit."""


def run_process(
    context: StageContext, control: Control, argv: tuple[str, ...], stdin_path: Path | None = None
) -> StageResult:
    """Run a program for a stage under the worker's control. `ok` is a clean exit 0."""
    spec = ProcessSpec(
        argv=argv,
        cwd=context.checkout,
        env=minimal_environment(home=context.home, tmp=context.tmp, extra=context.environment),
        stdout_path=context.output / f"{context.stage}.stdout",
        stderr_path=context.output / f"{context.stage}.stderr",
        token=context.token,
        seconds=context.limits.seconds,
        grace_seconds=context.limits.grace_seconds,
        fence_seconds=context.limits.fence_seconds,
        output_cap_bytes=context.limits.output_cap_bytes,
        stdin_path=stdin_path,
    )
    return stage_result(spec, supervise(spec, control))


def supervise(spec: ProcessSpec, control: Control) -> ProcessResult:
    """Start a program, hand the lease's heartbeats on, stop it when `control` says so, return how it ended."""
    beaten = control.beaten()
    with start(spec, last_beat=beaten) as running:
        while (result := running.wait(POLL_SECONDS)) is None:
            if control.beaten() > beaten:
                beaten = control.beaten()
                running.beat(beaten)
            if (reason := control.should_stop()) is not None:
                running.stop(reason, at_once=reason in NO_GRACE)
    return result


def record_inputs(context: StageContext) -> StageResult:
    """A stage that needs no process: what it was asked is on record by digest."""
    text = json.dumps(context.inputs, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    digest = hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()
    return StageResult(ok=True, facts={"inputs_digest": digest})


def with_facts(result: StageResult, **facts: object) -> StageResult:
    """The same result with more facts."""
    return replace(result, facts={**result.facts, **facts})


def stage_result(spec: ProcessSpec, ended: ProcessResult) -> StageResult:
    """How a process ended, as the result of a stage. `ok` is a clean exit 0."""
    facts = {
        "orphans_killed": ended.orphans_killed,
        "stdout_bytes": ended.stdout_bytes,
        "stderr_bytes": ended.stderr_bytes,
        "output_error": ended.output_error,
    }
    return StageResult(
        ok=ended.clean,
        exit_code=ended.exit_code,
        signal=ended.signal,
        start_error=ended.start_error,
        timed_out=ended.timed_out,
        stopped=ended.stopped,
        silence=ended.silence,
        shim_lost=ended.shim_lost,
        survivors=ended.survivors,
        duration_seconds=ended.duration_seconds,
        stdout_path=spec.stdout_path,
        stderr_path=spec.stderr_path,
        truncated=ended.truncated,
        facts=facts,
    )
