"""What a check found: command, exit code, verdict, digests; acceptance stands on these rows (V1)."""

from django.db import models

from jobs.models.job import Job


class Verdict(models.TextChoices):
    PASS = "pass", "pass"
    FAIL = "fail", "fail"
    ERROR = "error", "could not run"
    MISSING = "missing", "missing"


class Evidence(models.Model):
    """Append-only. The output itself stays in the artefacts (A4); `notes` holds closed codes and paths' counts."""

    job = models.ForeignKey(Job, on_delete=models.PROTECT, related_name="evidence", db_constraint=False, db_index=False)
    fence = models.PositiveIntegerField()
    check_name = models.CharField(max_length=64)
    argv = models.CharField(max_length=500, default="")
    argv_digest = models.CharField(max_length=64, default="")
    exit_code = models.IntegerField(null=True)
    verdict = models.CharField(max_length=8, choices=Verdict.choices)
    base_verdict = models.CharField(max_length=8, default="")
    seconds = models.FloatField(default=0)
    output_digest = models.CharField(max_length=64, default="")
    notes = models.JSONField(default=list)
    created_at = models.DateTimeField()

    class Meta:
        verbose_name_plural = "evidence"
        constraints = [
            models.UniqueConstraint(fields=["job", "fence", "check_name"], name="evidence_one_per_check_and_fence"),
            models.CheckConstraint(condition=models.Q(verdict__in=Verdict.values), name="evidence_verdict_known"),
        ]

    def __str__(self) -> str:
        return f"J-{self.job_id} {self.check_name}: {self.verdict}"
