"""A review case as it is opened: how risky it is, how soon somebody should decide, whom it waits for (H1, H2)."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from jobs.core import cases
from jobs.models import Evidence, Job
from jobs.models.workflow_version import Risk
from jobs.services import policies
from jobs.services.people import USER
from jobs.services.statement import Insert, Update

if TYPE_CHECKING:
    from jobs.services.transitions import Held

# Rules that need no policy to be dangerous: these paths make other programs act or let people in.
_ALWAYS_TWO = frozenset({"auth", "billing", "permissions", "deployment"})


def opening(
    held: "Held", at: datetime, reason: str, values: Mapping[str, Any], also: Sequence[Insert | Update]
) -> dict[str, Any]:
    """The case's columns, from the job, from what is written with the transition, and from the newest evidence."""
    job = Job.objects.values("requested_by", "risk", "snapshot", "takeover_person").get(pk=held.id)
    digest = values.get("result_digest", held.result_digest)
    hits, secrets = _inspected(held, also)
    risk = cases.risk(
        reason=reason,
        open_intent=held.open_intent,
        acts_outside=job["risk"] == Risk.EXTERNAL,
        two_people=bool(hits & _two_reviewers(held.policy)),
        secrets=secrets,
    )
    return {
        "job_id": held.id,
        "reason": reason[:64],
        "allowed": cases.allowed(reason=reason, open_intent=held.open_intent, has_digest=bool(digest)),
        "policy_number": held.policy,
        "job_version": held.version + 1,
        "result_digest": digest,
        "snapshot": values.get("snapshot", job["snapshot"]),
        "requested_by": job["requested_by"],
        "risk": risk,
        "required_approvals": 2 if risk == "high" else 1,
        "cancel_requested": held.cancel_requested,
        "pause_requested": held.pause_requested,
        "opened_at": at,
        "due_at": at + cases.target(risk, open_intent=held.open_intent),
        "escalated_at": None,
        "claimed_by": "",
        "claimed_until": None,
        "assigned_to": f"{USER}{job['takeover_person']}" if job["takeover_person"] else "",
        "snoozed_until": None,
        "closed_at": None,
    }


def _inspected(held: "Held", also: Sequence[Insert | Update]) -> tuple[set[str], bool]:
    """Names of the path rules that the result hit, and whether secrets were found in it."""
    written = [part.values for part in also if isinstance(part, Insert) and part.model is Evidence]
    stored = Evidence.objects.filter(job_id=held.id, check_name__in=("paths", "secrets")).order_by("fence")
    rows = [*stored.values("check_name", "verdict", "notes"), *written]
    newest = {row["check_name"]: row for row in rows}
    paths, secrets = newest.get("paths"), newest.get("secrets")
    return set(paths["notes"]) if paths else set(), bool(secrets and secrets["verdict"] == "fail")


def _two_reviewers(policy: int) -> frozenset[str]:
    rules = policies.rules(policy or policies.active().number)
    return _ALWAYS_TWO | {rule.name for rule in rules.paths if rule.reviewers > 1}
