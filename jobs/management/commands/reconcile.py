"""`reconcile`: one sweep that makes sure nothing is stuck; safe at any time, also twice at once (L3, K4)."""

from argparse import ArgumentParser
from typing import Any

from django.utils.translation import gettext as _

from jobs.management.console import EngineCommand
from jobs.services import reconcile, workflows


class Command(EngineCommand):
    help = (
        "Expire lapsed leases, hand jobs that no worker can take any more to a person, mark lost workers, and retire"
        " workflow versions whose file is gone. It may run at any time, also twice at once."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--json", action="store_true", help=_("print what changed as one JSON line"))

    def handle(self, **options: Any) -> None:
        swept = reconcile.sweep()
        changed = {
            "expired": swept.expired,
            "held": swept.held,
            "nodes_lost": swept.nodes_lost,
            "workflow_versions": workflows.retire_missing(),
        }
        if options["json"]:
            self.print_json(changed)
        else:
            self.print_text(
                _(
                    "Leases expired: %(expired)d. Jobs handed to a person: %(held)d. Workers lost: %(nodes_lost)d."
                    " Workflow versions retired or returned: %(workflow_versions)d."
                )
                % changed
            )
