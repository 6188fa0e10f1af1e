"""What each stage's result depends on, and where an attempt may start (C2)."""

from typing import TYPE_CHECKING

from jobs.core.keys import canonical_json, sha256_hex
from jobs.core.stages import VERIFY_STAGES, Stage, input_digest
from jobs.errors import GitFailed
from jobs.models import Checkpoint, ReviewDecision

if TYPE_CHECKING:
    from jobs.worker.attempt import Attempt


def digest(attempt: "Attempt", stage: Stage, outputs: dict[Stage, str] | None = None) -> str:
    """The input digest of a stage, from the newest outputs of the stages before it."""
    outputs = newest_outputs(attempt.held.id) if outputs is None else outputs
    base = "" if stage is Stage.READ else outputs.get(Stage.READ, "")
    before = Stage.MODIFY if stage in VERIFY_STAGES else _BEFORE.get(stage)
    return input_digest(
        base_tree=base,
        workflow_digest=attempt.job.workflow_digest,
        payload_digest=sha256_hex(attempt.job.payload),
        previous_output=outputs.get(before, "") if before else "",
        notes=_notes(attempt.held.id, stage),
    )


def first_unverified(attempt: "Attempt") -> Stage:
    """The planned stage, or an earlier one whose checkpoint does not stand any more.

    A checkpoint stands when its input digest is what it would be now and its snapshot can be read here. An
    approval stands for the tests: its inspect checkpoint alone leads to deliver.
    """
    if attempt.stage is attempt.stages[0]:
        return attempt.stage
    rows = {row.stage: row for row in Checkpoint.objects.filter(job_id=attempt.held.id).order_by("id")}
    outputs = {Stage(stage): row.output_digest for stage, row in rows.items()}
    for stage in attempt.stages:
        if stage is attempt.stage:
            return stage
        row = rows.get(stage)
        if row is None and stage is Stage.TEST and Stage.INSPECT in rows:
            continue
        if row is None or row.input_digest != digest(attempt, stage, outputs):
            return stage
        if row.snapshot and not _readable(attempt, row.snapshot):
            return stage
    return attempt.stage


def newest_outputs(job_id: int) -> dict[Stage, str]:
    """Stage → output digest of its newest checkpoint."""
    rows = Checkpoint.objects.filter(job_id=job_id).order_by("id").values_list("stage", "output_digest")
    return {Stage(stage): output for stage, output in rows}


def _notes(job_id: int, stage: Stage) -> str:
    notes = ReviewDecision.objects.filter(job_id=job_id, stage=stage).exclude(note="").order_by("id")
    texts = list(notes.values_list("note", flat=True))
    return sha256_hex(canonical_json(texts)) if texts else ""


def _readable(attempt: "Attempt", commit: str) -> bool:
    try:
        attempt.mirror.base_of(commit)
    except GitFailed:
        return False
    return True


_BEFORE = {Stage.PLAN: Stage.READ, Stage.MODIFY: Stage.PLAN}
