"""A3, Z1: every log line is one JSON object, and no secret gets into it by any way."""

import json
import logging
import sys
from typing import Any

import pytest
from django.test import override_settings

from agentq_site import logs
from tests.secret_cases import whole

KEY = whole("ghp_¦VTwJBlqY7aAWYDilRDZq¦byN5muNwNr0xveoC")


def line(message: str, *args: Any, **extra: Any) -> dict[str, Any]:
    record = logging.LogRecord("jobs.test", logging.INFO, __file__, 1, message, args, None)
    record.__dict__.update(extra)
    text = logs.JsonFormatter().format(record)
    assert "\n" not in text
    assert KEY not in text
    found: dict[str, Any] = json.loads(text)
    return found


def test_message_arguments_and_extras_are_redacted_at_any_depth() -> None:
    written = line("using %s", KEY, tail=f"x {KEY}", deep={"a": [{KEY: (KEY,)}]}, other=KeyError(KEY), job=7, none=None)
    assert written["message"] == "using [redacted:github_token]"
    assert written["deep"] == {"a": [{"[redacted:github_token]": ["[redacted:github_token]"]}]}
    assert (written["job"], written["none"]) == (7, None)


def test_a_name_in_front_makes_a_secret_of_a_value() -> None:
    written = line("login", password=whole("Lx2A9¦YhlnSt"), headers={"X-Api-Key": whole("9dK2¦mQ7xWv4Tz8Lp")})
    assert written["password"] == "[redacted:password]"
    assert written["headers"] == {"X-Api-Key": "[redacted:api_key]"}


def test_what_locates_a_job_stays_readable() -> None:
    facts = {"key": "ab12" * 16, "commit": "3f" * 20, "fence": 3, "state": "accepted", "stage": "deliver", "job": "J-7"}
    written = line("attempt ended", **facts)
    assert {name: written[name] for name in facts} == facts


def test_of_an_exception_only_type_and_place_are_written() -> None:
    try:
        raise ValueError(f"token {KEY}")
    except ValueError:
        record = logging.LogRecord("jobs.test", logging.ERROR, __file__, 1, "failed", (), sys.exc_info())
    text = logs.JsonFormatter().format(record)
    assert KEY not in text
    assert json.loads(text)["exception"] == "ValueError"


def test_the_values_of_this_installation_are_never_written() -> None:
    logs._own_values_at.cache_clear()
    with override_settings(SECRET_KEY="plain words of ours"):
        assert line("it is plain words of ours")["message"] == "it is [redacted:injected]"
    logs._own_values_at.cache_clear()


def test_a_redactor_that_fails_withholds_the_text(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any, **__: Any) -> str:
        raise RuntimeError(KEY)

    monkeypatch.setattr(logs, "redact", broken)
    assert line("using %s", KEY)["message"] == "[withheld: redaction failed]"


def test_a_wrong_format_string_costs_no_line() -> None:
    assert line("100 %d", "x")["message"] == "100 %d"
