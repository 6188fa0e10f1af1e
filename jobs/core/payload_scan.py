"""What a payload may not hold (K5): credentials, cookies, sessions, one-time codes, card numbers, full orders."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from jobs.core.redaction import HIGH, Finding, find, redact

MAX_CHARS: Final = 2 * 1024 * 1024  # far beyond what a payload may measure; the rest is refused for its size anyway
_MAX_REFUSALS: Final = 20
# What an order consists of. Several of these parts, with a person's or a delivery's, make it a full one.
_PARTS: Final = {
    "order": r"order[ _-]?(?:no|id|number|num|sn)|订单[号编]|訂單號|单号",
    "person": (
        r"(?:customer|buyer|recipient|consignee|receiver|contact|full|billing|shipping)[ _-]?name"
        r"|\bname|\bcustomer|\bbuyer|\brecipient|\bconsignee|收货人|收件人|姓名|客户|买家|联系人"
    ),
    "address": (
        r"(?:shipping|billing|delivery|street|postal|home)?[ _-]?address|\bstreet|\bzip(?:code)?\b|postal[ _-]?code"
        r"|postcode|收货地址|详细地址|地址|邮编"
    ),
    "contact": r"\be-?mail|\bphone|\bmobile|\btel(?:ephone)?\b|电话|手机|邮箱",
    "money": r"\btotal|\bamount|\bprice|\bsubtotal|grand[ _-]?total|paid|payment|金额|总价|单价|实付|支付",
    "items": r"\bitems?\b|line[ _-]?items|\bsku|\bproducts?\b|\bqty\b|\bquantity|商品|数量|货品",
}
_NAMES: Final = tuple(
    (part, re.compile(rf"(?:{names})[\w ]{{0,12}}[\"'”]?[ \t]{{0,3}}[:=：][ \t]{{0,3}}[\"'“\[{{]?[^\s,;\"'}}\]]"))
    for part, names in _PARTS.items()
)
_FULL_ORDER_PARTS: Final = 4


@dataclass(frozen=True, slots=True)
class Refusal:
    """One value that may not be stored: where it stands and what it is, never the value itself.

    `sure` is False when only the words around it make it look like a secret: then other words may pass.
    """

    path: str
    kind: str
    sure: bool


def scan_payload(payload: Mapping[str, Any]) -> list[Refusal]:
    """Every value and key that may not be stored, at most 20; paths as in `steps[2].note`. Any JSON value may come."""
    found: dict[tuple[str, str], Refusal] = {}
    left = MAX_CHARS
    for path, name, value in _leaves(payload):
        text = value if isinstance(value, str) else str(value)
        left -= len(text) + len(name)
        if left < 0 or len(found) >= _MAX_REFUSALS:
            break
        for finding in _findings(name, text):
            refusal = Refusal(_shown(path), finding.kind, finding.confidence == HIGH)
            found.setdefault((refusal.path, refusal.kind), refusal)
    if (order := _order(payload)) is not None:
        found.setdefault((order, "full_order"), Refusal(order, "full_order", False))
    return list(found.values())[:_MAX_REFUSALS]


def scan_text(text: str) -> list[Refusal]:
    """As `scan_payload` for one text outside the payload, such as a branch; the paths are empty."""
    return [Refusal("", finding.kind, finding.confidence == HIGH) for finding in find(text, context="payload")]


def is_full_order(text: str) -> bool:
    """At least four parts of an order, among them the order or its goods, and a person, an address or a contact."""
    lower = text.lower()
    parts = {part for part, names in _NAMES if names.search(lower)}
    whose = parts & {"person", "address", "contact"}
    return len(parts) >= _FULL_ORDER_PARTS and bool(whose) and bool(parts & {"order", "items"})


def _findings(name: str, text: str) -> Iterator[Finding]:
    yield from find(text, context="payload")
    if name:
        # With its name in front a value may be one that nobody would take for a secret alone.
        named = json.dumps({name: text}, ensure_ascii=False)
        yield from find(named, context="payload")


def _leaves(payload: Mapping[str, Any]) -> Iterator[tuple[str, str, Any]]:
    """Each value that is no container, and each key as a value of its own: path, nearest name, value."""
    waiting: list[tuple[str, str, Any]] = [("", "", payload)]
    while waiting:
        path, name, value = waiting.pop()
        if isinstance(value, Mapping):
            for key, inner in value.items():
                where = f"{path}.{key}" if path else str(key)
                yield where, "", str(key)
                waiting.append((where, str(key), inner))
        elif isinstance(value, list | tuple):
            waiting.extend((f"{path}[{index}]", name, inner) for index, inner in enumerate(value))
        elif value is not None and not isinstance(value, bool):
            yield path, name, value


def _order(payload: Mapping[str, Any]) -> str | None:
    """Where a full order stands: the path of a text, "" for the payload itself, None when there is none."""
    lines, left = [], MAX_CHARS
    for path, name, value in _leaves(payload):
        if isinstance(value, str) and is_full_order(value[:left]):
            return _shown(path)
        lines.append(f"{name}: {value}"[:left] if name else "")
        left -= len(lines[-1])
    return "" if is_full_order("\n".join(lines)) else None


def _shown(path: str) -> str:
    """A key may itself be the secret: then its place is said without it."""
    clean = redact(path, context="payload")
    return "".join(c if c.isprintable() else "�" for c in clean)[:120]
