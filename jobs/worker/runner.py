"""What a django-q2 message calls: claim the job it names, run one attempt, come back with a word (L1).

Nothing raises out of here: a message whose task fails is kept by django-q2 with its traceback, for ever.
"""

import logging
import time

from django.db import connections

from jobs.errors import AgentQError, ClaimRefused, DiskFull, LeaseLost, StaleJob
from jobs.executors.processes import alive, alive_job, sweep_job
from jobs.models import Job
from jobs.services import leases
from jobs.services.leases import Claimed
from jobs.worker import attempt as attempts
from jobs.worker import board, endings, identity
from jobs.worker.attempt import Attempt
from jobs.worker.heartbeat import Heartbeat
from jobs.worker.outcomes import BudgetSpent, Failure, StageFailed, StageStopped

logger = logging.getLogger("jobs.runner")

# Short jobs are claimed one after the other on one message, for this long: the message's time limit covers the
# slice and the longest short job.
SLICE_SECONDS = 5.0


def run_message(job_id: int) -> str:
    """One attempt of this job, and of further short jobs within the slice; a word for the log."""
    slice_end = time.monotonic() + SLICE_SECONDS
    done, queue = _run_guarded(job_id)
    while queue and time.monotonic() < slice_end and not board.draining():
        following = leases.short_ready(queue)
        if following is None:
            break
        _, queue = _run_guarded(following)
    return done


def run(job_id: int) -> Claimed | None:
    """One attempt, from the claim to its end; None when the job could not be claimed."""
    try:
        claimed = leases.claim(job_id, worker=identity.worker())
    except (ClaimRefused, StaleJob, Job.DoesNotExist) as refusal:
        logger.info("not claimed", extra={"job": job_id, "why": str(refusal)})
        return None
    with Heartbeat(
        job_id, worker=claimed.held.worker, fence=claimed.held.fence, deadline=claimed.job.deadline
    ) as heart:
        attempt = attempts.begin(claimed, heart)
        try:
            _sweep_earlier(attempt)
            _run_to_its_end(attempt)
        except Exception:
            _give_up(attempt)
            raise
    _log(attempt)
    return claimed


def _run_guarded(job_id: int) -> tuple[str, str]:
    """A word, and the queue when the job was a short one."""
    try:
        claimed = run(job_id)
    except Exception:
        logger.exception("an attempt ended without a result; it counts as a crash", extra={"job": job_id})
        connections.close_all()
        return "broken", ""
    if claimed is None:
        return "not claimed", ""
    return "ran", claimed.job.queue if claimed.job.short else ""


def _run_to_its_end(attempt: Attempt) -> None:
    try:
        try:
            attempts.run(attempt)
        except StageStopped as stop:
            endings.stopped(attempt, stop.reason)
        except BudgetSpent as budget:
            endings.out_of_budget(attempt, budget.reason)
        except StageFailed as failed:
            endings.failed(attempt, failed.failure)
        except DiskFull:
            endings.failed(attempt, Failure(code="disk_full"))
        except StaleJob:
            raise
        except AgentQError as error:
            # Said in our own words, so it may be shown: a repository that is gone, a snapshot that is not whole.
            endings.failed(attempt, Failure(code="workspace_error", tail=str(error)))
    except LeaseLost:
        endings.late(attempt)


def _give_up(attempt: Attempt) -> None:
    """Nobody needs to wait for the lease of an attempt whose worker knows that it is over: it counts as a crash."""
    held = attempt.held
    if not alive(attempt.token):
        leases.surrender(held.id, worker=held.worker, fence=held.fence)


def _sweep_earlier(attempt: Attempt) -> None:
    """Nothing of an earlier attempt lives on this host, or this one does not begin (L2)."""
    site, job_id, fence = identity.site(), attempt.held.id, attempt.held.fence
    sweep_job(site, job_id, fence)
    if alive_job(site, job_id, fence):
        raise RuntimeError("processes of an earlier attempt cannot be killed")


def _log(attempt: Attempt) -> None:
    """One line an attempt, with what locates it (A3)."""
    job, row = attempt.job, attempt.ending
    logger.info(
        "attempt ended",
        extra={
            "event": "attempt_ended",
            "job": f"J-{job.id}",
            "key": job.idempotency_key,
            "attempt": attempt.held.fence,
            "state": attempt.held.state,
            "stage": attempt.stage,
            "commit": attempt.base.commit if attempt.base else "",
            "seconds": round(attempt.elapsed(), 3),
            "failure_class": row.get("failure_class", ""),
            "failure_code": row.get("failure_code", ""),
            "stop_reason": row.get("stop_reason", ""),
            "tool_types": row.get("tool_types", []),
            "executor": job.definition.executor,
            "service": row.get("service", ""),
            "account": row.get("account", ""),
            "plan": row.get("plan", ""),
            "model": row.get("model", ""),
            "cli_version": row.get("cli_version", ""),
            "policy": attempt.held.policy,
        },
    )
