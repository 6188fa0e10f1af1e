"""What a draft policy would have decided about past failures: their stored facts and inputs, judged again (P2).

Nothing of a tool's text is stored, so a failure whose answer hangs on text that the draft reads in a new way cannot be
decided again; these are counted and listed, never guessed.
"""

import time
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from jobs.core import replays
from jobs.core.decisions import Action
from jobs.core.inputs import decide_on, from_json, under
from jobs.core.policy import Policy
from jobs.core.policy_diff import Effect
from jobs.models import Attempt, FailureRecord
from jobs.services import policies

LIMIT: Final = 500
# From "a person sees it" to "runs again by itself"; a used-up budget is a person's matter too.
LOOSENESS: Final[Mapping[Action, int]] = {
    Action.HUMAN_CHECK: 0,
    Action.OPEN_CIRCUIT: 0,
    Action.PAUSE: 1,
    Action.STOP: 2,
    Action.WAIT: 3,
    Action.RETRY: 4,
}
REPEATING: Final = frozenset({Action.WAIT, Action.RETRY})
# To repeat one of these spends money, acts twice, locks an account or overwrites what someone else did.
RISKY: Final = frozenset(
    {"side_effect_unknown", "billing_unknown", "usage_limit", "permission", "conflict", "cancelled", "unknown"}
)


@dataclass(frozen=True, slots=True)
class Case:
    """One past failure and what the draft says of it; `new` is None when that cannot be said without the text.

    `happened` is the outcome of the job's next attempt ("" when there was none) and `state` where the job is now.
    """

    record: FailureRecord
    old: Action
    new: Action | None
    new_class: str
    new_code: str
    new_rule: str
    state: str
    happened: str
    seconds: float

    @property
    def effect(self) -> Effect:
        """Tighter when a person sees more, looser when more runs by itself."""
        return Effect.NEUTRAL if self.new is None else effect_of(self.old, self.new)

    @property
    def risky(self) -> bool:
        """A class that must not become looser without somebody looking."""
        return self.effect is Effect.LOOSER and self.record.failure_class in RISKY


@dataclass(frozen=True, slots=True)
class Simulation:
    """The answer. `attempts` and `seconds` are the estimated change: negative is saved, positive is added."""

    number: int
    cases: list[Case]
    took_seconds: float

    @property
    def matrix(self) -> Counter[tuple[Action, Action]]:
        """How often the old action became the new one."""
        return Counter((case.old, case.new) for case in self.cases if case.new is not None)

    @property
    def changed(self) -> list[Case]:
        """Cases with another action, looser first, newest first."""
        found = [case for case in self.cases if case.new not in (None, case.old)]
        return sorted(found, key=lambda case: (case.effect is not Effect.LOOSER, -case.record.pk))

    @property
    def undecided(self) -> list[Case]:
        """Cases that cannot be decided again without their text."""
        return [case for case in self.cases if case.new is None]

    @property
    def added(self) -> list[Case]:
        """Cases in which the draft starts an attempt that there was not."""
        return [case for case in self.changed if case.new in REPEATING and case.old not in REPEATING]

    @property
    def saved(self) -> list[Case]:
        """Cases in which the draft does not start an attempt that there was."""
        return [case for case in self.changed if case.old in REPEATING and case.new not in REPEATING]

    @property
    def attempts(self) -> int:
        return len(self.added) - len(self.saved)

    @property
    def seconds(self) -> float:
        return sum(case.seconds for case in self.added) - sum(case.seconds for case in self.saved)

    @property
    def reviews(self) -> int:
        """More jobs (or fewer) that a person would have had to look at."""
        people = (Action.HUMAN_CHECK, Action.OPEN_CIRCUIT)
        return sum((case.new in people) - (case.old in people) for case in self.changed)

    @property
    def warnings(self) -> dict[str, int]:
        """Risky class → cases in which it gets looser."""
        return dict(Counter(case.record.failure_class for case in self.cases if case.risky))


def effect_of(old: Action, new: Action) -> Effect:
    """Tighter when a person sees more, looser when more runs by itself."""
    if LOOSENESS[old] == LOOSENESS[new]:
        return Effect.NEUTRAL
    return Effect.LOOSER if LOOSENESS[new] > LOOSENESS[old] else Effect.TIGHTER


def simulate(draft: Policy, *, limit: int = LIMIT, since: datetime | None = None) -> Simulation:
    """The draft on the newest `limit` recorded decisions."""
    begun = time.monotonic()
    records = FailureRecord.objects.select_related("job").defer("job__payload").order_by("-pk")
    if since is not None:
        records = records.filter(at__gte=since)
    found = list(records[:limit])
    nexts = _next_attempts(found)
    cases = [_case(record, draft, nexts.get((record.job_id, record.fence + 1))) for record in found]
    return Simulation(len(found), cases, time.monotonic() - begun)


def _case(record: FailureRecord, draft: Policy, following: tuple[str, float] | None) -> Case:
    old = Action(record.action)
    outcome, seconds = following or ("", record.seconds)
    kept = Case(
        record=record,
        old=old,
        new=old,
        new_class=record.failure_class,
        new_code=record.code,
        new_rule=record.rule,
        state=record.job.state,
        happened=outcome,
        # An attempt that there was tells how long it took; one that there was not is taken to last as long as this one.
        seconds=seconds,
    )
    if not record.failure_class:
        return kept  # a used-up budget is not a matter of rules, and its size was the job's own
    stored = replays.restore(record.facts, policies.rules(record.policy_number))
    seen = replays.reclassify(stored, draft)
    if seen is None:
        return replace(kept, new=None, new_class="", new_code="", new_rule="")
    inputs = under(from_json(record.inputs), draft)
    if seen.fingerprint != record.fingerprint:
        inputs = replace(inputs, same_cause=1)  # how often another cause came before is not known
    decision = decide_on(inputs, draft, seen)
    return replace(kept, new=decision.action, new_class=seen.class_, new_code=seen.code, new_rule=seen.rule)


def _next_attempts(records: Iterable[FailureRecord]) -> dict[tuple[int, int], tuple[str, float]]:
    """(job, fence) → how the attempt ended and how long it took, for jobs of these records."""
    jobs = {record.job_id for record in records}
    rows = Attempt.objects.filter(job_id__in=jobs).values_list("job_id", "fence", "outcome", "seconds")
    return {(job_id, fence): (outcome, seconds or 0.0) for job_id, fence, outcome, seconds in rows}
