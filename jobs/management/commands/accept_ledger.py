"""`accept_ledger`: after a backup was put back, let acts happen again; an owner has looked outside first (X2)."""

from argparse import ArgumentParser
from typing import Any

from django.utils.translation import gettext as _

from jobs.management.console import REFUSED, EngineCommand, Error, actor
from jobs.services import anchors
from jobs.services.people import Role, role_named


class Command(EngineCommand):
    help = (
        "The ledger's anchor lies outside the database. When it knows acts that the ledger lacks, the database was put"
        " back from a backup, and nothing acts any more. Check outside what was done since, then accept the ledger."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--reason", required=True)
        parser.add_argument("--as", dest="as_user", required=True, metavar="USER", help=_("an owner"))
        parser.add_argument("--json", action="store_true", help=_("print the newest act's number as one JSON line"))

    def handle(self, **options: Any) -> None:
        who = actor(options["as_user"])
        if role_named(who) is not Role.OWNER:
            raise Error(_("Only an owner accepts the ledger."), REFUSED)
        newest = anchors.accept(actor=who, reason=options["reason"])
        if options["json"]:
            self.print_json({"newest": newest})
        else:
            self.print_text(_("The ledger is accepted as it is: its newest act is number %(id)d.") % {"id": newest})
