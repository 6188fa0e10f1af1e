"""The columns that a new job starts with (E1, B1)."""

from datetime import datetime
from functools import cached_property
from typing import Any

from django.utils import timezone

from jobs.core.keys import canonical_json
from jobs.core.states import State
from jobs.models import Batch
from jobs.services import policies, workflows
from jobs.services.requests import Prepared
from jobs.workflows.definition import WorkflowDefinition

UNLIMITED_SECONDS = 7 * 24 * 3600


class JobRows:
    """Makes job rows; remembers workflow versions, policy and batches within one call."""

    def __init__(self) -> None:
        self._workflows: dict[str, int] = {}
        self._batches: dict[str, int] = {}

    @cached_property
    def _policy(self) -> policies.ActivePolicy:
        return policies.active()

    def of(self, prepared: Prepared, actor: str, reason: str) -> dict[str, Any]:
        request, definition = prepared.request, prepared.definition
        budget = self._policy.rules.budget_for(definition.risk, definition.name)
        now = timezone.now()
        return {
            "idempotency_key": prepared.key,
            "repository_id": prepared.repository.pk,
            "branch": request.branch.strip(),
            "action": definition.name,
            "payload": canonical_json(prepared.payload),
            "workflow_id": self.workflow(definition),
            "risk": definition.risk,
            "queue": "agentq",
            "short": definition.short,
            "priority": request.priority,
            "batch_id": self._batch(request.batch, actor, now),
            "line_id": prepared.line,
            "requested_by": actor,
            "takeover_person": request.takeover_person,
            "policy_id": self._policy.pk,
            "created_at": now,
            "state": State.QUEUED,
            "version": 1,
            "fence": 0,
            "next_stage": definition.stages[0],
            "next_run_at": now,
            "pause_reason": "",
            "stop_reason": "",
            "result_digest": "",
            "confirmed_digest": "",
            "cancel_requested": False,
            "pause_requested": "",
            "base_commit": prepared.payload.get("base_sha", ""),
            "base_tree": "",
            "snapshot": "",
            "finished_at": None,
            "charged": 0,
            "max_attempts": definition.max_attempts or budget.attempts,
            "free_claim": False,
            "crashes": 0,
            "seconds_spent": 0.0,
            "max_seconds": budget.seconds or UNLIMITED_SECONDS,
            "tokens_spent": None,
            "max_tokens": budget.context_tokens,
            "deadline": request.deadline,
            "reserved_by": "",
            "reserved_until": None,
            "lease_owner": "",
            "lease_expires_at": None,
            "lease_boot": "",
            "lease_until": 0.0,
            "_reason": reason,
            "_policy": self._policy.number,
        }

    def workflow(self, definition: WorkflowDefinition) -> int:
        if definition.digest not in self._workflows:
            self._workflows[definition.digest] = workflows.register(definition).pk
        return self._workflows[definition.digest]

    def _batch(self, name: str, actor: str, now: datetime) -> int | None:
        if not name:
            return None
        if name not in self._batches:
            batch, _made = Batch.objects.get_or_create(name=name, defaults={"requested_by": actor, "created_at": now})
            self._batches[name] = batch.pk
        return self._batches[name]
