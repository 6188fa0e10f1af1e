"""A registered git repository: where it is, what its checks are, what may be run in it (E3, K1)."""

from django.db import models
from django.db.models.functions import Lower


class Autonomy(models.TextChoices):
    """How far a job may go without a person (E3)."""

    PREPARE = "prepare", "prepare"
    BRANCH = "branch", "branch"
    EFFECTS = "effects", "effects"


class Repository(models.Model):
    """`commands` is the closed list of named argument lists that may run, `checks` what verifies a result.

    `restricted`: its contents are shown to owners and to the group `repo:NAME` only.
    """

    name = models.CharField(max_length=200)
    location = models.CharField(max_length=1000)
    default_branch = models.CharField(max_length=255)
    commands = models.JSONField(default=dict)
    checks = models.JSONField(default=list)
    autonomy = models.CharField(max_length=10, choices=Autonomy.choices, default=Autonomy.BRANCH)
    concurrency = models.PositiveSmallIntegerField(default=4)
    restricted = models.BooleanField(default=False)
    created_at = models.DateTimeField()

    class Meta:
        verbose_name_plural = "repositories"
        constraints = [
            models.UniqueConstraint(Lower("name"), name="repository_name_unique_whatever_case"),
            models.CheckConstraint(condition=~models.Q(name=""), name="repository_name_not_empty"),
            models.CheckConstraint(condition=models.Q(autonomy__in=Autonomy.values), name="repository_autonomy_known"),
            models.CheckConstraint(condition=models.Q(concurrency__gte=1), name="repository_concurrency_at_least_one"),
        ]

    def __str__(self) -> str:
        return self.name
