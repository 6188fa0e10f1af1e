"""A verified stage end: digests of its input and output, and what a later attempt needs to start there (C1)."""

from django.db import models

from jobs.core.stages import Stage
from jobs.models.job import Job


class Checkpoint(models.Model):
    """The newest row of a stage counts. `snapshot` is a commit in the repository's mirror, `session` only a cache."""

    job = models.ForeignKey(
        Job, on_delete=models.PROTECT, related_name="checkpoints", db_constraint=False, db_index=False
    )
    fence = models.PositiveIntegerField()
    stage = models.CharField(max_length=10, choices=[(stage, stage) for stage in Stage])
    input_digest = models.CharField(max_length=64)
    output_digest = models.CharField(max_length=64)
    snapshot = models.CharField(max_length=64, default="")
    session = models.CharField(max_length=64, default="")
    seconds = models.FloatField(default=0)
    created_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["job", "fence", "stage"], name="checkpoint_one_per_stage_and_fence"),
            models.CheckConstraint(condition=models.Q(stage__in=list(Stage)), name="checkpoint_stage_known"),
        ]

    def __str__(self) -> str:
        return f"J-{self.job_id} {self.stage}"
