"""Layer 3: what its form gives away: private keys, JWT, addresses with a password, Authorization and cookies."""

import base64
import binascii
import re
from bisect import bisect_left
from collections.abc import Iterator
from typing import Final

from jobs.core.secrets import values
from jobs.core.secrets.findings import HIGH, LOW, Hit
from jobs.core.secrets.views import View

_BEGIN: Final = re.compile(r"-----BEGIN (?:[A-Z0-9]{1,12} ){0,3}PRIVATE KEY(?: BLOCK)?-----|PuTTY-User-Key-File-\d: ")
_PEM_END: Final = re.compile(
    r"-----END (?:[A-Z0-9]{1,12} ){0,3}PRIVATE KEY(?: BLOCK)?-----|Private-MAC: [0-9a-f]{8,80}"
)
_PEM_BODY: Final = re.compile(r"[A-Za-z0-9+/=]{20,4096}")
_PEM_LINE: Final = re.compile(
    r"[\s\"'>|#*+-]{0,40}(?:[A-Za-z][A-Za-z-]{2,20}: [^\n]{1,100}|[A-Za-z0-9+/=]{16,400}|[A-Za-z0-9+/=]{1,15}\Z)"
)
_PEM_CHARS: Final = 32768
_EDGES: Final = " \t\r\"'>|#*+-,;"
_JWT: Final = re.compile(r"(?<![A-Za-z0-9_\-])eyJ[\w-]{8,8192}\.[\w-]{0,8192}(?:\.[\w-]{0,8192}){0,3}")
_USERINFO: Final = re.compile(
    r"://([^\s/@:\"'`<>?#]{0,256}):([^\s/\"'`<>?]{1,256})@(?=[A-Za-z0-9\[_{$.-])([^\s/\"'`<>?:]{0,120})"
)
_USER_ONLY: Final = re.compile(r"://([A-Za-z0-9_.~%=-]{16,256})@([A-Za-z0-9.-]{1,120})")
_AUTH: Final = re.compile(
    r"authorization[\"'`\]]{0,3}[ \t]{0,4}(?::|=>|="
    r"|,)[ \t]{0,4}[bfru]{0,2}[\"'`\[({]{0,3}[ \t]{0,2}(?:([a-z][a-z0-9-]{2,24})[ \t]{1,4})?"
)
_SCHEME: Final = re.compile(r"(bearer)(?:[ \t]{1,4}|%20|\+)[\"'`]?")
_SCHEME_BASIC: Final = re.compile(r"(basic)(?:[ \t]{1,4}|%20|\+)[\"'`]?")
# Judged by its beginning, so that no text makes us read the same characters over and over.
_CREDENTIAL: Final = re.compile(r"[^\s\"'`<>,;)\]}]{4,200}")
_REST: Final = re.compile(r"[^\n\"'`]{4,200}")
_MORE: Final = re.compile(r"[^\s\"'`<>,;)\]}]{0,8192}")
_MORE_OF_LINE: Final = re.compile(r"[^\n\"'`]{0,4096}")
_COOKIE: Final = re.compile(r"cookies?[\"'`\]]{0,3}[ \t]{0,4}(?::|=>|=|,|[ ])[ \t]{0,4}[\"'`\[({]{0,3}(?=[^\s])")
_COOKIE_FLAG: Final = re.compile(r" -b[ \t=]{1,3}[\"']?")
_PAIR: Final = re.compile(
    r"[ \t]{0,4}[\"']?([A-Za-z0-9_.$!%^|~*&+-]{1,100})[\"']?"
    r"[ ]{0,2}[=:][ ]{0,2}[\"']?([^\s;\"'`,<>]{0,4096})[\"']?[;,]?"
)
_ATTRIBUTES: Final = frozenset({"path", "expires", "max-age", "domain", "samesite", "version", "priority", "comment"})
_SESSION_WORDS: Final = (
    "sess",
    "sid",
    "auth",
    "token",
    "jwt",
    "csrf",
    "xsrf",
    "remember",
    "login",
    "secure",
    "user",
    "key",
    "cf_clearance",
    "access",
    "ticket",
    "identity",
    "passport",
)
_SIGNED: Final = re.compile(r"sig(?:nature)?(?:=|%3d)([a-z0-9%+/=_-]{20,1024})")
_CLOUD_SIGNED: Final = ("x-amz-", "x-goog-", "x-oss-", "x-cos-", "q-")
_URL_SAMPLES: Final = frozenset({
    "password", "pass", "passwd", "pwd", "pw", "secret", "user", "username", "token", "changeme", "example",
    "postgres", "root", "admin", "test", "guest", "mysql", "redis", "mypassword", "userpass", "yourpassword",
    "mypass", "pwd123", "p4ss", "x-oauth-basic", "x-access-token", "oauth2", "api_key", "apikey", "key", "port",
    "dbpass", "dbpassword", "mongo",
})  # fmt: skip


def find(view: View) -> Iterator[Hit]:
    """Every secret that its own form or the form around it gives away."""
    yield from _private_keys(view.text)
    yield from _web_tokens(view.text)
    yield from _addresses(view.text)
    yield from _authorizations(view)
    yield from _cookies(view)
    yield from _signatures(view)


def _private_keys(text: str) -> Iterator[Hit]:
    if "-----" not in text and "PuTTY" not in text:
        return
    ends = [(found.start(), found.end()) for found in _PEM_END.finditer(text)]
    done = 0
    for found in _BEGIN.finditer(text):
        if found.start() < done:
            continue
        following = bisect_left(ends, (found.end(), 0))
        closed = following < len(ends) and ends[following][1] - found.end() <= _PEM_CHARS
        stop = ends[following][1] if closed else _last_line(text, found.end())
        done = found.end()
        if _PEM_BODY.search(text, found.end(), stop):
            yield Hit("private_key", found.start(), stop)
            done = stop
    done = 0
    for start, end in ends:
        # Its begin may have been cut off: what stands before it is the key all the same.
        first = _first_line(text, start, done)
        if _PEM_BODY.search(text, first, start):
            yield Hit("private_key", first, end)
        done = end


def _last_line(text: str, at: int) -> int:
    """Where the lines of a key end that was cut off."""
    limit = at + _PEM_CHARS
    while at < limit and (line := _PEM_LINE.match(text, at)):
        at = line.end()
    return at


def _first_line(text: str, at: int, done: int) -> int:
    """Where the lines of a key begin whose own beginning was cut off."""
    limit, edge = max(done, at - _PEM_CHARS), at
    while edge > limit:
        start = text.rfind("\n", limit, edge) + 1 or limit
        line = text[start:edge].strip(_EDGES)
        if line and not (_PEM_BODY.fullmatch(line) or (start == limit and line.isalnum())):
            break
        at, edge = start, max(start - 1, limit)
        if start == limit:
            break
    return at


def _web_tokens(text: str) -> Iterator[Hit]:
    for found in _JWT.finditer(text):
        parts = found[0].split(".")
        whole = (len(parts) >= 3 and len(parts[-1]) >= 4) or parts[1].startswith("eyJ")
        if whole and not values.is_masked(found[0].replace("..", ".")) and not values.is_placeholder(parts[1]):
            yield Hit("jwt", found.start(), found.end())


def _addresses(text: str) -> Iterator[Hit]:
    if "://" not in text:
        return
    for found in _USERINFO.finditer(text):
        user, password, host = found[1], found[2], found[3]
        if _is_url_password(user, password, host):
            yield Hit("url_credentials", found.start(2), found.end(2))
        if len(user) >= 20 and values.is_mixed(user) and "sentry" not in host and not values.is_placeholder(user):
            yield Hit("url_credentials", found.start(1), found.end(1))
    for found in _USER_ONLY.finditer(text):
        if values.is_mixed(found[1]) and "sentry" not in found[2] and "." not in found[1]:
            yield Hit("url_credentials", found.start(1), found.end(1))


def _is_url_password(user: str, password: str, host: str) -> bool:
    lower = password.lower()
    if lower in _URL_SAMPLES or lower == user.lower() or (password.isdigit() and len(password) < 6):
        return False
    if (
        values.is_masked(password)
        or values.is_placeholder(password)
        or (password[0] in "$<{[(%" and not values.is_mixed(password))
    ):
        return False
    if values.is_reference(password, quoted=True) or re.fullmatch(
        r"\$\{?\w{1,64}\}?|%\w{1,40}%|\{\w{1,40}\}", password
    ):
        return False
    if values.is_plain(password):
        sample = password.isupper() or host.startswith(("example.", "host", "HOST", "localhost", "127.", "db"))
        return (
            not sample and len(password) >= 6 and not lower.startswith(("pass", "your", "my", "secret", "user", "some"))
        )
    return True


def _authorizations(view: View) -> Iterator[Hit]:
    text, lower = view.text, view.lower
    for pattern, word in ((_AUTH, "authorization"), (_SCHEME, "bearer"), (_SCHEME_BASIC, "basic")):
        done = 0
        for found in pattern.finditer(lower) if word in lower else ():
            scheme = found[1] or ""
            simple = scheme in ("", "bearer", "basic", "token", "apikey")
            value = (_CREDENTIAL if simple else _REST).match(text, found.end())
            if not value or found.start() < done:
                continue
            if _is_credential(value[0], scheme, quoted=lower[found.end() - 1] in "\"'`"):
                done = _end(_MORE if simple else _MORE_OF_LINE, text, value.end())
                yield Hit("authorization", value.start(), done)
            elif len(value[0]) > 80:
                done = value.start() + len(value[0]) * 3 // 4  # a long value is not judged anew for each word within it


def _end(more: re.Pattern[str], text: str, at: int) -> int:
    found = more.match(text, at)
    return found.end() if found else at


def _is_credential(value: str, scheme: str, *, quoted: bool) -> bool:
    if values.is_masked(value) or values.is_placeholder(value) or values.is_reference(value, quoted=quoted):
        return False
    if values.is_pattern(value):
        return False
    if scheme == "basic":
        return _is_basic(value)
    if scheme in ("", "bearer") and len(value) < 8:
        return False
    return not values.is_plain(value) and not values.is_prose(value)


def _is_basic(value: str) -> bool:
    try:
        pair = base64.b64decode(value.rstrip(".:!?") + "=" * (-len(value) % 4), validate=True)
    except (binascii.Error, ValueError):
        return False
    user, colon, password = pair.partition(b":")
    return (bool(colon) and password.lower() not in (b"", b"password", b"pass", b"x-oauth-basic")) or (
        user.isascii() and len(user) > 30
    )


def _cookies(view: View) -> Iterator[Hit]:
    for pattern, mark in ((_COOKIE, "cookie"), (_COOKIE_FLAG, " -b")):
        at = 0
        for found in pattern.finditer(view.lower) if mark in view.lower else ():
            if found.start() < at:
                continue
            at = found.end()
            while pair := _PAIR.match(view.text, at):
                name, value = pair[1].lower(), pair[2]
                if name not in _ATTRIBUTES and _is_cookie_value(name, value):
                    yield Hit("cookie", pair.start(2), pair.end(2))
                at = pair.end()


def _is_cookie_value(name: str, value: str) -> bool:
    if len(value) < 8 or name.startswith(("_ga", "_gid", "__utm", "lang", "locale", "theme", "_fbp", "tz")):
        return False
    if values.is_masked(value) or values.is_placeholder(value) or values.is_reference(value, quoted=False):
        return False
    if any(word in name for word in _SESSION_WORDS):
        return not values.is_plain(value) or len(value) >= 24
    return len(value) >= 16 and values.is_mixed(value) and not values.is_number(value)


def _signatures(view: View) -> Iterator[Hit]:
    for found in _SIGNED.finditer(view.lower) if "sig" in view.lower else ():
        value = view.text[found.start(1) : found.end(1)]
        around = view.lower[max(0, found.start() - 400) : found.end() + 400]
        cloud = view.lower.endswith(_CLOUD_SIGNED, 0, found.start())
        signed = cloud or "expires=" in around or ("sv=" in around and "se=" in around)
        if signed and not values.is_plain(value[:200]) and not values.is_masked(value):
            yield Hit("signed_url", found.start(1), found.end(1), HIGH if cloud else LOW)
