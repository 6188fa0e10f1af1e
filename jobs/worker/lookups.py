"""Asks, without acting, whether an act's result exists: before acting, and for the person who decides (X1, X2)."""

import socket
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from jobs.core.side_effects import Act
from jobs.errors import DecisionRefused
from jobs.executors.base import Control, supervise
from jobs.executors.channel import clock as boot_clock
from jobs.executors.process import ProcessResult, ProcessSpec
from jobs.executors.processes import make_token
from jobs.models import Job, SideEffect
from jobs.services import artifacts, clock, policies, side_effects, transitions
from jobs.worker import effect_programs, identity

ABSENT = 1  # exit code of a lookup that looked everywhere and found nothing


@dataclass(frozen=True, slots=True)
class Answer:
    """`unknown`: the lookup could not tell. `reference` names what was found; `result` is how the program ended."""

    said: Literal["found", "absent", "unknown"]
    reference: str = ""
    result: ProcessResult | None = None


def ask(
    act: Act, mirror: Path, room: Path, control: Control, *, name: str, token: str, fence_seconds: float | None
) -> Answer:
    """What the act's lookup says now, within its time and under the control's lease."""
    spec = effect_programs.lookup_spec(act, mirror, room, name=name, token=token, fence_seconds=fence_seconds)
    return _answer(spec, supervise(spec, control))


def ask_for_people(effect_id: int, *, actor: str) -> Answer | None:
    """The same outside an attempt, on record in the job's history; None for an act that cannot be looked up.

    Raises DecisionRefused when there is no such act, StaleJob when the job moved meanwhile.
    """
    effect = SideEffect.objects.filter(pk=effect_id).first()
    if effect is None:
        raise DecisionRefused
    act = side_effects.act_of(effect)
    if act is None or not act.can_be_looked_up:
        return None
    mirror = artifacts.mirror(Job.objects.select_related("repository").get(pk=effect.job_id).repository)
    room = artifacts.make_attempt_dir(effect.job_id, effect.fence) / "effects"
    # A mark of its own: the sweep for what an attempt left must not end the lookup, nor the other way round.
    token = make_token(f"{identity.site()}-lookup-{socket.gethostname()}".replace(":", "-"), effect_id, 1)
    name = f"{effect.key}-asked"
    answer = ask(act, mirror.path, room, _Unhurried(), name=name, token=token, fence_seconds=None)
    held = transitions.load(effect.job_id, policy=policies.active().number)
    side_effects.looked_up(held, effect, answer.said, answer.reference, actor=actor, at=clock.now())
    return answer


class _Unhurried:
    """Nobody's lease: only the lookup's own time limit ends it."""

    def should_stop(self) -> str | None:
        return None

    def beaten(self) -> float:
        return boot_clock()


def _answer(spec: ProcessSpec, result: ProcessResult) -> Answer:
    if result.clean:
        return Answer("found", effect_programs.first_line(spec.stdout_path) or "found", result)
    if result.exit_code == ABSENT and result.stopped is None and not result.shim_lost:
        return Answer("absent", "", result)
    return Answer("unknown", effect_programs.first_line(spec.stderr_path), result)
