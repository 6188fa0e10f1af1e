"""The decisions that a case offers one person: what each will do, in numbers, and why one cannot be taken (H1)."""

from dataclasses import dataclass

from django.utils.functional import cached_property
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from jobs.core import cases
from jobs.core.stages import Stage
from jobs.core.states import Event
from jobs.models import Job, ReviewCase, ReviewDecision
from jobs.wording import decision_text, stage_text
from jobs.workflows.definition import WorkflowDefinition

KEYS = {"approve": "a", "confirm": "a", "resolve:happened": "a", "reject": "r", "resume": "q", "request_changes": "c"}
RESOLVE = ("resolve:happened", "resolve:absent", "resolve:unknown")


@dataclass(frozen=True, slots=True)
class Choice:
    """One radio button: value, name, what it will do; `why_not` when this person cannot take it."""

    value: str
    name: str
    will: str
    key: str
    why_not: str


@dataclass(frozen=True)
class Choices:
    """All choices of a case for one person."""

    case: ReviewCase
    job: Job
    definition: WorkflowDefinition
    actor: str
    may_decide: bool
    holder: str

    @cached_property
    def decisions(self) -> list[ReviewDecision]:
        return list(self.case.decisions.order_by("pk"))

    @property
    def first(self) -> ReviewDecision | None:
        """The first of two decisions, while the second is awaited."""
        return next((each for each in self.decisions if not each.closing), None)

    @property
    def mine(self) -> bool:
        return any(each.actor == self.actor for each in self.decisions)

    @property
    def all(self) -> list[Choice]:
        values = [each for name in self.case.allowed for each in (RESOLVE if name == Event.RESOLVE else (name,))]
        return [self._choice(value) for value in values]

    def _choice(self, value: str) -> Choice:
        event = value.partition(":")[0]
        name = _NAMES[value]() if value in _NAMES else decision_text(event).capitalize()
        return Choice(value, name, self._will(value, event), KEYS.get(value, ""), self._why_not(event, value))

    def _why_not(self, event: str, value: str) -> str:
        if not self.may_decide:
            return _("Reviewers decide; your role only looks.")
        if self.holder not in ("", self.actor):
            return _("%(who)s is on this case.") % {"who": self.holder.partition(":")[2]}
        if self.actor == self.case.requested_by and not cases.may_decide_own(event, self.case.risk):
            return _("You asked for this job: another person decides that.")
        if self.mine and event in cases.TWO_PEOPLE and value != "resolve:unknown":
            return _("You have decided already: a second person must.")
        return ""

    def _will(self, value: str, event: str) -> str:
        if cases.needed(event, self.case.required_approvals) > 1 and value != "resolve:unknown" and self.first is None:
            return _("First of two people. The job stays here until a second one says the same. %(then)s") % {
                "then": self._then(value, event)
            }
        return self._then(value, event)

    def _then(self, value: str, event: str) -> str:
        if event == Event.APPROVE:
            return self._delivers()
        if event in (Event.RESUME, Event.RERUN, Event.REQUEST_CHANGES, Event.SUPPLY):
            return self._runs(Event(event))
        return _WILL[value]()

    def _delivers(self) -> str:
        acts = len(self.definition.effects)
        text = _("The result %(digest)s… goes to deliver: one branch.") % {"digest": self.case.result_digest[:8]}
        if not acts:
            return text
        more = ngettext("Then %(count)d act outside, once.", "Then %(count)d acts outside, once each.", acts)
        return f"{text} {more % {'count': acts}}"

    def _runs(self, event: Event) -> str:
        stage = cases.next_stage(event, current=Stage(self.job.next_stage))
        left = max(0, self.job.max_attempts - self.job.charged)
        told = {
            "stage": stage_text(stage),
            "left": left,
            "all": self.job.max_attempts,
        }
        starts = _("Runs again from the stage %(stage)s. %(left)d of %(all)d attempts are left.") % told
        if left == 0 and not self.job.free_claim:
            starts = f"{starts} {_('Grant at least one with it.')}"
        return {
            Event.REQUEST_CHANGES: _("Your note is what it reads first. %(starts)s"),
            Event.SUPPLY: _("Your note is added and the key stays. %(starts)s Another input makes a new job instead."),
        }.get(event, "%(starts)s") % {"starts": starts}


_NAMES = {
    "resolve:happened": lambda: _("It happened"),
    "resolve:absent": lambda: _("It did not happen"),
    "resolve:unknown": lambda: _("I cannot tell"),
    "resume": lambda: _("Resume from the last verified stage"),
    "rerun": lambda: _("Run again from the start"),
    "supply": lambda: _("Supply what is missing"),
}
_WILL = {
    "confirm": lambda: _("The job may run once with exactly this input, and act outside."),
    "reject": lambda: _("Failed for good. Diff, logs and evidence stay, nothing is delivered."),
    "cancel": lambda: _("Cancelled. Everything stays; it can be asked for again."),
    "resolve:happened": lambda: _("The ledger says it happened, the job goes on after it. Nothing is sent again."),
    "resolve:absent": lambda: _("Only with proof that the old attempt can act no more; the job may then try again."),
    "resolve:unknown": lambda: _("On record. The job stays here, nothing is sent."),
}
