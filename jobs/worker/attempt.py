"""One attempt, stage by stage, from the last verified checkpoint to the end (C1, C2, S4)."""

import json
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from django.conf import settings

from jobs.core.stages import AGENT_STAGES, VERIFY_STAGES, Stage, following
from jobs.core.states import Event, State
from jobs.errors import LeaseLost
from jobs.executors.base import StageLimits
from jobs.models import Checkpoint
from jobs.services import artifacts, clock, policies, transitions
from jobs.services.audit import Entry
from jobs.services.leases import Claimed
from jobs.services.statement import Insert
from jobs.services.transitions import Change, Held
from jobs.worker import agent_stages, decisions, identity, inputs, verify_stages
from jobs.worker.heartbeat import Heartbeat
from jobs.worker.outcomes import BudgetSpent, Done, StageStopped
from jobs.worker.rescue import rescue_earlier
from jobs.workspaces.checkout import Checkout
from jobs.workspaces.mirror import Base, Mirror


@dataclass(slots=True)
class Attempt:
    """What a running attempt knows. `held` is replaced at each write; everything else is set once."""

    claimed: Claimed
    heart: Heartbeat
    held: Held
    mirror: Mirror
    output: Path
    begun: float
    stage: Stage
    base: Base | None = None
    base_stored: bool = False  # a checkpoint has put it on the job
    checkout: Checkout | None = None
    outputs: dict[Stage, str] = field(default_factory=dict)  # newest output digest of each stage
    notes: dict[Stage, str] = field(default_factory=dict)  # digest of what people noted for a stage
    snapshot: str = ""  # the newest stored state of the work, also a half-done one
    delivered: str = ""  # the branch, once it is there
    tools: set[str] = field(default_factory=set)  # types of tools that its stages used
    tokens: int | None = 0  # of its stages; None once one of them asked a model and could not say
    agent: dict[str, str] = field(default_factory=dict)  # its model, cli_version and isolation, once it told
    ending: dict[str, Any] = field(default_factory=dict)  # what the log line says of the end

    @property
    def job(self) -> Any:
        return self.claimed.job

    @property
    def stages(self) -> tuple[Stage, ...]:
        return tuple(Stage(stage) for stage in self.job.definition.stages)

    @property
    def payload(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.job.payload)
        return found

    @property
    def actor(self) -> str:
        return f"worker:{self.held.worker}"

    @property
    def policy(self) -> Any:
        return policies.rules(self.held.policy)

    @property
    def token(self) -> str:
        return identity.token(self.held.id, self.held.fence)

    def used(self, tools: Iterable[str], tokens: int | None) -> None:
        """A stage used these types of tools and so many tokens, None when nobody knows how many (B1)."""
        self.tools.update(tools)
        self.tokens = None if self.tokens is None or tokens is None else self.tokens + tokens

    def tokens_so_far(self) -> int | None:
        """Tokens of all attempts of the job; None is unknown, which is never counted as 0."""
        earlier = self.job.tokens_spent if self.held.fence > 1 else 0
        return None if earlier is None or self.tokens is None else earlier + self.tokens

    def spent(self) -> dict[str, Any]:
        """The job's columns of what it has used so far."""
        return {
            "seconds_spent": self.job.seconds_spent + self.elapsed(),
            "tokens_spent": self.tokens_so_far(),
        }

    def elapsed(self) -> float:
        """Seconds since the claim."""
        return time.monotonic() - self.begun

    def now(self) -> datetime:
        """The database's time, carried on from the claim by a clock that does not jump."""
        return self.claimed.started_at + timedelta(seconds=self.elapsed())

    def total_left(self) -> float:
        """Seconds that the job has left over all its attempts (B1)."""
        return float(self.job.max_seconds - self.job.seconds_spent - self.elapsed())

    def limits(self) -> StageLimits:
        """What the next program may use: the attempt's own limit or what the job's total has left."""
        own, total = self.job.definition.seconds - self.elapsed(), self.total_left()
        if min(own, total) <= 0:
            raise StageStopped("seconds_used_up" if total <= 0 else "timed_out")
        return StageLimits(
            seconds=min(own, total),
            grace_seconds=settings.AGENTQ_GRACE_SECONDS,
            fence_seconds=settings.AGENTQ_FENCE_SECONDS,
        )


def begin(claimed: Claimed, heart: Heartbeat) -> Attempt:
    """The attempt as it starts; its output folder is there."""
    job = claimed.job
    return Attempt(
        claimed=claimed,
        heart=heart,
        held=claimed.held,
        mirror=artifacts.mirror_of(job.repository_id, job.location),
        output=artifacts.make_attempt_dir(job.id, claimed.held.fence),
        begun=time.monotonic(),
        stage=job.next_stage,
        base=Base(job.base_commit, job.base_tree) if job.base_tree else None,
        base_stored=bool(job.base_tree),
        snapshot=job.snapshot,
    )


def run(attempt: Attempt) -> None:
    """The job is accepted; or raises what ended the attempt: StageFailed, StageStopped, BudgetSpent, LeaseLost and
    what git, disk and database raise."""
    attempt.mirror.fetch()
    rescue_earlier(attempt)
    first = inputs.first_unverified(attempt)
    if first is not attempt.stage:
        _fall_back(attempt, first)
    while True:
        _stop_between_stages(attempt)
        if (budget := decisions.spent(attempt)) is not None:
            raise BudgetSpent(budget)
        stage, started = attempt.stage, attempt.elapsed()
        if attempt.base is None:
            attempt.base = agent_stages.find_base(attempt)  # not every workflow reads first
        digest = inputs.digest(attempt, stage)
        done = _RUN[stage](attempt)
        attempt.outputs[stage] = done.output
        if attempt.heart.lost:
            raise LeaseLost()
        after = following(stage, attempt.stages)
        _write(attempt, stage, digest, done, after, attempt.elapsed() - started)
        if after is None:
            return
        attempt.stage = after


def _write(attempt: Attempt, stage: Stage, digest: str, done: Done, after: Stage | None, seconds: float) -> None:
    """The stage's checkpoint, and with it the change of state that follows: one write."""
    at = attempt.now()
    job = {"crashes": 0, **done.job}
    if attempt.base is not None and not attempt.base_stored:
        job |= {"base_commit": attempt.base.commit, "base_tree": attempt.base.tree}
        attempt.base_stored = True
    if done.snapshot:
        job["snapshot"] = done.snapshot
    facts = {"stage": stage, "input": digest, "output": done.output, "seconds": round(seconds, 3), **done.facts}
    rows = [Insert(Checkpoint, _checkpoint(attempt, stage, digest, done, seconds, at)), *done.rows]
    entry = Entry("checkpoint", attempt.actor, at, policy=attempt.held.policy, facts=facts)
    if after is None:
        _accept(attempt, entry, job, rows)
        return
    job |= {"next_stage": after, **clock.lease(settings.AGENTQ_LEASE_SECONDS)}
    if after in VERIFY_STAGES and attempt.held.state is State.RUNNING:
        change = Change(job=job, also=rows, before=[entry])
        attempt.held = transitions.transition(attempt.held, Event.VERIFY, actor=attempt.actor, at=at, change=change)
    else:
        attempt.held = transitions.record(attempt.held, entry, job=job, also=rows)
    attempt.heart.renewed()


def _accept(attempt: Attempt, entry: Entry, job: dict[str, Any], rows: list[Insert]) -> None:
    job |= attempt.spent()
    ended = {"last_stage": attempt.stage, "seconds": attempt.elapsed(), "snapshot": attempt.snapshot}
    ended |= {"tokens": attempt.tokens, "tool_types": sorted(attempt.tools), **attempt.agent}
    if attempt.base is not None:
        ended["base_commit"] = attempt.base.commit
    change = Change(job=job, also=rows, before=[entry], attempt=ended)
    attempt.held = transitions.transition(
        attempt.held, Event.ACCEPT, actor=attempt.actor, at=attempt.now(), change=change
    )


def _checkpoint(
    attempt: Attempt, stage: Stage, digest: str, done: Done, seconds: float, at: datetime
) -> dict[str, Any]:
    return {
        "job_id": attempt.held.id,
        "fence": attempt.held.fence,
        "stage": stage,
        "input_digest": digest,
        "output_digest": done.output,
        "snapshot": done.snapshot,
        "session": done.session,
        "seconds": seconds,
        "created_at": at,
    }


def _fall_back(attempt: Attempt, first: Stage) -> None:
    """Start earlier than planned: what a later stage needs cannot be read here, or its input changed."""
    facts = {"planned": attempt.stage, "first": first}
    if attempt.held.state is State.VERIFYING and first in AGENT_STAGES:
        change = Change(job={"next_stage": first, "next_run_at": attempt.now()}, facts=facts)
        transitions.transition(
            attempt.held, Event.RELEASE, actor=attempt.actor, at=attempt.now(), reason="resumed_earlier", change=change
        )
        raise StageStopped("resumed_earlier")
    entry = Entry("resumed_earlier", attempt.actor, attempt.now(), facts=facts)
    attempt.held = transitions.record(attempt.held, entry, job={"next_stage": first})
    attempt.stage = first


def _stop_between_stages(attempt: Attempt) -> None:
    heart, held = attempt.heart, attempt.held
    if heart.lost or heart.should_stop() == "lease_lost":
        raise LeaseLost()
    if (reason := heart.should_stop()) is not None:
        raise StageStopped(reason)
    # A checkpoint may have seen a request that no beat has brought yet.
    if held.cancel_requested:
        raise StageStopped("cancel")
    if heart.pause_requested or held.pause_requested:
        raise StageStopped("pause")
    if heart.draining():
        raise StageStopped("drain")


_RUN: dict[Stage, Callable[[Attempt], Done]] = {
    Stage.READ: agent_stages.read,
    Stage.PLAN: agent_stages.plan,
    Stage.MODIFY: agent_stages.modify,
    Stage.TEST: verify_stages.test,
    Stage.INSPECT: verify_stages.inspect,
    Stage.DELIVER: verify_stages.deliver,
}
