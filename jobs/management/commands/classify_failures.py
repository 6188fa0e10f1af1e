"""Prints what AgentQ would make of recorded failures; with `--score` also how often that is right (F1, F2)."""

import json
from argparse import ArgumentParser
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.utils.translation import gettext as _

from jobs.core.adapters.cases import CaseInvalid, to_run
from jobs.core.adapters.runs import EndedRun, gather
from jobs.core.failures import Classification, classify
from jobs.core.policy import Policy
from jobs.core.scores import Judged, Score, naive_action, score
from jobs.errors import PolicyRefused
from jobs.policies.loading import PolicyInvalid, builtin, load, to_policy
from jobs.services import policies

BAD_USAGE = 2
Answer = tuple[dict[str, Any], EndedRun, Classification]


class Command(BaseCommand):
    """One JSON line per case: id, class, action, rule, confidence. Exit code 2 for an unreadable case or policy."""

    help = "Classify recorded failure cases (JSON lines) with a policy."
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        """The promised options."""
        parser.add_argument("--jsonl", required=True, metavar="FILE", help="one failure case per line")
        parser.add_argument(
            "--policy", metavar="FILE|N", help="a policy document or a version's number; default: the built-in version"
        )
        parser.add_argument("--score", action="store_true", help="compare with the labels that the cases carry")

    def handle(self, *_args: Any, **options: Any) -> None:
        """Classifies every case; nothing is written anywhere but to the output."""
        policy = _policy(options["policy"])
        answers: list[Answer] = []
        for case, run in _cases(Path(options["jsonl"])):
            answer = classify(gather(run), policy)
            answers.append((case, run, answer))
            self.stdout.write(_line(case, answer))
        if options["score"]:
            for line in _report(answers):
                self.stderr.write(line)


def _policy(name: str | None) -> Policy:
    if name is None:
        return to_policy(builtin())
    try:
        if name.isascii() and name.isdigit():
            return policies.rules(int(name))
        return to_policy(load(_read(Path(name)), name))
    except (PolicyRefused, OverflowError) as error:
        raise CommandError(str(error), returncode=BAD_USAGE) from error
    except PolicyInvalid as error:
        raise CommandError(_("The policy cannot be used:\n%s") % error, returncode=BAD_USAGE) from error


def _cases(path: Path) -> Iterator[tuple[dict[str, Any], EndedRun]]:
    for number, line in enumerate(_read(path).splitlines(), start=1):
        if not line.strip():
            continue
        try:
            case = json.loads(line)
            if not isinstance(case, dict):
                raise CaseInvalid(_("one JSON object per line is wanted"))
            yield case, to_run(case)
        except (ValueError, RecursionError) as error:
            raise CommandError(f"{path}:{number}: {error}", returncode=BAD_USAGE) from error


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        message = _("%(path)s cannot be read: %(error)s") % {"path": path, "error": error}
        raise CommandError(message, returncode=BAD_USAGE) from error


def _line(case: dict[str, Any], answer: Classification) -> str:
    shown = {
        "id": case.get("id"),
        "class": answer.class_,
        "action": answer.action,
        "rule": answer.rule if answer.action != "accept" else "",
        "confidence": answer.confidence,
    }
    return json.dumps(shown, ensure_ascii=False)


def _report(answers: list[Answer]) -> list[str]:
    labelled = [one for one in answers if "expected_action" in one[0]]
    if not labelled:
        raise CommandError(_("No case carries the labels expected_class and expected_action."), returncode=BAD_USAGE)
    ours = score(_judged(case, run, answer.class_, answer.action) for case, run, answer in labelled)
    return [
        ours.line(_("this policy")),
        _naive(labelled, everything=False).line(_("naive matcher, stderr only"), with_class=False),
        _naive(labelled, everything=True).line(_("naive matcher, all text and status"), with_class=False),
    ]


def _naive(labelled: list[Answer], *, everything: bool) -> Score:
    return score(_judged(case, run, "", naive_action(run, everything=everything)) for case, run, _ in labelled)


def _judged(case: dict[str, Any], run: EndedRun, class_: str, action: str) -> Judged:
    return Judged(
        expected_class=str(case.get("expected_class", "")),
        expected_action=str(case["expected_action"]),
        class_=class_,
        action=action,
        risk=run.risk,
    )
