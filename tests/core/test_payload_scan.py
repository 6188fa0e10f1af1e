"""K5: which payloads are refused, at which path, for which kind; and that ordinary ones pass."""

import json

import pytest

from jobs.core.payload_scan import Refusal, scan_payload, scan_text
from tests.secret_cases import load, whole

CASES = [case for name in ("secrets.jsonl", "secret_cases.jsonl") for case in load(name) if case.context == "payload"]


def places(payload: dict[str, object]) -> list[tuple[str, str]]:
    return [(refusal.path, refusal.kind) for refusal in scan_payload(payload)]


def test_every_payload_of_the_sets_is_judged_as_labelled() -> None:
    wrong = [case.id for case in CASES if bool(scan_payload(json.loads(case.text))) != case.is_secret]
    assert len(CASES) > 40
    assert wrong == []


@pytest.mark.parametrize(
    ("payload", "path", "kind"),
    [
        (
            {"steps": [{"note": "ok"}, {"note": whole("use glpat-¦Zx81kQw7¦Lm20PqR5tYv9")}]},
            "steps[1].note",
            "gitlab_token",
        ),
        ({"login": {"password": whole("Tr0ub¦4dor&3")}}, "login.password", "password"),
        ({"access": {"token": [whole("3f9A¦x82kQw7Lm20PqR5tYv9")]}}, "access.token[0]", "token"),
        ({"card": 4539272387401539}, "card", "card_number"),
        ({"otp": "193746"}, "otp", "verification_code"),
        ({"otp": 193746}, "otp", "verification_code"),
        ({"cookies": {"sessionid": whole("pb6sghwl¦2a85h3oyr2ibodfwltn9x6us")}}, "cookies.sessionid", "session"),
        ({"密码": whole("Lx2A9¦Y#hlnSt")}, "密码", "password"),
    ],
)
def test_the_place_and_the_kind_are_named(payload: dict[str, object], path: str, kind: str) -> None:
    assert (path, kind) in places(payload)


def test_a_key_that_is_a_secret_is_not_repeated_in_its_path() -> None:
    key = whole("ghp_¦VTwJBlqY7aAWYDilRDZq¦byN5muNwNr0xveoC")
    [refusal] = scan_payload({key: "x"})
    assert refusal == Refusal("[redacted:github_token]", "github_token", True)


def test_a_full_order_is_refused_and_its_number_alone_is_not() -> None:
    order = {
        "order_no": "SO-1182",
        "customer": "Ada Example",
        "shipping_address": "1 Main Street, Springfield",
        "phone": "+49 170 4455667",
        "items": ["blue chair"],
        "total": "129.00",
    }
    assert ("", "full_order") in places(order)
    assert ("note", "full_order") in places({"note": json.dumps(order)})
    chinese = "订单号：88123，收货人：张三，收货地址：上海市，电话：021-6279，金额：99，商品：椅子"
    assert ("note", "full_order") in places({"note": chinese})
    assert places({"order_no": "SO-1182", "note": "the total price: rounded twice for order_id=7"}) == []
    assert places({"task": "add name, email and phone fields to the customer form; show items and total"}) == []


def test_any_json_value_can_be_scanned() -> None:
    deep: dict[str, object] = {}
    inner = deep
    for _ in range(2000):
        inner["a"] = {}
        inner = inner["a"]  # type: ignore[assignment]
    assert places({"a": None, "b": True, "c": 1.5, "d": [[], {}], "e": ""}) == []
    assert places(deep) == []


def test_texts_beside_the_payload_are_scanned_too() -> None:
    assert scan_text("feature/reset-password-token") == []
    [refusal] = scan_text(whole("fix-sk_live_¦092bZWNXfb3ddtIQ4gmFY1TI"))
    assert (refusal.kind, refusal.sure) == ("stripe_key", True)
