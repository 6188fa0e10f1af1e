"""How good a classifier is on labelled cases, and the naive matcher it has to beat (F1, F2)."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from jobs.core.adapters.runs import EndedRun
from jobs.core.policy import REPEATS

# Repeating one of these spends money, acts twice, locks an account or overwrites what someone else did.
_NEVER_REPEATED: Final = frozenset(
    {"side_effect_unknown", "billing_unknown", "permission", "conflict", "cancelled", "unknown"}
)
_NAIVE_RETRY: Final = ("timeout", "503", "connection reset", "429")


@dataclass(frozen=True, slots=True)
class Judged:
    """One labelled case with the answer that was given; `class_` "" when the classifier names none."""

    expected_class: str
    expected_action: str
    class_: str
    action: str
    risk: str

    @property
    def dangerous(self) -> bool:
        """True for an accepted failure, a repeated outward act and a repetition of what must never be repeated."""
        if self.expected_action != "accept" and self.action == "accept":
            return True
        if self.action not in REPEATS:
            return False
        return self.risk == "external_side_effect" or self.expected_class in _NEVER_REPEATED


@dataclass(frozen=True, slots=True)
class Score:
    """Counts over a set of labelled cases."""

    cases: int
    actions: int
    classes: int
    dangerous: int

    def line(self, name: str, *, with_class: bool = True) -> str:
        """One readable line with shares in percent."""
        shown = f"{name}: action {self._share(self.actions)}"
        if with_class:
            shown += f", class {self._share(self.classes)}"
        return f"{shown}, dangerous errors {self.dangerous}"

    def _share(self, count: int) -> str:
        return f"{count}/{self.cases} ({100 * count / self.cases:.1f} %)" if self.cases else "0/0"


def score(judged: Iterable[Judged]) -> Score:
    """The counts of these answers."""
    answers = list(judged)
    return Score(
        cases=len(answers),
        actions=sum(one.action == one.expected_action for one in answers),
        classes=sum(one.class_ == one.expected_class for one in answers),
        dangerous=sum(one.dangerous for one in answers),
    )


def naive_action(run: EndedRun, *, everything: bool = False) -> str:
    """What a plain text matcher does: exit 0 is accepted, four words are retried, the rest goes to a person.

    It reads stderr only, or with `everything` both streams, the exception and the status.
    """
    if run.exit_code == 0:
        return "accept"
    text = run.stderr
    if everything:
        text = f"{run.stdout}\n{run.stderr}\n{run.exception_type or ''}\n{run.http_status or ''}"
    return "retry" if any(word in text.lower() for word in _NAIVE_RETRY) else "review"
