"""E1, K2, K5: a payload is taken exactly as it is meant, or refused with one sentence that says where."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from jobs.core.keys import canonical_json
from jobs.errors import PayloadRefused
from jobs.payloads import MAX_INTEGER, PayloadField, add_reserved, parse_payload, validate

FIELDS = [
    PayloadField(name="title", kind="string", max_bytes=10),
    PayloadField(name="note", kind="instructions"),
    PayloadField(name="count", kind="integer", minimum=1, maximum=5),
    PayloadField(name="fast", kind="boolean"),
    PayloadField(name="mode", kind="enum", choices=["slow", "quick"]),
    PayloadField(name="labels", kind="strings", max_items=3, max_bytes=5),
    PayloadField(name="paths", kind="paths"),
    PayloadField(name="command", kind="argv"),
]


def _refusal(text: str | bytes) -> PayloadRefused:
    with pytest.raises(PayloadRefused) as caught:
        parse_payload(text)
    return caught.value


def _field_refusal(payload: Any, **options: Any) -> PayloadRefused:
    with pytest.raises(PayloadRefused) as caught:
        validate(payload, FIELDS, **options)
    return caught.value


def _nested(levels: int) -> str:
    return '{"a":' * levels + "1" + "}" * levels


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "line 1, column 1"),
        ('{"a": 1,\n "b" 2}', "line 2, column 6"),
        ("[1]", "must be a JSON object"),
        ('"text"', "must be a JSON object"),
        ("null", "must be a JSON object"),
        ('{"a": NaN}', "payload's a must be a whole number"),
        ('{"a": [1, -Infinity]}', "payload's a[1] must be a whole number"),
        ('{"a": 1e999}', "payload's a must be a whole number"),
        ('{"a": 1.5}', "payload's a must be a whole number"),
        ('{"a": 9007199254740992}', "payload's a is a number beyond 9007199254740991"),
        ('{"a": {"b": -' + "9" * 5000 + "}}", "payload's a.b is a number beyond"),
        ('{"a": 1, "a": 1}', "payload's a is given twice"),
        ('{"x": [{"b": 1, "c": 2, "b": 3}]}', "payload's x[0].b is given twice"),
        (r'{"a": ["ok", "\ud800"]}', "payload's a[1] contains half of a surrogate pair"),
        (r'{"a": "\u0000"}', "payload's a contains a NUL"),
        (r'{"a\u0000": 1}', r"payload's a\u0000 contains a NUL"),
        (r'{"\udfff": 1}', r"payload's \udfff contains half of a surrogate pair"),
        (b'{"a": "\xff"}', "not UTF-8 text: byte 8"),
        (_nested(21), "deeper than 20"),
        (_nested(50_000), "deeper than 20"),
        ('{"a": ' + "[" * 20 + "]" * 20 + "}", "deeper than 20"),
        (json.dumps({"a": "x" * 65_536}), "larger than 64 KiB"),
        (" " * 600_000 + "{}", "longer than 512 KiB"),
        (json.dumps({f"k{n}": 1 for n in range(2001)}), "more than 2000 keys"),
        (json.dumps({"a": [{"k": 1}] * 2000}), "more than 2000 keys"),
    ],
)
def test_text_that_is_not_plainly_a_payload_is_refused_with_its_place(text: str | bytes, words: str):
    assert words in str(_refusal(text))


def test_the_largest_payload_that_fits_is_taken():
    room = 64 * 1024 - len('{"a":""}')
    assert parse_payload(json.dumps({"a": "x" * room})) == {"a": "x" * room}
    assert parse_payload(json.dumps({"a": "测" * 20_000}))["a"] == "测" * 20_000
    assert parse_payload(_nested(20))
    assert len(parse_payload(json.dumps({f"k{n}": 1 for n in range(2000)}))) == 2000
    assert parse_payload(f'{{"a": {-MAX_INTEGER}}}') == {"a": -MAX_INTEGER}


def test_fifty_thousand_keys_with_a_repeated_one_are_refused_for_their_number():
    text = "{" + ",".join(f'"{n:x}":1' for n in range(50_000)) + ',"c34f":1}'
    assert "more than 2000 keys" in str(_refusal(text))


def test_a_message_shows_no_control_character_of_a_key():
    message = str(_refusal('{"\\u001b[31m\\u202e": 1.5}'))
    assert "\x1b" not in message
    assert "\u202e" not in message


values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-MAX_INTEGER, MAX_INTEGER)
    | st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text("abc", max_size=3), inner, max_size=4),
    max_leaves=15,
)


@given(payload=st.dictionaries(st.text("abcdef", max_size=3), values, max_size=5), ascii_only=st.booleans())
def test_what_is_taken_comes_back_as_it_went_in(payload: dict[str, Any], ascii_only: bool):
    assert parse_payload(json.dumps(payload, indent=1, ensure_ascii=ascii_only)) == payload
    assert parse_payload(canonical_json(payload).encode()) == payload


def test_good_values_of_every_kind_pass_unchanged():
    payload = {
        "title": "short",
        "note": "x" * 4096,
        "count": 5,
        "fast": False,
        "mode": "quick",
        "labels": ["a", "b"],
        "paths": ["src/*.py", "with space/测.txt", "-dash", ".github/x", "a.git/b"],
        "command": "tests",
    }
    assert validate(payload, FIELDS, argv_names={"tests"}) == payload
    assert validate({}, FIELDS) == {}


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("colour", "red", "is no field of this action; its fields are: title, note"),
        ("title", "x" * 11, "longer than 10 bytes"),
        ("title", "测测测测", "longer than 10 bytes"),
        ("title", 3, "must be text"),
        ("title", None, "must be text"),
        ("note", "x" * 4097, "longer than 4096 bytes"),
        ("count", 6, "between 1 and 5"),
        ("count", 0, "between 1 and 5"),
        ("count", True, "must be a whole number"),
        ("count", "2", "must be a whole number"),
        ("fast", 1, "must be true or false"),
        ("mode", "SLOW", "must be one of: slow, quick"),
        ("labels", "a", "must be a list"),
        ("labels", ["a"] * 4, "more than 3 entries"),
        ("labels", ["a", "sixsix"], "labels[1] is longer than 5 bytes"),
        ("labels", ["a", 7], "labels[1] must be text"),
        ("paths", ["/etc/passwd"], "inside the repository"),
        ("paths", ["a/../../b"], "inside the repository"),
        ("paths", [".."], "inside the repository"),
        ("paths", [".git/config"], "reach into .git"),
        ("paths", ["a/.GIT"], "reach into .git"),
        ("paths", ["a/.git./x"], "reach into .git"),
        ("paths", ["ok", "./a"], "paths[1] must be written in its shortest form"),
        ("paths", ["a//b"], "shortest form"),
        ("paths", ["a/"], "shortest form"),
        ("paths", [""], "shortest form"),
        ("paths", ["a\0b"], "paths[0] contains a NUL"),
        ("title", "\ud800", "surrogate"),
        ("count", 2.0, "whole number"),
        ("labels", ("a",), "is no JSON value"),
        ("command", "rm -rf", "names no command of this repository; registered are: format, tests"),
        ("again", {"of": 1, "n": 1}, "is set by AgentQ itself"),
        ("base_sha", "a" * 40, "is set by AgentQ itself"),
        ("date", "2026-08-25", "is set by AgentQ itself"),
    ],
)
def test_a_wrong_value_is_refused_and_the_field_is_named(field: str, value: Any, words: str):
    error = _field_refusal({field: value}, argv_names=["tests", "format"])
    assert words in str(error)
    assert error.field == field


def test_a_missing_field_is_named():
    with pytest.raises(PayloadRefused, match="payload's task is missing") as caught:
        validate({}, [PayloadField(name="task", kind="string", required=True)])
    assert caught.value.field == "task"


def test_the_value_itself_is_never_in_the_message():
    assert "hunter2" not in str(_field_refusal({"mode": "hunter2"}))
    assert "hunter2" not in str(_field_refusal({"command": "hunter2"}))


@pytest.mark.parametrize(
    "declaration",
    [
        {"name": "date", "kind": "string"},
        {"name": "Bad Name", "kind": "string"},
        {"name": "mode", "kind": "enum"},
        {"name": "mode", "kind": "string", "choices": ["a"]},
        {"name": "n", "kind": "integer", "minimum": 2, "maximum": 1},
        {"name": "n", "kind": "float"},
        {"name": "n", "kind": "string", "colour": "red"},
    ],
)
def test_a_declaration_that_cannot_be_kept_is_refused(declaration: dict[str, Any]):
    with pytest.raises(ValidationError):
        PayloadField(**declaration)


def test_reserved_fields_are_added_by_enqueue_only_and_change_nothing_given():
    given_payload = {"title": "a"}
    full = add_reserved(given_payload, base_sha="b" * 40, date="2026-08-25", again={"of": 7, "n": 1})
    assert full == {"title": "a", "base_sha": "b" * 40, "date": "2026-08-25", "again": {"of": 7, "n": 1}}
    assert add_reserved(given_payload) == given_payload == {"title": "a"}
