"""`resolve_side_effect`: say what came of an act whose outcome nobody knows (X2, H1)."""

from argparse import ArgumentParser
from typing import Any

from django.utils.translation import gettext as _

from jobs.core.states import State
from jobs.management.console import REFUSED, EngineCommand, Error, actor
from jobs.models import SideEffect
from jobs.services import resolutions
from jobs.services.people import Role, role_named
from jobs.worker import lookups, proof


class Command(EngineCommand):
    help = (
        "Say of an act outside that it happened, that it did not, or that it cannot be told. The same checks hold as in"
        " the console: two people, and for one that did not happen the proof that its attempt can act no more."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("effect_id", type=int, metavar="ID", help=_("the act's number in the ledger"))
        parser.add_argument("--outcome", required=True, choices=resolutions.ANSWERS)
        parser.add_argument("--reference", default="", help=_("where you saw it, such as an address; never a secret"))
        parser.add_argument("--reason", required=True)
        parser.add_argument("--as", dest="as_user", required=True, metavar="USER", help=_("who decides"))
        parser.add_argument(
            "--host-down", action="store_true", help=_("an owner states that the host of the attempt is down")
        )
        parser.add_argument("--json", action="store_true", help=_("print what came of it as one JSON line"))

    def handle(self, **options: Any) -> None:
        who = actor(options["as_user"])
        effect_id, outcome, reason = options["effect_id"], options["outcome"], options["reason"]
        _require(who, Role.OWNER if options["host_down"] else Role.REVIEWER)
        job_id = SideEffect.objects.filter(pk=effect_id).values_list("job_id", flat=True).first()
        if job_id is None:
            raise Error(_("There is no act number %(id)d in the ledger.") % {"id": effect_id})
        if options["host_down"]:
            resolutions.state_down(effect_id, reason=reason, actor=who)
        if outcome == "absent":
            proof.prove(job_id)
            lookups.ask_for_people(effect_id, actor=who)
        held = resolutions.resolve(
            effect_id, outcome, reference=options["reference"], reason=reason, actor=who, by_command=True
        )
        settled = held.state != State.REVIEW
        if options["json"]:
            self.print_json({"effect_id": effect_id, "job_id": job_id, "state": held.state, "settled": settled})
        elif settled:
            self.print_text(_("The act is settled. J-%(id)d goes on: %(state)s.") % {"id": job_id, "state": held.state})
        elif outcome == "unknown":
            self.print_text(_("That it cannot be told is on record. J-%(id)d stays in review.") % {"id": job_id})
        else:
            self.print_text(
                _("Yours is the first of two decisions. A second person decides on J-%(id)d in the console.")
                % {"id": job_id}
            )


def _require(who: str, role: Role) -> None:
    if role_named(who) < role:
        raise Error(
            _("%(who)s may not do that: it takes a member of the group %(group)s.")
            % {"who": who.removeprefix("user:"), "group": f"{role.name.lower()}s"},
            REFUSED,
        )
