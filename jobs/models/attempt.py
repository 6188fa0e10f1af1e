"""One claim of a job and what came of it; its number is the fence it holds (L1, A3)."""

from django.db import models
from django.db.models import Q

from jobs.models.job import Job


class Outcome(models.TextChoices):
    """How an attempt ended; empty while it runs."""

    OPEN = "", "running"
    ACCEPTED = "accepted", "accepted"
    RETRY = "retry", "failed, may run again"
    HELD = "held", "stopped for a person"
    STOPPED = "stopped", "failed for good"
    EXPIRED = "expired", "lease expired"
    RELEASED = "released", "released by a drain"
    PAUSED = "paused", "paused"
    CANCELLED = "cancelled", "cancelled"


class Isolation(models.TextChoices):
    """What kept the agent and the checks apart from the worker's host (Z3)."""

    PROCESS = "process", "own process tree and environment"
    NAMESPACE = "namespace", "own namespaces"


class Attempt(models.Model):
    """Never holds a prompt, source or output: classes, codes, digests, counts and a redacted tail of 4 KiB (F4, Z1)."""

    job = models.ForeignKey(Job, on_delete=models.PROTECT, related_name="attempts", db_constraint=False, db_index=False)
    fence = models.PositiveIntegerField()
    charged = models.BooleanField()
    worker = models.CharField(max_length=120)
    policy_number = models.PositiveIntegerField()
    executor = models.CharField(max_length=24)
    isolation = models.CharField(max_length=12, choices=Isolation.choices, default=Isolation.PROCESS)
    first_stage = models.CharField(max_length=10)
    started_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True)
    outcome = models.CharField(max_length=12, choices=Outcome.choices, default="")
    last_stage = models.CharField(max_length=10, default="")
    failure_class = models.CharField(max_length=24, default="")
    failure_code = models.CharField(max_length=64, default="")
    rule = models.CharField(max_length=64, default="")
    fingerprint = models.CharField(max_length=64, default="")
    stop_reason = models.CharField(max_length=64, default="")
    exit_code = models.IntegerField(null=True)
    seconds = models.FloatField(null=True)
    tokens = models.PositiveBigIntegerField(null=True)
    reserved_tokens = models.PositiveBigIntegerField(null=True)  # of the team's budget, counted while it runs (B3)
    error_tail = models.CharField(max_length=4096, default="")
    base_commit = models.CharField(max_length=64, default="")
    snapshot = models.CharField(max_length=64, default="")
    tool_types = models.JSONField(default=list)
    service = models.CharField(max_length=64, default="")
    account = models.CharField(max_length=64, default="")
    plan = models.CharField(max_length=64, default="")
    model = models.CharField(max_length=64, default="")
    cli_version = models.CharField(max_length=64, default="")

    class Meta:
        indexes = [models.Index(fields=["service", "started_at"], name="attempt_service", condition=~Q(service=""))]
        constraints = [
            models.UniqueConstraint(fields=["job", "fence"], name="attempt_one_per_fence"),
            models.UniqueConstraint(
                fields=["job"], condition=Q(ended_at__isnull=True), name="attempt_one_open_per_job"
            ),
            models.CheckConstraint(
                condition=Q(ended_at__isnull=True, outcome="") | Q(ended_at__isnull=False) & ~Q(outcome=""),
                name="attempt_outcome_iff_ended",
            ),
            models.CheckConstraint(condition=Q(outcome__in=Outcome.values), name="attempt_outcome_known"),
            models.CheckConstraint(condition=Q(isolation__in=Isolation.values), name="attempt_isolation_known"),
            models.CheckConstraint(condition=~Q(worker=""), name="attempt_worker_not_empty"),
        ]

    def __str__(self) -> str:
        return f"J-{self.job_id} attempt {self.fence}"
