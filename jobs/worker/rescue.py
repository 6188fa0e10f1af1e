"""What a dead worker left: its work tree becomes a snapshot and a patch, and is gone only then (V3, C2)."""

import logging
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from jobs.core.states import ACTIVE
from jobs.errors import AgentQError
from jobs.executors.processes import alive_job, sweep_job
from jobs.models import Attempt as AttemptRow
from jobs.models import Job
from jobs.services import artifacts, clock, transitions
from jobs.services.audit import Entry
from jobs.services.statement import Update
from jobs.services.transitions import Held
from jobs.worker import identity, keepsakes
from jobs.worker.workspace import AUTHOR
from jobs.workspaces import checkout as checkouts
from jobs.workspaces import snapshot as snapshots
from jobs.workspaces.checkout import Checkout
from jobs.workspaces.mirror import Mirror

if TYPE_CHECKING:
    from jobs.worker.attempt import Attempt

logger = logging.getLogger("jobs.rescue")

ENGINE = "engine:rescue"
_TREE = re.compile(r"(\d+)-(\d+)-[0-9a-f]{12}")


def rescue_earlier(attempt: "Attempt") -> None:
    """Every work tree of an earlier attempt of this job is stored, shown and gone.

    Only after all of its processes on this host are proven dead. What cannot be stored stays where it is and is
    put into quarantine by maintenance.
    """
    for path, job_id, fence in _trees():
        if job_id == attempt.held.id and fence < attempt.held.fence:
            attempt.held = _rescue(attempt.held, attempt.mirror, path, fence, attempt.actor)


def rescue_idle() -> int:
    """The same for jobs that no worker holds: a person decides about them, or their next attempt is far off.

    Returns how many trees were looked at. What still has a living process is left alone.
    """
    looked_at = 0
    for path, job_id, fence in _trees():
        job = Job.objects.select_related("repository").exclude(state__in=ACTIVE).filter(pk=job_id).first()
        if job is None or fence > job.fence:
            continue
        sweep_job(identity.site(), job_id, fence + 1)
        if not alive_job(identity.site(), job_id, fence + 1):
            _rescue(transitions.load(job_id), artifacts.mirror(job.repository), path, fence, ENGINE)
            looked_at += 1
    return looked_at


def _trees() -> Iterator[tuple[Path, int, int]]:
    for path in sorted(artifacts.workspaces().iterdir()):
        if found := _TREE.fullmatch(path.name):
            yield path, int(found[1]), int(found[2])


def _rescue(held: Held, mirror: Mirror, path: Path, fence: int, actor: str) -> Held:
    """The job as it is after the tree was stored. A next attempt and maintenance may come to one tree at once, and
    a frozen worker may wake up and store it itself."""
    try:
        with mirror.locked("rescue"):
            return _store(held, mirror, path, fence, actor) if path.is_dir() else held
    except (AgentQError, OSError) as error:
        extra = {"job": held.id, "fence": fence, "why": str(error)}
        logger.warning("a left work tree could not be stored", extra=extra)
        return held


def _store(held: Held, mirror: Mirror, path: Path, fence: int, actor: str) -> Held:
    commit = mirror.commit_at(snapshots.ref_for(held.id, fence, "base"))
    if commit is None:
        return held
    base = mirror.base_of(commit)
    left = Checkout(path, base, held.id, fence, mirror.path / "agentq-indexes" / path.name)
    ref = snapshots.ref_for(held.id, fence, "partial")
    timestamp = int(Job.objects.values_list("created_at", flat=True).get(pk=held.id).timestamp())
    message = f"AgentQ J-{held.id}: left by attempt {fence}"
    snapshot = snapshots.take(left, mirror, ref, identity=AUTHOR, timestamp=timestamp, message=message)
    if snapshot.tree != base.tree:
        keepsakes.write_patch(artifacts.make_attempt_dir(held.id, fence), mirror, base.commit, snapshot.commit)
        row = Update(AttemptRow, {"snapshot": snapshot.commit}, {"job_id": held.id, "fence": fence})
        entry = Entry("rescued", actor, clock.now(), facts={"fence": fence, "snapshot": snapshot.commit})
        held = transitions.record(held, entry, also=[row])
    checkouts.remove(left, mirror, ref=ref, commit=snapshot.commit)
    return held
