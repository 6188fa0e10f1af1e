"""Layer 5: numbers that pay or let in: card numbers and one-time codes."""

import re
from collections.abc import Iterator
from typing import Final

from jobs.core.secrets.findings import HIGH, LOW, Hit
from jobs.core.secrets.views import View

# Not inside a longer number, a hash, an identifier or a decimal fraction.
_CARD: Final = re.compile(
    r"(?<![0-9A-Za-z_])(?<!\d[.,-])(?=([2-8]\d{12,18}|[2-8]\d{3}([ .-])\d{4}\2\d{4}\2\d{4}(?:\2\d{1,3})?"
    r"|3\d{3}[ -]\d{6}[ -]\d{4,5}|62\d{4}[ -]\d{9,13})(?![0-9A-Za-z_])(?![.,-]\d))"
)
# A number that says itself what it is: not a card, though one in ten passes the checksum.
_OTHER: Final = re.compile(
    r"(?:order|trade|tracking|invoice|request|transaction|serial|shipment|trace|session|build|run|message|event"
    r"|user|batch|po|sku)"
    r"[ _-]{0,2}(?:no|id|num|number|code|ref)?\.?[\"']?[ \t]{0,3}[:=#]{0,2}[ \t]{0,3}[\"']?#?$"
    r"|(?:订单|流水|单号|运单|编号|工单|批次)[号编]{0,2}[\"']?[ \t]{0,2}[:=为是]?[ \t]{0,2}[\"']?$"
)
_CODE_WORD: Final = re.compile(r"(?:pass)?code|password|otp|pin|[码碼]|口令")
_NO_OWNER: Final = ("passcode", "otp", "pin")
_OWNERS: Final = (
    "verification", "confirmation", "security", "login", "sms", "mfa", "2fa", "two-factor", "authentication", "access",
    "authenticator", "one-time", "one time", "onetime", "auth", "verify", "验证", "校验", "动态", "短信", "驗證",
    "一次性密",
)  # fmt: skip
_TIED: Final = re.compile(
    r"[\"'`]?[ \t]{0,3}(?:\([^()\n]{0,20}\)[ \t]{0,2})?"
    r"(?:(?:[a-z]{1,12} ){0,3}is[ \t]{1,3}"
    r"|(?:code|number|is|was|are|to|of|sent|from sms|收到的|收到|输入|填写|填|是|为|為|用)[ \t]{0,3}){0,3}[:=#,]{0,2}"
    r"[ \t]{0,3}[\"'`(]?(?:g-)?(\d{3}[ -]\d{3}|\d{4,8})(?![0-9a-z_])(?![.:/-]\d|,\d{3}(?!\d))"
    r"(?![ \t]{0,2}(?:秒|分|位|次|天|ms|s\b|sec|min|digit|char|bit|byte|%|hour|day|time))"
)
_AFTERWARDS: Final = ("code", "otp", "pin", "password", "码", "碼")
_BEFORE: Final = re.compile(
    r"(?<![0-9a-z.,:/_-])(\d{3}[ -]\d{3}|\d{4,8})[ \t]{0,2}(?:is|as|was)[ \t]"
    r"(?:your|the|my)[ \t](?:[\w-]{1,20}[ \t]){0,4}?(?:code|otp|passcode|password|pin)\b"
    r"|(?<![0-9a-z.,:/_-])(\d{4,8})[ \t]{0,2}(?:\(|是|为)[^\d\n]{0,12}?(?:验证码|校验码|动态码|驗證碼)"
)
# Twice a digit, less nine when that has two digits.
_DOUBLED: Final = str.maketrans("0123456789", "0246813579")
_RANGES: Final = (
    ("34", "34", (15,)), ("37", "37", (15,)),
    ("300", "305", (14,)), ("36", "36", (14,)), ("38", "39", (14,)),
    ("4", "4", (13, 16, 19)), ("51", "55", (16,)), ("2221", "2720", (16,)),
    ("6011", "6011", (16, 19)), ("644", "649", (16, 19)), ("65", "65", (16, 19)), ("60", "60", (16,)),
    ("62", "62", (16, 17, 18, 19)), ("81", "82", (16, 19)), ("3528", "3589", (16, 19)),
    ("2200", "2204", (16,)), ("50", "50", (16, 19)), ("56", "58", (16, 19)), ("63", "63", (16, 19)),
    ("67", "69", (16, 19)),
)  # fmt: skip


def find(view: View, context: str) -> Iterator[Hit]:
    """Card numbers everywhere; one-time codes where people write them, which is not in source code."""
    yield from _cards(view)
    if context != "diff":
        yield from _codes(view)


def is_card(digits: str) -> bool:
    """A number that an issuer may have given out: right check digit, known range, its length."""
    if not _luhn(digits) or len(set(digits)) < 3:
        return False
    return any(low <= digits[: len(low)] <= high and len(digits) in lengths for low, high, lengths in _RANGES)


def _cards(view: View) -> Iterator[Hit]:
    for found in _CARD.finditer(view.text):
        digits = found[1] if found[1].isdigit() else re.sub(r"\D", "", found[1])
        if is_card(digits):
            before = view.lower[max(0, found.start() - 40) : found.start()]
            if not (found[1] == digits and _OTHER.search(before)):
                yield Hit("card_number", found.start(1), found.end(1), HIGH)


def _codes(view: View) -> Iterator[Hit]:
    for name in _CODE_WORD.finditer(view.lower):
        found = _TIED.match(view.lower, name.end())
        if found and _is_one_time(view.lower, name):
            yield Hit("verification_code", found.start(1), found.end(1), LOW)
    for found in _BEFORE.finditer(view.lower) if any(word in view.lower for word in _AFTERWARDS) else ():
        group = 1 if found[1] else 2
        yield Hit("verification_code", found.start(group), found.end(group), LOW)


def _is_one_time(lower: str, name: re.Match[str]) -> bool:
    before = lower[max(0, name.start() - 18) : name.start()]
    if name[0] in _NO_OWNER and not before[-1:].isalnum() and before[-1:] not in ("_", "-"):
        return name[0] != "pin" or before.endswith(("card ", "atm ", "my ", "your ", "the ")) or not before.strip()
    return before.rstrip(" _-").endswith(_OWNERS)


def _luhn(digits: str) -> bool:
    reverse = digits[::-1]
    return (sum(map(int, reverse[::2])) + sum(map(int, reverse[1::2].translate(_DOUBLED)))) % 10 == 0
