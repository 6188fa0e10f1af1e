"""Payloads: what a job may be asked. Strict JSON in, a closed list of fields per action, nothing guessed."""

import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Literal, NoReturn

from django.utils.translation import gettext as _
from pydantic import BaseModel, ConfigDict, Field, model_validator

from jobs.core.keys import canonical_json
from jobs.errors import PayloadRefused

MAX_TEXT_BYTES = 512 * 1024  # as typed: 64 KiB of content can be written six times as long with \u escapes
MAX_CANONICAL_BYTES = 64 * 1024
MAX_DEPTH = 20
MAX_KEYS = 2_000
MAX_INTEGER = 2**53 - 1  # beyond it, other readers of JSON round without a word
MAX_INSTRUCTION_BYTES = 4 * 1024
RESERVED = ("again", "base_sha", "date")

FieldKind = Literal["string", "instructions", "integer", "boolean", "enum", "strings", "paths", "argv"]


class PayloadField(BaseModel):
    """One field that an action accepts (K5), declared in its workflow file.

    `max_bytes` limits each text, in UTF-8 bytes (instructions: always 4 KiB); `max_items` limits a list.
    `choices` belongs to an enum, `minimum` and `maximum` to an integer. A field that is left out stays out:
    it has no default. `excludes` names a field that may not be given together with this one.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    name: str = Field(pattern=r"^[a-z][a-z0-9_]{0,63}$")
    kind: FieldKind
    title: str = Field(default="", max_length=80)
    help: str = Field(default="", max_length=300)
    required: bool = False
    excludes: str = ""
    max_bytes: int = Field(default=1024, ge=1, le=MAX_CANONICAL_BYTES)
    max_items: int = Field(default=100, ge=1, le=1000)
    choices: list[str] = []
    minimum: int = Field(default=-MAX_INTEGER, ge=-MAX_INTEGER, le=MAX_INTEGER)
    maximum: int = Field(default=MAX_INTEGER, ge=-MAX_INTEGER, le=MAX_INTEGER)

    @model_validator(mode="after")
    def _hangs_together(self) -> "PayloadField":
        if self.name in RESERVED:
            raise ValueError(f"the name {self.name} is reserved")
        if (self.kind == "enum") != bool(self.choices):
            raise ValueError("choices belong to a field of kind enum, and such a field needs them")
        if self.minimum > self.maximum:
            raise ValueError("minimum is above maximum")
        return self


def parse_payload(text: str | bytes) -> dict[str, Any]:
    """The payload written in `text`.

    Raises PayloadRefused when it is no JSON object, is too long, deep or large, repeats a key, or holds a value
    that would not come back from a database or another reader of JSON as it went in.
    """
    if len(text) > MAX_TEXT_BYTES:
        raise PayloadRefused(_("The payload is longer than %(kib)d KiB.") % {"kib": MAX_TEXT_BYTES // 1024})
    payload = _load(text)
    if not isinstance(payload, dict):
        raise PayloadRefused(_('The payload must be a JSON object, such as {"name": "value"}.'))
    _refuse_unsafe(payload)
    return payload


def validate(
    payload: Mapping[str, Any], fields: Sequence[PayloadField], *, argv_names: Collection[str] = ()
) -> dict[str, Any]:
    """The payload, when it holds only declared fields with good values (K5); nothing is changed or filled in.

    `argv_names` are the commands registered with the repository. Raises PayloadRefused, with the field's name,
    also for a reserved key (K2).
    """
    _refuse_unsafe(payload)
    declared = {field.name: field for field in fields}
    for name in payload:
        if name in RESERVED:
            _refuse(name, _("is set by AgentQ itself; leave it out"))
        if name not in declared:
            known = ", ".join(declared) or _("none")
            _refuse(name, _("is no field of this action; its fields are: %(known)s") % {"known": known})
    for field in fields:
        if field.name in payload:
            _check_field(field, payload[field.name], argv_names)
            if field.excludes in payload:
                _refuse(field.name, _("cannot be given together with %(other)s") % {"other": field.excludes})
        elif field.required:
            _refuse(field.name, _("is missing"))
    return dict(payload)


def add_reserved(
    payload: Mapping[str, Any],
    *,
    base_sha: str | None = None,
    date: str | None = None,
    again: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """A validated payload with what enqueue resolved for it (K2): the base commit, the planned day
    (YYYY-MM-DD), and `again` = {of: first job of the line, n: its ended jobs}."""
    resolved = {"base_sha": base_sha, "date": date, "again": dict(again) if again is not None else None}
    return dict(payload) | {name: value for name, value in resolved.items() if value is not None}


class _Repeating(dict[str, Any]):
    """An object in which a key came twice; kept until its path is known."""

    def __init__(self, pairs: list[tuple[str, Any]], repeated: str) -> None:
        super().__init__(pairs)
        self.repeated = repeated


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            return _Repeating(pairs, name)
        found[name] = value
    return found


def _load(text: str | bytes) -> object:
    try:
        return json.loads(
            text.decode() if isinstance(text, bytes) else text,
            object_pairs_hook=_object,
            # Too long for Python to convert cheaply: any number beyond the limit will do, it is refused below.
            parse_int=lambda digits: int(digits) if len(digits) <= 17 else MAX_INTEGER + 1,
        )
    except json.JSONDecodeError as error:
        where = {"line": error.lineno, "column": error.colno, "what": error.msg}
        raise PayloadRefused(
            _("The payload is not JSON: line %(line)d, column %(column)d: %(what)s.") % where
        ) from None
    except UnicodeDecodeError as error:
        raise PayloadRefused(
            _("The payload is not UTF-8 text: byte %(at)d cannot be read.") % {"at": error.start + 1}
        ) from None
    except RecursionError:
        raise _too_deep() from None


def _refuse_unsafe(payload: Mapping[str, Any]) -> None:
    """Refuses what is too large, or would not come back as it went in."""
    keys = 0
    for path, depth, value in _walk(payload):
        if depth > MAX_DEPTH:
            raise _too_deep()
        if isinstance(value, Mapping):
            keys += len(value)
            if keys > MAX_KEYS:
                raise PayloadRefused(_("The payload has more than %(most)d keys.") % {"most": MAX_KEYS})
            _refuse_odd_keys(path, value)
        else:
            _refuse_odd_value(path, value)
    if len(canonical_json(payload).encode()) > MAX_CANONICAL_BYTES:
        raise PayloadRefused(_("The payload is larger than %(kib)d KiB.") % {"kib": MAX_CANONICAL_BYTES // 1024})


def _walk(payload: Mapping[str, Any]) -> Iterator[tuple[str, int, object]]:
    """Every value with its path (such as `paths[2]`) and the number of containers around and including it."""
    waiting: list[tuple[str, int, object]] = [("", 1, payload)]
    while waiting:
        path, depth, value = waiting.pop()
        yield path, depth, value
        inner: list[tuple[str, object]] = []
        if isinstance(value, Mapping):
            inner = [(_join(path, name), found) for name, found in value.items()]
        elif isinstance(value, list):
            inner = [(f"{path}[{index}]", found) for index, found in enumerate(value)]
        waiting.extend((where, depth + isinstance(found, Mapping | list), found) for where, found in reversed(inner))


def _refuse_odd_keys(path: str, found: Mapping[Any, Any]) -> None:
    for name in found:
        where = _join(path, name)
        if not isinstance(name, str):
            _refuse(where, _("is a key that is not text"))
        _refuse_odd_text(where, name)
    if isinstance(found, _Repeating):
        _refuse(_join(path, found.repeated), _("is given twice"))


def _refuse_odd_value(path: str, value: object) -> None:
    if isinstance(value, str):
        _refuse_odd_text(path, value)
    elif isinstance(value, float):
        _refuse(path, _("must be a whole number; write a fraction as text (NaN and infinity are no values)"))
    elif isinstance(value, int) and abs(value) > MAX_INTEGER:
        _refuse(path, _("is a number beyond %(most)d; write it as text") % {"most": MAX_INTEGER})
    elif not (value is None or isinstance(value, int | list)):
        _refuse(path, _("is no JSON value"))


def _refuse_odd_text(path: str, text: str) -> None:
    if "\0" in text:
        _refuse(path, _("contains a NUL character"))
    if re.search("[\ud800-\udfff]", text):
        _refuse(path, _("contains half of a surrogate pair, which is no text"))


def _check_field(field: PayloadField, value: Any, argv_names: Collection[str]) -> None:
    name = field.name
    if field.kind in ("strings", "paths"):
        if not isinstance(value, list):
            _refuse(name, _("must be a list of texts"))
        if len(value) > field.max_items:
            _refuse(name, _("has more than %(most)d entries") % {"most": field.max_items})
        for index, entry in enumerate(value):
            where = f"{name}[{index}]"
            _check_text(where, entry, field.max_bytes)
            if field.kind == "paths":
                _check_path(where, entry)
    elif field.kind == "boolean":
        if not isinstance(value, bool):
            _refuse(name, _("must be true or false"))
    elif field.kind == "integer":
        _check_integer(field, value)
    else:
        _check_word(field, value, argv_names)


def _check_word(field: PayloadField, value: Any, argv_names: Collection[str]) -> None:
    _check_text(field.name, value, MAX_INSTRUCTION_BYTES if field.kind == "instructions" else field.max_bytes)
    if field.kind == "enum" and value not in field.choices:
        _refuse(field.name, _("must be one of: %(choices)s") % {"choices": ", ".join(field.choices)})
    if field.kind == "argv" and value not in argv_names:
        known = ", ".join(sorted(argv_names)) or _("none")
        _refuse(
            field.name,
            _("names no command of this repository; registered are: %(known)s") % {"known": known},
        )


def _check_integer(field: PayloadField, value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, int):
        _refuse(field.name, _("must be a whole number"))
    if not field.minimum <= value <= field.maximum:
        limits = {"low": field.minimum, "high": field.maximum}
        _refuse(field.name, _("must lie between %(low)d and %(high)d") % limits)


def _check_text(where: str, value: Any, max_bytes: int) -> None:
    if not isinstance(value, str):
        _refuse(where, _("must be text"))
    if len(value.encode()) > max_bytes:
        _refuse(where, _("is longer than %(most)d bytes") % {"most": max_bytes})


def _check_path(where: str, path: str) -> None:
    parts = path.split("/")
    if path.startswith("/") or ".." in parts:
        _refuse(where, _("must be a path inside the repository, without a leading / and without .."))
    if any(part.rstrip(" .").lower() == ".git" for part in parts):
        _refuse(where, _("must not reach into .git"))
    if "" in parts or "." in parts:
        _refuse(where, _("must be written in its shortest form, such as src/app.py, so that it has one key"))


def _too_deep() -> PayloadRefused:
    return PayloadRefused(_("The payload is nested deeper than %(most)d levels.") % {"most": MAX_DEPTH})


def _join(path: str, name: object) -> str:
    """The path one key further in. Keys come from anyone and end up in messages: long ones are cut, and what
    could disturb a page or a log is escaped."""
    text = name if isinstance(name, str) else repr(name)
    shown = "".join(c if c.isprintable() else f"\\u{ord(c):04x}" for c in text[:64])
    return f"{path}.{shown}" if path else shown


def _refuse(where: str, why: str) -> NoReturn:
    field = re.split(r"[.\[]", where, maxsplit=1)[0]
    raise PayloadRefused(_("The payload's %(where)s %(why)s.") % {"where": where, "why": why}, field=field)
