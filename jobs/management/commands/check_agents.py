"""`check_agents`: which agent CLIs can run jobs on this host, and what is missing (Z3, Z5)."""

from argparse import ArgumentParser
from typing import Any

from django.conf import settings
from django.utils.translation import gettext as _

from jobs.executors import credentials, isolation, preflight
from jobs.executors.preflight import AgentState
from jobs.management.console import REFUSED, EngineCommand, Error


class Command(EngineCommand):
    help = (
        "Say for each agent CLI its version, whether its sandbox works and a key is named, and what is missing. "
        "No model is asked. Exit code 1 when none is usable."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--json", action="store_true", help=_("print the result as one JSON line"))

    def handle(self, **options: Any) -> None:
        found = preflight.look(credentials.parse(settings.AGENTQ_CREDENTIALS))
        level = isolation.level()
        if options["json"]:
            agents = [{**vars(state), "usable": state.usable} for state in found]
            self.print_json({"agents": agents, "isolation": level, "usable": any(state.usable for state in found)})
        else:
            self._print(found, level)
        if not any(state.usable for state in found):
            raise Error(_("No agent CLI is usable on this host. Jobs of the executors codex and claude fail."), REFUSED)

    def _print(self, found: tuple[AgentState, ...], level: str) -> None:
        for state in found:
            self.print_text(f"{state.name}: {_('usable') if state.usable else _('not usable')}")
            if state.path:
                self.print_text("  " + _("program: %(path)s") % {"path": state.path})
            if state.version:
                self.print_text("  " + _("version: %(version)s") % {"version": state.version})
                self.print_text("  " + (_("sandbox: works") if state.sandbox else _("sandbox: not available")))
            self.print_text("  " + _login(state))
            for lack in state.lacks:
                self.print_text("  " + _("missing: %(what)s") % {"what": _missing(lack, state)})
        self.print_text(
            _("isolation: own namespaces for agents")
            if level == "namespace"
            else _(
                "isolation: own process tree and environment only; agents can read this host's files. Install"
                " bubblewrap, or allow user namespaces, for more."
            )
        )


def _login(state: AgentState) -> str:
    return {
        "key": _("login: a key is named; whether the service accepts it shows at the first call"),
        "none": _("login: no key is named; a login of your own in this CLI is not used, each run starts afresh"),
        "unreadable": _("login: a key is named but leads to nothing"),
    }[state.login]


def _missing(lack: str, state: AgentState) -> str:
    setting = f"AGENTQ_{state.name.upper()}"
    words = {
        "program": _("the program; install the CLI, or set %(setting)s to its path"),
        "version": _("a program that starts: it does not state its version; install it again or correct %(setting)s"),
        "sandbox": _("a sandbox that works here; allow user namespaces for this account"),
        "bwrap": _("bubblewrap (bwrap), which its sandbox needs; install the package bubblewrap"),
        "socat": _("socat, which its sandbox needs; install the package socat"),
        "credential": _("a key; name it in AGENTQ_CREDENTIALS, such as %(first)s=env:%(first)s"),
        "credential_empty": _("the key that AGENTQ_CREDENTIALS names: set that variable or write that file"),
    }
    return words[lack] % {"setting": setting, "first": state.credentials[0]}
