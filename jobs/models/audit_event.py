"""The append-only, hash-chained record of everything that happened (A1, A2)."""

from django.db import models


class AuditEvent(models.Model):
    """`body` is the exact text that was hashed; the other columns repeat parts of it so that they can be queried.

    Streams: `job:12`, `policy`, `node`, `auth` … Each is a chain of its own: the first previous hash is the
    SHA-256 of the stream's name. The database refuses UPDATE, DELETE, REPLACE and TRUNCATE.
    """

    stream = models.CharField(max_length=64)
    seq = models.PositiveIntegerField()
    event = models.CharField(max_length=64)
    actor = models.CharField(max_length=150)
    at = models.DateTimeField()
    version = models.PositiveIntegerField(null=True)
    to_state = models.CharField(max_length=20, default="")
    body = models.TextField()
    hash = models.CharField(max_length=64)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["stream", "seq"], name="audit_one_per_stream_and_seq"),
            models.CheckConstraint(condition=~models.Q(actor=""), name="audit_actor_not_empty"),
            models.CheckConstraint(condition=models.Q(seq__gte=1), name="audit_seq_from_one"),
            models.CheckConstraint(condition=models.Q(hash__length=64), name="audit_hash_is_sha256"),
        ]

    def __str__(self) -> str:
        return f"{self.stream} #{self.seq} {self.event}"
