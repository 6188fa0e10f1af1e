"""All that a claim and an attempt need to know of one job, read in one statement."""

from dataclasses import dataclass, fields
from datetime import datetime
from functools import lru_cache
from typing import Any

from django.db import connection
from django.utils import timezone

from jobs.core.stages import Stage
from jobs.core.states import State
from jobs.models import Job
from jobs.services.clock import aware
from jobs.workflows.definition import WorkflowDefinition
from jobs.workflows.files import from_document


@dataclass(frozen=True, slots=True)
class Candidate:
    """One job with its repository, workflow and the active policy, at the database's time `now` (UTC)."""

    id: int
    state: State
    version: int
    fence: int
    audit_seq: int
    audit_head: str
    charged: int
    max_attempts: int
    free_claim: bool
    crashes: int
    cancel_requested: bool
    pause_requested: str
    result_digest: str
    idempotency_key: str
    branch: str
    action: str
    payload: str
    risk: str
    short: bool
    queue: str
    next_stage: Stage
    next_run_at: datetime
    deadline: datetime | None
    seconds_spent: float
    max_seconds: int
    tokens_spent: int | None
    max_tokens: int | None
    confirmed_digest: str
    base_commit: str
    base_tree: str
    snapshot: str
    requested_by: str
    takeover_person: str
    created_at: datetime
    reserved_by: str
    batch_paused: bool
    open_intent: bool
    policy_number: int
    repository_id: int
    repository: str
    location: str
    default_branch: str
    autonomy: str
    concurrency: int
    live_beside: int
    commands: str
    checks: str
    workflow_id: int
    workflow_version: str
    workflow_digest: str
    now: datetime

    @property
    def definition(self) -> WorkflowDefinition:
        return definition(self.workflow_id)

    @property
    def acts_outside(self) -> bool:
        return acts_outside(self.definition)


def candidate(job_id: int) -> Candidate:
    """The job as it stands. Raises Job.DoesNotExist."""
    with connection.cursor() as cursor:
        cursor.execute(_text(connection.vendor), [job_id])
        row = cursor.fetchone()
    if row is None:
        raise Job.DoesNotExist(f"There is no job J-{job_id}.")
    values: dict[str, Any] = dict(zip(_COLUMNS, row, strict=True))
    # SQLite's own clock counts milliseconds: a job due a microsecond ago would not be due yet.
    values["now"] = values["now"] or timezone.now()
    for name in ("next_run_at", "deadline", "created_at", "now"):
        values[name] = aware(values[name])
    for name in ("free_claim", "cancel_requested", "short", "batch_paused", "open_intent"):
        values[name] = bool(values[name])
    values["state"], values["next_stage"] = State(values["state"]), Stage(values["next_stage"])
    return Candidate(**values)


@lru_cache(maxsize=256)
def definition(workflow_id: int) -> WorkflowDefinition:
    """The stored workflow version; it never changes, so one process reads it once."""
    from jobs.models import WorkflowVersion

    return from_document(WorkflowVersion.objects.values_list("document", flat=True).get(pk=workflow_id))


def acts_outside(workflow: WorkflowDefinition) -> bool:
    """The executor itself acts outside: the risk says so and no declared effect takes it over (X3)."""
    return workflow.risk == "external_side_effect" and not workflow.effects


_JOINED = (
    "batch_paused",
    "open_intent",
    "policy_number",
    "repository_id",
    "repository",
    "location",
    "default_branch",
    "autonomy",
    "concurrency",
    "live_beside",
    "commands",
    "checks",
    "workflow_id",
    "workflow_version",
    "workflow_digest",
    "now",
)
_COLUMNS = tuple(field.name for field in fields(Candidate))
_FROM_JOB = _COLUMNS[: -len(_JOINED)]


@lru_cache
def _text(vendor: str) -> str:
    postgresql = vendor == "postgresql"
    now = "clock_timestamp()" if postgresql else "NULL"
    text = "::text" if postgresql else ""
    columns = ", ".join(f"j.{name}" for name in _FROM_JOB)
    return (
        f"SELECT {columns}, b.paused_at IS NOT NULL,"
        " EXISTS (SELECT 1 FROM jobs_sideeffect s WHERE s.job_id = j.id AND s.outcome IN ('', 'unknown')),"
        " COALESCE((SELECT v.number FROM jobs_policyactivation a JOIN jobs_policyversion v ON v.id = a.version_id"
        " ORDER BY a.id DESC LIMIT 1), 0),"
        f" j.repository_id, r.name, r.location, r.default_branch, r.autonomy, r.concurrency,"
        " (SELECT count(*) FROM jobs_job l WHERE l.repository_id = j.repository_id"
        " AND l.state IN ('running', 'verifying')),"
        f" r.commands{text}, r.checks{text},"
        f" j.workflow_id, w.version, w.digest, {now}"
        " FROM jobs_job j JOIN jobs_repository r ON r.id = j.repository_id"
        " JOIN jobs_workflowversion w ON w.id = j.workflow_id LEFT JOIN jobs_batch b ON b.id = j.batch_id"
        " WHERE j.id = %s"
    )
