"""`why_not_running`: what keeps a job from starting, in order, and what happens next without anybody (M2, L3)."""

from argparse import ArgumentParser
from datetime import datetime
from typing import Any

from django.utils.translation import gettext as _

from jobs import explain
from jobs.management import arguments
from jobs.management.console import BAD_INPUT, EngineCommand, Error
from jobs.models import Job


class Command(EngineCommand):
    help = "Say why a job does not run: what blocks it, in the order in which that clears, and what happens next."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("job_id", type=arguments.job_id, metavar="ID", help=_("such as 12 or J-12"))
        parser.add_argument("--json", action="store_true", help=_("print the explanation as one JSON line"))

    def handle(self, **options: Any) -> None:
        try:
            found = explain.explain(options["job_id"])
        except Job.DoesNotExist:
            raise Error(_("There is no job J-%(id)d.") % {"id": options["job_id"]}, BAD_INPUT) from None
        if options["json"]:
            self.print_json(found.as_dict())
            return
        self.print_text(f"J-{found.job_id} [{found.state}] {found.what}")
        if found.why:
            self.print_text(_("Why: %(why)s.") % {"why": found.why})
        for number, blocker in enumerate(found.blockers, start=1):
            clearing = _("clears by itself") if blocker.self_clearing else _("somebody must act")
            self.print_text(f"{number}. {blocker.text} ({blocker.code}; {clearing}{_until(blocker.until)})")
        self.print_text(_("Next%(at)s: %(what)s") % {"at": _until(found.next_at), "what": found.next_action})
        self.print_text(_("Who can act: %(who)s.") % {"who": found.who_can_act})


def _until(moment: datetime | None) -> str:
    return f", {moment:%Y-%m-%d %H:%M:%S} UTC" if moment else ""
