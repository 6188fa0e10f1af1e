"""Workflow versions: stored whole at the first enqueue, guarded by digest, retired when their file is gone (K4)."""

from pathlib import Path

from django.conf import settings
from django.db import IntegrityError, transaction
from django.utils import timezone
from django.utils.translation import gettext as _

from jobs.errors import EnqueueRefused, WorkflowConflict
from jobs.models import WorkflowVersion
from jobs.workflows.definition import WorkflowDefinition
from jobs.workflows.files import available


def definitions() -> list[WorkflowDefinition]:
    """Every workflow that a file defines now, built-in or the owner's."""
    return available(Path(settings.WORKFLOWS_DIR) if settings.WORKFLOWS_DIR else None)


def find(action: str, version: str | None = None) -> WorkflowDefinition:
    """The definition that a new job of this action gets: the version named, else the newest.

    Newest is the one registered last; a file that was never used yet is newer than all that were. Refuses an
    unknown action, an unknown version, and a version whose file is gone.
    """
    known = definitions()
    versions = {definition.version: definition for definition in known if definition.name == action}
    if version is not None and version in versions:
        return versions[version]
    if not versions and not WorkflowVersion.objects.filter(name=action).exists():
        names = ", ".join(sorted({definition.name for definition in known}))
        raise EnqueueRefused(
            _("There is no action %(action)s. Known actions: %(names)s.") % {"action": action, "names": names},
            field="action",
        )
    if version is not None:
        raise EnqueueRefused(_gone(action, version, sorted(versions)), field="workflow_version")
    if not versions:
        raise EnqueueRefused(
            _("The action %(action)s is retired: its workflow file is gone.") % {"action": action}, field="action"
        )
    return _newest(action, versions)


def register(definition: WorkflowDefinition) -> WorkflowVersion:
    """The stored row of this definition, made when it is used for the first time.

    Raises WorkflowConflict when the same name and version is stored with other content.
    """
    row = WorkflowVersion.objects.filter(name=definition.name, version=definition.version).first()
    if row is None:
        row = _store(definition)
    if row.digest != definition.digest:
        raise WorkflowConflict(
            _(
                "Workflow %(name)s version %(version)s is stored with other content. Raise the version in its file:"
                " what ran under a version must stay readable."
            )
            % {"name": definition.name, "version": definition.version},
            field="workflow_version",
        )
    return row


def retire_missing() -> int:
    """Stored versions whose file is gone are marked retired, returned files unmarked; how many changed."""
    present = {(definition.name, definition.version) for definition in definitions()}
    changed = 0
    for row in WorkflowVersion.objects.all():
        gone = (row.name, row.version) not in present
        if gone != (row.retired_at is not None):
            row.retired_at = timezone.now() if gone else None
            row.save(update_fields=["retired_at"])
            changed += 1
    return changed


def _store(definition: WorkflowDefinition) -> WorkflowVersion:
    try:
        with transaction.atomic():
            return WorkflowVersion.objects.create(
                name=definition.name,
                version=definition.version,
                document=definition.document_text,
                digest=definition.digest,
                created_at=timezone.now(),
            )
    except IntegrityError:  # another process registered it first
        return WorkflowVersion.objects.get(name=definition.name, version=definition.version)


def _newest(action: str, versions: dict[str, WorkflowDefinition]) -> WorkflowDefinition:
    rows = WorkflowVersion.objects.filter(name=action, version__in=versions).order_by("id")
    registered = list(rows.values_list("version", flat=True))
    fresh = sorted(set(versions) - set(registered))
    return versions[fresh[-1] if fresh else registered[-1]]


def _gone(action: str, version: str, present: list[str]) -> str:
    if WorkflowVersion.objects.filter(name=action, version=version).exists():
        text = _("Version %(version)s of %(action)s is retired: its file is gone. Versions to use: %(present)s.")
    else:
        text = _("There is no version %(version)s of %(action)s. Versions to use: %(present)s.")
    return text % {"version": version, "action": action, "present": ", ".join(present) or _("none")}
