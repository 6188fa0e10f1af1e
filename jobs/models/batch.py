"""A named group of jobs that are watched, paused and cancelled together (E2)."""

from django.db import models


class Batch(models.Model):
    """While `paused_at` is set, none of the batch's jobs is claimed."""

    name = models.CharField(max_length=120, unique=True)
    requested_by = models.CharField(max_length=150)
    created_at = models.DateTimeField()
    paused_at = models.DateTimeField(null=True)

    class Meta:
        verbose_name_plural = "batches"
        constraints = [models.CheckConstraint(condition=~models.Q(name=""), name="batch_name_not_empty")]

    def __str__(self) -> str:
        return self.name
