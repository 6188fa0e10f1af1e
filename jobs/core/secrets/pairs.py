"""Layer 4: a name that promises a secret, and a value behind it that may be one; English and Chinese."""

import re
from collections.abc import Iterator
from typing import Final

from jobs.core.secrets import values
from jobs.core.secrets.findings import HIGH, LOW, Hit
from jobs.core.secrets.names import Promise, promise
from jobs.core.secrets.views import View

_CORE: Final = re.compile(
    r"pass|pwd|psw|secret|token|key|cred|auth|otp|cvv|cvc|csc|sess|sid(?![a-z])|pin(?![a-z])|captcha|code|pw(?![a-z])"
    r"|sk(?=[\"' ]{0,2}[:=])|identified by|mnemonic|phrase"
)
_NAME_CHARS: Final = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-."
_NAME_SIDE: Final = 48
_JUDGED: Final = 200  # characters of a value that are looked at; what follows belongs to it
_QUOTES: Final = "\"'`"
# How a value is tied to its name. Tried in this order at the name's end.
_TYPED: Final = re.compile(
    r"(?::[ \t]{0,4}|[ \t]{1,4})(?:[&*](?:'[a-z]{1,10} )?)?[A-Za-z_][\w.\[\]|?]{0,40}[ \t]{0,4}=(?!=)[ \t]{0,8}"
)
_ASSIGNED: Final = re.compile(r"[\"'`]?\]?\)?[ \t]{0,8}(?::=|=>|->|:{1,2}|\?=|\+=|={1,3}|!=)[ \t]{0,8}")
_CALLED: Final = re.compile(r"[A-Za-z][\w.:-]{2,40}(?:[ \t]{1,2}|\([ \t]{0,2})(?=[\"'])")
_LISTED: Final = re.compile(r"[\"'`][ \t]{0,4},[ \t]{0,4}(?=[bru]{0,2}[\"'`])")
_NAMED: Final = re.compile(
    r"[\"']?[ \t]{0,2},?[ \t\r]{0,4}\n?[ \t+-]{0,24}[\"']?(?:value|content|default)[\"']?[ \t]{0,4}[:=][ \t]{0,4}",
    re.IGNORECASE,
)
_MARKED_UP: Final = re.compile(r"[ \t]{0,2}>(?=[^<\s])")
_SENTENCE: Final = re.compile(
    r"(?:[ \t]{1,2}(?:for|of|on|in|at|to)[ \t]{1,2}[^\s:=]{1,40}(?:[ \t]{1,2}[^\s:=]{1,40})?)?[ \t]{1,4}"
    r"(?:is|was|will be|has been changed to|changed to|set to|reset to|to|equals|now is|is now)[ \t]{0,3}:?[ \t]{0,3}"
)
_CONTINUED: Final = re.compile(
    r"[ \t]{1,2}(?:\([^()\n]{1,40}\)|(?:for|of|on|in|to|at)"
    r"(?:[ \t]{1,2}[\w.@/'-]{1,30}){1,5})[ \t]{0,4}[:=][ \t]{0,4}"
    r"|[ \t]{1,4}\|[ \t]{1,8}|[ \t]{1,2}-[ \t]{1,2}|[ \t]\d{1,2}[:=][ \t]{0,4}"
)
_GIVEN: Final = re.compile(r"[ \t]{1,8}")
_VALUE: Final = re.compile(
    r"(?:[bBrRuUfF]{1,2}(?=[\"']))?(?:(\"\"\"|'''|[\"'`])((?:[^\"'`\\\n]|\\.|(?!\1)[\"'`]){1,200})"
    r"|([^\s\"'`]{1,200}))"
)
_MORE_QUOTED: Final = {quote: re.compile(rf"(?:[^{quote}\\\n]|\\.){{0,8192}}") for quote in _QUOTES}
_MORE_BARE: Final = re.compile(r"[!#-&(-_a-~\u00a1-\u024f\u0400-\u04ff]{0,8192}")
_BARE_CUT: Final = re.compile(r"</|[&;,](?=[\w .%-]{1,40}[=:])|[^!-~\u00a1-\u024f\u0400-\u04ff]|\\[nrt]|[,;](?=[{\[(])")
TRAILING: Final = ",;:.)]}>"
_ZH_NAME: Final = re.compile(
    r"(密\s?码|密\s?碼|口令|通行码|密钥|密鑰|秘钥|金钥|金鑰|令牌|权杖|授权码|授權碼"
    r"|私钥|凭证|凭据|访问凭证|cvv|安全码|卡验证码)"
)
_ZH_BETWEEN: Final = (
    "已经|已|现在|目前|暂时|临时|新|统一|都|就|仍|还|均|默认|请用|请使用|更新|设置|设|重置|换|改|变|修改"
    "|配上|填写|填|给你|发你|在这|如下"
)
_ZH_TIE: Final = re.compile(
    rf"[\"'`]?(?:[ \t]{{0,2}}\([^()\n]{{0,30}}\))?[ \t]{{0,2}}(?:{_ZH_BETWEEN}){{0,4}}"
    r"[ \t]{0,2}(?:是|为|為|成|用|叫)?[ \t]{0,2}(:{1,2}|=>|->|={1,2})?[ \t]{0,3}"
)
_ZH_TIGHT: Final = ("是", "为", "為", "成", "用", "叫")
_ZH_KINDS: Final = {
    "密码": "password", "密碼": "password", "口令": "password", "令牌": "token", "权杖": "token",
    "安全码": "card_security_code", "卡验证码": "card_security_code", "cvv": "card_security_code",
}  # fmt: skip
_SEED: Final = re.compile(
    r"[\"'`]?[ \t]{0,4}(?:[:=]|is|->)[ \t]{0,4}[\"'`]?"
    r"((?:[a-z]{3,8}[ ,]{1,2}){11,23}[a-z]{3,8})"
)


def find(view: View, context: str) -> Iterator[Hit]:
    """Values behind names that promise a secret, in code, configuration, commands, JSON, headers and sentences."""
    yield from _named(view, context)
    if not view.text.isascii():
        yield from _chinese(view)


def _named(view: View, context: str) -> Iterator[Hit]:
    text, done = view.text, 0
    for found in _CORE.finditer(view.lower):
        if found.start() < done:
            continue
        start, end = _name_around(text, found.start(), found.end())
        done = end
        promised = _promise(text, start, end) if found[0] != "identified by" else Promise("password", True)
        if promised is None:
            if found[0] in ("mnemonic", "phrase"):
                yield from _seed_phrase(text, end)
            continue
        hit, done = _value_behind(view, start, end, promised, context)
        if hit is not None:
            yield hit


def _promise(text: str, start: int, end: int) -> Promise | None:
    """What the name promises, or the name with the word before it: `API key`."""
    if (found := promise(text[start:end])) or text[start - 1 : start] not in (" ", "\t"):
        return found
    before = text[max(0, start - 13) : start - 1]
    word = before[len(before.rstrip(_NAME_CHARS)) :]
    return promise(f"{word}_{text[start:end]}") if word else None


def _name_around(text: str, start: int, end: int) -> tuple[int, int]:
    before = text[max(0, start - _NAME_SIDE) : start]
    after = text[end : end + _NAME_SIDE]
    start -= len(before) - len(before.rstrip(_NAME_CHARS))
    end += len(after) - len(after.lstrip(_NAME_CHARS))
    while end > start and text[end - 1] in ".-":
        end -= 1
    return start, end


def _value_behind(view: View, start: int, end: int, promised: Promise, context: str) -> tuple[Hit | None, int]:
    """The hit, and where to look on."""
    name, done = view.text[start:end], end
    for at, tie in _ties(view, start, end, context):
        found = _VALUE.match(view.text, at)
        if found is None:
            continue
        quote = found[1] or ""
        begin = found.start(2) if quote else found.start(3)
        value = found[2] if quote else _bare(found[3])
        if not value or not _is_secret(value, promised, tie, quote, name):
            # A long value is not judged anew for each name within it.
            done = max(done, begin + len(value) * 3 // 4) if len(value) >= 80 else done
            continue
        finish = begin + len(value)
        if len(found[2] or found[3]) >= _JUDGED:
            more = (_MORE_QUOTED[quote[0]] if quote else _MORE_BARE).match(view.text, finish)
            finish = more.end() if more else finish
        sure = promised.strong and tie in ("assigned", "flag") and (bool(quote) or values.classes(value) >= 2)
        return Hit(promised.kind, begin, finish, HIGH if sure else LOW), finish
    return None, done


def _ties(view: View, start: int, end: int, context: str) -> Iterator[tuple[int, str]]:
    """Where a value may begin, and what ties it to the name; the first that fits is the one."""
    text = view.text
    before = text[start - 1 : start]
    is_flag = before == "-" or text.startswith("-", start)
    if is_flag and (found := _GIVEN.match(text, end)):
        yield found.end(), "flag"
        return
    if found := _TYPED.match(text, end):
        yield found.end(), "assigned"
        return
    if found := _ASSIGNED.match(text, end):
        yield found.end(), "assigned"
        if called := _CALLED.match(text, found.end()):
            yield called.end(), "listed"
        return
    if before == "<" and (found := _MARKED_UP.match(text, end)):
        yield found.end(), "assigned"
        return
    for pattern, tie in ((_LISTED, "listed"), (_NAMED, "assigned"), (_CONTINUED, "sentence")):
        if found := pattern.match(text, end):
            yield found.end(), tie
            return
    if found := _SENTENCE.match(view.lower, end):
        yield found.end(), "sentence"
        return
    if found := _GIVEN.match(text, end):
        quoted = text[found.end() : found.end() + 1] in ("'", '"')
        yield found.end(), "listed" if quoted and context != "payload" else "beside"


def _bare(value: str) -> str:
    """The part of a run without blanks that is the value: not the next parameter, not the sentence's own signs."""
    if cut := _BARE_CUT.search(value, 1):
        value = value[: cut.start()]
    return value.rstrip(TRAILING) if not value.startswith(("<", "[", "(", "{")) else value


def _is_secret(value: str, promised: Promise, tie: str, quote: str, name: str) -> bool:
    kind = promised.kind
    if kind == "verification_code":
        return tie != "beside" and bool(re.fullmatch(r"\d{4,8}|\d{3}[ -]\d{3}|[A-Z]-\d{4,8}", value))
    if kind == "card_security_code":
        return value.isdigit() and 3 <= len(value) <= 4
    if len(value) < (4 if kind == "password" else 6) or value.lower() == name.lower():
        return False
    if values.is_masked(value) or values.is_placeholder(value) or values.is_reference(value, quoted=bool(quote)):
        return False
    if values.is_pattern(value) or ((not quote or tie == "listed") and values.is_numbered_name(value)):
        return False
    if values.is_path(value) or values.is_labelled_digest(value) or values.is_public(value):
        return False
    if quote and values.is_prose(value):
        return False
    if values.is_digest(value):
        return promised.strong and tie in ("assigned", "flag", "listed")
    return _is_password(value, tie) if kind == "password" else _is_key(value, promised, tie, quote)


def _is_password(value: str, tie: str) -> bool:
    if values.is_number(value):
        return tie == "assigned" and value.isdigit() and 5 <= len(value) <= 12
    if tie in ("sentence", "beside"):
        mixed = values.classes(value) >= (2 if tie == "sentence" else 3)
        return len(value) >= 6 and mixed and not values.is_plain(value) and _has_digit_or_sign(value)
    if values.is_plain(value):
        # A word with digits at its end is a usual password; in words alone nobody can tell.
        return (
            value.isalnum() and any(c.isdigit() for c in value) and any(c.isalpha() for c in value) and len(value) >= 6
        )
    return True


def _is_key(value: str, promised: Promise, tie: str, quote: str) -> bool:
    if values.is_number(value) or values.is_plain(value):
        return False
    if promised.strong and tie not in ("sentence", "beside"):
        return len(value) >= 8 and (values.is_mixed(value) or len(value) >= 16)
    wanted = 3 if tie == "beside" or (not quote and tie != "assigned" and tie != "sentence") else 2
    return len(value) >= 12 and values.is_random(value) and values.classes(value) >= wanted


def _has_digit_or_sign(value: str) -> bool:
    return any(not c.isalpha() for c in value)


def _seed_phrase(text: str, end: int) -> Iterator[Hit]:
    if found := _SEED.match(text, end):
        yield Hit("seed_phrase", found.start(1), found.end(1))


def _chinese(view: View) -> Iterator[Hit]:
    for found in _ZH_NAME.finditer(view.lower):
        tie = _ZH_TIE.match(view.text, found.end())
        at = tie.end() if tie else found.end()
        value = _VALUE.match(view.text, at) if view.text[at : at + 1].isascii() else None
        if value is None:
            continue
        kind = _ZH_KINDS.get(found[1].replace(" ", ""), "api_key")
        tied = bool(tie and (tie[1] or tie[0].strip().endswith(_ZH_TIGHT)))
        shown = value[2] if value[1] else _bare(value[3])
        begin = value.start(2) if value[1] else value.start(3)
        loose = "sentence" if kind == "password" else "beside"
        if (not tied and kind == "card_security_code") or not shown or not shown[0].isascii():
            continue
        if _is_secret(shown, Promise(kind, tied), "assigned" if tied else loose, value[1] or "", found[1]):
            yield Hit(kind, begin, begin + len(shown), LOW)
