"""Credentials by reference (Z5): names in the settings, values only in the worker's and the child's memory."""

import os
import re
from collections.abc import Collection, Mapping
from pathlib import Path

from jobs.errors import CredentialMissing, CredentialsInvalid
from jobs.executors.process import OURS

FILE_BYTES = 64 * 1024
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def parse(text: str) -> dict[str, str]:
    """References by the name that an agent's environment shall hold: `NAME=env:VARIABLE`, `NAME=file:PATH`, with
    blanks, commas or new lines between. Raises CredentialsInvalid, also for names of AgentQ's own settings."""
    found: dict[str, str] = {}
    for entry in re.split(r"[\s,]+", text.strip()):
        if not entry:
            continue
        name, _, reference = entry.partition("=")
        kind, _, place = reference.partition(":")
        if not _NAME.fullmatch(name) or kind not in ("env", "file") or not place or name in found or OURS.match(name):
            raise CredentialsInvalid(name if _NAME.fullmatch(name) else "")
        found[name] = reference
    return found


def resolve(
    references: Mapping[str, str], wanted: Collection[str], *, environment: Mapping[str, str] | None = None
) -> dict[str, str]:
    """The values of those references that are `wanted`, read now. Never store or log them; hand them to the redactor.

    Raises CredentialMissing when a reference leads nowhere. A wanted name without a reference is left out.
    """
    source = os.environ if environment is None else environment
    return {name: _read(name, references[name], source) for name in sorted(wanted) if name in references}


def _read(name: str, reference: str, source: Mapping[str, str]) -> str:
    kind, _, place = reference.partition(":")
    if kind == "env":
        value = source.get(place, "")
    else:
        try:
            with Path(place).open("rb") as file:
                value = file.read(FILE_BYTES).decode().strip()
        except (OSError, UnicodeDecodeError):
            value = ""
    if not value or "\0" in value:
        raise CredentialMissing(name, reference)
    return value
