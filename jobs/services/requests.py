"""Requests for jobs: what somebody asks for, checked against everything that can refuse it; reads only (E1, K1)."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any

from django.contrib.auth import get_user_model
from django.utils import timezone
from django.utils.translation import gettext as _

from jobs.core import payload_scan
from jobs.core.keys import make_idempotency_key
from jobs.errors import BranchRefused, EnqueueRefused, SecretRefused, WorkspaceError
from jobs.models import Repository
from jobs.payloads import add_reserved, validate
from jobs.services import repositories, workflows
from jobs.workflows.definition import WorkflowDefinition

MAX_PRIORITY = 100
MAX_BATCH_NAME = 120
_UNSTORABLE = re.compile("[\0\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Request:
    """What somebody asks for. `payload` holds the action's own fields; `date` is the planned day (YYYY-MM-DD)."""

    repo: str
    branch: str
    action: str
    payload: Mapping[str, Any]
    workflow_version: str | None = None
    priority: int = 0
    batch: str = ""
    deadline: datetime | None = None
    takeover_person: str = ""
    date: str = ""


@dataclass(frozen=True, slots=True)
class Prepared:
    """A request that passed every check, with the key that it will have."""

    request: Request
    repository: Repository
    definition: WorkflowDefinition
    payload: dict[str, Any]
    key: str
    line: int | None = None


class Preparing:
    """Checks requests; remembers what it looked up, so that a thousand requests ask each thing once."""

    def __init__(self) -> None:
        self._repositories: dict[str, Repository] = {}
        self._definitions: dict[tuple[str, str | None], WorkflowDefinition] = {}
        self._commits: dict[tuple[int, str], str] = {}
        self._people = {""}

    def __call__(self, request: Request) -> Prepared:
        _check_texts(request)
        _check_secrets(request)
        repository = self._repository(request.repo)
        definition = self._definition(request.action, request.workflow_version)
        _check_plan(request)
        self._check_person(request.takeover_person)
        payload = validate(request.payload, definition.fields, argv_names=repository.commands)
        commit = self._commit(repository, request.branch.strip())
        payload = add_reserved(
            payload,
            base_sha=commit if "base_sha" in definition.identity else None,
            date=(request.date or timezone.now().date().isoformat()) if "date" in definition.identity else None,
        )
        key = job_key(repository, request.branch, definition, payload)
        return Prepared(request, repository, definition, payload, key)

    def _repository(self, name: str) -> Repository:
        if name not in self._repositories:
            found = repositories.find(name)
            if found is None:
                raise EnqueueRefused(
                    _("There is no repository %(name)s. Register it first: manage.py register_repo NAME LOCATION.")
                    % {"name": name},
                    field="repo",
                )
            self._repositories[name] = found
        return self._repositories[name]

    def _definition(self, action: str, version: str | None) -> WorkflowDefinition:
        if (action, version) not in self._definitions:
            self._definitions[action, version] = workflows.find(action, version)
        return self._definitions[action, version]

    def _check_person(self, name: str) -> None:
        if name not in self._people:
            if not get_user_model().objects.filter(username=name, is_active=True).exists():
                raise EnqueueRefused(
                    _("There is no active user %(name)s who could take over.") % {"name": name},
                    field="takeover_person",
                )
            self._people.add(name)

    def _commit(self, repository: Repository, branch: str) -> str:
        if (repository.pk, branch) not in self._commits:
            try:
                self._commits[repository.pk, branch] = repositories.branch_commit(repository, branch)
            except BranchRefused as refusal:
                raise EnqueueRefused(str(refusal), field="branch") from None
            except WorkspaceError as refusal:
                raise EnqueueRefused(str(refusal), field="repo") from None
            except OSError as error:
                raise EnqueueRefused(
                    _("%(place)s cannot be read: %(why)s. Give this account access to it.")
                    % {"place": repository.location, "why": error.strerror},
                    field="repo",
                ) from None
        return self._commits[repository.pk, branch]


def job_key(repository: Repository, branch: str, definition: WorkflowDefinition, payload: Mapping[str, Any]) -> str:
    """The idempotency key of a job with this input (K1)."""
    return make_idempotency_key(
        repo=repository.name,
        branch=branch,
        action=definition.name,
        payload=payload,
        workflow_version=definition.version,
    )


def _check_plan(request: Request) -> None:
    if abs(request.priority) > MAX_PRIORITY:
        raise EnqueueRefused(
            _("The priority must be between %(low)d and %(high)d.") % {"low": -MAX_PRIORITY, "high": MAX_PRIORITY},
            field="priority",
        )
    if request.deadline and request.deadline <= timezone.now():
        raise EnqueueRefused(_("The deadline has passed already."), field="deadline")
    if request.date:
        _check_date(request.date)
    if len(request.batch) > MAX_BATCH_NAME:
        raise EnqueueRefused(
            _("The name of a batch has at most %(most)d characters.") % {"most": MAX_BATCH_NAME}, field="batch"
        )


def _check_date(text: str) -> None:
    try:
        one_form = date.fromisoformat(text).isoformat() == text  # 20261129 would be the same day with another key
    except ValueError:
        one_form = False
    if not one_form:
        raise EnqueueRefused(_("The planned date must look like 2026-11-29."), field="date")


def _check_texts(request: Request) -> None:
    """What no database can hold is refused before one is asked."""
    for name in ("repo", "branch", "action", "workflow_version", "batch", "takeover_person", "date"):
        text = getattr(request, name) or ""
        if _UNSTORABLE.search(text):
            raise EnqueueRefused(
                _("The %(name)s holds a NUL character or half of a surrogate pair.") % {"name": name}, field=name
            )


def _check_secrets(request: Request) -> None:
    """First of all, so that no other refusal repeats what must be stored and shown nowhere (K5)."""
    for name in ("repo", "branch", "action", "workflow_version", "batch", "takeover_person"):
        if found := payload_scan.scan_text(getattr(request, name) or ""):
            raise SecretRefused(name, found[0].kind, sure=found[0].sure, field=name)
    if found := payload_scan.scan_payload(request.payload):
        first = found[0]
        field = re.split(r"[.\[]", first.path, maxsplit=1)[0]
        where = _("payload's %(path)s") % {"path": first.path} if first.path else _("payload")
        raise SecretRefused(where, first.kind, sure=first.sure, field=field or "payload")
