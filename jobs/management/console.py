"""What every command shares: who acts, how values are printed, and errors as one sentence that says what to do."""

import errno
import json
import os
import pwd
import sys
from typing import Any

from django.contrib.auth import get_user_model
from django.core.management.base import BaseCommand, CommandError
from django.db import DatabaseError, InterfaceError
from django.utils.translation import gettext as _

from jobs.errors import AgentQError, DiskFull, EnqueueRefused, WorkflowConflict, WorkflowRefused, WorkspaceError
from jobs.services import cases
from jobs.services.people import ACTS, role_named
from jobs.services.repositories import NameTaken, RegistrationRefused

REFUSED = 1  # what was asked is clear, and AgentQ says no; or a check found something
BAD_INPUT = 2  # what was asked cannot be done as it was put, or not on this machine as it is

_BAD_INPUT = (EnqueueRefused, RegistrationRefused, WorkflowRefused, WorkspaceError)
_REFUSED = (WorkflowConflict, NameTaken)


class Error(CommandError):
    """Ends the command: one line on stderr and the exit code. The class's name stands before the sentence."""

    def __init__(self, message: str, code: int = BAD_INPUT) -> None:
        super().__init__(plain(message), returncode=code)


class EngineCommand(BaseCommand):
    """A command whose foreseeable failures end as `Error`, never as a traceback."""

    # Their notes belong to `check` and `migrate`; here they would stand between a person and the one sentence.
    requires_system_checks = []

    def execute(self, *args: Any, **options: Any) -> str | None:
        try:
            output = super().execute(*args, **options)
            self.stdout.flush()
        except BrokenPipeError:
            # The reader, such as `head`, has seen enough. Python's own flush at exit must not complain either.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise SystemExit(REFUSED) from None
        except KeyboardInterrupt:
            raise Error(_("Interrupted. What was printed so far is done; the rest is not."), 130) from None
        except (AgentQError, OSError, UnicodeError, DatabaseError, InterfaceError) as error:
            raise explained(error) from None
        return output

    def print_json(self, value: object) -> None:
        """One value, one line."""
        self.stdout.write(json_line(value, encoding=self.stdout.encoding or "utf-8"))

    def print_text(self, text: str) -> None:
        self.stdout.write(plain(text))


def explained(error: Exception) -> Error:
    """The same failure as one sentence for a person, with its exit code."""
    if isinstance(error, AgentQError):
        bad_input = isinstance(error, _BAD_INPUT) and not isinstance(error, _REFUSED)
        return Error(str(error), BAD_INPUT if bad_input else REFUSED)
    if isinstance(error, UnicodeError):
        return Error(_("An argument or a file is not UTF-8 text. Write it in UTF-8 and try again."))
    if isinstance(error, OSError):
        return Error(_os_error(error))
    return Error(_database_error(error))


def plain(text: str) -> str:
    """Text from outside that a terminal shows and does not obey: whatever is not printable stands escaped."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def json_line(value: object, *, encoding: str = "utf-8") -> str:
    """`value` as one line of JSON, with the same care for terminals as `plain`."""
    text = json.dumps(value, ensure_ascii=not encoding.lower().startswith("utf"))
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else json.dumps(c)[1:-1] for c in text)


def actor(as_user: str = "", act: str = "") -> str:
    """Who acts: the named user, who must exist and be active, else the person at this machine's terminal (A1).

    `act` is one of the roles' table: a user whose role does not allow it is refused, on record.
    """
    if as_user and act:
        return _allowed(as_user, act)
    if as_user:
        if not get_user_model().objects.filter(username=as_user, is_active=True).exists():
            raise Error(_("There is no active user %(name)s. Give --as the name of one.") % {"name": as_user})
        return f"user:{as_user}"
    try:
        # Not getpass.getuser: it believes the environment.
        return f"command:{pwd.getpwuid(os.getuid()).pw_name}"
    except KeyError:
        return f"command:uid-{os.getuid()}"


def _allowed(name: str, act: str) -> str:
    person = actor(name)
    role = role_named(person)
    if role < ACTS[act]:
        cases.refused(person, act, "role", role=role.name.lower(), by="command")
        needed = ACTS[act].name.lower()
        raise Error(
            _("%(name)s may not do this: it takes the role %(role)s.") % {"name": name, "role": needed}, REFUSED
        )
    return person


def _os_error(error: OSError) -> str:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return str(DiskFull())
    why = {"path": error.filename or _("A file"), "why": error.strerror or str(error)}
    return _("%(path)s: %(why)s. Check the path and that this account may use it.") % why


def _database_error(error: Exception) -> str:
    said = str(error).strip().split("\n", 1)[0]
    lower = said.lower()
    if any(sign in lower for sign in ("no such table", "no such column", "does not exist")):
        return _("The database is not prepared: %(said)s. Run `python manage.py migrate`, then try again.") % {
            "said": said
        }
    if any(sign in lower for sign in ("locked", "lock timeout", "deadlock")):
        return _("The database is busy: another process holds its lock. Try again in a moment.")
    if any(sign in lower for sign in ("disk is full", "no space left", "could not extend")):
        return _("The disk that holds the database is full. Free some space, then try again.")
    return _("The database cannot do this: %(said)s. Check that it runs and what DATABASE_URL names.") % {"said": said}
