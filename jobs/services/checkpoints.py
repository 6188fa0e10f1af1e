"""What a stage's result depends on, from the checkpoints and notes that are stored (C1, C2)."""

from collections.abc import Mapping

from jobs.core.keys import canonical_json, sha256_hex
from jobs.core.stages import VERIFY_STAGES, Stage, input_digest
from jobs.models import Checkpoint, ReviewDecision

_BEFORE = {Stage.PLAN: Stage.READ, Stage.MODIFY: Stage.PLAN}


def digest(
    job_id: int,
    stage: Stage,
    *,
    workflow_digest: str,
    payload: str,
    outputs: Mapping[Stage, str] | None = None,
    notes: Mapping[Stage, str] | None = None,
) -> str:
    """The input digest that a stage has now: a checkpoint with another one does not stand any more.

    Who knows the newest outputs and the notes' digests hands them over; else they are read.
    """
    outputs = newest_outputs(job_id) if outputs is None else outputs
    notes = note_digests(job_id) if notes is None else notes
    before = Stage.MODIFY if stage in VERIFY_STAGES else _BEFORE.get(stage)
    return input_digest(
        base_tree="" if stage is Stage.READ else outputs.get(Stage.READ, ""),
        workflow_digest=workflow_digest,
        payload_digest=sha256_hex(payload),
        previous_output=outputs.get(before, "") if before else "",
        notes=notes.get(stage, ""),
    )


def newest_outputs(job_id: int) -> dict[Stage, str]:
    """Stage → output digest of its newest checkpoint."""
    rows = Checkpoint.objects.filter(job_id=job_id).order_by("id").values_list("stage", "output_digest")
    return {Stage(stage): output for stage, output in rows}


def note_digests(job_id: int) -> dict[Stage, str]:
    """Stage → digest of all that people noted for it, oldest first; without notes a stage is not in it."""
    notes: dict[Stage, list[str]] = {}
    rows = ReviewDecision.objects.filter(job_id=job_id).exclude(note="").order_by("id").values_list("stage", "note")
    for stage, text in rows:
        if stage:
            notes.setdefault(Stage(stage), []).append(text)
    return {stage: sha256_hex(canonical_json(texts)) for stage, texts in notes.items()}
