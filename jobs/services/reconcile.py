"""The sweep that makes sure nothing is stuck: run by schedule and by command, safe to run twice at once (L3).

Dispatch does not need it: the broker offers ready jobs and expires leases by itself.
"""

from dataclasses import dataclass

from django.db.models import F, Q

from jobs.core.claims import unconfirmed
from jobs.core.states import READY, Event, State
from jobs.errors import StaleJob
from jobs.models import Job, SideEffect, WorkerNode
from jobs.models.side_effect import OPEN_OUTCOMES
from jobs.models.workflow_version import Risk
from jobs.services import clock, leases, nodes, policies, transitions
from jobs.services.candidates import candidate

ACTOR = "engine:reconcile"
AT_ONCE = 1000


@dataclass(frozen=True, slots=True)
class Swept:
    """What one sweep changed."""

    expired: int
    held: int
    nodes_lost: int


def sweep() -> Swept:
    """Lapsed leases are expired; jobs that no claim can take any more wait for a person; lost nodes are marked."""
    expired = sum(leases.expire(job_id) is not None for job_id in leases.expired())
    return Swept(expired, _hold_unclaimable(), _mark_lost())


def _hold_unclaimable() -> int:
    now = clock.now()
    waiting = Job.objects.filter(state__in=(*READY, State.PAUSED))
    intents = SideEffect.objects.filter(outcome__in=OPEN_OUTCOMES).values("job_id")
    spent = Q(state__in=READY, free_claim=False, charged__gte=F("max_attempts"))
    reasons = (
        ("side_effect_unknown", waiting.filter(pk__in=intents)),
        ("deadline", waiting.filter(deadline__lte=now)),
        ("attempts_used_up", waiting.filter(spent)),
        ("seconds_used_up", waiting.filter(state__in=READY, seconds_spent__gte=F("max_seconds"))),
    )
    held = 0
    for reason, jobs in reasons:
        for job_id in jobs.values_list("pk", flat=True)[:AT_ONCE]:
            held += _hold(job_id, reason)
    return held + _hold_unconfirmed()


def _hold_unconfirmed() -> int:
    """What was confirmed is no longer what would run: the policy moved on, for example (X3)."""
    jobs = Job.objects.filter(state__in=READY, risk=Risk.EXTERNAL)
    held = 0
    for job_id in jobs.values_list("pk", flat=True)[:AT_ONCE]:
        if unconfirmed(leases.facts(candidate(job_id))):
            held += _hold(job_id, "confirm")
    return held


def _hold(job_id: int, reason: str) -> bool:
    held = transitions.load(job_id, policy=policies.active().number)
    if held.state not in (*READY, State.PAUSED):
        return False
    try:
        transitions.transition(held, Event.HOLD, actor=ACTOR, at=clock.now(), reason=reason)
    except StaleJob:
        return False
    return True


def _mark_lost() -> int:
    lost = WorkerNode.objects.filter(stopped_at__isnull=True, seen_at__lte=clock.now() - nodes.LOST_AFTER * 20)
    for identity in lost.values_list("identity", flat=True):
        nodes.stopped(identity)
    return len(lost)
