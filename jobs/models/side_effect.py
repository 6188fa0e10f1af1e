"""The ledger of external acts: intent written before, outcome after; a try without an outcome is open (X1, X2)."""

from django.db import models
from django.db.models import Q

from jobs.models.job import Job


class EffectOutcome(models.TextChoices):
    INTENDED = "", "no outcome yet"
    CONFIRMED = "confirmed", "happened"
    ABSENT = "absent", "did not happen"
    UNKNOWN = "unknown", "cannot tell"


# An intent is open while nobody can say what came of it.
OPEN_OUTCOMES = (EffectOutcome.INTENDED, EffectOutcome.UNKNOWN)


class SideEffect(models.Model):
    """`not_after` is the hard end of the act (UTC); it may lie past the lease."""

    job = models.ForeignKey(Job, on_delete=models.PROTECT, related_name="side_effects")
    fence = models.PositiveIntegerField()
    key = models.CharField(max_length=16)
    number = models.PositiveSmallIntegerField(default=1)
    kind = models.CharField(max_length=40)
    target = models.CharField(max_length=255)
    sha = models.CharField(max_length=64)
    outcome = models.CharField(max_length=10, choices=EffectOutcome.choices, default="")
    reference = models.CharField(max_length=500, default="")
    resolved_by = models.CharField(max_length=150, default="")
    intended_at = models.DateTimeField()
    not_after = models.DateTimeField()
    settled_at = models.DateTimeField(null=True)

    class Meta:
        indexes = [models.Index(fields=["job"], name="side_effect_open", condition=Q(outcome__in=OPEN_OUTCOMES))]
        constraints = [
            models.UniqueConstraint(fields=["key", "number"], name="side_effect_one_per_key_and_try"),
            models.UniqueConstraint(
                fields=["key"], condition=~Q(outcome="absent"), name="side_effect_one_not_absent_per_key"
            ),
            models.CheckConstraint(condition=Q(outcome__in=EffectOutcome.values), name="side_effect_outcome_known"),
            models.CheckConstraint(
                condition=Q(outcome="", settled_at__isnull=True) | ~Q(outcome="") & Q(settled_at__isnull=False),
                name="side_effect_settled_iff_outcome",
            ),
            models.CheckConstraint(condition=Q(number__gte=1), name="side_effect_try_from_one"),
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.key}"
