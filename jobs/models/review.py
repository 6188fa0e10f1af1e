"""Review cases and what people decided on them (H1, H2)."""

from django.db import models
from django.db.models import Q

from jobs.models.job import Job


class ReviewCase(models.Model):
    """Opened inside the transition to review, closed inside the one that leaves it. `allowed` lists the decisions."""

    job = models.ForeignKey(Job, on_delete=models.PROTECT, related_name="cases")
    reason = models.CharField(max_length=64)
    allowed = models.JSONField()
    policy_number = models.PositiveIntegerField()
    job_version = models.PositiveIntegerField()
    result_digest = models.CharField(max_length=64, default="")
    cancel_requested = models.BooleanField(default=False)
    pause_requested = models.CharField(max_length=64, default="")
    opened_at = models.DateTimeField()
    closed_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["job"], condition=Q(closed_at__isnull=True), name="case_one_open_per_job"),
            models.CheckConstraint(condition=~Q(reason=""), name="case_reason_not_empty"),
        ]

    def __str__(self) -> str:
        return f"case {self.pk} of J-{self.job_id}: {self.reason}"


class ReviewDecision(models.Model):
    """Append-only. `grants` raises the job's own maxima; `note` is a clarification of ≤ 4 KiB for the stage named."""

    case = models.ForeignKey(ReviewCase, on_delete=models.PROTECT, related_name="decisions")
    job = models.ForeignKey(Job, on_delete=models.PROTECT, related_name="decisions")
    decision = models.CharField(max_length=20)
    actor = models.CharField(max_length=150)
    reason = models.CharField(max_length=500)
    note = models.CharField(max_length=4096, default="")
    stage = models.CharField(max_length=10, default="")
    grants = models.JSONField(default=dict)
    job_version = models.PositiveIntegerField()
    result_digest = models.CharField(max_length=64, default="")
    policy_number = models.PositiveIntegerField()
    created_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.CheckConstraint(condition=~Q(actor=""), name="decision_actor_not_empty"),
            models.CheckConstraint(condition=~Q(reason=""), name="decision_reason_not_empty"),
        ]

    def __str__(self) -> str:
        return f"{self.decision} by {self.actor}"
