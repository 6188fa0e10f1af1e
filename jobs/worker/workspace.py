"""The attempt's private clone: made when a stage needs it, kept as a snapshot, removed only after that (V3)."""

from typing import TYPE_CHECKING

from jobs.core.stages import Stage
from jobs.services import artifacts
from jobs.workspaces import checkout as checkouts
from jobs.workspaces import snapshot as snapshots
from jobs.workspaces.checkout import Checkout
from jobs.workspaces.snapshot import Snapshot

if TYPE_CHECKING:
    from jobs.worker.attempt import Attempt

AUTHOR = snapshots.Identity("AgentQ", "agentq@localhost")


def tree(attempt: "Attempt") -> Checkout:
    """The clone at the job's base; in modify on top of what an earlier attempt was asked to change."""
    if attempt.checkout is None:
        assert attempt.base is not None
        attempt.checkout = checkouts.create(
            attempt.mirror,
            attempt.base,
            artifacts.workspaces(),
            job=attempt.held.id,
            fence=attempt.held.fence,
            content=attempt.snapshot or None if attempt.stage is Stage.MODIFY else None,
        )
    return attempt.checkout


def keep(attempt: "Attempt", name: str) -> Snapshot | None:
    """Whatever is in the work tree is stored in the mirror under this name; None when there is no work tree.

    The attempt's `snapshot` moves only when there is something in it that the base does not have.
    """
    if attempt.checkout is None:
        return None
    snapshot = snapshots.take(
        attempt.checkout,
        attempt.mirror,
        snapshots.ref_for(attempt.held.id, attempt.held.fence, name),
        identity=AUTHOR,
        timestamp=int(attempt.job.created_at.timestamp()),
        message=f"AgentQ J-{attempt.held.id}: {name}",
    )
    if snapshot.tree != attempt.checkout.base.tree:
        attempt.snapshot = snapshot.commit
    return snapshot


def put_away(attempt: "Attempt", snapshot: Snapshot) -> None:
    """The work tree is gone: its snapshot is proven to be stored first, else it stays and an error is raised."""
    assert attempt.checkout is not None
    checkouts.remove(attempt.checkout, attempt.mirror, ref=snapshot.ref, commit=snapshot.commit)
    attempt.checkout = None
