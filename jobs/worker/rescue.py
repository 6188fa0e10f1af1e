"""What a dead worker left: its work tree becomes a snapshot and a patch before the next attempt begins (V3, C2)."""

import logging
import re
from pathlib import Path
from typing import TYPE_CHECKING

from jobs.errors import AgentQError
from jobs.models import Attempt as AttemptRow
from jobs.services import artifacts, transitions
from jobs.services.audit import Entry
from jobs.services.statement import Update
from jobs.worker import keepsakes
from jobs.worker.workspace import AUTHOR
from jobs.workspaces import checkout as checkouts
from jobs.workspaces import snapshot as snapshots
from jobs.workspaces.checkout import Checkout

if TYPE_CHECKING:
    from jobs.worker.attempt import Attempt

logger = logging.getLogger("jobs.rescue")

_TREE = re.compile(r"(\d+)-(\d+)-[0-9a-f]{12}")


def rescue_earlier(attempt: "Attempt") -> None:
    """Every work tree of an earlier attempt of this job is stored, shown and gone.

    Only after all of its processes on this host are proven dead. What cannot be stored stays where it is and is
    put into quarantine by maintenance.
    """
    for path in artifacts.workspaces().iterdir():
        found = _TREE.fullmatch(path.name)
        if found and int(found[1]) == attempt.held.id and int(found[2]) < attempt.held.fence:
            try:
                _rescue(attempt, path, int(found[2]))
            except AgentQError as error:
                extra = {"job": attempt.held.id, "fence": int(found[2]), "why": str(error)}
                logger.warning("a left work tree could not be stored", extra=extra)


def _rescue(attempt: "Attempt", path: Path, fence: int) -> None:
    mirror, job_id = attempt.mirror, attempt.held.id
    commit = mirror.commit_at(snapshots.ref_for(job_id, fence, "base"))
    if commit is None:
        return
    base = mirror.base_of(commit)
    left = Checkout(path, base, job_id, fence, mirror.path / "agentq-indexes" / path.name)
    ref = snapshots.ref_for(job_id, fence, "partial")
    timestamp = int(attempt.job.created_at.timestamp())
    snapshot = snapshots.take(
        left, mirror, ref, identity=AUTHOR, timestamp=timestamp, message=f"AgentQ J-{job_id}: left by attempt {fence}"
    )
    if snapshot.tree != base.tree:
        keepsakes.write_patch(artifacts.make_attempt_dir(job_id, fence), mirror, base.commit, snapshot.commit)
        facts = {"fence": fence, "snapshot": snapshot.commit}
        row = Update(AttemptRow, {"snapshot": snapshot.commit}, {"job_id": job_id, "fence": fence})
        entry = Entry("rescued", attempt.actor, attempt.now(), facts=facts)
        attempt.held = transitions.record(attempt.held, entry, also=[row])
    checkouts.remove(left, mirror, ref=ref, commit=snapshot.commit)
