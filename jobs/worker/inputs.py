"""What each stage's result depends on, and where an attempt may start (C2)."""

from typing import TYPE_CHECKING

from jobs.core.stages import Stage
from jobs.errors import GitFailed
from jobs.models import Checkpoint
from jobs.services import checkpoints

if TYPE_CHECKING:
    from jobs.worker.attempt import Attempt


def digest(attempt: "Attempt", stage: Stage) -> str:
    """The input digest of a stage, from the newest outputs of the stages before it and what people noted for it."""
    job = attempt.job
    return checkpoints.digest(
        attempt.held.id,
        stage,
        workflow_digest=job.workflow_digest,
        payload=job.payload,
        outputs=attempt.outputs,
        notes=attempt.notes,
    )


def first_unverified(attempt: "Attempt") -> Stage:
    """The planned stage, or an earlier one whose checkpoint does not stand any more.

    A checkpoint stands when its input digest is what it would be now and its snapshot can be read here. An
    approval stands for the tests: its inspect checkpoint alone leads to deliver. The attempt knows the outputs
    and notes from here on.
    """
    rows = {row.stage: row for row in Checkpoint.objects.filter(job_id=attempt.held.id).order_by("id")}
    attempt.outputs = {Stage(stage): row.output_digest for stage, row in rows.items()}
    attempt.notes = checkpoints.note_digests(attempt.held.id)
    if attempt.stage is attempt.stages[0]:
        return attempt.stage
    for stage in attempt.stages:
        if stage is attempt.stage:
            return stage
        row = rows.get(stage)
        if row is None and stage is Stage.TEST and Stage.INSPECT in rows:
            continue
        if row is None or row.input_digest != digest(attempt, stage):
            return stage
        if row.snapshot and not _readable(attempt, row.snapshot):
            return stage
    return attempt.stage


def _readable(attempt: "Attempt", commit: str) -> bool:
    try:
        attempt.mirror.base_of(commit)
    except GitFailed:
        return False
    return True
