"""Why a job is where it is, what it waits for and who can act: one read model for pages and commands (M2, S2).

Codes come from the rules (`core.claims`, stop and pause reasons); the words for them are in `jobs.wording`.
"""

from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from django.db.models import Exists, OuterRef, Subquery
from django.utils.translation import gettext as _

from jobs.core import claims
from jobs.core.states import ACTIVE, FINAL, State
from jobs.models import Attempt, Job, ReviewCase, WorkerNode
from jobs.services import leases, nodes
from jobs.services.candidates import Candidate, candidate
from jobs.wording import BLOCKERS, decision_text, reason_text, stage_text

NO_WORKER = "no_worker"


@dataclass(frozen=True, slots=True)
class Blocker:
    """One thing that keeps the job from starting. `self_clearing`: no person is needed; `until`: when it is known."""

    code: str
    text: str
    self_clearing: bool
    until: datetime | None = None


@dataclass(frozen=True, slots=True)
class Explanation:
    """A job at one moment, in words. `blockers` stand in the order in which they clear; empty: it can start now.

    `claimable` is the engine's own answer; a job can be claimable while no worker is alive to claim it.
    `reason` is the code that brought it here ("" when there is none), `policy` the version that decided.
    """

    job_id: int
    state: State
    claimable: bool
    reason: str
    what: str
    why: str
    policy: int
    blockers: list[Blocker]
    next_action: str
    next_at: datetime | None
    who_can_act: str

    def as_dict(self) -> dict[str, Any]:
        """The same as plain JSON values; times in ISO 8601."""
        return {name: _plain(value) for name, value in asdict(self).items()}


def explain(job_id: int) -> Explanation:
    """The job as it stands, from two reads. Raises Job.DoesNotExist."""
    job = candidate(job_id)
    seen = _surroundings(job_id, job.now)
    found = [_worded(blocker, job, seen) for blocker in claims.blockers(leases.facts(job), job.now)]
    claimable = not found
    if claimable and not seen["worker_alive"]:
        found.append(Blocker(NO_WORKER, _("No worker is alive. Start some: manage.py run_workers."), False))
    action, at, who = _next(job, seen, found)
    reason = _reason(job.state, seen)
    return Explanation(
        job_id=job_id,
        state=job.state,
        claimable=claimable,
        reason=reason,
        what=_what(job, seen),
        why=reason_text(reason),
        policy=seen["case_policy"] or seen["attempt_policy"] or job.policy_number,
        blockers=found,
        next_action=action,
        next_at=at,
        who_can_act=who,
    )


def _surroundings(job_id: int, now: datetime) -> dict[str, Any]:
    cases = ReviewCase.objects.filter(job=OuterRef("pk"), closed_at__isnull=True)
    attempts = Attempt.objects.filter(job=OuterRef("pk")).order_by("-fence")
    alive = WorkerNode.objects.filter(stopped_at__isnull=True, seen_at__gt=now - nodes.LOST_AFTER)
    row: Any = (
        Job.objects.annotate(
            worker_alive=Exists(alive),
            case_id=Subquery(cases.values("pk")[:1]),
            case_allowed=Subquery(cases.values("allowed")[:1]),
            case_policy=Subquery(cases.values("policy_number")[:1]),
            attempt_policy=Subquery(attempts.values("policy_number")[:1]),
            attempt_stop=Subquery(attempts.values("stop_reason")[:1]),
        )
        .values(
            "stop_reason",
            "pause_reason",
            "lease_owner",
            "lease_expires_at",
            "finished_at",
            "worker_alive",
            "case_id",
            "case_allowed",
            "case_policy",
            "attempt_policy",
            "attempt_stop",
        )
        .get(pk=job_id)
    )
    return dict(row)


def _reason(state: State, seen: dict[str, Any]) -> str:
    """The code that brought the job to its state."""
    if state is State.PAUSED:
        return str(seen["pause_reason"])
    if state in (State.REVIEW, State.FAILED_TERMINAL):
        return str(seen["stop_reason"])
    return str(seen["attempt_stop"] or "") if state is State.FAILED_RETRYABLE else ""


def _what(job: Candidate, seen: dict[str, Any]) -> str:
    values = {"attempt": job.fence, "stage": stage_text(job.next_stage), "worker": seen["lease_owner"]}
    return {
        State.QUEUED: lambda: _("The job waits in the queue."),
        State.RUNNING: lambda: _("Attempt %(attempt)d runs on %(worker)s."),
        State.VERIFYING: lambda: _("The result of attempt %(attempt)d is being checked on %(worker)s."),
        State.ACCEPTED: lambda: _("The job is done: its result was verified and delivered."),
        State.FAILED_RETRYABLE: lambda: _("Attempt %(attempt)d did not finish; the job runs again."),
        State.FAILED_TERMINAL: lambda: _("The job ended without a result that counts."),
        State.REVIEW: lambda: _("The job stopped before the stage %(stage)s and waits for a person."),
        State.PAUSED: lambda: _("The job is paused before the stage %(stage)s."),
        State.CANCELLED: lambda: _("The job was cancelled."),
    }[job.state]() % values


def _next(job: Candidate, seen: dict[str, Any], found: list[Blocker]) -> tuple[str, datetime | None, str]:
    """What happens next, when that is known, and who can act."""
    if job.state in FINAL:
        return _("Nothing more. It can be asked for again, with a reason."), None, _("an operator")
    if job.state is State.REVIEW:
        allowed = ", ".join(decision_text(decision) for decision in seen["case_allowed"] or [])
        return _("A person decides: %(allowed)s.") % {"allowed": allowed}, None, _("a reviewer")
    if job.state is State.PAUSED:
        return (
            _("It is queued again when its condition is met: %(condition)s.")
            % {"condition": reason_text(seen["pause_reason"])},
            None,
            _("an operator"),
        )
    if job.state in ACTIVE:
        return _next_of_active(job, seen)
    return _next_of_ready(job, found)


def _next_of_active(job: Candidate, seen: dict[str, Any]) -> tuple[str, datetime | None, str]:
    nobody = _("nobody needs to act")
    if seen["lease_expires_at"] <= job.now:
        return _("Its lease is over: another worker takes it over."), seen["lease_expires_at"], nobody
    if job.cancel_requested:
        return _("Its worker stops it, then it is cancelled."), None, nobody
    if job.pause_requested:
        return _("Its worker pauses it at the end of this stage."), None, nobody
    if job.state is State.RUNNING:
        return _("When the work is done, its result is checked."), None, nobody
    return _("When every check passes, it is delivered and accepted; else a person looks at it."), None, nobody


def _next_of_ready(job: Candidate, found: list[Blocker]) -> tuple[str, datetime | None, str]:
    start = {"attempt": job.fence + 1, "stage": stage_text(job.next_stage)}
    runs = _("A worker claims attempt %(attempt)d and begins with the stage %(stage)s.") % start
    if not found:
        return runs, None, _("nobody needs to act")
    needed = [blocker for blocker in found if not blocker.self_clearing]
    if not needed:
        times = [blocker.until for blocker in found if blocker.until]
        return runs, max(times, default=None), _("nobody needs to act")
    if needed[0].code == NO_WORKER:
        return runs, None, _("whoever runs this machine")
    if needed[0].code == "batch_paused":
        return _("It starts when its batch is resumed."), None, _("an operator")
    return _("The next sweep hands it to a person."), None, _("a reviewer")


def _worded(blocker: claims.Blocker, job: Candidate, seen: dict[str, Any]) -> Blocker:
    values = {
        "charged": job.charged,
        "max": job.max_attempts,
        "seconds": round(job.seconds_spent),
        "max_seconds": job.max_seconds,
        "worker": seen["lease_owner"],
        "reason": reason_text(_reason(job.state, seen)),
    }
    until = job.deadline if blocker.code == "deadline_passed" else blocker.until
    if blocker.code in ("state_running", "state_verifying"):
        until = seen["lease_expires_at"]
    return Blocker(blocker.code, BLOCKERS[blocker.code]() % values, blocker.self_clearing, until)


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, list):
        return [_plain(entry) for entry in value]
    if isinstance(value, dict):
        return {name: _plain(entry) for name, entry in value.items()}
    return value
