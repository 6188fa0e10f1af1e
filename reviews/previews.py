"""What an input would be, before it is stored: its key, who has that key, which jobs differ in one thing only (K1)."""

import json
from dataclasses import dataclass
from typing import Any

from jobs.core.keys import canonical_json
from jobs.core.states import State
from jobs.errors import EnqueueRefused
from jobs.models import Job
from jobs.services import enqueue
from jobs.services.enqueue import Enqueued
from jobs.services.requests import Prepared, Request

LOOKED_AT = 50
MOST_NEAR = 3


@dataclass(frozen=True, slots=True)
class Near:
    """A job of the same repository and action that differs in exactly one part: there it has `theirs`."""

    job: Job
    part: str
    theirs: str
    ours: str


@dataclass(frozen=True, slots=True)
class Preview:
    """`trouble` says why there is no key; else `key`, the text that it is made of, and the job that has it."""

    trouble: str = ""
    key: str = ""
    canonical: str = ""
    known: Enqueued | None = None
    near: tuple[Near, ...] = ()

    @property
    def size(self) -> int:
        """Bytes of the canonical text."""
        return len(self.canonical.encode())


def preview(request: Request) -> Preview:
    """Reads only."""
    try:
        prepared = enqueue.prepare(request)
    except EnqueueRefused as refusal:
        return Preview(trouble=str(refusal))
    parts = _parts(prepared)
    found = Job.objects.filter(idempotency_key=prepared.key).values_list("pk", "state").first()
    known = Enqueued(found[0], False, prepared.key, State(found[1])) if found else None
    near = () if known else _near(prepared, parts)
    return Preview(key=prepared.key, canonical=canonical_json(parts), known=known, near=near)


def _parts(prepared: Prepared) -> dict[str, Any]:
    return {
        "repo": prepared.repository.name.strip().lower(),
        "branch": prepared.request.branch.strip(),
        "action": prepared.definition.name,
        "payload": prepared.payload,
        "workflow_version": prepared.definition.version,
    }


def _near(prepared: Prepared, ours: dict[str, Any]) -> tuple[Near, ...]:
    jobs = (
        Job.objects.filter(repository=prepared.repository, action=prepared.definition.name)
        .select_related("workflow")
        .defer("workflow__document")
        .order_by("-pk")[:LOOKED_AT]
    )
    found = []
    for job in jobs:
        theirs = {"branch": job.branch, "workflow_version": job.workflow.version, **_flat(json.loads(job.payload))}
        mine = {"branch": ours["branch"], "workflow_version": ours["workflow_version"], **_flat(ours["payload"])}
        parts = [name for name in sorted({*theirs, *mine}) if theirs.get(name) != mine.get(name)]
        if len(parts) == 1:
            found.append(Near(job, parts[0], theirs.get(parts[0], ""), mine.get(parts[0], "")))
    return tuple(found[:MOST_NEAR])


def _flat(payload: dict[str, Any]) -> dict[str, str]:
    return {
        f"payload.{name}": value if isinstance(value, str) else canonical_json(value) for name, value in payload.items()
    }
