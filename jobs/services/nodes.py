"""Which clusters of workers live, drain or are stuck: one row each, and the `node` audit stream (M1)."""

from datetime import timedelta

from django.db.models import F, QuerySet
from django.utils import timezone

from jobs.models import WorkerNode
from jobs.services import audit, clock

# A node that missed three of its reports is shown as lost.
REPORT_SECONDS = 10.0
LOST_AFTER = timedelta(seconds=3 * REPORT_SECONDS)


def started(*, identity: str, host: str, pid: int, queue: str, workers: int, version: str) -> None:
    """The cluster is known and audited."""
    now = timezone.now()
    values = {
        "host": host,
        "boot": clock.boot_id(),
        "pid": pid,
        "queue": queue,
        "workers": workers,
        "version": version,
        "started_at": now,
        "seen_at": now,
        "draining": False,
        "wedged": False,
        "stopped_at": None,
    }
    WorkerNode.objects.update_or_create(identity=identity, defaults=values)
    audit.note("node", "started", f"node:{identity}", workers=workers, queue=queue)


def seen(identity: str) -> None:
    WorkerNode.objects.filter(identity=identity).update(seen_at=timezone.now())


def draining(identity: str) -> None:
    WorkerNode.objects.filter(identity=identity).update(draining=True, seen_at=timezone.now())


def wedged(identity: str, *, lapses: int) -> None:
    """The cluster looks alive and runs nothing: recorded before it is killed and started anew."""
    WorkerNode.objects.filter(identity=identity).update(wedged=True, stopped_at=timezone.now())
    audit.note("node", "wedged", f"node:{identity}", lapses=lapses)


def stopped(identity: str) -> None:
    changed = WorkerNode.objects.filter(identity=identity, stopped_at__isnull=True).update(stopped_at=timezone.now())
    if changed:
        audit.note("node", "stopped", f"node:{identity}")


def stopped_on(host: str, pid: int) -> None:
    """The cluster whose sentinel had this pid on this host has ended in order."""
    for identity in WorkerNode.objects.filter(host=host, pid=pid).values_list("identity", flat=True):
        stopped(identity)


def alive() -> QuerySet[WorkerNode]:
    """Clusters that reported lately and have not stopped."""
    return WorkerNode.objects.filter(stopped_at__isnull=True, seen_at__gt=timezone.now() - LOST_AFTER).order_by(
        F("started_at")
    )
