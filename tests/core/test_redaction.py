"""K5, F4, Z1, goals T15 and T16: what is found, what is left alone, and that nothing readable remains."""

import re
from re import _constants as ops  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jobs.core import payload_scan, redaction
from jobs.core.redaction import find, redact, redact_tail
from jobs.core.secrets import commands, injected, names, numbers, pairs, prefixes, structure, values, views
from tests.secret_cases import Case, load, whole

DEV = load("secrets.jsonl")
OWN = load("secret_cases.jsonl")
SECRETS = [case for case in (*DEV, *OWN) if case.is_secret]
MODULES = (redaction, payload_scan, commands, injected, names, numbers, pairs, prefixes, structure, values, views)
# Pieces that mean something to one layer or another, to be put together in ways nobody thought of.
PIECES = [
    *"=:'\"`\\ \n[](){}<>@%&;,.-+$",
    *("password", "token", "secret_key=", "api_key: ", "Authorization: ", "Bearer ", "Basic ", "Cookie: ", "sid="),
    "密码",
    *("是", "验证码", " is ", "sk-", "ghp_", "eyJ", "://", "-----BEGIN PRIVATE KEY-----", "-----END PRIVATE KEY-----"),
    *("\\n", "%3D", "\\u5bc6", "&quot;", "Xy9!abcd", "A7f3k9Qz2Lm8Rt5V", "0123456789abcdef" * 2, "4539", "482913"),
    *("4539272387401539", "[redacted:password]", "[redacted:", "\x1b[31m", "\u200b", "İ", "--password ", "curl -u a:"),
    *("AKIA", "hunter2", "machine"),
]  # fmt: skip


def ids(cases: list[Case]) -> list[str]:
    return [case.id for case in cases]


def found(cases: list[Case]) -> list[str]:
    return [case.id for case in cases if find(case.text, context=case.context)]


def test_every_secret_of_the_development_set_is_found() -> None:
    secrets = [case for case in DEV if case.is_secret]
    assert len(secrets) == 15
    assert found(secrets) == ids(secrets)


def test_the_development_set_gives_no_more_than_one_false_alarm() -> None:
    assert len(found([case for case in DEV if not case.is_secret])) <= 1


def test_our_own_secrets_are_all_found() -> None:
    secrets = [case for case in OWN if case.is_secret]
    assert len(secrets) >= 100
    assert found(secrets) == ids(secrets)


def test_our_own_look_alikes_are_all_left_alone() -> None:
    others = [case for case in OWN if not case.is_secret]
    assert len(others) >= 80
    assert found(others) == []


@pytest.mark.parametrize("case", SECRETS, ids=ids(SECRETS))
def test_nothing_of_a_secret_stays_readable_wherever_the_text_is_cut(case: Case) -> None:
    pieces = {case.span[at : at + 8] for at in range(max(1, len(case.span) - 7))}
    data = case.text.encode()
    for size in (*range(1, len(case.text), 11), len(case.text), 4096):
        tail = redact_tail(data, size)
        assert len(tail) <= size
        assert not [piece for piece in pieces if piece in tail]


@pytest.mark.parametrize("case", SECRETS, ids=ids(SECRETS))
def test_redaction_touches_nothing_twice(case: Case) -> None:
    once = redact(case.text, context=case.context)
    assert case.span not in once
    assert redact(once, context=case.context) == once
    assert find(once, context=case.context) == ()


@given(st.one_of(st.text(), st.lists(st.sampled_from(PIECES), max_size=30).map("".join)))
@settings(max_examples=400, deadline=None)
def test_any_text_can_be_redacted_and_a_redacted_one_stays_as_it_is(text: str) -> None:
    for context in ("tail", "payload", "diff"):
        once = redact(text, context=context)
        assert redact(once, context=context) == once


@given(st.lists(st.sampled_from(PIECES), max_size=30).map("".join))
@settings(max_examples=200, deadline=None)
def test_findings_lie_in_order_within_the_text_and_apart(text: str) -> None:
    end = 0
    for finding in find(text):
        assert end <= finding.start < finding.end <= len(text)
        end = finding.end


@given(st.binary(max_size=400))
@settings(max_examples=200, deadline=None)
def test_any_bytes_give_a_tail_that_a_database_can_hold(data: bytes) -> None:
    tail = redact_tail(data, 100)
    assert len(tail) <= 100
    assert not re.search("[\0\x1b\ud800-\udfff]", tail)


VALUE = whole('q7¦Kd/92+x Z"é=w')


@pytest.mark.parametrize(
    "shown",
    [
        VALUE,
        "q7Kd%2F92%2Bx%20Z%22%C3%A9%3Dw",
        "q7Kd%2F92%2Bx+Z%22%C3%A9%3Dw",
        'q7Kd/92+x Z\\"é=w',
        'q7Kd/92+x Z\\"\\u00e9=w',
        VALUE.encode().hex(),
        "cTdLZC85Mit4IFoiw6k9dw==",
        "dXNlcjpxN0tkLzkyK3ggWiLDqT13",  # user:<value>
        "dTpxN0tkLzkyK3ggWiLDqT13",  # u:<value>
    ],
)
def test_what_was_handed_out_is_found_in_every_form(shown: str) -> None:
    text = redact(f"before {shown} after", injected=[VALUE])
    assert re.fullmatch(r"before [\w+/]{0,7}\[redacted:injected\][\w=]{0,3} after", text)


def test_short_values_are_words_and_not_looked_for() -> None:
    assert redact("the root of all", injected=["root"]) == "the root of all"


def test_colour_codes_and_invisible_characters_do_not_hide_a_key() -> None:
    key = whole("ghp_¦VTwJBlqY7aAWYDilRDZq¦byN5muNwNr0xveoC")
    for hidden in (key[:9] + "\x1b[1m" + key[9:], key[:9] + "\u200b" + key[9:], key[:9] + "\x1b]8;;x\x07" + key[9:]):
        assert redact_tail(f"using {hidden}\n".encode()) == "using [redacted:github_token]\n"


def test_a_redactor_that_fails_leaves_a_digest_only(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any, **__: Any) -> str:
        raise RecursionError("too deep at hunter2")

    monkeypatch.setattr(redaction, "redact", broken)
    assert re.fullmatch(r"\[withheld: redaction failed; 7 bytes, sha256 [0-9a-f]{64}\]", redact_tail(b"hunter2"))


def test_redaction_comes_before_the_cut() -> None:
    text = f"password={whole('m7!u2¦o1zJ$zh5')} and more"
    assert redact_tail(text.encode(), 14) == "word] and more"


def test_a_finding_never_holds_the_value() -> None:
    for case in SECRETS:
        assert case.span not in repr(find(case.text, context=case.context))


def test_confidence_separates_keys_from_words() -> None:
    [key] = find(whole("use AKIA¦QONAPYL5JOZZCMYR please"))
    [word] = find(whole("the password is Lx2A9¦Y#hlnSt ok"), context="payload")
    assert (key.confidence, word.confidence) == ("high", "low")


@pytest.mark.parametrize("digits", ["4539272387401530", "4539 2723 8740 1530", "1234567812345670", "0000000000000000"])
def test_digits_without_an_issuer_or_a_right_check_digit_are_no_card(digits: str) -> None:
    assert find(f"paid with {digits}") == ()


def test_every_pattern_is_bounded() -> None:
    """The subset that keeps the work linear: no repeat without an end, none nested in one that repeats often."""
    patterns = [pattern for module in MODULES for pattern in _patterns(module)]
    assert len(patterns) > 40
    for pattern in patterns:
        flags = pattern.flags & ~re.UNICODE
        _check(parser.parse(pattern.pattern, flags), 1, pattern.pattern)


def _patterns(module: ModuleType) -> list[re.Pattern[str]]:
    found: list[re.Pattern[str]] = []
    for value in vars(module).values():
        held = value.values() if isinstance(value, dict) else value if isinstance(value, tuple) else (value,)
        for one in held:
            inner = one if isinstance(one, tuple) else (one,)
            found += [each for each in inner if isinstance(each, re.Pattern)]
    return found


def _check(tree: Any, times: int, pattern: str) -> None:
    for op, argument in tree:
        if op in (ops.MAX_REPEAT, ops.MIN_REPEAT):
            _low, high, body = argument
            assert high is not ops.MAXREPEAT, f"unbounded repeat in {pattern}"
            assert times * high <= 33_000, f"nested repeats in {pattern}"
            _check(body, times * max(1, high), pattern)
        elif op is ops.BRANCH:
            for branch in argument[1]:
                _check(branch, times, pattern)
        elif op is ops.SUBPATTERN:
            _check(argument[3], times, pattern)
        elif op in (ops.ASSERT, ops.ASSERT_NOT):
            _check(argument[1], times, pattern)
