"""What is left for a person on any stop: the patch, how to reproduce, what to do; private files (V3)."""

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

from jobs.errors import AgentQError
from jobs.workspaces.changes import diff
from jobs.workspaces.mirror import Mirror

if TYPE_CHECKING:
    from jobs.worker.attempt import Attempt

PATCH_BYTES = 2 * 1024 * 1024


def write(attempt: "Attempt", reason: str) -> None:
    """`changes.patch` (when there is work), `todo.md` with the steps to reproduce; existing ones are replaced."""
    patched = bool(attempt.snapshot and attempt.base) and _patch(attempt)
    _private(attempt.output / "todo.md", _todo(attempt, reason, patched).encode())


def write_late(attempt: "Attempt") -> None:
    """`late-<fence>.json` names what a worker had when its lease was gone."""
    facts = {"job": attempt.held.id, "fence": attempt.held.fence, "stage": attempt.stage, "snapshot": attempt.snapshot}
    facts["at"] = attempt.now().isoformat()
    _private(attempt.output / f"late-{attempt.held.fence}.json", json.dumps(facts).encode())


def write_patch(folder: Path, mirror: Mirror, base: str, commit: str) -> bool:
    """`changes.patch` holds what the commit adds to its base, at most 2 MiB; False when git could not say."""
    try:
        patch = diff(mirror, base, commit, cap=PATCH_BYTES).stdout
    except AgentQError:
        return False
    _private(folder / "changes.patch", patch)
    return True


def _patch(attempt: "Attempt") -> bool:
    assert attempt.base is not None
    return write_patch(attempt.output, attempt.mirror, attempt.base.commit, attempt.snapshot)


def _todo(attempt: "Attempt", reason: str, has_patch: bool) -> str:
    job = attempt.job
    base = attempt.base.commit if attempt.base else job.base_commit or job.branch
    steps = [
        f"# J-{job.id}: {job.action} in {job.repository}",
        "",
        f"Attempt {attempt.held.fence} stopped in {attempt.stage}: {reason}.",
        "",
        "## Reproduce",
        "",
        f"1. `git switch --detach {base}` in a clone of {job.repository}",
    ]
    if has_patch:
        steps.append("2. `git apply changes.patch` (this folder)")
    steps += ["", "## To do", "", f"- Look at the output files of the {attempt.stage} stage in this folder."]
    if has_patch:
        steps.append("- Decide whether the changes so far are worth keeping.")
    steps.append("- Decide on the job's review page how it goes on.")
    return "\n".join(steps) + "\n"


def _private(path: Path, data: bytes) -> None:
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
    with os.fdopen(handle, "wb") as file:
        file.write(data)
