"""F2, design section 5: the pattern subset, folding and the cut of long texts."""

import pytest

from jobs.core import patterns


@pytest.mark.parametrize(
    "pattern",
    ["rate[- ]?limit", "a[^\\n]{0,40}b", "^e {1,8}assert", "(hit|reached) it", "余额(已)?不足", "\\b429\\b"],
)
def test_bounded_patterns_are_allowed(pattern: str) -> None:
    patterns.check(pattern)


@pytest.mark.parametrize(
    "pattern",
    [
        "a*b", "a+b", "a{3,}", "a{0,201}", "(ab){2,3}", "(a{0,9}){0,9}", "(?=a)", "(?<!a)b", "(a)\\1", "(?i)a",
        "(?P<n>a)",
        "a+?", "a?+", "(?>a)", "\\s", "\\Aa", "[\\s]", "Timeout", "schön", "it’s", "two  blanks", "",
        "x" * 401, "(", "[z-a]",
        "a{0,50}b{0,50}c", "(?:a?b?c?d?e?f?g?h?i?j?k?l?)",
    ],
)  # fmt: skip
def test_patterns_that_could_run_long_or_differ_between_engines_are_refused(pattern: str) -> None:
    with pytest.raises(patterns.PatternRefused):
        patterns.check(pattern)


def test_folding_makes_case_accents_quotes_blanks_and_colours_equal() -> None:
    assert patterns.fold("\x1b[31mYou\u2019VE\t hit\u00a0 Erschöpft\x1b[0m") == "you've hit erschopft"


def test_folding_keeps_lines_and_other_scripts() -> None:
    assert patterns.fold("余额不足\n残高がない 잔액 부족") == "余额不足\n残高がない 잔액 부족"


def test_a_long_text_keeps_its_head_and_its_tail() -> None:
    text = "HEAD" + "x" * 300_000 + "TAIL"
    kept = patterns.cut(text)
    assert len(kept) == patterns.HEAD_CHARS + patterns.TAIL_CHARS + 1
    assert kept.startswith("HEAD")
    assert kept.endswith("TAIL")
    assert patterns.cut("short") == "short"
