"""JSON lines to requests: one job a line, read as a stream; a line that cannot be used says why and stops no other."""

import json
from argparse import ArgumentTypeError
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, BinaryIO

from django.utils.translation import gettext as _

from jobs.errors import EnqueueRefused, PayloadRefused
from jobs.management import arguments
from jobs.payloads import MAX_TEXT_BYTES
from jobs.services.requests import Request

MAX_LINE_BYTES = MAX_TEXT_BYTES + 16 * 1024  # a payload as long as it may be, and what stands around it
_REQUIRED = ("repo", "branch", "action")
_TEXTS = (*_REQUIRED, "workflow_version", "batch", "deadline", "takeover", "date")
KEYS = (*_TEXTS, "payload", "priority")


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the file, counted from 1: a request or the refusal of it. `end`: bytes read up to its end."""

    number: int
    end: int
    request: Request | EnqueueRefused


def read(file: BinaryIO, defaults: Mapping[str, Any]) -> Iterator[Line]:
    """The requests in the file; empty lines count but ask for nothing. `defaults` fill in keys that a line leaves
    out. No line is held beyond its limit, however long it is."""
    number = end = 0
    while data := file.readline(MAX_LINE_BYTES + 1):
        number += 1
        end += len(data)
        whole = len(data) <= MAX_LINE_BYTES
        if not whole:
            end += _skip_rest(file, data)
        elif not data.strip():
            continue
        try:
            if not whole:
                raise PayloadRefused(_("The line is longer than %(kib)d KiB.") % {"kib": MAX_LINE_BYTES // 1024})
            yield Line(number, end, request(_parse(data), defaults))
        except EnqueueRefused as refusal:
            yield Line(number, end, refusal)


def request(found: Mapping[str, Any], defaults: Mapping[str, Any]) -> Request:
    """The request that one line's object asks for. Raises EnqueueRefused, with the field."""
    for name in found:
        if name not in KEYS:
            raise _refusal(name, _("is no key of a line; the keys are: %(known)s") % {"known": ", ".join(KEYS)})
    values = {name: value for name, value in defaults.items() if value is not None} | dict(found)
    for name in _REQUIRED:
        if name not in values:
            raise _refusal(name, _("is missing"))
    for name in _TEXTS:
        if not isinstance(values.get(name, ""), str):
            raise _refusal(name, _("must be text"))
    if type(values.get("priority", 0)) is not int:
        raise _refusal("priority", _("must be a whole number"))
    if not isinstance(values.get("payload", {}), dict):
        raise _refusal("payload", _('must be a JSON object, such as {"name": "value"}'))
    return _request(values)


def _request(values: Mapping[str, Any]) -> Request:
    try:
        deadline = arguments.moment(values["deadline"]) if "deadline" in values else None
    except ArgumentTypeError as error:
        raise _refusal("deadline", _("is no time: %(why)s") % {"why": error}) from None
    return Request(
        values["repo"],
        values["branch"],
        values["action"],
        values.get("payload", {}),
        workflow_version=values.get("workflow_version"),
        priority=values.get("priority", 0),
        batch=values.get("batch", ""),
        deadline=deadline,
        takeover_person=values.get("takeover", ""),
        date=values.get("date", ""),
    )


def _parse(data: bytes) -> dict[str, Any]:
    """The line's object. What its values may be is checked with the request, as for any other way in."""
    try:
        found = json.loads(data.decode(), object_pairs_hook=_object)
    except RecursionError:
        raise PayloadRefused(_("The line is nested too deep."), field="payload") from None
    except UnicodeDecodeError as error:
        raise PayloadRefused(
            _("The line is not UTF-8 text: byte %(at)d cannot be read.") % {"at": error.start + 1}
        ) from None
    except json.JSONDecodeError as error:
        where = {"column": error.colno, "what": error.msg}
        raise PayloadRefused(_("The line is not JSON: column %(column)d: %(what)s.") % where) from None
    except ValueError:  # Python does not turn thousands of digits into a number
        raise PayloadRefused(_("The line holds a number that is too long; write it as text.")) from None
    if not isinstance(found, dict):
        raise PayloadRefused(_("A line must be a JSON object with the keys %(keys)s.") % {"keys": ", ".join(KEYS)})
    return found


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        names = [name for name, _value in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise PayloadRefused(_("The key %(name)s is given twice.") % {"name": twice[:64]}, field=twice[:64])
    return found


def _skip_rest(file: BinaryIO, data: bytes) -> int:
    skipped = 0
    while data and not data.endswith(b"\n"):
        data = file.readline(MAX_LINE_BYTES)
        skipped += len(data)
    return skipped


def _refusal(name: str, why: str) -> EnqueueRefused:
    return EnqueueRefused(_("The line's %(name)s %(why)s.") % {"name": name[:64], "why": why}, field=name[:64])
