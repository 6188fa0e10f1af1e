"""`enqueue_job`: asks for one job, for thousands from a file, or for one once more (E1, K1, K2)."""

import os
import stat
import sys
from argparse import ArgumentParser
from collections import deque
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any, BinaryIO

from django.utils.translation import gettext as _

from jobs.errors import EnqueueRefused
from jobs.management import arguments, console, job_lines
from jobs.management.console import BAD_INPUT, REFUSED, EngineCommand, Error
from jobs.management.progress import Progress
from jobs.services import enqueue
from jobs.services.enqueue import Enqueued
from jobs.services.requests import Request


class Command(EngineCommand):
    help = (
        "Enqueue a job, or name the one that has the same input already. Prints one JSON line for each: job_id,"
        " created, idempotency_key, state, and way_on when nothing new was made."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--repo", help=_("the repository's registered name"))
        parser.add_argument("--branch", help=_("the branch to start from"))
        parser.add_argument("--action", help=_("the workflow's name, such as format-code"))
        parser.add_argument("--payload", metavar="JSON|@FILE", help=_("the action's own fields as a JSON object"))
        parser.add_argument("--workflow-version", metavar="V", help=_("default: the newest"))
        parser.add_argument("--priority", type=int, metavar="N", help=_("-100 to 100, higher runs first; default 0"))
        parser.add_argument("--batch", metavar="NAME", help=_("a name for jobs that belong together"))
        parser.add_argument("--deadline", type=arguments.moment, metavar="TIME", help=_("ISO 8601 with time zone"))
        parser.add_argument("--takeover", metavar="USER", help=_("who is told when a person is needed"))
        parser.add_argument("--date", metavar="YYYY-MM-DD", help=_("the planned day, for actions that run once a day"))
        parser.add_argument(
            "--jsonl",
            metavar="FILE",
            help=_(
                "one JSON object a line (- is standard input) with: %(keys)s; the options above fill in what a line"
                " leaves out"
            )
            % {"keys": ", ".join(job_lines.KEYS)},
        )
        parser.add_argument(
            "--again", type=arguments.job_id, metavar="JOB", help=_("once more what a job did that ended")
        )
        parser.add_argument("--reason", default="", help=_("why, with --again"))
        parser.add_argument("--as", dest="as_user", default="", metavar="USER", help=_("who asks"))
        parser.add_argument("--json", action="store_true", help=_("accepted for uniformity: the output is JSON anyway"))

    def handle(self, **options: Any) -> None:
        _check_usage(options)
        actor = console.actor(options["as_user"], "enqueue")
        if options["jsonl"] is not None:
            self._from_file(options, actor)
        elif options["again"] is not None:
            self.print_json(answer_of(enqueue.again(options["again"], reason=options["reason"], actor=actor)))
        else:
            self.print_json(answer_of(enqueue.enqueue(_request(options), actor=actor)))

    def _from_file(self, options: dict[str, Any], actor: str) -> None:
        self._refused = 0
        self._waiting: deque[int] = deque()  # the lines whose request has no answer yet
        done = 0
        with _opened(options["jsonl"]) as file, Progress(self.stderr, _("Enqueuing"), _size(file)) as progress:
            lines = job_lines.read(file, _defaults(options))
            for answer in enqueue.enqueue_many(self._requests(lines, progress), actor=actor):
                number = self._waiting.popleft()
                progress.clear()
                if isinstance(answer, EnqueueRefused):
                    self._refuse(number, answer)
                else:
                    done += 1
                    self.print_json(answer_of(answer))
        if self._refused:
            counts = {"refused": self._refused, "all": self._refused + done}
            raise Error(
                _("%(refused)d of %(all)d lines were refused. Correct them and run it again: the others are known.")
                % counts,
                REFUSED,
            )

    def _requests(self, lines: Iterator[job_lines.Line], progress: Progress) -> Iterator[Request]:
        for line in lines:
            if isinstance(line.request, EnqueueRefused):
                progress.clear()
                self._refuse(line.number, line.request)
            else:
                self._waiting.append(line.number)
                progress.show(line.end, _("line %(number)d") % {"number": line.number})
                yield line.request

    def _refuse(self, number: int, refusal: EnqueueRefused) -> None:
        self._refused += 1
        line = {"line": number, "error": str(refusal), "field": refusal.field}
        self.stderr.write(console.json_line(line), lambda text: text)


def answer_of(enqueued: Enqueued) -> dict[str, Any]:
    """What is printed for one request."""
    answer = {
        "job_id": enqueued.job_id,
        "created": enqueued.created,
        "idempotency_key": enqueued.idempotency_key,
        "state": str(enqueued.state),
    }
    return answer if enqueued.created else answer | {"way_on": enqueued.way_on}


_OF_A_LINE = ("repo", "branch", "action", "workflow_version", "priority", "batch", "takeover", "date")


def _check_usage(options: dict[str, Any]) -> None:
    given = {name for name, value in options.items() if value not in (None, "", False)}
    if "jsonl" in given and given & {"again", "reason", "payload"}:
        raise Error(
            _("--jsonl goes without --payload, --again and --reason: each line says what it asks for."), BAD_INPUT
        )
    if "again" in given and given & {*_OF_A_LINE, "payload", "deadline"}:
        raise Error(_("--again takes over the input of that job: give only --reason with it."), BAD_INPUT)
    if "reason" in given and "again" not in given:
        raise Error(_("--reason belongs to --again JOB."), BAD_INPUT)
    missing = [f"--{name}" for name in ("repo", "branch", "action") if name not in given]
    if missing and not given & {"jsonl", "again"}:
        raise Error(
            _("Missing: %(missing)s. Or give --jsonl FILE, or --again JOB --reason TEXT.")
            % {"missing": ", ".join(missing)},
            BAD_INPUT,
        )


def _request(options: dict[str, Any]) -> Request:
    payload = arguments.payload(options["payload"]) if options["payload"] is not None else {}
    return job_lines.request({"payload": payload}, _defaults(options))


def _defaults(options: dict[str, Any]) -> dict[str, Any]:
    deadline = options["deadline"]
    return {name: options[name] for name in _OF_A_LINE} | {"deadline": deadline and deadline.isoformat()}


def _opened(path: str) -> Any:
    return nullcontext(sys.stdin.buffer) if path == "-" else Path(path).open("rb")


def _size(file: BinaryIO) -> int | None:
    """Bytes, None for what has no end that is known."""
    about = os.fstat(file.fileno())
    return about.st_size if stat.S_ISREG(about.st_mode) else None
