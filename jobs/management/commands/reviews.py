"""`reviews`: list what waits for a person, show one case, decide it; the same services and roles as in the console."""

from argparse import ArgumentParser
from typing import Any

from django.utils.translation import gettext as _

from jobs.core.states import Event, State
from jobs.management.console import EngineCommand, Error, actor
from jobs.models import ReviewCase
from jobs.services import policies, reviews
from jobs.wording import reason_text


class Command(EngineCommand):
    help = (
        "List, show and decide what waits for a person. The second decision on a risky case is given in the console,"
        " where the evidence is."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        acts = parser.add_subparsers(dest="act", required=True)
        listing = acts.add_parser("list", help=_("open cases, highest risk first"))
        listing.add_argument("--json", action="store_true", help=_("one JSON object a line"))
        showing = acts.add_parser("show", help=_("one case"))
        showing.add_argument("case", type=int, metavar="ID")
        showing.add_argument("--json", action="store_true", help=_("one JSON object"))
        deciding = acts.add_parser("decide", help=_("decide a case"))
        deciding.add_argument("case", type=int, metavar="ID")
        deciding.add_argument("decision", choices=[str(event) for event in _DECISIONS])
        deciding.add_argument("--reason", required=True)
        deciding.add_argument("--as", dest="as_user", required=True, metavar="USER", help=_("who decides"))
        deciding.add_argument(
            "--job-version", type=int, required=True, help=_("what `show` printed: another one is refused as stale")
        )
        deciding.add_argument("--note", default="", help=_("for request_changes and supply"))
        deciding.add_argument("--attempts", type=int, default=0, help=_("attempts to grant"))
        deciding.add_argument("--json", action="store_true", help=_("print what came of it as one JSON line"))

    def handle(self, **options: Any) -> None:
        {"list": self._list, "show": self._show, "decide": self._decide}[options["act"]](options)

    def _list(self, options: dict[str, Any]) -> None:
        found = ReviewCase.objects.filter(closed_at__isnull=True).select_related("job__repository")
        rank = {"high": 0, "medium": 1, "low": 2}
        for case in sorted(found, key=lambda case: (rank[case.risk], case.due_at or case.opened_at)):
            if options["json"]:
                self.print_json(_facts(case))
                continue
            said = _facts(case)
            self.print_text(
                f"{said['case']:>6}  J-{said['job_id']:<6} {said['risk']:<7} {reason_text(case.reason)}"
                f"  ({', '.join(said['allowed'])})"
            )

    def _show(self, options: dict[str, Any]) -> None:
        case = _case(options["case"])
        said = _facts(case) | {
            "decisions": [
                {"decision": each.decision, "actor": each.actor, "reason": each.reason, "closing": each.closing}
                for each in case.decisions.order_by("pk")
            ]
        }
        if options["json"]:
            self.print_json(said)
            return
        for name, value in said.items():
            self.print_text(f"{name}: {value}")

    def _decide(self, options: dict[str, Any]) -> None:
        who = actor(options["as_user"], "decide")
        case = _case(options["case"])
        decision = reviews.Decision(
            event=Event(options["decision"]),
            reason=options["reason"],
            job_version=options["job_version"],
            grants={"attempts": options["attempts"]} if options["attempts"] else None,
            note=options["note"],
            result_digest=case.result_digest,
            policy=policies.active().number,
            by_command=True,
        )
        held = reviews.decide(case.pk, decision, actor=who)
        first = held.state is State.REVIEW and case.required_approvals > 1
        if options["json"]:
            self.print_json({"case": case.pk, "job_id": case.job_id, "state": str(held.state), "first_of_two": first})
        elif first:
            self.print_text(
                _("Yours is the first of two decisions. A second person decides on J-%(id)d in the console.")
                % {"id": case.job_id}
            )
        else:
            self.print_text(_("J-%(id)d is %(state)s now.") % {"id": case.job_id, "state": held.state})


# What came of an act is said with `resolve_side_effect`, which looks before it is written.
_DECISIONS = (
    Event.CONFIRM,
    Event.APPROVE,
    Event.RESUME,
    Event.RERUN,
    Event.SUPPLY,
    Event.REQUEST_CHANGES,
    Event.REJECT,
    Event.CANCEL,
)


def _case(number: int) -> ReviewCase:
    case = ReviewCase.objects.select_related("job__repository").filter(pk=number).first()
    if case is None:
        raise Error(_("There is no review case %(number)d. `reviews list` shows the open ones.") % {"number": number})
    return case


def _facts(case: ReviewCase) -> dict[str, Any]:
    return {
        "case": case.pk,
        "job_id": case.job_id,
        "repo": case.job.repository.name,
        "action": case.job.action,
        "reason": case.reason,
        "risk": case.risk,
        "required": case.required_approvals,
        "allowed": case.allowed,
        "job_version": case.job_version,
        "result_digest": case.result_digest,
        "opened_at": case.opened_at.isoformat(),
        "due_at": case.due_at.isoformat() if case.due_at else None,
        "claimed_by": case.claimed_by,
        "assigned_to": case.assigned_to,
        "closed_at": case.closed_at.isoformat() if case.closed_at else None,
    }
