"""`register_repo`: makes a git repository known, and shows what was found there (E3)."""

from argparse import ArgumentParser
from typing import Any

from django.utils.translation import gettext as _

from jobs.management import arguments, console
from jobs.management.console import BAD_INPUT, EngineCommand, Error
from jobs.models import Repository
from jobs.services import repositories
from jobs.workspaces.source import SourceFacts

BRANCHES_SHOWN = 20


class Command(EngineCommand):
    help = "Register a git repository, so that jobs can be enqueued for it. Its files are not touched."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("name", help=_("what people call it, such as shop/backend"))
        parser.add_argument("location", help=_("the directory that holds .git, or a bare repository"))
        parser.add_argument("--branch", default="", help=_("the branch that jobs start from; default: the current one"))
        parser.add_argument(
            "--command",
            action="append",
            default=[],
            type=arguments.named_words,
            metavar="NAME=ARGV",
            help=_('a command that jobs may run, such as fmt="black ." or fmt=["black","."]; can be repeated'),
        )
        for kind, text in (("test", _("the tests")), ("static", _("a static check"))):
            parser.add_argument(
                f"--{kind}",
                action="append",
                default=[],
                type=arguments.words,
                metavar="ARGV",
                help=_('runs %(what)s on each result, such as "pytest -q"; can be repeated') % {"what": text},
            )
        parser.add_argument("--as", dest="as_user", default="", metavar="USER", help=_("who registers it"))
        parser.add_argument("--json", action="store_true", help=_("print what was found as one JSON line"))

    def handle(self, **options: Any) -> None:
        repository, facts = repositories.register(
            name=options["name"],
            location=options["location"],
            actor=console.actor(options["as_user"], "register repositories"),
            branch=options["branch"],
            commands=_commands(options["command"]),
            checks=_checks("tests", options["test"]) + _checks("static", options["static"]),
        )
        if options["json"]:
            self.print_json(_as_dict(repository, facts))
        else:
            for line in _sentences(repository, facts):
                self.print_text(line)


def _commands(given: list[tuple[str, list[str]]]) -> dict[str, list[str]]:
    commands: dict[str, list[str]] = {}
    for name, argv in given:
        if name in commands:
            raise Error(_("The command %(name)s is given twice. Give each its own name.") % {"name": name}, BAD_INPUT)
        commands[name] = argv
    return commands


def _checks(kind: str, given: list[list[str]]) -> list[dict[str, Any]]:
    """The first is named after its kind, the others are numbered."""
    return [
        {"name": kind if number == 1 else f"{kind}-{number}", "argv": argv, "kind": kind}
        for number, argv in enumerate(given, start=1)
    ]


def _as_dict(repository: Repository, facts: SourceFacts) -> dict[str, Any]:
    return {
        "repository_id": repository.pk,
        "name": repository.name,
        "location": repository.location,
        "kind": facts.kind,
        "default_branch": repository.default_branch,
        "branches": list(facts.branches),
        "dirty": facts.dirty,
        "has_submodules": facts.has_submodules,
        "commands": repository.commands,
        "checks": repository.checks,
    }


def _sentences(repository: Repository, facts: SourceFacts) -> list[str]:
    shown = ", ".join(facts.branches[:BRANCHES_SHOWN])
    if len(facts.branches) > BRANCHES_SHOWN:
        shown += _(" and %(more)d more") % {"more": len(facts.branches) - BRANCHES_SHOWN}
    kind = _("bare repository") if facts.kind == "bare" else _("work tree")
    lines = [
        _("Registered %(name)s: %(kind)s at %(location)s.")
        % {"name": repository.name, "kind": kind, "location": repository.location},
        _("Branches: %(branches)s. Jobs start from %(default)s unless they name another.")
        % {"branches": shown, "default": repository.default_branch},
    ]
    if facts.dirty:
        lines.append(_("Some files differ from the last commit. Jobs start from commits and do not see that."))
    if facts.has_submodules:
        lines.append(_("It has submodules. They are not fetched: jobs see empty folders in their place."))
    if repository.commands:
        lines.append(_("Commands that jobs may run: %(names)s.") % {"names": ", ".join(sorted(repository.commands))})
    else:
        lines.append(_("No command is registered: run-command has nothing to run here. Add one with --command."))
    if not any(check["kind"] == "tests" for check in repository.checks):
        lines.append(_("No test command is registered: results are accepted without tests. Add one with --test."))
    return lines
