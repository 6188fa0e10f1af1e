"""What runs by schedule: the sweep for stuck jobs, stray work trees, samples, notices. Safe to run twice at once."""

from jobs.core.states import ACTIVE
from jobs.models import Job
from jobs.services import anchors, artifacts, cases, notices, reconcile, samples
from jobs.worker import proof
from jobs.worker.rescue import rescue_idle
from jobs.workspaces.checkout import quarantine


def run() -> str:
    """One round; a word for django-q2's result row."""
    swept = reconcile.sweep()
    rescued = rescue_idle()
    proven = proof.prove_own()
    moved = quarantine(artifacts.workspaces(), _live_names)
    drawn = samples.draw_due()
    escalated = cases.escalate_due()
    counts = {
        "expired": swept.expired,
        "held": swept.held,
        "lost nodes": swept.nodes_lost,
        "rescued": rescued,
        "acts proven over": proven,
        "ledger behind its anchor": int(anchors.behind()),
        "stray trees": len(moved),
        "failures to judge": drawn,
        "reviews escalated": escalated,
        "people told": notices.run(),  # last: whatever it meets, the rest is done
    }
    return ", ".join(f"{what} {count}" for what, count in counts.items())


def _live_names() -> set[str]:
    """Work trees and check rooms of attempts that may still write; one job's earlier trees are rescued by its next."""
    names = set()
    for job_id, fence in Job.objects.filter(state__in=ACTIVE).values_list("pk", "fence"):
        for number in range(1, fence + 1):
            names |= {f"{job_id}-{number}", f"{job_id}-{number}-check"}
    return names
