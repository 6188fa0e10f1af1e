"""A cluster of workers on one host: when it was last seen, whether it drains or is stuck."""

from django.db import models


class WorkerNode(models.Model):
    """`identity` is host:pid:start of the cluster; a node unseen for three beats is shown as lost."""

    identity = models.CharField(max_length=120, unique=True)
    host = models.CharField(max_length=120)
    boot = models.CharField(max_length=40)
    pid = models.PositiveIntegerField()
    queue = models.CharField(max_length=40)
    workers = models.PositiveSmallIntegerField()
    version = models.CharField(max_length=20)
    started_at = models.DateTimeField()
    seen_at = models.DateTimeField()
    draining = models.BooleanField(default=False)
    wedged = models.BooleanField(default=False)
    stopped_at = models.DateTimeField(null=True)

    class Meta:
        indexes = [models.Index(fields=["seen_at"], name="node_seen")]

    def __str__(self) -> str:
        return self.identity
