"""K1, K3: equal input has one key, and nothing else has it."""

import datetime
import hashlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.core.keys import canonical_json, make_effect_key, make_idempotency_key, sha256_hex

INPUT: dict[str, Any] = {
    "repo": "demo/payment-service",
    "branch": "main",
    "action": "generate-tests",
    "payload": {"ticket": "DEV-1024", "paths": ["src/billing.py"]},
    "workflow_version": "2026-08-25-v1",
}
EFFECT = {"kind": "test", "repo": "shop-api", "target": "unit", "sha": "abc123"}

text = st.text(st.characters(codec="utf-8"), max_size=20)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | text,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(text, inner, max_size=4),
    max_leaves=12,
)
payloads = st.dictionaries(text, json_values, max_size=5)
padding = st.text(" \t\n\u00a0", max_size=3)


def _reversed_keys(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _reversed_keys(value[key]) for key in reversed(value)}
    return [_reversed_keys(inner) for inner in value] if isinstance(value, list) else value


def test_the_published_vector_for_a_job():
    assert make_idempotency_key(**INPUT) == "245f159804469d525a65acef2d225664626a260192035c96602705a5e679237d"


def test_the_published_vector_for_an_outside_act():
    assert make_effect_key(**EFFECT) == "39ead0ff628396ad"


@given(payload=payloads)
def test_the_order_of_keys_does_not_matter(payload: dict[str, Any]):
    twin = make_idempotency_key(**INPUT | {"payload": _reversed_keys(payload)})
    assert make_idempotency_key(**INPUT | {"payload": payload}) == twin


@given(left=padding, right=padding)
def test_spaces_around_repository_and_branch_do_not_matter(left: str, right: str):
    padded = {"repo": left + INPUT["repo"] + right, "branch": right + INPUT["branch"] + left}
    assert make_idempotency_key(**INPUT | padded) == make_idempotency_key(**INPUT)


@given(upper=st.lists(st.booleans(), min_size=20, max_size=20))
def test_the_case_of_the_repository_does_not_matter(upper: list[bool]):
    name = "".join(c.upper() if up else c for c, up in zip(INPUT["repo"], upper, strict=True))
    assert make_idempotency_key(**INPUT | {"repo": name}) == make_idempotency_key(**INPUT)


@pytest.mark.parametrize("part", ["branch", "action", "workflow_version"])
def test_the_case_of_anything_else_matters(part: str):
    assert make_idempotency_key(**INPUT | {part: INPUT[part].upper()}) != make_idempotency_key(**INPUT)


@pytest.mark.parametrize("part", ["action", "workflow_version"])
def test_spaces_around_action_and_version_matter(part: str):
    assert make_idempotency_key(**INPUT | {part: INPUT[part] + " "}) != make_idempotency_key(**INPUT)


@given(first=payloads, second=payloads)
def test_two_payloads_share_a_key_only_when_their_canonical_text_is_one(first: dict[str, Any], second: dict[str, Any]):
    same_key = make_idempotency_key(**INPUT | {"payload": first}) == make_idempotency_key(**INPUT | {"payload": second})
    assert same_key == (canonical_json(first) == canonical_json(second))


@given(parts=st.tuples(text, text, text, text), other=st.tuples(text, text, text, text))
def test_text_never_moves_from_one_part_into_the_next(
    parts: tuple[str, str, str, str], other: tuple[str, str, str, str]
):
    def key(repo: str, branch: str, action: str, version: str) -> str:
        return make_idempotency_key(repo=repo, branch=branch, action=action, payload={}, workflow_version=version)

    meaning = [(p[0].strip().lower(), p[1].strip(), p[2], p[3]) for p in (parts, other)]
    assert (key(*parts) == key(*other)) == (meaning[0] == meaning[1])


@pytest.mark.parametrize("payload", [{"n": 1}, {"n": 1.0}, {"n": "1"}, {"n": True}, {"n": [1]}, {"n": None}, {}])
def test_values_that_only_look_alike_are_other_input(payload: dict[str, Any]):
    others = [{"n": 1}, {"n": 1.0}, {"n": "1"}, {"n": True}, {"n": [1]}, {"n": None}, {}]
    keys = [make_idempotency_key(**INPUT | {"payload": other}) for other in others]
    assert keys.count(make_idempotency_key(**INPUT | {"payload": payload})) == 1


def test_canonical_text_is_sorted_tight_and_keeps_other_scripts_readable():
    assert canonical_json({"b": [1, None, True], "a": "测试 é"}) == '{"a":"测试 é","b":[1,null,true]}'


@pytest.mark.parametrize("value", [float("nan"), float("inf"), "\ud800", {"\udfff": 1}])
def test_what_has_no_canonical_text_is_refused(value: object):
    with pytest.raises(ValueError):
        canonical_json({"a": value})


@pytest.mark.parametrize("value", [{1: "a"}, [{None: 1}], {"a": ({True: 1},)}])
def test_a_key_that_is_no_text_is_refused_because_json_would_turn_it_into_text(value: object):
    with pytest.raises(TypeError, match="key"):
        canonical_json(value)


def test_text_is_digested_as_utf8():
    assert sha256_hex("测") == sha256_hex("测".encode()) == hashlib.sha256("测".encode()).hexdigest()


def test_a_planned_date_makes_another_key_and_both_ways_to_write_it_agree():
    planned = make_effect_key(**EFFECT, planned_date=datetime.date(2026, 8, 25))
    assert planned == make_effect_key(**EFFECT, planned_date="2026-08-25")
    assert planned == sha256_hex("test|shop-api|unit|abc123|2026-08-25")[:16]
    assert planned != make_effect_key(**EFFECT)


@pytest.mark.parametrize("part", ["kind", "repo", "target", "sha"])
def test_each_part_of_an_outside_act_matters(part: str):
    assert make_effect_key(**EFFECT | {part: "other"}) != make_effect_key(**EFFECT)


@pytest.mark.parametrize("part", ["kind", "repo", "sha"])
def test_a_bar_that_could_shift_the_parts_of_an_act_is_refused(part: str):
    with pytest.raises(ValueError, match=part):
        make_effect_key(**EFFECT | {part: "a|b"})


@pytest.mark.parametrize(
    "planned", ["20260825", "2026-W35-2", "tomorrow", datetime.datetime(2026, 8, 25, tzinfo=datetime.UTC)]
)
def test_a_planned_date_in_another_form_is_refused(planned: Any):
    with pytest.raises(ValueError):
        make_effect_key(**EFFECT, planned_date=planned)
