"""Registering repositories, and reading a branch of one without touching it (E3, K1)."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from django.db import IntegrityError, transaction
from django.utils import timezone
from django.utils.translation import gettext as _

from jobs.errors import AgentQError, BranchUnknown
from jobs.models import Repository
from jobs.services import audit
from jobs.workflows.definition import Check
from jobs.workspaces.git import Git, validate_branch
from jobs.workspaces.source import SourceFacts, inspect_source, locate


class RegistrationRefused(AgentQError):
    """The repository was not registered."""


def register(
    *,
    name: str,
    location: str,
    actor: str,
    branch: str = "",
    commands: Mapping[str, Sequence[str]] | None = None,
    checks: Sequence[Mapping[str, Any]] = (),
) -> tuple[Repository, SourceFacts]:
    """The repository is registered under its name, audited; with what was found at its location.

    Refuses a name that is taken in whatever case, a place that is no git repository, is empty or lacks the branch,
    and commands or checks that are no argument lists. The repository's files are not touched.
    """
    name = name.strip()
    if not name or len(name) > 200 or any(ord(character) < 32 for character in name):
        raise RegistrationRefused(_("A repository needs a name of 1 to 200 characters without control characters."))
    facts = inspect_source(location)
    default = branch or facts.default_branch or facts.branches[0]
    if validate_branch(default) not in facts.branches:
        raise BranchUnknown(default)
    values: dict[str, Any] = {
        "name": name,
        "location": str(Path(location).resolve()),
        "default_branch": default,
        "commands": {key: _argv(key, argv) for key, argv in (commands or {}).items()},
        "checks": [Check.model_validate(dict(check)).model_dump(mode="json") for check in checks],
        "created_at": timezone.now(),
    }
    try:
        with transaction.atomic():
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
    except IntegrityError:
        taken = Repository.objects.filter(name__iexact=name).values_list("name", flat=True).first()
        raise RegistrationRefused(
            _("A repository named %(taken)s is registered already; names that differ by case only are one name.")
            % {"taken": taken or name}
        ) from None
    return repository, facts


def branch_commit(repository: Repository, branch: str) -> str:
    """The commit that a branch has in the registered repository now. Raises BranchInvalid, BranchUnknown."""
    git = Git(locate(repository.location))
    ref = f"refs/heads/{validate_branch(branch)}^{{commit}}"
    commit = git.text("rev-parse", "--quiet", "--verify", "--end-of-options", ref, ok=(0, 1))
    if not commit:
        raise BranchUnknown(branch)
    return commit


def _argv(name: str, argv: Sequence[str]) -> list[str]:
    words = [argv] if isinstance(argv, str) else list(argv)
    if not words or not all(isinstance(word, str) and "\0" not in word for word in words) or not words[0]:
        raise RegistrationRefused(_("The command %(name)s must be a list of words.") % {"name": name})
    return words
