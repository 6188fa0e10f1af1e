"""What a command's words mean: a job's number, a moment, a command line, a payload."""

import argparse
import json
import re
import shlex
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from django.utils.translation import gettext as _

from jobs.payloads import MAX_TEXT_BYTES, parse_payload

MAX_JOB_ID = 2**63 - 1


def job_id(text: str) -> int:
    """`12` and `J-12` are the same job."""
    found = re.fullmatch(r"(?:[Jj]-)?([0-9]{1,19})", text)
    if found is None or not 0 < int(found[1]) <= MAX_JOB_ID:
        raise argparse.ArgumentTypeError(_("a job is a number, such as 12 or J-12"))
    return int(found[1])


def moment(text: str) -> datetime:
    """A time in ISO 8601, in UTC. It must say its time zone: a time without one means another moment elsewhere."""
    try:
        given = datetime.fromisoformat(text)
        if given.tzinfo is not None:
            return given.astimezone(UTC)
    except (ValueError, OverflowError):
        pass
    raise argparse.ArgumentTypeError(_("a time looks like 2026-11-29T18:00:00Z or 2026-11-29T18:00:00+08:00"))


def words(text: str) -> list[str]:
    """A command line as a shell would split it, or a JSON list of texts. No shell ever runs it."""
    try:
        found = json.loads(text) if text.lstrip().startswith("[") else shlex.split(text)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, list) or not found or not all(isinstance(word, str) for word in found):
        raise argparse.ArgumentTypeError(
            _('a command is words as in a shell, such as "pytest -q", or a JSON list, such as ["pytest", "-q"]')
        )
    return found


def named_words(text: str) -> tuple[str, list[str]]:
    """`NAME=ARGV`."""
    name, equals, argv = text.partition("=")
    if not equals or not name.strip():
        raise argparse.ArgumentTypeError(_('a command is registered as NAME=ARGV, such as fmt="black ."'))
    return name.strip(), words(argv)


def payload(text: str) -> dict[str, Any]:
    """The payload itself, or `@FILE` that holds it. Raises PayloadRefused, OSError."""
    if not text.startswith("@"):
        return parse_payload(text)
    with Path(text[1:]).open("rb") as file:
        return parse_payload(file.read(MAX_TEXT_BYTES + 1))
