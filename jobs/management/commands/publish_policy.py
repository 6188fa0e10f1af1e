"""`publish_policy`: check a policy document, replay it on past failures, store it, make it active (P1, P2)."""

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.contrib.auth import get_user_model
from django.utils.translation import gettext as _

from jobs.management import console
from jobs.management.console import BAD_INPUT, REFUSED, EngineCommand, Error
from jobs.models import PolicyVersion
from jobs.policies import cases
from jobs.policies.document import PolicyDocument
from jobs.policies.loading import PolicyInvalid, load, to_policy
from jobs.services import policies
from jobs.services.people import is_owner
from jobs.simulation import Case, Simulation, simulate

SHOWN = 20


class Command(EngineCommand):
    help = "Check a policy document (TOML) and store it as the next version. With --simulate alone nothing is stored."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """The promised options."""
        parser.add_argument("file", metavar="FILE", help=_("the policy document, in TOML"))
        parser.add_argument(
            "--simulate", action="store_true", help=_("show what it would have decided about past failures")
        )
        parser.add_argument("--activate", action="store_true", help=_("publish it, and let it decide from now on"))
        parser.add_argument("--reason", default="", help=_("why it is to be active; needed with --activate"))
        parser.add_argument("--note", default="", help=_("what changed, for the list of versions"))
        parser.add_argument("--as", dest="as_user", default="", metavar="USER", help=_("who does it: an owner"))
        parser.add_argument("--json", action="store_true", help=_("print the result as one JSON line"))

    def handle(self, *_args: Any, **options: Any) -> None:
        """Refuses with the file's line, the failing case or the missing reason; then nothing is stored."""
        path = Path(options["file"])
        text = path.read_text(encoding="utf-8")
        document = _document(text, path.name)
        _refuse_failing(document)
        if options["activate"] and not options["reason"].strip():
            raise Error(_("Say why with --reason: others read it later."))
        actor = _actor(options["as_user"])
        replayed = simulate(to_policy(document)) if options["simulate"] else None
        version = None
        if options["activate"] or not options["simulate"]:
            version = _published(document, text, actor, options["note"] or document.note)
        if version and options["activate"]:
            policies.activate(version.number, actor=actor, reason=options["reason"])
        if options["json"]:
            self.print_json(_as_json(document, version, bool(options["activate"]), replayed))
        else:
            self._print(document, version, bool(options["activate"]), replayed)

    def _print(
        self, document: PolicyDocument, version: PolicyVersion | None, active: bool, replayed: Simulation | None
    ) -> None:
        counts = {"rules": len(document.rules), "cases": len(document.cases)}
        self.print_text(_("The document is valid: %(rules)d rules, %(cases)d cases of its own pass.") % counts)
        if replayed:
            for line in _lines(replayed):
                self.print_text(line)
        if version is None:
            self.print_text(_("Nothing was stored. Leave out --simulate, or add --activate, to store it."))
        elif active:
            self.print_text(_("Version %(number)d is stored and active.") % {"number": version.number})
        else:
            self.print_text(_("Version %(number)d is stored, not yet active.") % {"number": version.number})


def _document(text: str, name: str) -> PolicyDocument:
    try:
        return load(text, name)
    except PolicyInvalid as error:
        # One line on a terminal each, none of them able to steer it.
        raise Error(_("The policy cannot be used: %s") % "; ".join(error.problems), BAD_INPUT) from error


def _refuse_failing(document: PolicyDocument) -> None:
    failing = [each for each in cases.answers(document) if not each.passes]
    if failing:
        told = "; ".join(
            _("case %(id)s gives %(class)s, %(action)s by %(rule)s")
            % {
                "id": each.case.id,
                "class": each.answer.class_ or "-",
                "action": each.answer.action,
                "rule": each.answer.rule,
            }
            for each in failing
        )
        raise Error(_("Its own cases fail, so nothing was stored: %s.") % told, REFUSED)


def _actor(as_user: str) -> str:
    actor = console.actor(as_user)
    if as_user and not is_owner(get_user_model().objects.get(username=as_user)):
        raise Error(_("%(name)s is no owner. Only owners publish and activate policies.") % {"name": as_user}, REFUSED)
    return actor


def _published(document: PolicyDocument, text: str, actor: str, note: str) -> PolicyVersion:
    """The stored version; one with the same document is used again, so that it can be activated later."""
    known = PolicyVersion.objects.filter(digest=document.digest()).first()
    if known is not None:
        return known
    made_from = policies.active().number
    return policies.publish(document, author=actor, note=note, source=text, parent=made_from)


def _lines(replayed: Simulation) -> list[str]:
    counts = {
        "number": replayed.number,
        "changed": len(replayed.changed),
        "undecided": len(replayed.undecided),
        "attempts": replayed.attempts,
        "minutes": replayed.seconds / 60,
        "reviews": replayed.reviews,
    }
    lines = [
        _("Replayed on %(number)d past decisions: %(changed)d change.") % counts,
        _("About %(attempts)+d attempts, %(minutes)+.1f minutes, %(reviews)+d for a person.") % counts,
    ]
    if replayed.undecided:
        lines.append(_("%(undecided)d cannot be decided again: they hang on text, which is never stored.") % counts)
    for class_, count in replayed.warnings.items():
        lines.append(_("Warning: class %(class)s gets looser in %(count)d cases.") % {"class": class_, "count": count})
    lines += [f"{old} -> {new}: {count}" for (old, new), count in sorted(replayed.matrix.items()) if old != new]
    for case in replayed.changed[:SHOWN]:
        lines.append(
            f"J-{case.record.job_id} #{case.record.fence}: {case.record.code} {case.old} ({case.record.rule})"
            f" -> {case.new} ({case.new_rule}), {case.effect}"
        )
    return lines


def _as_json(
    document: PolicyDocument, version: PolicyVersion | None, active: bool, replayed: Simulation | None
) -> dict[str, Any]:
    found: dict[str, Any] = {
        "valid": True,
        "digest": document.digest(),
        "number": version.number if version else None,
        "active": bool(version and active),
        "cases": len(document.cases),
    }
    if replayed:
        found["simulation"] = {
            "decisions": replayed.number,
            "matrix": [{"old": old, "new": new, "count": count} for (old, new), count in replayed.matrix.items()],
            "changed": [_case(case) for case in replayed.changed],
            "undecided": [_case(case) for case in replayed.undecided],
            "attempts": replayed.attempts,
            "minutes": round(replayed.seconds / 60, 2),
            "reviews": replayed.reviews,
            "warnings": replayed.warnings,
        }
    return found


def _case(case: Case) -> dict[str, Any]:
    return {
        "job_id": case.record.job_id,
        "attempt": case.record.fence,
        "class": case.record.failure_class,
        "old": case.old,
        "old_rule": case.record.rule,
        "new": case.new,
        "new_rule": case.new_rule,
        "effect": case.effect,
    }
