"""The two kinds of job that the benchmark runs, through the functions that a worker calls, without git and agent."""

import os
from dataclasses import dataclass

from django.conf import settings

from jobs.core.keys import sha256_hex
from jobs.core.stages import VERIFY_STAGES, Stage, following
from jobs.core.states import Event, State
from jobs.models import Checkpoint
from jobs.services import clock, leases, transitions
from jobs.services.audit import Entry
from jobs.services.leases import Claimed
from jobs.services.statement import Insert
from jobs.services.transitions import Change, Held

DIGEST = sha256_hex("output")
COMMIT = "c" * 40


@dataclass(frozen=True, slots=True)
class Names:
    """Who reserves and who claims: a cluster and one of its workers."""

    cluster: str
    worker: str

    @classmethod
    def own(cls) -> "Names":
        return cls(f"bench:{os.getpid()}", f"bench:{os.getpid()}/1")


def run_next(names: Names, queue: str) -> Held | None:
    """The best ready job, from its reservation to accepted; None when none is ready."""
    job_id = reserve_next(names, queue)
    return None if job_id is None else run(claim(job_id, names))


def reserve_next(names: Names, queue: str) -> int | None:
    """The id of the best ready job, set aside as the broker does."""
    reserved = leases.reserve(names.cluster, queue)
    return None if reserved is None else reserved.job_id


def claim(job_id: int, names: Names) -> Claimed:
    """The job is this worker's, as when it has taken the message."""
    return leases.claim(job_id, worker=names.worker)


def run(claimed: Claimed) -> Held:
    """Every stage from the job's next one on, each with its checkpoint, its audit event and a lease that runs anew.

    As in an attempt: modify's checkpoint and `verify` are one write, deliver's and `accept` another.
    """
    stages = tuple(Stage(stage) for stage in claimed.job.definition.stages)
    stage: Stage | None = claimed.job.next_stage
    held = claimed.held
    while stage is not None:
        after = following(stage, stages)
        held = _end_of_stage(claimed, held, stage, after)
        stage = after
    return held


def _end_of_stage(claimed: Claimed, held: Held, stage: Stage, after: Stage | None) -> Held:
    at, actor = claimed.started_at, f"worker:{held.worker}"
    snapshot = COMMIT if stage is Stage.MODIFY else ""
    job = {"crashes": 0, **({"snapshot": snapshot} if snapshot else {})}
    if stage is Stage.INSPECT or after is None:
        job["result_digest"] = DIGEST
    facts = {"stage": stage, "input": DIGEST, "output": DIGEST, "seconds": 0.001}
    entry = Entry("checkpoint", actor, at, policy=held.policy, facts=facts)
    rows = [Insert(Checkpoint, _checkpoint(claimed, held, stage, snapshot))]
    if after is None:
        ended = {"last_stage": stage, "seconds": 0.001, "snapshot": COMMIT, "base_commit": COMMIT}
        change = Change(job=job | {"seconds_spent": 0.001}, also=rows, before=[entry], attempt=ended)
        return transitions.transition(held, Event.ACCEPT, actor=actor, at=at, change=change)
    job |= {"next_stage": after, **clock.lease(settings.AGENTQ_LEASE_SECONDS)}
    if after in VERIFY_STAGES and held.state is State.RUNNING:
        change = Change(job=job, also=rows, before=[entry])
        return transitions.transition(held, Event.VERIFY, actor=actor, at=at, change=change)
    return transitions.record(held, entry, job=job, also=rows)


def _checkpoint(claimed: Claimed, held: Held, stage: Stage, snapshot: str) -> dict[str, object]:
    return {
        "job_id": held.id,
        "fence": held.fence,
        "stage": stage,
        "input_digest": DIGEST,
        "output_digest": DIGEST,
        "snapshot": snapshot,
        "session": "",
        "seconds": 0.001,
        "created_at": claimed.started_at,
    }
