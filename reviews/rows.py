"""How one job looks in a list: two lines a cell, the answer first, its evidence below."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from django.utils import timezone
from django.utils.translation import gettext as _

from jobs.core.states import ACTIVE, FINAL, READY, State
from jobs.models import Job
from jobs.wording import reason_text
from jobs.workflows.definition import WorkflowDefinition
from reviews import queries


@dataclass(frozen=True, slots=True)
class Progress:
    """The stages of a job's workflow, how many are verified, and the one that is next or runs ("" for none)."""

    stages: Sequence[str]
    done: int
    current: str


@dataclass(frozen=True, slots=True)
class Next:
    """What happens next, in short; `at` when the time is known; `how` is the second line."""

    text: str
    at: datetime | None
    how: str


@dataclass(frozen=True, slots=True)
class Row:
    """A job in a list. `left` says that it no longer matches the filter under which the list was opened."""

    job: Job
    lease: str
    progress: Progress
    next: Next
    left: bool = False

    @property
    def reason(self) -> str:
        """The code below the state."""
        if self.job.state == State.PAUSED:
            return self.job.pause_reason
        return self.job.stop_reason if self.job.state in (State.REVIEW, State.FAILED_TERMINAL) else ""

    @property
    def mark(self) -> str:
        """Id, number of events and lease: while it stays, the row stays."""
        return f"{self.job.pk}.{self.job.audit_seq}.{self.lease[0]}"


def rows(jobs: Iterable[Job], left: Iterable[int] = ()) -> list[Row]:
    """The rows of these jobs, which `queries.rows` has read."""
    listed, gone = list(jobs), set(left)
    definitions = queries.definitions(job.workflow for job in listed)
    return [
        Row(
            job=job,
            lease=queries.lease_health(job),
            progress=progress(job, definitions[job.workflow_id]),
            next=_next(job),
            left=job.pk in gone,
        )
        for job in listed
    ]


def progress(job: Job, definition: WorkflowDefinition) -> Progress:
    stages = list(definition.stages)
    if job.state == State.ACCEPTED:
        return Progress(stages, len(stages), "")
    if job.fence == 0:
        return Progress(stages, 0, "")
    at = stages.index(job.next_stage) if job.next_stage in stages else 0
    return Progress(stages, at, job.next_stage)


def _next(job: Job) -> Next:
    if job.state in FINAL:
        return _ended(job)
    if job.state in ACTIVE:
        return _held(job)
    if job.state == State.REVIEW:
        return Next(_("A person decides"), None, reason_text(job.stop_reason))
    if job.state == State.PAUSED:
        return Next(_("Waits for its condition"), None, reason_text(job.pause_reason))
    return _ready(job)


def _ended(job: Job) -> Next:
    if job.state == State.ACCEPTED:
        return Next(_("Done"), job.finished_at, _("verified and delivered"))
    if job.state == State.CANCELLED:
        return Next(_("Cancelled"), job.finished_at, _("can be asked for again"))
    return Next(_("Stopped"), job.finished_at, reason_text(job.stop_reason))


def _held(job: Job) -> Next:
    if job.lease_expires_at is not None and job.lease_expires_at <= timezone.now():
        return Next(_("Another worker takes over"), None, _("its lease is over"))
    if job.cancel_requested:
        return Next(_("Is being cancelled"), None, _("when its processes have ended"))
    if job.pause_requested:
        return Next(_("Pauses"), None, _("at the end of this stage"))
    if job.state == State.RUNNING:
        return Next(_("Its result is checked"), None, _("when the work is done"))
    return Next(_("Accepted or review"), None, _("when the checks have run"))


def _ready(job: Job) -> Next:
    assert job.state in READY
    if job.open_intent:  # type: ignore[attr-defined]
        return Next(_("Goes to a person"), None, reason_text("side_effect_unknown"))
    if job.deadline and job.deadline <= timezone.now():
        return Next(_("Goes to a person"), job.deadline, reason_text("deadline"))
    if job.charged >= job.max_attempts and not job.free_claim:
        return Next(_("Goes to a person"), None, reason_text("attempts_used_up"))
    if job.batch and job.batch.paused_at:
        return Next(_("Waits for its batch"), None, _("until the batch is resumed"))
    again = job.state == State.FAILED_RETRYABLE
    if job.next_run_at > timezone.now():
        return Next(_("Runs again") if again else _("Starts"), job.next_run_at, _("by itself"))
    return Next(_("Runs again") if again else _("Starts"), None, _("with the next free worker"))
