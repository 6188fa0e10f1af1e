"""Measures the engine beside raw SQL, in a database of its own that is dropped afterwards."""

import json
import os
import subprocess
import sys
from argparse import SUPPRESS, ArgumentParser
from typing import Any

from django.conf import settings
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError
from django.utils.translation import gettext as _

from jobs.drills.bench import workloads
from jobs.drills.bench.database import NoDatabase, is_own, own_database
from jobs.drills.bench.figures import table

BAD_USAGE = 2


class Command(BaseCommand):
    """Exit code 0 when every figure reaches its floor, 1 when one does not or no database could be made."""

    help = "Measures the engine beside raw SQL. Never touches the configured database: it makes one of its own."
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--jobs", type=int, default=1500, help="jobs for each rate (default: 1500)")
        parser.add_argument("--workers", type=int, default=2, help="processes that run them (default: 2)")
        parser.add_argument(
            "--history", type=int, default=100_000, help="finished jobs for the growth figures (default: 100000)"
        )
        parser.add_argument("--only", choices=list(workloads.NAMES), help="measure this part only")
        parser.add_argument("--json", action="store_true", help="print the figures as one JSON document")
        parser.add_argument("--inside", action="store_true", help=SUPPRESS)

    def handle(self, *_args: Any, **options: Any) -> None:
        """Measures and prints; the part that measures is a process of its own, with its own settings."""
        for name, least in (("jobs", 100), ("workers", 1), ("history", 0)):
            if options[name] < least:
                raise CommandError(
                    _("--%(name)s needs at least %(least)d.") % {"name": name, "least": least}, returncode=BAD_USAGE
                )
        if options["inside"]:
            self._inside(options)
            return
        try:
            with own_database() as environment:
                found = _measure(options, environment)
        except NoDatabase as error:
            raise CommandError(str(error)) from None
        self.stdout.write(json.dumps(found, indent=2) if options["json"] else _report(found))
        if any(figure["reached"] == "below" for figure in found["figures"]):
            sys.exit(1)

    def _inside(self, options: dict[str, Any]) -> None:
        if not is_own():
            raise CommandError(_("This part runs in the benchmark's own database only."), returncode=BAD_USAGE)
        call_command("migrate", verbosity=0)
        plan = workloads.Plan(options["jobs"], options["workers"], options["history"])
        names = [options["only"]] if options["only"] else list(workloads.NAMES)
        found = workloads.measure(
            names, plan, lambda name: self.stderr.write(_("measuring: %(name)s") % {"name": name})
        )
        self.stdout.write(json.dumps(found))


def _measure(options: dict[str, Any], environment: Any) -> dict[str, Any]:
    argv = [sys.executable, str(settings.BASE_DIR / "manage.py"), "bench_engine", "--inside"]
    for name in ("jobs", "workers", "history", "only"):
        if options[name] is not None:
            argv += [f"--{name}", str(options[name])]
    done = subprocess.run(argv, env=environment, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        raise CommandError(_("The measuring process failed; what it said stands above."))
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def _report(found: dict[str, Any]) -> str:
    load = ", ".join(f"{value:.2f}" for value in found["load"])
    lines = [
        table(found["figures"]),
        "",
        _("%(database)s, %(workers)d workers, %(cores)d cores; load average before and after: %(load)s.")
        % {"database": found["database"], "workers": found["workers"], "cores": os.cpu_count() or 1, "load": load},
        _("raw: a loop of plain SQL that claims and finishes rows of a narrow table. same rows: plain SQL that sends")
        + _(" the engine's own writes again. ratio: figure to raw. Rates hold for a quiet machine, ratios anywhere."),
    ]
    return "\n".join(lines)
