"""Policy versions: everything that decides, numbered and immutable; activating one is a row of its own (P1)."""

from django.db import models


class PolicyVersion(models.Model):
    """`document` is canonical JSON, `digest` its SHA-256, `source` the TOML that a person wrote.

    The database refuses UPDATE, DELETE and a document that repeats external side effects by itself (B2).
    """

    number = models.PositiveIntegerField(unique=True)
    digest = models.CharField(max_length=64, unique=True)
    document = models.TextField()
    source = models.TextField(default="")
    author = models.CharField(max_length=150)
    note = models.CharField(max_length=500)
    parent = models.ForeignKey("self", null=True, on_delete=models.PROTECT, related_name="children")
    created_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.CheckConstraint(condition=models.Q(number__gte=1), name="policy_number_from_one"),
            models.CheckConstraint(condition=models.Q(digest__length=64), name="policy_digest_is_sha256"),
            models.CheckConstraint(condition=~models.Q(author=""), name="policy_author_not_empty"),
        ]

    def __str__(self) -> str:
        return f"v{self.number}"


class PolicyActivation(models.Model):
    """Append-only: the version of the newest row is the active one."""

    version = models.ForeignKey(PolicyVersion, on_delete=models.PROTECT, related_name="activations")
    actor = models.CharField(max_length=150)
    reason = models.CharField(max_length=500)
    created_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.CheckConstraint(condition=~models.Q(actor=""), name="policy_activation_actor_not_empty"),
        ]

    def __str__(self) -> str:
        return f"v{self.version_id} at {self.created_at:%Y-%m-%d %H:%M}"
