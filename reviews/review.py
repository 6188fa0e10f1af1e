"""All that one review's page shows: the case, its job, the diff with its risks, what was seen and decided (H1)."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from django.http import Http404
from django.utils import timezone
from django.utils.translation import gettext as _

from jobs.core.side_effects import Act
from jobs.models import ReviewCase, SideEffect
from jobs.models.side_effect import OPEN_OUTCOMES
from jobs.services import policies, side_effects
from jobs.verification.paths import judge
from jobs.workspaces.changes import Change
from reviews import diffs, jobs, queries, queue
from reviews.choices import Choices
from reviews.questions import question


@dataclass(frozen=True, slots=True)
class Base:
    """One thing that the diff can be compared with."""

    name: str
    label: str
    commit: str


@dataclass(frozen=True)
class ReviewView:
    """A case as one person sees it. `base` names what its diff is compared with."""

    case: ReviewCase
    view: jobs.JobView
    actor: str
    base: str
    may_decide: bool

    @property
    def open(self) -> bool:
        return self.case.closed_at is None

    @property
    def mark(self) -> str:
        """While it stays, what a decision is bound to stays, and so does who else is on it or decided."""
        state = "open" if self.open else "closed"
        return f"{state}.{self.view.job.version}.{self.policy}.{len(self.choices.decisions)}.{self.holder}"

    @property
    def tone(self) -> str:
        return queue.TONES[self.case.risk]

    @cached_property
    def question(self) -> str:
        return question(self.case, self.view.job)

    @cached_property
    def holder(self) -> str:
        return queue.holder(self.case, timezone.now()) if self.open else ""

    @cached_property
    def choices(self) -> Choices:
        return Choices(self.case, self.view.job, self.view.definition, self.actor, self.may_decide, self.holder)

    @cached_property
    def policy(self) -> int:
        """The version that decides now; a decision is bound to it."""
        return queries.active_number()

    @cached_property
    def bases(self) -> list[Base]:
        """What the diff can start from: the base, the attempt before, the result that was reviewed last."""
        snapshots = diffs.snapshots(self.view.job)
        shown = self.case.snapshot or next(iter(snapshots), "")
        if not shown or shown not in snapshots:
            return []
        found = [Base("base", _("Base"), snapshots[shown])]
        earlier = [snapshot for snapshot in snapshots if snapshot != shown]
        if earlier:
            found.append(Base("attempt", _("Attempt before"), earlier[0]))
        reviewed = ReviewCase.objects.filter(job=self.view.job, pk__lt=self.case.pk).exclude(snapshot__in=("", shown))
        if last := reviewed.order_by("-pk").values_list("snapshot", flat=True).first():
            found.append(Base("seen", _("Reviewed last"), last))
        return found

    @property
    def chosen(self) -> str:
        return self.base if self.base in {each.name for each in self.bases} else "base"

    @cached_property
    def diff(self) -> diffs.Difference | None:
        if not self.bases:
            return None
        start = next(each.commit for each in self.bases if each.name == self.chosen)
        shown = self.case.snapshot or next(iter(diffs.snapshots(self.view.job)))
        return diffs.difference(self.view.job, start, shown)

    @cached_property
    def files(self) -> list[tuple[diffs.FileDiff, list[str], bool]]:
        """Each changed file with the rules that it hits and whether this person ticked it."""
        if self.diff is None or not self.diff.files:
            return []
        seen = set(self.case.viewed.filter(actor=self.actor).values_list("path", flat=True))
        hits = self._hits([file.change for file in self.diff.files])
        return [(file, hits.get(file.change.path, []), file.change.path in seen) for file in self.diff.files]

    @property
    def rules(self) -> list[str]:
        return sorted({rule for _file, rules, _seen in self.files for rule in rules})

    @property
    def viewed(self) -> int:
        return sum(seen for _file, _rules, seen in self.files)

    @cached_property
    def effects(self) -> list[SideEffect]:
        return self.view.effects

    @cached_property
    def acts(self) -> list[Act]:
        """What delivering this result will do outside, in order and word for word but for the commit (X3)."""
        if not self.open or not self.view.definition.effects or self.unknown:
            return []
        job = self.view.job
        return side_effects.declared(
            self.view.definition,
            job_id=job.pk,
            key=job.idempotency_key,
            repo=job.repository.name,
            payload=job.payload,
            commit=_("(the commit that delivering makes)") if self.case.snapshot else "",
        )

    @property
    def unknown(self) -> list[SideEffect]:
        return [each for each in self.effects if each.outcome in OPEN_OUTCOMES]

    @cached_property
    def place(self) -> tuple[int | None, int | None, int, int]:
        return queue.neighbours(self.case.pk, self.actor)

    def _hits(self, changes: list[Change]) -> Mapping[str, list[str]]:
        rules = policies.rules(self.case.policy_number).paths if self.case.policy_number else ()
        found: dict[str, list[str]] = {}
        for hit in judge(changes, allowed=self.view.definition.allowed_paths, rules=rules, links={}):
            found.setdefault(hit.path, []).append(hit.rule)
        return found


def load(case_id: int, *, actor: str, may_decide: bool, base: str = "base") -> ReviewView:
    """The case as it stands; a 404 when there is none."""
    case = ReviewCase.objects.filter(pk=case_id).first()
    if case is None:
        raise Http404
    return ReviewView(case, jobs.load(case.job_id), actor, base, may_decide)
