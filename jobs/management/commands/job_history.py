"""`job_history`: what happened to a job, rebuilt from its events alone, and whether that is what its row says (A2)."""

from argparse import ArgumentParser
from typing import Any

from django.utils.translation import gettext as _

from jobs import history
from jobs.management import arguments, histories
from jobs.management.console import BAD_INPUT, REFUSED, EngineCommand, Error
from jobs.models import Job
from jobs.services import audit


class Command(EngineCommand):
    help = (
        "Print a job's history, rebuilt from its audit events: one JSON line for each event, with the job's fields"
        " right after it. With --verify: compare with the job's row and check the hash chain instead."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("job_id", type=arguments.job_id, metavar="ID", help=_("such as 12 or J-12"))
        parser.add_argument("--at", type=arguments.moment, metavar="TIME", help=_("only up to this time (ISO 8601)"))
        parser.add_argument("--verify", action="store_true", help=_("exit code 1 when history and row differ"))
        parser.add_argument("--json", action="store_true", help=_("with --verify: as one JSON line"))

    def handle(self, **options: Any) -> None:
        if options["verify"] and options["at"] is not None:
            raise Error(_("--verify compares with the row as it is now: leave out --at."), BAD_INPUT)
        job = Job.objects.filter(pk=options["job_id"]).first()
        if job is None:
            raise Error(_("There is no job J-%(id)d.") % {"id": options["job_id"]}, BAD_INPUT)
        if options["verify"]:
            self._verify(job, as_json=options["json"])
            return
        try:
            for moment in history.replay(job.pk, at=options["at"]):
                self.print_json({"event": moment.event, "state": moment.state})
        except (ValueError, KeyError, TypeError):
            raise Error(
                _("The next event of J-%(id)d cannot be read. Run job_history with --verify to see which it is.")
                % {"id": job.pk},
                REFUSED,
            ) from None

    def _verify(self, job: Job, *, as_json: bool) -> None:
        fault = audit.verify(f"job:{job.pk}")
        found = histories.differences(job)
        if as_json:
            self.print_json(
                {
                    "job_id": job.pk,
                    "equal": not found and fault is None,
                    "differences": histories.as_json(found),
                    "fault": fault and {"seq": fault.seq, "why": fault.why},
                }
            )
        else:
            for sentence in _verdict(job.pk, found, fault):
                self.print_text(sentence)
        if found or fault:
            raise Error(_("The history of J-%(id)d is not what its row says.") % {"id": job.pk}, REFUSED)


def _verdict(job_id: int, found: histories.Differences, fault: audit.Fault | None) -> list[str]:
    sentences = []
    if found:
        sentences.append(_("J-%(id)d differs: %(what)s.") % {"id": job_id, "what": histories.as_text(found)})
    if fault:
        sentences.append(_("Event %(seq)d of J-%(id)d: %(why)s.") % {"seq": fault.seq, "id": job_id, "why": fault.why})
    equal = _("J-%(id)d: equal. The row is what its events add up to, and the chain is whole.") % {"id": job_id}
    return sentences or [equal]
