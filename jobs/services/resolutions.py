"""What a person says of an act whose outcome nobody knows: it happened, it did not, or it cannot be told (X2, H1)."""

from typing import Literal, get_args

from django.utils.translation import gettext as _

from jobs.core.states import Event
from jobs.errors import DecisionRefused
from jobs.models import ReviewCase, SideEffect
from jobs.models.side_effect import OPEN_OUTCOMES, EffectOutcome
from jobs.services import clock, policies, proofs, reviews, transitions
from jobs.services.audit import Entry
from jobs.services.transitions import Held

Answer = Literal["happened", "absent", "unknown"]
ANSWERS: tuple[Answer, ...] = get_args(Answer)
_OUTCOMES: dict[Answer, EffectOutcome] = {"happened": EffectOutcome.CONFIRMED, "absent": EffectOutcome.ABSENT}


def resolve(
    effect_id: int,
    answer: Answer,
    *,
    reference: str,
    reason: str,
    actor: str,
    job_version: int | None = None,
    break_glass: bool = False,
    by_command: bool = False,
) -> Held:
    """The act has the outcome that the person saw, and its job goes on; with `unknown` nothing moves but the history.

    `reference` names where it was seen. `absent` needs the proofs of `services.proofs`. `job_version` is what the
    person had on the screen. It takes two people: after the first the job is still in review. Raises DecisionRefused
    with what is missing, StaleJob when the job moved.
    """
    effect = SideEffect.objects.filter(pk=effect_id).first()
    if effect is None:
        raise DecisionRefused(_("There is no act number %(id)d in the ledger.") % {"id": effect_id})
    if effect.outcome not in OPEN_OUTCOMES:
        raise DecisionRefused(_("The outcome of this act is known already: %(it)s.") % {"it": effect.outcome})
    case = ReviewCase.objects.filter(job_id=effect.job_id, closed_at=None).first()
    if case is None:
        raise DecisionRefused(_("The job is not waiting for a person: its attempt may still be acting."))
    if answer == "unknown":
        return _cannot_tell(effect, reference, reason, actor)
    decision = reviews.Decision(
        event=Event.RESOLVE,
        reason=reason,
        job_version=case.job_version if job_version is None else job_version,
        outcome=_OUTCOMES[answer],
        reference=reference,
        break_glass=break_glass,
        by_command=by_command,
    )
    return reviews.decide(case.pk, decision, actor=actor)


def state_down(effect_id: int, *, reason: str, actor: str) -> None:
    """An owner says that the host of the act's attempt is down: that stands for the proof (X2). Whether the actor is
    an owner is asked by the caller. Refuses without a reason."""
    effect = SideEffect.objects.filter(pk=effect_id, outcome__in=OPEN_OUTCOMES).first()
    if effect is None:
        raise DecisionRefused(_("There is no open act number %(id)d in the ledger.") % {"id": effect_id})
    if not reason.strip():
        raise DecisionRefused(_("Give a reason: how do you know that the host is down?"))
    proofs.record_down(effect, actor=actor, reason=reason.strip()[:500])


def _cannot_tell(effect: SideEffect, reference: str, reason: str, actor: str) -> Held:
    if not reason.strip():
        raise DecisionRefused(_("Give a reason: it is what others read later."))
    held = transitions.load(effect.job_id, policy=policies.active().number)
    facts = {"effect": effect.pk, "key": effect.key, "reference": reference[:500]}
    entry = Entry("effect_not_told", actor, clock.now(), reason.strip()[:500], facts=facts)
    return transitions.record(held, entry)
