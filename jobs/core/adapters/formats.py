"""Typed codes in known output formats: JSON bodies, errno names, HTTP status lines, exception names (F2).

A code found here is the program's own typed word, so it counts as structured evidence. Everything else stays text.
"""

import re
from dataclasses import dataclass
from typing import Final

from jobs.core.adapters.messages import HOST_CODES, KNOWN

_JSON_WORD: Final = re.compile(
    r"""["']?(?:type|code|status|reason|error|error_code|quotaId|quota_id|quota_metric|__type|errorCode)["']?"""
    r"""\s{0,3}[:=]\s{0,3}["']([A-Za-z0-9_.\-/]{2,90})["']"""
)
_BRACKETED: Final = re.compile(r"\[([a-z_]{4,40})\]")
_ERRNO: Final = re.compile(r"\b(E[A-Z]{4,20}|E[45]\d\d|E[A-Z]{2,8}_[A-Z_]{2,20}|EAI_[A-Z]{3,12})\b")
_UPPER: Final = re.compile(r"\b([A-Z][A-Z0-9]{2,30}(?:_[A-Z0-9]{2,30}){1,6})\b")
_CLASSES: Final = re.compile(
    r"\b((?:[a-z_0-9]{1,40}\.){0,6}[A-Z][A-Za-z0-9]{1,60}(?:Error|Exception|Timeout|Disconnected|Exceeded|Fault|Refused))\b"
)
_STATUS: Final = (
    re.compile(r"\bhttp(?: status| error|/\d(?:\.\d)?)?:? ?\(?(\d{3})\b"),
    re.compile(r"\bstatus(?: code| is|_code)?['\"]?[:= ]{1,3}\(?(\d{3})\b"),
    re.compile(
        r"\b(?:error|error code|returned error|returned|response code|responded with|received|code)"
        r"['\"]?[:= ]{1,3}\(?[\"']?(\d{3})\b"
    ),
    re.compile(
        r"\b(\d{3}) (?:bad gateway|too many requests|unauthorized|forbidden|not found"
        r"|service (?:temporarily )?unavailable|internal server error|gateway time-?out|payment required|conflict"
        r"|client error|server error|overloaded|bad request|proxy authentication required|request timeout|unprocessable"
        r"|precondition failed|method not allowed)"
    ),
)
_RETRY_AFTER: Final = (
    re.compile(r"retry[-_ ]after(?:_?(?:seconds|secs|s))?['\"]?\s{0,2}[:=]?\s{0,2}['\"]?(\d{1,7}(?:\.\d{1,3})?)"),
    re.compile(r"retrydelay['\"]?\s{0,2}[:=]\s{0,2}['\"]?(\d{1,7}(?:\.\d{1,3})?)s"),
    re.compile(r"(?:try again|retry|retrying|wait)[^\n]{0,20} in (\d{1,6}(?:\.\d{1,3})?) ?s(?:ec|\b)"),
)
_RESETS_IN: Final = re.compile(r"resets_in(?:_seconds)?['\"]?\s{0,2}[:=]\s{0,2}(\d{1,8})")
_COUNTED: Final = re.compile(r"\b(\d{1,3}) ?(?:/|of|out of|de|von) ?(\d{1,3})\b[^\n]{0,30}")
_SPENT: Final = re.compile(
    r"after \d{1,3} (?:attempts|retries|tries)|\brepeated \d{3}\b|retries exhausted|retry limit|giving up|gave up"
    r"|exhausted (?:all )?(?:its |the )?retries|all (?:\d{1,3} )?(?:retry )?attempts? failed"
    r"|exceeded (?:the )?(?:max(?:imum)? )?(?:number of )?retr(?:y|ies)"
    r"|back-?off(?: limit)? (?:used up|exhausted|exceeded)"
    # urllib3 prints "Max retries exceeded with url" also when it was told to try once.
    r"|max(?:imum)? (?:number of )?(?:retries|attempts) (?:exceeded|reached)(?! with url)"
)
_NO_RETRY: Final = re.compile(
    r"x-should-retry['\"]?\s{0,2}[:=]\s{0,2}['\"]?false|\bdo not retry\b|\bnon-?retr(?:y|i)able\b"
)


@dataclass(frozen=True, slots=True)
class Typed:
    """Typed evidence that was found in the output. `retry_after` in seconds."""

    codes: frozenset[str] = frozenset()
    types: tuple[str, ...] = ()
    status: int | None = None
    retry_after: float | None = None
    retry_forbidden: bool = False
    marks: frozenset[str] = frozenset()


def read(raw: str, folded: str, *, lines_only: bool = False) -> Typed:
    """Typed evidence in a cut output. With `lines_only` (a verifier's report) errno names and a lost host count."""
    if lines_only:
        lost = {code for pattern, code in KNOWN if code in HOST_CODES and pattern.search(folded)}
        return Typed(codes=frozenset(_errnos(raw) | lost))
    codes = {_plain(word) for word in _JSON_WORD.findall(raw)}
    codes |= set(_BRACKETED.findall(raw)) | _errnos(raw) | {word.lower() for word in _UPPER.findall(raw)}
    codes |= {code for pattern, code in KNOWN if pattern.search(folded)}
    wait = [float(found.group(1)) for pattern in _RETRY_AFTER if (found := pattern.search(folded))]
    resets = _RESETS_IN.search(folded)
    if resets:
        codes.add("resets_in")
        wait.append(float(resets.group(1)))
    return Typed(
        codes=frozenset(codes),
        types=tuple(dict.fromkeys(_CLASSES.findall(raw)))[:20],
        status=_status(folded),
        retry_after=max(wait) if wait else None,
        retry_forbidden=_NO_RETRY.search(folded) is not None,
        marks=frozenset({"retries_spent"}) if _retries_spent(folded) else frozenset(),
    )


def _errnos(raw: str) -> set[str]:
    return {word.lower() for word in _ERRNO.findall(raw)}


def _status(folded: str) -> int | None:
    found = [
        (match.start(), int(match.group(1)))
        for pattern in _STATUS
        for match in pattern.finditer(folded)
        if 400 <= int(match.group(1)) < 600
    ]
    # The last status is the one the program ended on; earlier ones are its own retries.
    return max(found)[1] if found else None


def _retries_spent(folded: str) -> bool:
    if _SPENT.search(folded):
        return True
    for line in folded.splitlines():
        if any(word in line for word in ("retry", "retries", "attempt", "reconnect", "try", "failed")):
            for done, limit in _COUNTED.findall(line):
                if int(done) == int(limit) > 1:
                    return True
    return False


def _plain(word: str) -> str:
    return re.sub(r"[^a-z0-9]+", "_", word.lower()).strip("_")
