"""Registering repositories, and reading a branch of one without touching it (E3, K1)."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from django.db import IntegrityError, transaction
from django.utils import timezone
from django.utils.translation import gettext as _
from pydantic import ValidationError

from jobs.errors import AgentQError, BranchUnknown
from jobs.models import Repository
from jobs.models.repository import Autonomy
from jobs.services import audit
from jobs.workflows.definition import Check
from jobs.workspaces.git import Git, validate_branch
from jobs.workspaces.source import SourceFacts, inspect_source, locate

MAX_LOCATION = 1000


class RegistrationRefused(AgentQError):
    """The repository was not registered."""


class NameTaken(RegistrationRefused):
    """A repository of this name is registered already."""


class LimitsRefused(AgentQError):
    """The repository's limits stay as they are."""


def register(
    *,
    name: str,
    location: str,
    actor: str,
    branch: str = "",
    commands: Mapping[str, Sequence[str]] | None = None,
    checks: Sequence[Mapping[str, Any]] = (),
    concurrency: int = 4,
) -> tuple[Repository, SourceFacts]:
    """The repository is registered under its name, audited; with what was found at its location.

    Refuses a name that is taken in whatever case, a place that is no git repository, is empty or lacks the branch,
    and commands or checks that are no argument lists. The repository's files are not touched.
    """
    name = name.strip()
    # A "|" would make two different outside acts share a key (K3).
    if not name or len(name) > 200 or not name.isprintable() or "|" in name:
        raise RegistrationRefused(
            _("A repository needs a name of 1 to 200 characters, without control characters and without '|'.")
        )
    facts = inspect_source(location)
    default = branch or facts.default_branch or facts.branches[0]
    if validate_branch(default) not in facts.branches:
        raise BranchUnknown(default)
    values: dict[str, Any] = {
        "name": name,
        "location": _location(location),
        "default_branch": default,
        "commands": {key: _argv(key, argv) for key, argv in (commands or {}).items()},
        "checks": [_check(check) for check in checks],
        "concurrency": concurrency,
        "created_at": timezone.now(),
    }
    try:
        with transaction.atomic():
            _refuse_taken(name)
            repository = Repository.objects.create(**values)
            audit.note(
                f"repository:{repository.pk}",
                "register",
                actor,
                name=name,
                default_branch=default,
                commands=sorted(values["commands"]),
                checks=[check["name"] for check in values["checks"]],
            )
    except IntegrityError:  # another process took the name a moment ago
        _refuse_taken(name)
        raise
    return repository, facts


def find(name: str) -> Repository | None:
    """The repository of this name. Spaces around it and its case do not count, as in a job's key (K1)."""
    name = name.strip()
    found = Repository.objects.filter(name=name).first()
    if found is not None:
        return found
    # In Python, as in the key: databases differ about the case of letters beyond ASCII.
    for pk, known in Repository.objects.values_list("pk", "name"):
        if known.lower() == name.lower():
            return Repository.objects.get(pk=pk)
    return None


def branch_commit(repository: Repository, branch: str) -> str:
    """The commit that a branch has in the registered repository now. Raises BranchInvalid, BranchUnknown."""
    git = Git(locate(repository.location))
    ref = f"refs/heads/{validate_branch(branch)}^{{commit}}"
    commit = git.text("rev-parse", "--quiet", "--verify", "--end-of-options", ref, ok=(0, 1))
    if not commit:
        raise BranchUnknown(branch)
    return commit


def _refuse_taken(name: str) -> None:
    taken = find(name)
    if taken is not None:
        raise NameTaken(
            _("A repository named %(taken)s is registered already; names that differ by case only are one name.")
            % {"taken": taken.name}
        )


def _location(location: str) -> str:
    path = str(Path(location).resolve())
    if len(path) > MAX_LOCATION or not _storable(path):
        raise RegistrationRefused(
            _("The path must be UTF-8 text of at most %(most)d characters; move the repository or link to it.")
            % {"most": MAX_LOCATION}
        )
    return path


def _argv(name: str, argv: Sequence[str]) -> list[str]:
    words = [argv] if isinstance(argv, str) else list(argv)
    if not name.strip() or len(name) > 100 or not name.isprintable():
        raise RegistrationRefused(_("A command needs a name of 1 to 100 characters without control characters."))
    if not words or not all(isinstance(word, str) and _storable(word) for word in words) or not words[0]:
        raise RegistrationRefused(
            _("The command %(name)s must be a list of words, the program first, in UTF-8 without NUL.") % {"name": name}
        )
    return words


def _check(check: Mapping[str, Any]) -> dict[str, Any]:
    try:
        valid = Check.model_validate(dict(check))
    except ValidationError as error:
        first = error.errors()[0]
        raise RegistrationRefused(
            _("The check %(name)s cannot be used: %(key)s: %(why)s.")
            % {"name": check.get("name", ""), "key": first["loc"][0] if first["loc"] else "", "why": first["msg"]}
        ) from None
    _argv(valid.name, valid.argv)
    return valid.model_dump(mode="json")


def _storable(text: str) -> bool:
    """Whether both databases can keep it as it is."""
    return "\0" not in text and not any("\ud800" <= character <= "\udfff" for character in text)


def set_limits(
    repository_id: int, *, autonomy: str, concurrency: int, restricted: bool, reason: str, actor: str
) -> Repository:
    """How far and how many jobs of the repository may go from now on, audited (E3). Whether the actor is an owner is
    asked by the caller.

    More freedom comes step by step: one level up at a time, at most twice as many jobs at once. Back is free.
    Raises LimitsRefused.
    """
    if not reason.strip():
        raise LimitsRefused(_("Say why: it is what others read later."))
    with transaction.atomic():
        repository = Repository.objects.select_for_update().get(pk=repository_id)
        _refuse_leaps(repository, autonomy, concurrency)
        wanted = {"autonomy": autonomy, "concurrency": concurrency, "restricted": restricted}
        changed = {name: value for name, value in wanted.items() if getattr(repository, name) != value}
        if not changed:
            raise LimitsRefused(_("That is what it has already."))
        before = {f"{name}_before": getattr(repository, name) for name in changed}
        for name, value in changed.items():
            setattr(repository, name, value)
        repository.save(update_fields=list(changed))
        facts: dict[str, Any] = {**changed, **before}
        audit.note(f"repository:{repository.pk}", "limits", actor, reason=reason.strip()[:500], **facts)
    return repository


def _refuse_leaps(repository: Repository, autonomy: str, concurrency: int) -> None:
    levels = [str(level) for level in Autonomy.values]
    if autonomy not in levels:
        raise LimitsRefused(_("The levels are: %(levels)s.") % {"levels": ", ".join(levels)})
    if levels.index(autonomy) > levels.index(repository.autonomy) + 1:
        raise LimitsRefused(_("One level at a time: after %(now)s comes the next one.") % {"now": repository.autonomy})
    if not 1 <= concurrency <= max(2 * repository.concurrency, repository.concurrency + 1):
        raise LimitsRefused(
            _("From 1 to twice as many as now (%(now)d): raise it again when that has gone well.")
            % {"now": repository.concurrency}
        )
