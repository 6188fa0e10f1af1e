"""Read, plan and modify: the stages in which the executor works on a private clone."""

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from django.conf import settings

from jobs import executors
from jobs.core.adapters.runs import EndedRun, gather
from jobs.core.failures import classify
from jobs.core.keys import canonical_json, sha256_hex
from jobs.core.stages import Stage
from jobs.errors import BranchUnknown, CredentialMissing, CredentialsInvalid, GitFailed, LeaseLost, WorkflowRefused
from jobs.executors import credentials
from jobs.executors.base import Executor, StageContext, StageResult
from jobs.executors.outputs import tail
from jobs.models import Checkpoint, ReviewDecision
from jobs.worker import effects, workspace
from jobs.worker.outcomes import Done, Failure, StageFailed, StageStopped
from jobs.workflows.inputs import stage_inputs
from jobs.workspaces.mirror import Base
from jobs.workspaces.snapshot import ref_for

if TYPE_CHECKING:
    from jobs.worker.attempt import Attempt

TAIL_BYTES = 16 * 1024
_AGENT_FACTS = ("model", "cli_version", "isolation")


def read(attempt: "Attempt") -> Done:
    """The base is fixed: the commit that identity named, else the branch as it is now."""
    attempt.base, attempt.base_stored, attempt.snapshot = find_base(attempt), False, ""
    _run(attempt, Stage.READ)
    return Done(attempt.base.tree, job={"snapshot": ""})


def plan(attempt: "Attempt") -> Done:
    """What will be run is on record by digest, and is still allowed."""
    result = _run(attempt, Stage.PLAN)
    output = str(result.facts.get("inputs_digest") or sha256_hex(canonical_json(_inputs(attempt))))
    return Done(output, facts=_told(result), session=_session_of(result))


def modify(attempt: "Attempt") -> Done:
    """The executor ran to its proper end and its work is a snapshot in the mirror."""
    if effects.ran_already(attempt):
        return _kept(attempt)
    with effects.whole_run(attempt):
        result = _run(attempt, Stage.MODIFY)
    snapshot = workspace.keep(attempt, Stage.MODIFY)
    assert snapshot is not None
    workspace.put_away(attempt, snapshot)
    facts = {"notes": sorted({note.kind for note in snapshot.notes}), "tools": list(result.tool_types)}
    return Done(snapshot.tree, snapshot=snapshot.commit, facts=facts | _told(result), session=_session_of(result))


def _kept(attempt: "Attempt") -> Done:
    """What the run that is not repeated has left: its snapshot, whole or rescued, else the base."""
    assert attempt.base is not None
    for fence in range(attempt.held.fence, 0, -1):
        for name in (Stage.MODIFY, "partial", "late"):
            commit = attempt.mirror.commit_at(ref_for(attempt.held.id, fence, name))
            if commit is not None:
                attempt.snapshot = commit
                return Done(attempt.mirror.base_of(commit).tree, snapshot=commit, facts={"run": "not repeated"})
    return Done(attempt.base.tree, facts={"run": "not repeated"})


def find_base(attempt: "Attempt") -> Base:
    """The commit that the job's identity names, else its branch as it is now. Raises StageFailed when it is gone."""
    try:
        if wanted := attempt.payload.get("base_sha"):
            return attempt.mirror.base_of(wanted)
        return attempt.mirror.resolve(attempt.job.branch)
    except (BranchUnknown, GitFailed):
        raise StageFailed(Failure(code="input_missing", tail="The branch or base commit is gone.")) from None


def _run(attempt: "Attempt", stage: Stage) -> StageResult:
    executor = executors.get(attempt.job.definition.executor)
    checkout = workspace.tree(attempt)
    context = StageContext(
        stage=stage,
        token=attempt.token,
        checkout=checkout.tree,
        home=checkout.home,
        tmp=checkout.tmp,
        output=attempt.output,
        inputs=_inputs(attempt),
        limits=attempt.limits(),
        environment=_environment(executor),
        session=_session(attempt),
        readable=(attempt.mirror.path / "objects",),
    )
    result = executor.run_stage(context, attempt.heart)
    attempt.used(result.tool_types, _tokens(result))
    attempt.agent |= {name: result.facts[name] for name in _AGENT_FACTS if result.facts.get(name)}
    if result.ok and not _shows_failure(attempt, stage, result):
        return result
    if result.shim_lost and not result.survivors:
        raise StageStopped("shim_lost")
    if result.stopped == "lease_lost" or result.silence or attempt.heart.lost:
        raise LeaseLost()
    if result.survivors:
        raise StageFailed(Failure(code="processes_alive"))
    if result.stopped is not None and not result.timed_out and result.stopped != "output_cap":
        raise StageStopped(result.stopped)
    raise StageFailed(_failure(attempt, stage, result))


def _tokens(result: StageResult) -> int | None:
    """Context tokens of a stage. A stage that says nothing of tokens asked no model; None: it did, and cannot say."""
    told = result.facts.get("tokens", 0)
    total = told.get("total") if isinstance(told, Mapping) else told
    return total if isinstance(total, int) else None


def _shows_failure(attempt: "Attempt", stage: Stage, result: StageResult) -> bool:
    """An agent that ends well may still have been refused a tool or have met a limit (F2)."""
    if not result.events:
        return False
    return classify(gather(_failure(attempt, stage, result).run), attempt.policy).action != "accept"


def _failure(attempt: "Attempt", stage: Stage, result: StageResult) -> Failure:
    errors: dict[str, Any] = dict(result.facts.get("error") or {})
    stdout = tail(result.stdout_path, TAIL_BYTES) if result.stdout_path else ""
    stderr = tail(result.stderr_path, TAIL_BYTES) if result.stderr_path else ""
    run = EndedRun(
        program=attempt.job.definition.executor,
        stage=stage,
        exit_code=result.exit_code,
        signal=result.signal,
        exception_type=errors.get("exception") or result.start_error,
        http_status=errors.get("http_status"),
        stdout=stdout,
        stderr=stderr,
        events=result.events,
        wall_clock_kill=result.timed_out,
        request_sent=errors.get("request_sent"),
        retry_after=errors.get("retry_after"),
    )
    code = str(errors.get("code") or "")
    if not code and result.facts.get("terminal_event") is False and result.exit_code == 0:
        code = "no_terminal_event"
    return Failure(code=code, run=run, tail=stderr or stdout, tool_types=result.tool_types)


def _inputs(attempt: "Attempt") -> dict[str, Any]:
    notes = ReviewDecision.objects.filter(job_id=attempt.held.id, stage=attempt.stage).exclude(note="").order_by("id")
    texts = list(notes.values_list("note", flat=True))
    try:
        return stage_inputs(attempt.job.definition, attempt.payload, json.loads(attempt.job.commands), texts)
    except WorkflowRefused as refusal:
        raise StageFailed(Failure(code="input_missing", tail=str(refusal))) from None


def _environment(executor: Executor) -> dict[str, str]:
    """The credentials that this executor takes, read now and kept nowhere (Z5)."""
    try:
        return credentials.resolve(credentials.parse(settings.AGENTQ_CREDENTIALS), executor.takes)
    except (CredentialMissing, CredentialsInvalid) as refusal:
        raise StageFailed(Failure(code="input_missing", tail=str(refusal))) from None


def _session(attempt: "Attempt") -> str:
    """The agent's session that ended with the very files this stage begins with; only a cache (C1)."""
    if attempt.stage is not Stage.MODIFY:
        return ""
    ended = Checkpoint.objects.filter(job_id=attempt.held.id, snapshot=attempt.snapshot).exclude(session="")
    return ended.order_by("-id").values_list("session", flat=True).first() or ""


def _session_of(result: StageResult) -> str:
    session = str(result.facts.get("session") or "")
    return session if len(session) <= 64 else ""


def _told(result: StageResult) -> dict[str, Any]:
    """What an agent's run adds to the audit event of its stage (A3); nothing for other executors."""
    return {name: result.facts[name] for name in (*_AGENT_FACTS, "session_lost") if name in result.facts}
