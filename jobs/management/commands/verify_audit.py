"""`verify_audit`: every hash chain, and every job against its events (A1, A2)."""

from argparse import ArgumentParser
from typing import Any

from django.utils.translation import gettext as _

from jobs.management import histories
from jobs.management.console import REFUSED, EngineCommand, Error
from jobs.management.histories import Differences
from jobs.management.progress import Progress
from jobs.models import Job
from jobs.services import audit


class Command(EngineCommand):
    help = "Check every audit chain and every job against its events. Names the first bad event of each stream."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--json", action="store_true", help=_("print the result as one JSON line"))

    def handle(self, **options: Any) -> None:
        with Progress(self.stderr, _("Reading all audit events")) as progress:
            progress.show(0)
            events, faults = audit.verify_all()
        jobs, differing = self._compare_jobs()
        if options["json"]:
            self.print_json(
                {
                    "ok": not faults and not differing,
                    "events": events,
                    "jobs": jobs,
                    "faults": [{"stream": fault.stream, "seq": fault.seq, "why": fault.why} for fault in faults],
                    "differences": [
                        {"job_id": job_id, "fields": histories.as_json(found)} for job_id, found in differing.items()
                    ],
                }
            )
        else:
            self._print(events, jobs, faults, differing)
        if faults or differing:
            raise Error(
                _(
                    "The audit trail does not hold: %(streams)d broken streams, %(jobs)d jobs that differ. Keep the"
                    " database as it is and compare with a backup."
                )
                % {"streams": len(faults), "jobs": len(differing)},
                REFUSED,
            )

    def _compare_jobs(self) -> tuple[int, dict[int, Differences]]:
        differing: dict[int, Differences] = {}
        count = 0
        newest = Job.objects.order_by("-pk").values_list("pk", flat=True).first()
        with Progress(self.stderr, _("Comparing jobs"), newest) as progress:
            for job in histories.all_jobs():
                count += 1
                progress.show(job.pk)
                if found := histories.differences(job):
                    differing[job.pk] = found
        return count, differing

    def _print(self, events: int, jobs: int, faults: list[audit.Fault], differing: dict[int, Differences]) -> None:
        for fault in faults:
            self.print_text(
                _("%(stream)s, event %(seq)d: %(why)s.") % {"stream": fault.stream, "seq": fault.seq, "why": fault.why}
            )
        for job_id, found in differing.items():
            self.print_text(_("J-%(id)d differs: %(what)s.") % {"id": job_id, "what": histories.as_text(found)})
        counts = {"events": events, "jobs": jobs}
        if faults or differing:
            self.print_text(_("%(events)d events and %(jobs)d jobs were read.") % counts)
        else:
            self.print_text(_("Whole: %(events)d events and %(jobs)d jobs, each as its events say.") % counts)
