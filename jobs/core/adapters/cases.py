"""One recorded failure case (a JSON object) as an ended run: for `classify_failures` and a draft's own cases (P3)."""

from collections.abc import Mapping
from typing import Any

from jobs.core.adapters.runs import LEDGER_STATES, EndedRun
from jobs.core.policy import RISKS


class CaseInvalid(ValueError):
    """The case lacks a field or a field has the wrong type; the message names it."""


def to_run(case: Mapping[str, Any]) -> EndedRun:
    """The ended run of a case. Refuses (CaseInvalid) wrong types and a risk or ledger state nobody knows.

    Fields: program, stage, risk, exit_code, exception_type, http_status, stdout_tail, stderr_tail, events, and from our
    own records, all optional: signal, ledger, cancel_requested, wall_clock_kill, request_sent, retry_after,
    retry_forbidden.
    """
    risk = case.get("risk", "writes_files")
    if risk not in RISKS:
        raise CaseInvalid(f"risk: {risk!r} is none of {', '.join(RISKS)}")
    ledger = case.get("ledger") or ""
    if ledger not in LEDGER_STATES:
        raise CaseInvalid(f"ledger: {ledger!r} is none of {', '.join(filter(None, LEDGER_STATES))}")
    return EndedRun(
        program=_text(case, "program"),
        stage=_text(case, "stage"),
        stdout=_text(case, "stdout_tail"),
        stderr=_text(case, "stderr_tail"),
        cancel_requested=bool(case.get("cancel_requested")),
        wall_clock_kill=bool(case.get("wall_clock_kill")),
        retry_forbidden=bool(case.get("retry_forbidden")),
        risk=risk,
        ledger=ledger,
        exit_code=_number(case, "exit_code"),
        signal=_number(case, "signal"),
        http_status=_number(case, "http_status"),
        exception_type=_text(case, "exception_type") or None,
        events=_events(case),
        request_sent=None if case.get("request_sent") is None else bool(case["request_sent"]),
        retry_after=_seconds(case, "retry_after"),
    )


def _text(case: Mapping[str, Any], name: str) -> str:
    value = case.get(name)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise CaseInvalid(f"{name}: text or null is wanted, not {type(value).__name__}")
    return value


def _number(case: Mapping[str, Any], name: str) -> int | None:
    value = case.get(name)
    if value is not None and (not isinstance(value, int) or isinstance(value, bool)):
        raise CaseInvalid(f"{name}: a whole number or null is wanted, not {value!r}")
    return value


def _seconds(case: Mapping[str, Any], name: str) -> float | None:
    value = case.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or value < 0:
        raise CaseInvalid(f"{name}: seconds are wanted, not {value!r}")
    return float(value)


def _events(case: Mapping[str, Any]) -> tuple[Mapping[str, Any], ...]:
    events = case.get("events") or ()
    if not isinstance(events, list | tuple) or not all(isinstance(event, Mapping) for event in events):
        raise CaseInvalid("events: a list of objects is wanted")
    return tuple(events)
