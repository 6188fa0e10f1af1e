"""A workflow's declared fields as a form, and what was typed there as a payload (E1, K5)."""

from collections.abc import Iterable, Mapping
from typing import Any

from django import forms
from django.utils.translation import gettext as _

from jobs.payloads import PayloadField

PREFIX = "p-"
LONG_TEXT = 200  # bytes; a field that may hold more gets several lines


def form_fields(fields: Iterable[PayloadField], commands: Iterable[str]) -> dict[str, forms.Field]:
    """A form field for each declared one, under `PREFIX` and its name. Left empty means left out."""
    names = sorted(commands)
    return {PREFIX + field.name: _form_field(field, names) for field in fields}


def payload(fields: Iterable[PayloadField], cleaned: Mapping[str, Any]) -> dict[str, Any]:
    """The payload that was typed: only the fields that hold something, each in its declared type."""
    typed = {field.name: _value(field, cleaned.get(PREFIX + field.name)) for field in fields}
    return {name: value for name, value in typed.items() if value is not None}


def _form_field(field: PayloadField, commands: list[str]) -> forms.Field:
    known: dict[str, Any] = {
        "label": (field.title or field.name) + ("" if field.required else _(" (may be left out)")),
        "help_text": _help(field),
        "required": field.required,
        "error_messages": {"required": _("This field is needed.")},
    }
    if field.kind == "integer":
        return forms.IntegerField(**known)
    if field.kind == "boolean":
        return _choice([("true", _("yes")), ("false", _("no"))], known)
    if field.kind == "enum":
        return _choice([(choice, choice) for choice in field.choices], known)
    if field.kind == "argv":
        return _choice([(name, name) for name in commands], known)
    lines = {"string": 1, "instructions": 4}.get(field.kind, 3)
    if field.kind == "string" and field.max_bytes > LONG_TEXT:
        lines = 3
    attrs = {"class": "inp mono" if field.kind != "instructions" else "inp", "spellcheck": "false"}
    widget = forms.TextInput(attrs) if lines == 1 else forms.Textarea({**attrs, "rows": lines})
    return forms.CharField(widget=widget, strip=False, **known)


def _choice(choices: list[tuple[str, str]], known: dict[str, Any]) -> forms.Field:
    """A value that is no choice is the service's to refuse, in the same words as for the command."""
    empty = ("", _("choose") if known["required"] else _("left out"))
    return forms.CharField(widget=forms.Select(choices=[empty, *choices]), **known)


def _help(field: PayloadField) -> str:
    if field.kind in ("paths", "strings"):
        return f"{field.help} {_('One a line.')}".strip()
    return field.help


def _value(field: PayloadField, typed: Any) -> Any:
    if typed is None or typed == "":
        return None
    if field.kind == "boolean":
        return {"true": True, "false": False}.get(typed, typed)
    if field.kind == "integer":
        return typed
    text = typed.replace("\r\n", "\n")
    if field.kind in ("paths", "strings"):
        return [line for line in text.split("\n") if line.strip()] or None
    return text
