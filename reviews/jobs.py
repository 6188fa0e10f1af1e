"""All that one job's page shows, read once: the row, its explanation, its events, attempts and evidence."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from django.db.models import F, Q
from django.http import Http404
from django.utils import timezone

from jobs import history
from jobs.core.keys import canonical_json
from jobs.core.states import FINAL, State
from jobs.explain import Explanation, explain
from jobs.models import Attempt, AuditEvent, Checkpoint, Evidence, Job, ReviewCase, SideEffect
from jobs.services import audit
from jobs.workflows.definition import WorkflowDefinition
from jobs.workflows.files import from_document
from reviews import attempts, decisions, queries, rows, statepath, timeline


@dataclass(frozen=True)
class JobView:
    """A job with its explanation and the jobs that repeat it; the rest is read when a page asks for it."""

    job: Job
    explanation: Explanation
    repeats: Sequence[Job]

    @property
    def mark(self) -> str:
        """While it stays, the page stays: events, lease, what blocks. It begins with F when the job is finished."""
        codes = ".".join(blocker.code for blocker in self.explanation.blockers)
        return f"{'F' if self.final else 'L'}{self.job.audit_seq}.{self.lease[0]}.{codes}"

    @property
    def final(self) -> bool:
        return self.job.state in FINAL

    @property
    def accepted(self) -> bool:
        return self.job.state == State.ACCEPTED

    @cached_property
    def lease(self) -> str:
        return queries.lease_health(self.job)

    @cached_property
    def definition(self) -> WorkflowDefinition:
        return from_document(self.job.workflow.document)

    @cached_property
    def progress(self) -> rows.Progress:
        return rows.progress(self.job, self.definition)

    @cached_property
    def happened(self) -> list[timeline.Happening]:
        """Newest first."""
        return timeline.happenings(history.replay(self.job.pk))[::-1]

    @cached_property
    def path(self) -> statepath.StatePath:
        return statepath.state_path(self.happened[::-1], self.job.finished_at or timezone.now())

    @cached_property
    def cards(self) -> list[attempts.Card]:
        tries = Attempt.objects.filter(job=self.job).order_by("-fence")
        return attempts.cards(tries, self.points, list(self.definition.stages))

    @property
    def last(self) -> Attempt | None:
        return self.cards[0].attempt if self.cards else None

    @cached_property
    def decided(self) -> list[decisions.Decided]:
        """Newest first."""
        return decisions.decisions(self.job)

    @cached_property
    def budgets(self) -> list[decisions.Budget]:
        return decisions.budgets(self.job)

    @cached_property
    def points(self) -> list[Checkpoint]:
        return list(Checkpoint.objects.filter(job=self.job).order_by("id"))

    @cached_property
    def evidence(self) -> list[Evidence]:
        return list(Evidence.objects.filter(job=self.job).order_by("-fence", "id"))

    @cached_property
    def review(self) -> int | None:
        """The open review case of the job."""
        if self.job.state != State.REVIEW:
            return None
        return ReviewCase.objects.filter(job=self.job, closed_at__isnull=True).values_list("pk", flat=True).first()

    @cached_property
    def effects(self) -> list[SideEffect]:
        return list(SideEffect.objects.filter(job=self.job).order_by("id"))

    @property
    def ended_why(self) -> str:
        """What the one who ended the job gave as reason; "" while it goes on."""
        return self.happened[0].reason if self.final and self.happened else ""

    @property
    def delivered(self) -> str:
        """The branch that holds the result; "" when nothing was delivered."""
        branches = (each.values.get("branch") for each in self.happened if each.values.get("stage") == "deliver")
        return next((branch for branch in branches if branch), "")

    @property
    def seconds_left(self) -> float:
        return max(0.0, self.job.max_seconds - self.job.seconds_spent)

    @property
    def attempts_left(self) -> int:
        return max(0, self.job.max_attempts - self.job.charged)

    @property
    def identity(self) -> str:
        """The text whose SHA-256 is the job's key (K1)."""
        return canonical_json(
            {
                "repo": self.job.repository.name.strip().lower(),
                "branch": self.job.branch,
                "action": self.job.action,
                "payload": json.loads(self.job.payload),
                "workflow_version": self.job.workflow.version,
            }
        )


def load(job_id: int) -> JobView:
    """The job as it stands; a 404 when there is none."""
    try:
        explanation = explain(job_id)
    except (Job.DoesNotExist, OverflowError):
        raise Http404 from None
    found = (
        Job.objects.filter(Q(pk=job_id) | Q(line=job_id))
        .select_related("repository", "workflow", "batch")
        .annotate(policy_number=F("policy__number"))
        .defer("repository__commands", "repository__checks")
        .order_by("pk")
    )
    job, *repeats = found  # a job that repeats another is younger
    return JobView(job, explanation, repeats)


@dataclass(frozen=True, slots=True)
class Checked:
    """Whether the events add up to the row, and whether their chain is whole."""

    differences: dict[str, tuple[Any, Any]]
    fault: audit.Fault | None
    events: int


def check(job: Job) -> Checked:
    """Reads every event of the job anew."""
    stream = f"job:{job.pk}"
    return Checked(history.differences(job), audit.verify(stream), AuditEvent.objects.filter(stream=stream).count())
