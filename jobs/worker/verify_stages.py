"""Test, inspect and deliver: what AgentQ itself finds out about a result (V1), and the branch it leaves."""

import hashlib
import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from django.conf import settings

from jobs.core.keys import canonical_json, sha256_hex
from jobs.core.side_effects import result_branch
from jobs.core.stages import Stage
from jobs.errors import DeliveryRefused, LeaseLost
from jobs.executors.base import StageLimits, supervise
from jobs.executors.process import ProcessResult, ProcessSpec, minimal_environment
from jobs.models import Checkpoint, Evidence
from jobs.services import artifacts
from jobs.services.statement import Insert
from jobs.verification import gate, secrets
from jobs.verification.checks import Check, Verdict
from jobs.verification.digest import result_digest
from jobs.verification.gate import GateRequest, GateResult
from jobs.verification.programs import Program
from jobs.worker import effects, target
from jobs.worker.outcomes import Done, Failure, StageFailed, StageStopped
from jobs.worker.own_values import own_values
from jobs.worker.workspace import AUTHOR
from jobs.workflows.definition import Check as Declared
from jobs.workspaces import delivery
from jobs.workspaces.mirror import Base
from jobs.workspaces.snapshot import Snapshot, commit_result, ref_for

if TYPE_CHECKING:
    from jobs.worker.attempt import Attempt

NO_NOTES: Mapping[str, Sequence[str]] = {}


def test(attempt: "Attempt") -> Done:
    """The registered programs ran in clean work trees of the snapshot and passed."""
    answer = gate.run_programs(_request(attempt))
    if answer.stopped is not None:
        raise LeaseLost() if answer.stopped in ("lease_lost", "silence") else StageStopped(answer.stopped)
    rows = _rows(attempt, answer.checks)
    if answer.failed:
        raise StageFailed(Failure(code=_test_code(answer.failed), failed_check=True, rows=rows, job=_kept(attempt)))
    return Done(_evidence_digest(answer.checks), rows=rows, facts={"checks": len(answer.checks)})


def inspect(attempt: "Attempt") -> Done:
    """Paths, whitespace and expectation hold; the result digest binds them and the tests' evidence."""
    answer = gate.inspect(_request(attempt))
    tested = _tested(attempt)
    digest = result_digest(
        base_tree=_base(attempt).tree,
        snapshot_tree=_snapshot(attempt).tree,
        workflow_digest=attempt.job.workflow_digest,
        policy_version=str(attempt.held.policy),
        checks=[*tested, *answer.checks],
    )
    secrets.write(answer.findings, attempt.output / "secrets.json")
    rows = _rows(attempt, answer.checks, {"secrets": secrets.kinds(answer.findings)})
    settled = {"result_digest": digest}
    if answer.failed:
        raise StageFailed(
            Failure(code=_inspect_code(answer), failed_check=True, rows=rows, job={**settled, **_kept(attempt)})
        )
    return Done(digest, job=settled, rows=rows, facts={"changed": len(answer.changes)})


def deliver(attempt: "Attempt") -> Done:
    """The result's branch is in the registered repository and every effect is confirmed; where nothing changed, no
    branch is made."""
    base, snapshot = _base(attempt), _snapshot(attempt)
    changed = snapshot.tree != base.tree
    if changed:
        target.require_unmoved(attempt)
    effects.require_person(attempt, changed=changed)
    commit = _deliver_branch(attempt, base, snapshot) if changed else ""
    done = effects.perform(attempt, commit)
    facts = {"branch": attempt.delivered, "commit": commit} | ({"effects": done} if done else {})
    return Done(sha256_hex(commit or "nothing to deliver"), facts=facts)


def _deliver_branch(attempt: "Attempt", base: Base, snapshot: Snapshot) -> str:
    job = attempt.job
    branch = result_branch(job.id, job.idempotency_key)
    message = f"{job.action} (AgentQ J-{job.id})\n\nJob-Key: {job.idempotency_key}\n"
    timestamp = int(job.created_at.timestamp())
    commit = commit_result(attempt.mirror, snapshot.tree, base.commit, message, AUTHOR, timestamp)
    attempt.mirror.write_ref(ref_for(job.id, attempt.held.fence, "result"), commit)
    try:
        delivery.deliver_branch(job.location, attempt.mirror, commit, branch, job.default_branch)
    except DeliveryRefused as refusal:
        raise StageFailed(Failure(code="delivery_refused", tail=str(refusal))) from None
    attempt.delivered = branch
    return commit


def _request(attempt: "Attempt") -> GateRequest:
    definition = attempt.job.definition
    limits = attempt.limits()
    declared = [*definition.checks, *(Declared.model_validate(check) for check in json.loads(attempt.job.checks))]
    return GateRequest(
        mirror=attempt.mirror,
        base=_base(attempt),
        snapshot=_snapshot(attempt),
        run=_Runner(attempt, limits),
        work=artifacts.workspaces(),
        output=attempt.output,
        workflow_digest=attempt.job.workflow_digest,
        policy_version=str(attempt.held.policy),
        expects=definition.expects,
        allowed=definition.allowed_paths,
        path_rules=attempt.policy.paths,
        programs=[
            Program(check.name, tuple(check.argv), check.kind, min(check.seconds, limits.seconds)) for check in declared
        ],
        label=f"{attempt.held.id}-{attempt.held.fence}-check",
        base_cache=artifacts.base_results(),
        scan=secrets.Scanner(_fingerprint_key(), injected=own_values()),
    )


class _Runner:
    """Runs a check's program in a shim of its own, under the attempt's lease and limits."""

    def __init__(self, attempt: "Attempt", limits: StageLimits) -> None:
        self._attempt, self._limits = attempt, limits

    def __call__(
        self, argv: Sequence[str], cwd: Path, env: Mapping[str, str], seconds: float, output_path: Path
    ) -> ProcessResult:
        own = {name: value for name, value in env.items() if name not in ("HOME", "TMPDIR")}
        # A program may be registered by name only: then it is found where this worker's own Python lives.
        path = os.pathsep.join((str(Path(sys.executable).parent), "/usr/local/bin", "/usr/bin", "/bin"))
        spec = ProcessSpec(
            argv=tuple(argv),
            cwd=cwd,
            env={**minimal_environment(home=Path(env["HOME"]), tmp=Path(env["TMPDIR"]), extra=own), "PATH": path},
            stdout_path=output_path,
            stderr_path=output_path.with_suffix(".stderr"),
            token=self._attempt.token,
            seconds=seconds,
            grace_seconds=self._limits.grace_seconds,
            fence_seconds=self._limits.fence_seconds,
            output_cap_bytes=self._limits.output_cap_bytes,
        )
        result = supervise(spec, self._attempt.heart)
        if result.shim_lost and not result.survivors:
            raise StageStopped("shim_lost")
        return result


def _rows(attempt: "Attempt", checks: Sequence[Check], notes: Mapping[str, Sequence[str]] = NO_NOTES) -> list[Insert]:
    argvs = {program.name: program.argv for program in _request(attempt).programs}
    return [
        Insert(Evidence, _row(attempt, check, argvs.get(check.name, ()), notes.get(check.name, ()))) for check in checks
    ]


def _row(attempt: "Attempt", check: Check, argv: Sequence[str], notes: Sequence[str]) -> dict[str, Any]:
    on_base = next((detail.removeprefix("base_") for detail in check.details if detail.startswith("base_")), "")
    return {
        "job_id": attempt.held.id,
        "fence": attempt.held.fence,
        "check_name": check.name,
        "argv": " ".join(argv)[:500],
        "argv_digest": check.argv_digest or "",
        "exit_code": check.exit_code,
        "verdict": str(check.verdict),
        "base_verdict": on_base,
        "seconds": check.seconds,
        "output_digest": check.output_digest or "",
        "notes": [*check.details, *notes],
        "created_at": attempt.now(),
    }


def _tested(attempt: "Attempt") -> list[Check]:
    """The evidence of the newest tests, perhaps of an earlier attempt, as the digest needs it."""
    fence = (
        Checkpoint.objects.filter(job_id=attempt.held.id, stage=Stage.TEST)
        .order_by("-id")
        .values_list("fence", flat=True)
        .first()
    )
    if fence is None:
        return []
    rows = Evidence.objects.filter(job_id=attempt.held.id, fence=fence).exclude(check_name__in=gate.OWN_CHECKS)
    return [Check(row.check_name, row.argv_digest or None, row.exit_code, Verdict(row.verdict)) for row in rows]


def _fingerprint_key() -> bytes:
    """So that a fingerprint of a guessed secret cannot be compared with ours."""
    return hashlib.sha256(f"agentq secret fingerprint|{settings.SECRET_KEY}".encode()).digest()


def _inspect_code(answer: GateResult) -> str:
    if answer.findings:
        return "secret_found"  # whatever else failed: a person must change that secret where it is in use
    return "path_rule" if answer.hits and answer.failed == _paths_of(answer.checks) else "check_failed"


def _paths_of(checks: Sequence[Check]) -> tuple[Check, ...]:
    return tuple(check for check in checks if check.name == "paths")


def _test_code(failed: Sequence[Check]) -> str:
    return "tests_failed" if any(check.verdict is Verdict.FAIL for check in failed) else "tests_not_run"


def _evidence_digest(checks: Sequence[Check]) -> str:
    return sha256_hex(
        canonical_json(sorted([check.name, check.argv_digest or "", str(check.verdict)] for check in checks))
    )


def _kept(attempt: "Attempt") -> dict[str, Any]:
    return {"snapshot": attempt.snapshot} if attempt.snapshot else {}


def _base(attempt: "Attempt") -> Base:
    assert attempt.base is not None
    return attempt.base


def _snapshot(attempt: "Attempt") -> Snapshot:
    """What is judged: the work's snapshot; a workflow without modify is judged on its base."""
    base = _base(attempt)
    if not attempt.snapshot:
        return Snapshot("", base.commit, base.tree)
    stored = attempt.mirror.base_of(attempt.snapshot)
    return Snapshot("", stored.commit, stored.tree)
