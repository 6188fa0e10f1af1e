"""What anybody who may operate does to a job or a batch: cancel, pause, recover (E2, L3, S3)."""

from collections.abc import Iterable
from dataclasses import dataclass

from django.utils import timezone
from django.utils.translation import gettext as _

from jobs.core.states import ACTIVE, FINAL, READY, Event, State
from jobs.errors import AgentQError, IllegalTransition, StaleJob
from jobs.models import Batch, Job
from jobs.services import clock, policies, transitions
from jobs.services.audit import Entry
from jobs.services.transitions import Held

REQUESTED = "requested"
BATCH_PAUSED = "batch_paused"
# A pause that lost this many races is not a race any more.
TRIES = 10


def cancel(job_id: int, *, actor: str, reason: str) -> State:
    """A waiting job is cancelled at once; a running one is asked to stop and cancelled by its worker.

    Returns the state it has now. Refuses a finished job and one whose outside act has no known outcome.
    """
    for _try in range(TRIES):
        held = _load(job_id)
        _refuse_finished(held)
        if held.open_intent:
            raise IllegalTransition(
                _("An outside act of J-%(id)d has no known outcome. Resolve it first, then cancel.") % {"id": job_id}
            )
        try:
            if held.state in ACTIVE:
                return _flag(held, "cancel_requested", True, actor, reason)
            return transitions.transition(held, Event.CANCEL, actor=actor, at=clock.now(), reason=reason).state
        except StaleJob:
            continue
    raise StaleJob()


def pause(job_id: int, *, actor: str, reason: str = REQUESTED) -> State:
    """A waiting job is paused at once; a running one at the end of its stage, by its worker. `reason` is a code
    that names the one condition which resumes it. Refuses review and finished jobs (S3)."""
    for _try in range(TRIES):
        held = _load(job_id)
        _refuse_finished(held)
        if held.state is State.REVIEW:
            raise IllegalTransition(_("J-%(id)d waits for a person's decision and is not paused.") % {"id": job_id})
        try:
            if held.state in ACTIVE and held.pause_requested and reason == BATCH_PAUSED:
                return held.state  # resuming the batch must not undo what was asked of this job alone
            if held.state in ACTIVE:
                return _flag(held, "pause_requested", reason, actor, reason)
            if held.state is State.PAUSED:
                return held.state
            return transitions.transition(held, Event.PAUSE, actor=actor, at=clock.now(), reason=reason).state
        except StaleJob:
            continue
    raise StaleJob()


def recover(job_id: int, *, actor: str, condition: str, reason: str = "") -> State:
    """A paused job is queued again, because the condition that its pause names is met. Refuses another condition."""
    held = _load(job_id)
    if held.state is not State.PAUSED:
        raise IllegalTransition(_("J-%(id)d is not paused.") % {"id": job_id})
    if held.pause_reason != condition:
        raise IllegalTransition(
            _("J-%(id)d is paused for %(reason)s; that condition ends the pause, not %(condition)s.")
            % {"id": job_id, "reason": held.pause_reason, "condition": condition}
        )
    change = transitions.Change(facts={"condition": condition})
    return transitions.transition(
        held, Event.RECOVER, actor=actor, at=clock.now(), reason=reason or condition, change=change
    ).state


@dataclass(frozen=True, slots=True)
class BatchResult:
    """How many jobs of a batch an act reached, and how many it left because they were past it."""

    changed: int
    left: int


def pause_batch(batch: Batch, *, actor: str) -> BatchResult:
    """No job of the batch is claimed any more; waiting ones are paused, running ones at their stage's end."""
    # The batch first: a claim that comes after this sees it, one that came before is found below.
    Batch.objects.filter(pk=batch.pk, paused_at__isnull=True).update(paused_at=timezone.now())
    jobs = Job.objects.filter(batch=batch, state__in=(*READY, *ACTIVE))
    return _each(jobs.values_list("pk", flat=True), lambda job_id: pause(job_id, actor=actor, reason=BATCH_PAUSED))


def resume_batch(batch: Batch, *, actor: str) -> BatchResult:
    """What pausing the batch paused is queued again; what paused for another reason stays."""
    Batch.objects.filter(pk=batch.pk).update(paused_at=None)
    for held_id in Job.objects.filter(batch=batch, pause_requested=BATCH_PAUSED).values_list("pk", flat=True):
        _each([held_id], lambda job_id: _unflag(job_id, actor))
    jobs = Job.objects.filter(batch=batch, state=State.PAUSED, pause_reason=BATCH_PAUSED)
    return _each(jobs.values_list("pk", flat=True), lambda job_id: recover(job_id, actor=actor, condition=BATCH_PAUSED))


def cancel_batch(batch: Batch, *, actor: str, reason: str) -> BatchResult:
    """Every job of the batch that is neither finished nor in review is cancelled; reviews stay reviews (E2)."""
    jobs = Job.objects.filter(batch=batch).exclude(state__in=(*FINAL, State.REVIEW))
    return _each(jobs.values_list("pk", flat=True), lambda job_id: cancel(job_id, actor=actor, reason=reason))


def _each(job_ids: Iterable[int], act: object) -> BatchResult:
    changed = left = 0
    for job_id in list(job_ids):
        try:
            act(job_id)  # type: ignore[operator]
            changed += 1
        except AgentQError:
            left += 1
    return BatchResult(changed, left)


def _flag(held: Held, name: str, value: object, actor: str, reason: str) -> State:
    """The worker's next heartbeat, and at the latest its next write, sees the flag."""
    entry = Entry(name, actor, clock.now(), reason=reason)
    return transitions.record(held, entry, job={name: value}).state


def _unflag(job_id: int, actor: str) -> State:
    return _flag(_load(job_id), "pause_requested", "", actor, "batch_resumed")


def _load(job_id: int) -> Held:
    try:
        return transitions.load(job_id, policy=policies.active().number)
    except Job.DoesNotExist:
        raise IllegalTransition(_("There is no job J-%(id)d.") % {"id": job_id}) from None


def _refuse_finished(held: Held) -> None:
    if held.state in FINAL:
        raise IllegalTransition(
            _("J-%(id)d is finished (%(state)s); nothing changes it any more.") % {"id": held.id, "state": held.state}
        )
