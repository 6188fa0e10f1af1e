"""A workflow as it was at its first enqueue, stored whole and never changed (K4)."""

from django.db import models


class Risk(models.TextChoices):
    """What a job may do at worst; budgets follow it (B2)."""

    READ_ONLY = "read_only", "read only"
    WRITES_FILES = "writes_files", "writes files"
    EXTERNAL = "external_side_effect", "external side effect"


class WorkflowVersion(models.Model):
    """`document`: canonical JSON, `digest`: its SHA-256. A retired version runs what is queued, takes nothing new."""

    name = models.CharField(max_length=64)
    version = models.CharField(max_length=64)
    document = models.TextField()
    digest = models.CharField(max_length=64)
    created_at = models.DateTimeField()
    retired_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["name", "version"], name="workflow_version_unique"),
            models.CheckConstraint(condition=models.Q(digest__length=64), name="workflow_digest_is_sha256"),
        ]

    def __str__(self) -> str:
        return f"{self.name} {self.version}"
