"""Acts that leave the machine: looked up, intended, done once and settled, never repeated here (X1, X2, X3, E3)."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jobs.core import side_effects as rules
from jobs.core.adapters.runs import EndedRun
from jobs.core.side_effects import Act, Ask, Do, Reuse
from jobs.errors import EffectTaken, LeaseLost
from jobs.executors.base import Control, supervise
from jobs.executors.channel import clock
from jobs.executors.process import ProcessResult
from jobs.models import Repository
from jobs.models.repository import Autonomy
from jobs.models.side_effect import EffectOutcome
from jobs.services import anchors, side_effects
from jobs.worker import effect_programs, faults, lookups
from jobs.worker.outcomes import Failure, StageFailed, StageStopped

if TYPE_CHECKING:
    from jobs.worker.attempt import Attempt

START_SECONDS = 10.0  # for intent, shim and fork on a loaded machine; the act itself still has all of its time


def require_person(attempt: "Attempt", *, changed: bool) -> None:
    """Returns when this result may be delivered and sent; else the job waits for an approval of exactly it (X3, E3).

    Asked before anything is delivered: a branch that is there would be in the way of requested changes.
    """
    templates = [effect.template for effect in attempt.job.definition.effects]
    kinds = [each.kind for each in templates if changed or not rules.needs_commit(each)]
    level = attempt.job.autonomy
    if kinds:
        # An owner may have taken a level back since the claim.
        level = Repository.objects.values_list("autonomy", flat=True).get(pk=attempt.job.repository_id)
    reason = ""
    if level == Autonomy.PREPARE and (changed or kinds):
        reason = "autonomy_prepare"
    elif kinds and rules.needs_person(kinds, may_act=level == Autonomy.EFFECTS):
        reason = "confirm_effects"
    if reason and not side_effects.confirmed(attempt.held.id, attempt.held.result_digest):
        raise StageStopped(reason)


def perform(attempt: "Attempt", commit: str) -> list[dict[str, Any]]:
    """Every declared effect is confirmed, in order; what each came to. `commit` empty: nothing changed.

    Raises StageFailed or StageStopped at the first that is not; what was confirmed before it is never repeated.
    """
    job = attempt.job
    acts = side_effects.declared(
        job.definition,
        job_id=job.id,
        key=job.idempotency_key,
        repo=job.repository,
        payload=job.payload,
        commit=commit,
    )
    return [_perform(attempt, act) for act in acts]


def ran_already(attempt: "Attempt") -> bool:
    """An executor that acts outside by itself is not started again: its one run happened (X1)."""
    if not attempt.job.acts_outside:
        return False
    return isinstance(side_effects.next_step(attempt.held.id, _run(attempt).key), Reuse)


@contextmanager
def whole_run(attempt: "Attempt") -> Iterator[None]:
    """Around the run of an executor that acts outside: its intent is on record before it starts (X1)."""
    if not attempt.job.acts_outside:
        yield
        return
    act = _run(attempt)
    number = _number(side_effects.next_step(attempt.held.id, act.key))
    _intend(attempt, act, number, until=attempt.now() + timedelta(seconds=attempt.limits().seconds))
    try:
        yield
    except LeaseLost:
        raise
    except Exception:
        _settle(attempt, act, number, EffectOutcome.UNKNOWN, "the run did not come to its proper end")
        raise
    _settle(attempt, act, number, EffectOutcome.CONFIRMED, f"attempt {attempt.held.fence}")


def _perform(attempt: "Attempt", act: Act) -> dict[str, Any]:
    step = side_effects.next_step(attempt.held.id, act.key)
    if isinstance(step, Reuse):
        return _fact(act, "reused")
    number = _number(step)
    _stop_in_time(attempt)
    if act.can_be_looked_up:
        answer = _look_up(attempt, act, attempt.heart, f"{act.key}-{number}-before")
        if answer.said == "found":
            attempt.held = side_effects.found(
                attempt.held, act, number, answer.reference, actor=attempt.actor, at=attempt.now()
            )
            return _fact(act, "found")
        if answer.said == "unknown":
            _stop_in_time(attempt)
            raise StageFailed(Failure(code="lookup_failed", run=_ended(answer.result), tail=answer.reference))
    return _act(attempt, act, number)


def _act(attempt: "Attempt", act: Act, number: int) -> dict[str, Any]:
    limits = attempt.limits()
    seconds = act.seconds + limits.grace_seconds + START_SECONDS
    not_after = clock() + seconds
    # Made first: a credential that cannot be read leaves no intent behind.
    spec = effect_programs.act_spec(
        act,
        attempt.mirror.path,
        _room(attempt),
        name=f"{act.key}-{number}",
        token=attempt.token,
        fence_seconds=limits.fence_seconds,
        not_after=not_after,
    )
    _intend(attempt, act, number, until=attempt.now() + timedelta(seconds=seconds))
    faults.reach("effect_intended", attempt.held.fence)
    result = supervise(spec, _Acting(attempt.heart))
    faults.reach("effect_acted", attempt.held.fence)
    if result.clean:
        reference = effect_programs.first_line(spec.stdout_path) or "exit code 0"
        _settle(attempt, act, number, EffectOutcome.CONFIRMED, reference)
        return _fact(act, "done")
    said = effect_programs.first_line(spec.stderr_path)
    if result.start_error is not None:
        _settle(attempt, act, number, EffectOutcome.ABSENT, f"never started: {result.start_error}")
        raise StageFailed(Failure(code="effect_not_started", run=_ended(result), tail=said))
    _settle(attempt, act, number, EffectOutcome.UNKNOWN, "")
    _look_for_people(attempt, act, number)
    raise StageFailed(Failure(code="side_effect_unknown", run=_ended(result), tail=said))


def _number(step: Do | Reuse | Ask) -> int:
    """The number of the try that may begin now."""
    if not isinstance(step, Do):
        raise StageStopped("effect_needs_decision")
    if anchors.behind():
        raise StageStopped("ledger_behind_anchor")
    return step.number


def _intend(attempt: "Attempt", act: Act, number: int, *, until: Any) -> None:
    try:
        attempt.held = side_effects.intend(
            attempt.held, act, number, actor=attempt.actor, at=attempt.now(), not_after=until
        )
    except EffectTaken:
        raise StageStopped("effect_needs_decision") from None
    anchors.raise_to(side_effects.row_of(act, number))


def _settle(attempt: "Attempt", act: Act, number: int, outcome: EffectOutcome, reference: str) -> None:
    attempt.held = side_effects.settle(
        attempt.held, act, number, outcome, reference, actor=attempt.actor, at=attempt.now()
    )


def _look_for_people(attempt: "Attempt", act: Act, number: int) -> None:
    """What is there now helps the person who decides. It is no answer: a request may still be on its way."""
    if not act.can_be_looked_up:
        return
    answer = _look_up(attempt, act, _Acting(attempt.heart), f"{act.key}-{number}-after")
    effect = side_effects.row_of(act, number)
    attempt.held = side_effects.looked_up(
        attempt.held, effect, answer.said, answer.reference, actor=attempt.actor, at=attempt.now()
    )


def _look_up(attempt: "Attempt", act: Act, control: Control, name: str) -> lookups.Answer:
    fence = attempt.limits().fence_seconds
    return lookups.ask(
        act, attempt.mirror.path, _room(attempt), control, name=name, token=attempt.token, fence_seconds=fence
    )


class _Acting:
    """An act is not broken off by a request, a drain or a deadline: half an act is an unknown one. It is short."""

    def __init__(self, heart: Control) -> None:
        self._heart = heart

    def should_stop(self) -> str | None:
        reason = self._heart.should_stop()
        return reason if reason == "lease_lost" else None

    def beaten(self) -> float:
        return self._heart.beaten()


def _stop_in_time(attempt: "Attempt") -> None:
    """What was asked of the job acts before an intent is written, not in the middle of an act."""
    heart = attempt.heart
    reason = heart.should_stop()
    if heart.lost or reason == "lease_lost":
        raise LeaseLost()
    if reason is not None:
        raise StageStopped(reason)
    if heart.pause_requested:
        raise StageStopped("pause")
    if heart.draining():
        raise StageStopped("drain")


def _run(attempt: "Attempt") -> Act:
    job = attempt.job
    key = rules.run_key(repo=job.repository, target=job.branch, idempotency_key=job.idempotency_key)
    return Act(
        kind=rules.WHOLE_RUN,
        target=job.branch,
        sha=job.idempotency_key,
        key=key,
        argv=(),
        lookup=None,
        seconds=job.definition.seconds,
    )


def _room(attempt: "Attempt") -> Path:
    return attempt.output / "effects"


def _ended(result: ProcessResult | None) -> EndedRun:
    if result is None:
        return EndedRun()
    return EndedRun(exit_code=result.exit_code, signal=result.signal, exception_type=result.start_error)


def _fact(act: Act, how: str) -> dict[str, Any]:
    return {"kind": act.kind, "key": act.key, "how": how}
