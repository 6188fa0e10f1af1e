"""What must be on record before an act counts as "did not happen": its doers are gone, and it was looked for (X2)."""

import json
from collections.abc import Iterator
from typing import Any

from django.utils.translation import gettext as _

from jobs.errors import DecisionRefused
from jobs.models import Attempt, AuditEvent, SideEffect
from jobs.models.side_effect import OPEN_OUTCOMES
from jobs.services import clock, side_effects, transitions
from jobs.services.audit import JOB, Entry

GONE = "processes_gone"
DOWN = "host_down"
LOOKED_UP = "effect_looked_up"


def open_effects(job_id: int) -> list[SideEffect]:
    return list(SideEffect.objects.filter(job_id=job_id, outcome__in=OPEN_OUTCOMES).order_by("pk"))


def host_of(effect: SideEffect) -> str:
    """The host of the attempt that wrote the intent."""
    worker = Attempt.objects.values_list("worker", flat=True).get(job_id=effect.job_id, fence=effect.fence)
    return worker.partition(":")[0]


def proven(effect: SideEffect) -> bool:
    """The attempt that wrote the intent can act no more, and that is on record."""
    return _proof_seq(effect) is not None


def record_gone(effect: SideEffect, *, actor: str) -> None:
    """Everything of the attempt, and of those before it, was killed and proven gone on its own host."""
    _record(effect, GONE, actor, "")


def record_down(effect: SideEffect, *, actor: str, reason: str) -> None:
    """An owner states that the host of the attempt is down, so that nothing on it can act any more."""
    _record(effect, DOWN, actor, reason)


def refuse_unproven(job_id: int) -> None:
    """Raises DecisionRefused while one of the job's open acts could still happen or was not looked for since.

    The passing of the act's own time limit proves nothing: a frozen process has not seen it pass.
    """
    for effect in open_effects(job_id):
        proof = _proof_seq(effect)
        if proof is None:
            raise DecisionRefused(
                _(
                    "The attempt on %(host)s may still act: its processes are not proven gone. Wait for the sweep of"
                    " that host, or let an owner state that it is down."
                )
                % {"host": host_of(effect)}
            )
        act = side_effects.act_of(effect)
        if act is None or not act.can_be_looked_up:
            continue
        answer = _newest_answer(effect, after=proof)
        if answer is None:
            raise DecisionRefused(_("Look it up first: this act has a lookup, and it did not run since the proof."))
        if answer["answer"] == "found":
            raise DecisionRefused(
                _("The lookup found it: %(reference)s. It happened.") % {"reference": answer["reference"]}
            )


def _record(effect: SideEffect, event: str, actor: str, reason: str) -> None:
    facts = {"host": host_of(effect), "fence": effect.fence}
    held = transitions.load(effect.job_id)
    transitions.record(held, Entry(event, actor, clock.now(), reason, facts=facts))


def _proof_seq(effect: SideEffect) -> int | None:
    """Number of the first event that proves it: what is gone stays gone, because its fence never comes again."""
    host = host_of(effect)
    for seq, facts in _facts(effect.job_id, GONE, DOWN):
        if facts["host"] == host and facts["fence"] >= effect.fence:
            return seq
    return None


def _newest_answer(effect: SideEffect, *, after: int) -> dict[str, Any] | None:
    answers = [facts for seq, facts in _facts(effect.job_id, LOOKED_UP) if seq > after and facts["effect"] == effect.pk]
    return answers[-1] if answers else None


def _facts(job_id: int, *events: str) -> Iterator[tuple[int, dict[str, Any]]]:
    rows = AuditEvent.objects.filter(stream=f"{JOB}{job_id}", event__in=events).order_by("seq")
    for seq, body in rows.values_list("seq", "body"):
        yield seq, json.loads(body)["facts"]
