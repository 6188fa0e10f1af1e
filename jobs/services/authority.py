"""Whether this person may decide this case now: nothing moved, nobody else is on it, not alone on a risky one (H2)."""

from datetime import datetime
from typing import TYPE_CHECKING, Any

from django.db import connection
from django.utils.translation import gettext as _

from jobs.core import cases
from jobs.core.redaction import find
from jobs.errors import DecisionRefused, StaleJob
from jobs.models import ReviewCase, ReviewDecision
from jobs.services.people import Role, role_named
from jobs.services.statement import Sql
from jobs.services.transitions import Held
from jobs.wording import decision_text

if TYPE_CHECKING:
    from jobs.services.reviews import Decision

SHORTEST_ALONE = 20  # characters of the reason with which one owner decides alone


def require(case: ReviewCase, held: Held, decision: "Decision", actor: str, at: datetime) -> list[ReviewDecision]:
    """Returns who decided the same before, on this result. Raises StaleJob with what changed, DecisionRefused."""
    require_fresh(case, held, decision)
    require_unclaimed(case, actor, at)
    event = str(decision.event)
    if event not in case.allowed:
        raise DecisionRefused(_("This case allows: %(allowed)s.") % {"allowed": ", ".join(case.allowed)})
    if actor == case.requested_by and not cases.may_decide_own(event, case.risk):
        raise DecisionRefused(_("You asked for this job yourself: another person must decide that."))
    for text in (decision.reason, decision.note, decision.reference):
        if found := find(text, context="payload"):
            raise DecisionRefused(
                _("The text looks like it holds a secret (%(kind)s). Nothing was stored. Say it without the value.")
                % {"kind": found[0].kind.replace("_", " ")}
            )
    before = same(case, decision)
    if cases.needed(event, case.required_approvals) > 1:
        _require_another(case, before, decision, actor)
    elif decision.break_glass:
        raise DecisionRefused(_("One person decides this case anyway: decide it in the ordinary way."))
    return before


def require_fresh(case: ReviewCase, held: Held, decision: "Decision") -> None:
    """Raises StaleJob that names what is no longer as it was read."""
    if case.closed_at is not None:
        closing = case.decisions.filter(closing=True).first()
        if closing is None:
            raise StaleJob(_("This case is closed: the job has left review without a decision."))
        values = {"who": closing.actor.partition(":")[2], "what": decision_text(closing.decision)}
        raise StaleJob(_("%(who)s decided meanwhile: %(what)s.") % values)
    if decision.job_version != held.version:
        moved = {"read": decision.job_version, "now": held.version, "state": str(held.state)}
        raise StaleJob(
            _("The job moved on: you read %(read)s, it is at version %(now)s and %(state)s. Look again.") % moved
        )
    if case.result_digest != held.result_digest or decision.result_digest not in (None, held.result_digest):
        raise StaleJob(_("The result is another one now. Look at it again, then decide."))
    if decision.policy not in (None, held.policy):
        raise StaleJob(
            _("Policy version %(now)s came into force after you read this with version %(read)s. Look again.")
            % {"read": decision.policy, "now": held.policy}
        )


def require_unclaimed(case: ReviewCase, actor: str, at: datetime) -> None:
    """Refuses while somebody else's claim runs."""
    if case.claimed_by not in ("", actor) and case.claimed_until and case.claimed_until > at:
        raise DecisionRefused(
            _("%(who)s is on this case until %(until)s UTC. Take it over after that, or ask for it.")
            % {"who": case.claimed_by.partition(":")[2], "until": f"{case.claimed_until:%H:%M}"}
        )


def same(case: ReviewCase, decision: "Decision") -> list[ReviewDecision]:
    """Decisions of the same kind and outcome on this case, which stands for one result."""
    found = case.decisions.filter(decision=str(decision.event), outcome=decision.outcome)
    return list(found.order_by("pk"))


def unclaimed(case_id: int, actor: str, at: datetime) -> Sql:
    """A condition over jobs_job: the case is open and nobody else's claim on it runs."""
    text = (
        "EXISTS (SELECT 1 FROM jobs_reviewcase c WHERE c.id = %s AND c.closed_at IS NULL"
        " AND (c.claimed_by IN ('', %s) OR c.claimed_until <= %s))"
    )
    return Sql(text, (case_id, actor, connection.ops.adapt_datetimefield_value(at)))


def undecided(case: ReviewCase, actor: str, at: datetime, decision: "Decision", before: int) -> Sql:
    """The same, and so many people decided the same before: two who come at once count each other."""
    free = unclaimed(case.pk, actor, at)
    count = "(SELECT count(*) FROM jobs_reviewdecision WHERE case_id = %s AND decision = %s AND outcome = %s)"
    text = f"{free.text} AND {count} = %s"
    params: tuple[Any, ...] = (case.pk, str(decision.event), decision.outcome, before)
    return Sql(text, free.params + params)


def _require_another(case: ReviewCase, before: list[ReviewDecision], decision: "Decision", actor: str) -> None:
    if case.decisions.filter(actor=actor, decision__in=cases.TWO_PEOPLE).exists():
        raise DecisionRefused(_("You have decided on this case already: a second person must decide now."))
    if before and decision.by_command:
        raise DecisionRefused(_("The second person decides in the console, where the evidence is, not by a command."))
    if not decision.break_glass:
        return
    if decision.by_command or role_named(actor) is not Role.OWNER:
        raise DecisionRefused(_("Only an owner decides alone, in the console."))
    if len(decision.reason.strip()) < SHORTEST_ALONE:
        raise DecisionRefused(
            _("Say in at least %(count)d characters why this cannot wait for a second person.")
            % {"count": SHORTEST_ALONE}
        )


def completes(case: ReviewCase, decision: "Decision", before: list[ReviewDecision]) -> bool:
    """Whether the job moves with this decision; else it is the first of two."""
    return decision.break_glass or len(before) + 1 >= cases.needed(str(decision.event), case.required_approvals)
