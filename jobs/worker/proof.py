"""Proves that the attempt behind an act without an outcome can act no more: killed, and looked for (X2)."""

import socket

from jobs.core.states import State
from jobs.errors import StaleJob
from jobs.executors.processes import alive_job, sweep_job
from jobs.models import Job, SideEffect
from jobs.models.side_effect import OPEN_OUTCOMES
from jobs.services import proofs
from jobs.worker import identity

ENGINE = "engine:proof"


def prove(job_id: int) -> bool:
    """True when every open act of a job in review is proven: now, when its attempt ran on this host, or earlier.

    The worker that wrote the intent may be frozen and wake up later. It cannot act either: it only acts through a
    shim, which refuses when the last heartbeat is older than the fence, and no beat is answered any more.
    """
    if not Job.objects.filter(pk=job_id, state=State.REVIEW).exists():
        return False
    return all(proofs.proven(effect) or _prove(effect) for effect in proofs.open_effects(job_id))


def prove_own() -> int:
    """The same for every job in review, as far as its attempts ran on this host; how many jobs are proven now."""
    jobs = SideEffect.objects.filter(outcome__in=OPEN_OUTCOMES, job__state=State.REVIEW).values_list(
        "job_id", flat=True
    )
    return sum(prove(job_id) for job_id in sorted(set(jobs)))


def _prove(effect: SideEffect) -> bool:
    if proofs.host_of(effect) != socket.gethostname():
        return False
    sweep_job(identity.site(), effect.job_id, effect.fence + 1)
    if alive_job(identity.site(), effect.job_id, effect.fence + 1):
        return False
    try:
        proofs.record_gone(effect, actor=ENGINE)
    except StaleJob:
        return False
    return True
