"""Whether the target branch moved from under a result before it is delivered (V4)."""

from typing import TYPE_CHECKING

from jobs.core.states import Event
from jobs.errors import BranchUnknown
from jobs.models import ReviewDecision
from jobs.worker.outcomes import Failure, StageFailed
from jobs.workspaces.changes import changed_paths
from jobs.workspaces.mirror import Mirror

if TYPE_CHECKING:
    from jobs.worker.attempt import Attempt

MOVED = "target_moved"


def require_unmoved(attempt: "Attempt") -> None:
    """Returns when the branch stands where the base was, or moved on beside the result's files and within the policy's
    limit of commits, or when a person approved this very result after it moved. Else raises StageFailed: a conflict.
    """
    assert attempt.base is not None
    mirror, base = attempt.mirror, attempt.base.commit
    mirror.fetch()
    try:
        target = mirror.resolve(attempt.job.branch).commit
    except BranchUnknown:
        raise StageFailed(Failure(code=MOVED, failed_check=True, tail="The target branch is gone.")) from None
    if target == base or _approved(attempt):
        return
    if why := _conflict(mirror, base, target, attempt.snapshot, attempt.policy.gates.max_target_commits):
        raise StageFailed(Failure(code=MOVED, failed_check=True, tail=why))


def _conflict(mirror: Mirror, base: str, target: str, result: str, limit: int) -> str:
    """Why the result no longer fits its target; empty when it does."""
    if mirror.git.run("merge-base", "--is-ancestor", base, target, ok=(0, 1)).exit_code:
        return "The target branch was rewritten: it no longer holds the base."
    commits = int(mirror.git.text("rev-list", "--count", "--end-of-options", f"{base}..{target}"))
    if commits > limit:
        return f"The target branch moved on by {commits} commits; the policy allows {limit}."
    ours = {change.path for change in changed_paths(mirror, base, result)}
    both = sum(change.path in ours for change in changed_paths(mirror, base, target))
    return f"The target branch changed {both} of the same files." if both else ""


def _approved(attempt: "Attempt") -> bool:
    """A person looked at the conflict and approved this result all the same."""
    decisions = ReviewDecision.objects.filter(
        job_id=attempt.held.id, case__reason=MOVED, decision=Event.APPROVE, result_digest=attempt.held.result_digest
    )
    return decisions.exists()
