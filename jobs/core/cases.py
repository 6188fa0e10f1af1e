"""Review cases: which decisions a case allows, and what each of them makes of the job (H1, design section 2)."""

from jobs.core.stages import Stage
from jobs.core.states import Event

ENDING = (Event.REJECT, Event.CANCEL)


def allowed(*, reason: str, open_intent: bool, has_digest: bool) -> list[str]:
    """The decisions of a case, in the order in which a page offers them.

    With an act whose outcome nobody knows, only resolving it or handing the job to its end by rejection is
    left: everything else could repeat the act (X2). Approval needs a result digest to be bound to (V1).
    """
    if open_intent:
        return [Event.RESOLVE]
    if reason == "confirm":
        return [Event.CONFIRM, *ENDING]
    decisions = [Event.APPROVE] if has_digest else []
    return [*decisions, Event.RESUME, Event.RERUN, Event.REQUEST_CHANGES, *ENDING]


def next_stage(decision: Event, *, current: Stage, named: Stage | None = None) -> Stage:
    """Where the job goes on after a decision that queues it."""
    if decision is Event.APPROVE:
        return Stage.DELIVER
    if decision is Event.RERUN:
        return Stage.READ
    if decision is Event.REQUEST_CHANGES:
        return named or Stage.MODIFY
    return current
