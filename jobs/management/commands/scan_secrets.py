"""Prints which secrets texts hold, and the texts without them; with `--score` also how often that is right."""

import json
from argparse import ArgumentParser
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.utils.translation import gettext as _

from jobs.core.redaction import Context, find, redact

BAD_USAGE = 2
# Every other context is read as an output's tail, the strictest reading.
_CONTEXTS: dict[str, Context] = {"payload": "payload", "diff": "diff"}


class Command(BaseCommand):
    """One JSON line per case: id, found, kinds, redacted. Exit code 2 for a case that cannot be read (K5, F4)."""

    help = "Look for secrets in texts (JSON lines with id, text, context) and take them out."
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        """The promised options."""
        parser.add_argument("--jsonl", required=True, metavar="FILE", help="one case per line: id, text, context")
        parser.add_argument("--score", action="store_true", help="compare with the label is_secret that cases carry")

    def handle(self, *_args: Any, **options: Any) -> None:
        """Reads every case; nothing is written anywhere but to the output."""
        answers: list[tuple[dict[str, Any], bool, str]] = []
        for case in _cases(Path(options["jsonl"])):
            context = _CONTEXTS.get(str(case.get("context", "")), "tail")
            findings = find(case["text"], context=context)
            redacted = redact(case["text"], context=context)
            kinds = sorted({finding.kind for finding in findings})
            line = {"id": case.get("id"), "found": bool(findings), "kinds": kinds, "redacted": redacted}
            self.stdout.write(json.dumps(line, ensure_ascii=False))
            answers.append((case, bool(findings), redacted))
        if options["score"]:
            for report in _report(answers):
                self.stderr.write(report)


def _cases(path: Path) -> Iterator[dict[str, Any]]:
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        message = _("%(path)s cannot be read: %(error)s") % {"path": path, "error": error}
        raise CommandError(message, returncode=BAD_USAGE) from error
    for number, line in enumerate(lines, start=1):
        if line.strip():
            yield _case(line, f"{path}:{number}")


def _case(line: str, where: str) -> dict[str, Any]:
    """Complaints name the place and never quote the line, which may hold a secret."""
    try:
        case = json.loads(line)
    except (ValueError, RecursionError) as error:
        message = _("%(where)s: this line is not JSON") % {"where": where}
        raise CommandError(message, returncode=BAD_USAGE) from error
    if not isinstance(case, dict) or not isinstance(case.get("text"), str):
        message = _('%(where)s: one object per line is wanted, with at least a text: {"id": …, "text": "…"}')
        raise CommandError(message % {"where": where}, returncode=BAD_USAGE)
    # Half of a surrogate pair is no text and could not be printed.
    return case | {"text": case["text"].encode("utf-8", errors="replace").decode()}


def _report(answers: list[tuple[dict[str, Any], bool, str]]) -> list[str]:
    labelled = [one for one in answers if isinstance(one[0].get("is_secret"), bool)]
    if not labelled:
        raise CommandError(_("No case carries the label is_secret."), returncode=BAD_USAGE)
    secrets = [one for one in labelled if one[0]["is_secret"]]
    others = [one for one in labelled if not one[0]["is_secret"]]
    hits = sum(found for _case, found, _text in secrets)
    alarms = [str(case.get("id")) for case, found, _text in others if found]
    missed = [str(case.get("id")) for case, found, _text in secrets if not found]
    readable = [
        str(case.get("id"))
        for case, _found, text in secrets
        if isinstance(case.get("span"), str) and case["span"] and case["span"] in text
    ]
    return [
        _("found %(hits)d of %(all)d secrets%(which)s") % {"hits": hits, "all": len(secrets), "which": _named(missed)},
        _("false alarms %(count)d of %(all)d%(which)s")
        % {"count": len(alarms), "all": len(others), "which": _named(alarms)},
        _("readable after redaction %(count)d%(which)s") % {"count": len(readable), "which": _named(readable)},
    ]


def _named(ids: list[str]) -> str:
    return f" ({', '.join(ids)})" if ids else ""
