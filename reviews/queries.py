"""What pages read: one page of jobs, capped counts, the state of the system. No page counts all jobs."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta

from django.conf import settings
from django.db import connection
from django.db.models import Exists, Max, OuterRef, Q, QuerySet
from django.utils import timezone

from jobs.core.policy import Policy
from jobs.core.states import FINAL, LIVE, State
from jobs.models import AuditEvent, Batch, Job, PolicyActivation, Repository, SideEffect, WorkflowVersion
from jobs.models.side_effect import OPEN_OUTCOMES
from jobs.policies.loading import builtin, to_policy
from jobs.services import nodes, policies
from jobs.workflows.definition import WorkflowDefinition
from jobs.workflows.files import from_document
from reviews.filters import JobFilter

PAGE = 50
LIVE_CAP = 10_000
FINAL_CAP = 1_000


@dataclass(frozen=True, slots=True)
class JobPage:
    """Jobs, newest first, and whether there are more on either side."""

    jobs: list[Job]
    newer: bool
    older: bool


def job_page(wanted: JobFilter, *, before: int | None = None, after: int | None = None) -> JobPage:
    """The page of jobs older than `before`, or just newer than `after`, or the newest."""
    if after is not None:
        found = list(rows(wanted.ends(Q(pk__gt=after), "pk", PAGE + 1))[: PAGE + 1])
        if len(found) > PAGE:
            return JobPage(found[:PAGE][::-1], newer=True, older=True)
        before = None  # fewer than a page is newer: that is the first page
    bounds = Q(pk__lt=before) if before is not None else None
    found = list(rows(wanted.ends(bounds, "-pk", PAGE + 1))[: PAGE + 1])
    return JobPage(found[:PAGE], newer=before is not None, older=len(found) > PAGE)


def rows(jobs: QuerySet[Job]) -> QuerySet[Job]:
    """The jobs with what a row of a list shows, in one read; payloads stay where they are."""
    intents = SideEffect.objects.filter(job=OuterRef("pk"), outcome__in=OPEN_OUTCOMES)
    return (
        jobs.annotate(open_intent=Exists(intents))
        .select_related("repository", "batch", "workflow")
        .defer("payload", "workflow__document", "repository__commands", "repository__checks")
    )


_definitions: dict[str, WorkflowDefinition] = {}


def definitions(workflows: Iterable[WorkflowVersion]) -> dict[int, WorkflowDefinition]:
    """Definitions by workflow id, from one read of those that this process has not seen yet."""
    digests = {workflow.pk: workflow.digest for workflow in workflows}
    missing = {digest for digest in digests.values() if digest not in _definitions}
    if missing:
        stored = WorkflowVersion.objects.filter(digest__in=missing).values_list("digest", "document")
        _definitions.update({digest: from_document(document) for digest, document in stored})
    return {pk: _definitions[digest] for pk, digest in digests.items()}


@dataclass(frozen=True, slots=True)
class Count:
    """A number of jobs that was counted up to a cap."""

    number: int
    capped: bool


def counts() -> dict[str, Count]:
    """Jobs by state, in one read of each state's index; live states up to 10,000, final ones up to 1,000."""
    caps = {state: FINAL_CAP if state in FINAL else LIVE_CAP for state in State}
    one = "(SELECT COUNT(*) FROM (SELECT 1 FROM jobs_job WHERE state = %s LIMIT %s) AS counted)"
    params = [value for state, cap in caps.items() for value in (state.value, cap + 1)]
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {', '.join([one] * len(caps))}", params)
        numbers = cursor.fetchone()
    return {
        state.value: Count(min(number, cap), number > cap)
        for (state, cap), number in zip(caps.items(), numbers, strict=True)
    }


def open_jobs(by_state: dict[str, Count]) -> Count:
    """All jobs that are not finished."""
    live = [by_state[state] for state in LIVE]
    return Count(sum(count.number for count in live), any(count.capped for count in live))


def newest_event() -> int:
    """The id of the newest audit event: when it stands still, nothing happened."""
    return int(AuditEvent.objects.aggregate(newest=Max("pk"))["newest"] or 0)


def lease_health(job: Job) -> str:
    """fresh, late (two beats missed), expired; none while no worker holds the job."""
    if job.lease_expires_at is None:
        return "none"
    left = job.lease_expires_at - timezone.now()
    if left <= timedelta(0):
        return "expired"
    silent = settings.AGENTQ_LEASE_SECONDS - left.total_seconds()
    return "fresh" if silent <= 2 * settings.AGENTQ_BEAT_SECONDS else "late"


@dataclass(frozen=True, slots=True)
class System:
    """The top line of every page."""

    workers: int
    reviews: Count


def system() -> System:
    """Workers of the clusters that reported lately, and the reviews that wait; one read."""
    seen_after = connection.ops.adapt_datetimefield_value(timezone.now() - nodes.LOST_AFTER)
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT (SELECT COALESCE(SUM(workers), 0) FROM jobs_workernode WHERE stopped_at IS NULL AND seen_at > %s),"
            " (SELECT COUNT(*) FROM (SELECT 1 FROM jobs_job WHERE state = 'review' LIMIT %s) AS counted)",
            [seen_after, FINAL_CAP + 1],
        )
        workers, waiting = cursor.fetchone()
    return System(int(workers), Count(min(waiting, FINAL_CAP), waiting > FINAL_CAP))


def active_policy() -> Policy:
    """The rules that decide now, read only: before the first job these are the built-in ones, not yet stored."""
    newest = PolicyActivation.objects.order_by("-pk").values_list("version__number", flat=True).first()
    return to_policy(builtin()) if newest is None else policies.rules(newest)


def active_number() -> int:
    """The number of the version that decides now; 0 before the first job."""
    newest = PolicyActivation.objects.order_by("-pk").values_list("version__number", flat=True).first()
    return newest or 0


def choices() -> dict[str, Sequence[str]]:
    """What the list's filters offer: registered repositories, actions that were ever enqueued, newest batches."""
    return {
        "repository": list(Repository.objects.order_by("name").values_list("name", flat=True)),
        "action": list(WorkflowVersion.objects.order_by("name").values_list("name", flat=True).distinct()),
        "batch": list(Batch.objects.order_by("-pk").values_list("name", flat=True)[:50]),
    }
