"""Workflow files: from TOML on disk to definitions, with errors that name file, line and key (K4)."""

import difflib
import re
import tomllib
from collections.abc import Collection
from pathlib import Path
from typing import Any

from django.utils.translation import gettext as _
from pydantic import ValidationError

from jobs.errors import WorkflowRefused
from jobs.workflows.definition import WorkflowDefinition
from jobs.workflows.toml_lines import line_of

BUILT_IN = Path(__file__).parent
EXECUTORS = frozenset({"command", "sample", "codex", "claude"})
MAX_FILE_BYTES = 256 * 1024


def available(folder: Path | None = None, *, executors: Collection[str] = EXECUTORS) -> list[WorkflowDefinition]:
    """The built-in workflows and those in the owner's `folder` (its *.toml files), by name and version.

    Raises WorkflowRefused for a folder or file that cannot be used, and for two files that give one name and
    version to different content.
    """
    if folder is not None and not folder.is_dir():
        raise WorkflowRefused(_("The workflow folder %(folder)s is not a folder.") % {"folder": folder})
    found: dict[tuple[str, str], tuple[Path, WorkflowDefinition]] = {}
    for place in (BUILT_IN, folder):
        for path in sorted(place.glob("*.toml")) if place else ():
            definition = load_file(path, executors=executors)
            first, earlier = found.setdefault((definition.name, definition.version), (path, definition))
            if earlier.digest != definition.digest:
                raise _clash(first, path, definition)
    return [found[key][1] for key in sorted(found)]


def load_file(path: Path, *, executors: Collection[str] = EXECUTORS) -> WorkflowDefinition:
    """The workflow in one TOML file. Raises WorkflowRefused with file, line and key."""
    text = _read(path)
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise _syntax(path, str(error)) from None
    except RecursionError:
        raise _refusal(path, 1, "", _("this file is nested too deep")) from None
    try:
        definition = WorkflowDefinition.model_validate(document)
    except ValidationError as error:
        raise _schema(path, text, error) from None
    if definition.executor not in executors:
        why = _("is none of the executors: %(known)s") % {"known": ", ".join(sorted(executors))}
        raise _refusal(path, line_of(text, ("executor",)), "executor", why)
    return definition


def from_document(text: str) -> WorkflowDefinition:
    """The workflow stored as `document_text` at its first enqueue; it needs no file, which may be gone (K4)."""
    return WorkflowDefinition.model_validate_json(text)


def _read(path: Path) -> str:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise _refusal(path, 0, "", _("cannot be read: %(why)s") % {"why": error.strerror}) from None
    if len(data) > MAX_FILE_BYTES:
        raise _refusal(path, 0, "", _("is larger than %(kib)d KiB") % {"kib": MAX_FILE_BYTES // 1024})
    try:
        # TOML knows both line ends as one; a document must not differ by the editor that saved it.
        return data.decode().replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise _refusal(path, line, "", _("this line is not UTF-8 text")) from None


def _syntax(path: Path, message: str) -> WorkflowRefused:
    """tomllib's own message with the line taken out of it."""
    place = re.search(r" \(at (?:line (\d+), column \d+|end of document)\)$", message)
    line = int(place[1] or 0) if place else 0
    return _refusal(path, line, "", message[: place.start()] if place else message)


def _schema(path: Path, text: str, error: ValidationError) -> WorkflowRefused:
    """The problem that stands first in the file; mending goes from the top down."""
    # A missing key last: it is often there under a wrong name, which is the better answer.
    first = min(error.errors(), key=lambda problem: (problem["type"] == "missing", line_of(text, _place(problem))))
    place = _place(first)
    return _refusal(path, line_of(text, place), _key(place), _why(first))


def _place(problem: Any) -> tuple[str | int, ...]:
    place: tuple[str | int, ...] = problem["loc"]
    return (problem["ctx"]["key"],) if problem["type"] == "workflow_rule" else place


def _why(problem: Any) -> str:
    kind = problem["type"]
    if kind == "missing":
        return _("is missing")
    if kind == "extra_forbidden":
        near = difflib.get_close_matches(str(problem["loc"][-1]), WorkflowDefinition.model_fields, 1)
        hint = _("; did you mean %(name)s?") % {"name": near[0]} if near else ""
        return _("is not a key of a workflow file") + hint
    message: str = problem["msg"]
    return message.removeprefix("Value error, ").removeprefix("Input ")


def _key(path: tuple[str | int, ...]) -> str:
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def _clash(first: Path, second: Path, definition: WorkflowDefinition) -> WorkflowRefused:
    names = {"first": first, "second": second, "name": definition.name, "version": definition.version}
    return WorkflowRefused(
        _(
            "%(first)s and %(second)s both call themselves %(name)s version %(version)s but differ. "
            "Raise the version in the newer one."
        )
        % names,
        file=str(second),
        key="version",
    )


def _refusal(path: Path, line: int, key: str, why: str) -> WorkflowRefused:
    parts = [str(path)]
    if line:
        parts.append(_("line %(line)d") % {"line": line})
    place = ", ".join(parts) + ": " + (f"{key} " if key else "")
    return WorkflowRefused(f"{place}{why}.", file=str(path), line=line, key=key)
