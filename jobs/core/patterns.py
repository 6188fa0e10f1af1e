"""The pattern subset of the policy: every regex engine gives one answer, in linear time (F2, design section 5).

Allowed: literals, `.`, classes, groups, `|`, `?`, bounded `{m,n}` on one character, `\\b`, `\\d`, `\\w`, `^`, `$`.
Refused: `*`, `+`, look-around, back-references, flags, lazy or possessive marks, named groups. Text and patterns are
folded alike, so that case, accents and typographic quotes do not matter.
"""

import re
import unicodedata
from functools import lru_cache
from re import _constants as ops  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any, Final

MAX_PATTERN_CHARS: Final = 400
MAX_REPEAT: Final = 200
# Ways in which one start position can be tried. With the text cap below this bounds the work of one search.
MAX_WAYS: Final = 2000
HEAD_CHARS: Final = 2_000
TAIL_CHARS: Final = 6_000

_ANSI: Final = re.compile(r"\x1b\[[0-9;?]{0,20}[A-Za-z]")
_BLANKS: Final = re.compile(r"[ \t\r\f\v\xa0]{1,}")
_ACCENT: Final = re.compile(r"[\u0300-\u036f]")
_CATEGORIES: Final = {ops.CATEGORY_DIGIT, ops.CATEGORY_WORD}
_POSITIONS: Final = {ops.AT_BEGINNING, ops.AT_END, ops.AT_BOUNDARY}


class PatternRefused(ValueError):
    """The pattern is outside the safe subset; the message says which part."""


def matches(pattern: str, text: str) -> bool:
    """True when the pattern occurs anywhere in the folded text."""
    return compiled(pattern).search(text) is not None


@lru_cache(maxsize=8192)
def compiled(pattern: str) -> re.Pattern[str]:
    """The compiled pattern. ASCII classes and line anchors, as google-re2 has them. Refuses what `check` refuses."""
    check(pattern)
    return re.compile(pattern, re.ASCII | re.MULTILINE)


def check(pattern: str) -> None:
    """Refuses (PatternRefused) a pattern outside the subset."""
    if not pattern or len(pattern) > MAX_PATTERN_CHARS:
        raise PatternRefused(f"a pattern needs 1 to {MAX_PATTERN_CHARS} characters")
    if fold(pattern) != pattern:
        raise PatternRefused("write it folded: lower case, no accents, single spaces, plain quotes")
    try:
        tree = parser.parse(pattern, re.ASCII | re.MULTILINE)
    except (re.error, OverflowError, RecursionError) as error:
        raise PatternRefused(f"not a pattern: {error}") from error
    if tree.state.groupdict or tree.state.flags & ~(re.ASCII | re.MULTILINE):
        raise PatternRefused("named groups and flags are not allowed")
    if _ways(tree) > MAX_WAYS:
        raise PatternRefused("too many optional or repeated parts: split it into several patterns")


def fold(text: str) -> str:
    """Lower case, no accents, plain quotes, single blanks, no colour codes; line ends stay."""
    plain = _ANSI.sub("", text)
    plain = _ACCENT.sub("", unicodedata.normalize("NFKD", plain.lower()))
    plain = unicodedata.normalize("NFKC", plain)
    plain = plain.replace("\u2019", "'").replace("\u2018", "'").replace("\u201c", '"').replace("\u201d", '"')
    return _BLANKS.sub(" ", plain)


def cut(text: str) -> str:
    """The head and the tail of a long text, cut at fixed lengths so that the answer never depends on time."""
    if len(text) <= HEAD_CHARS + TAIL_CHARS:
        return text
    return text[:HEAD_CHARS] + "\n" + text[-TAIL_CHARS:]


def _ways(tree: Any) -> int:
    total = 1
    for op, argument in tree:
        total *= _ways_of(op, argument)
        if total > MAX_WAYS:
            return total
    return total


def _ways_of(op: Any, argument: Any) -> int:
    if op in (ops.LITERAL, ops.NOT_LITERAL, ops.ANY):
        return 1
    if op is ops.AT and argument in _POSITIONS:
        return 1
    if op is ops.IN:
        return _class_ways(argument)
    if op is ops.BRANCH:
        return max(_ways(branch) for branch in argument[1])
    if op is ops.SUBPATTERN:
        _group, added, removed, body = argument
        if added or removed:
            raise PatternRefused("flags are not allowed")
        return _ways(body)
    if op is ops.MAX_REPEAT:
        return _repeat_ways(*argument)
    raise PatternRefused(f"{str(op).lower()} is not allowed")


def _class_ways(items: Any) -> int:
    for op, argument in items:
        if op is ops.CATEGORY and argument not in _CATEGORIES:
            raise PatternRefused("only \\d and \\w are allowed as classes")
    return 1


def _repeat_ways(low: int, high: Any, body: Any) -> int:
    if high is ops.MAXREPEAT or high > MAX_REPEAT:
        raise PatternRefused(f"repeats must be bounded, at most {MAX_REPEAT}: use {{m,n}}")
    inner = _ways(body)
    if len(body) != 1 or body[0][0] not in (ops.LITERAL, ops.NOT_LITERAL, ops.ANY, ops.IN):
        if high > 1:
            raise PatternRefused("only one character may repeat; a group may only be optional")
        return 1 + inner
    return int(high) - low + 1
