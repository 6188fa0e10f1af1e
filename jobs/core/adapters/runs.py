"""One ended run in, `FailureFacts` out (F2): the place where all adapters meet."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from jobs.core import patterns
from jobs.core.adapters import events as agent_events
from jobs.core.adapters import formats, programs
from jobs.core.failures import FailureFacts

SIGKILL: Final = 9
_ERROR_LINE: Final = re.compile(r"error|exception|fatal|err!", re.IGNORECASE)
_LAST_ERROR: Final = re.compile(r"\W{0,3}(?:\w{1,12} )?(?:error|fatal)\b[^\n]{0,20}:", re.IGNORECASE)
# What our own ledger says about the external act of this run (X1).
LEDGER_STATES: Final = ("", "none", "open", "unknown", "confirmed", "absent")


@dataclass(frozen=True, slots=True)
class EndedRun:
    """What the supervisor knows about a run that ended. `stdout` and `stderr` may be whole outputs; they are cut here.

    `ledger` is one of LEDGER_STATES; `retry_after` is seconds; `request_sent` None means not known.
    """

    program: str = ""
    stage: str = ""
    risk: str = "writes_files"
    exit_code: int | None = None
    signal: int | None = None
    exception_type: str | None = None
    http_status: int | None = None
    stdout: str = ""
    stderr: str = ""
    events: Sequence[Mapping[str, Any]] = ()
    ledger: str = ""
    cancel_requested: bool = False
    wall_clock_kill: bool = False
    request_sent: bool | None = None
    retry_after: float | None = None
    retry_forbidden: bool = False


def gather(run: EndedRun) -> FailureFacts:
    """The facts of this run. Pure: the same run gives the same facts. Work is bounded whatever the output's size."""
    streams = [patterns.cut(run.stdout), patterns.cut(run.stderr)]
    told = agent_events.read(run.events, streams[0])
    plain = (agent_events.without_events(streams[0]), streams[1], patterns.cut(told.text))
    raw = "\n".join(part for part in plain if part)
    text = patterns.fold(raw)
    kind = programs.kind_of(run.program)
    spoken = _error_lines(plain[0]) if kind == programs.AGENT else plain[0]
    errors = "\n".join((spoken, *plain[1:]))
    typed = formats.read(errors, patterns.fold(errors), lines_only=kind == programs.VERIFIER)
    types = _types(run, typed.types, kind)
    status = run.http_status or told.status or (None if kind == programs.VERIFIER else typed.status)
    number = _signal(run)
    marks = _marks(run, kind, types, text, number) | told.marks | typed.marks
    return FailureFacts(
        program=run.program,
        stage=run.stage,
        risk=run.risk,
        exit_code=run.exit_code,
        signal=number,
        exception_types=types,
        http_status=status,
        codes=typed.codes | told.codes,
        marks=frozenset(marks),
        text=text,
        retry_after=_longest(run.retry_after, told.retry_after, typed.retry_after),
        retry_forbidden=run.retry_forbidden or typed.retry_forbidden,
        failed=_failed(run, told) or (kind != programs.VERIFIER and any(map(_ends_in_error, plain[:2]))),
    )


def _failed(run: EndedRun, told: agent_events.Told) -> bool:
    if run.exit_code != 0 or run.signal or run.exception_type or run.cancel_requested or run.wall_clock_kill:
        return True
    return bool(run.http_status and run.http_status >= 400) or told.failed or run.ledger in ("open", "unknown")


def _error_lines(stdout: str) -> str:
    # An agent's prose may quote any error; only lines that report one count as typed evidence.
    return "\n".join(line for line in stdout.splitlines() if _ERROR_LINE.search(line[:60]))


def _ends_in_error(stream: str) -> bool:
    # Wrappers and agents end with 0 after printing their failure; then the last line is the failure.
    lines = stream.strip().splitlines()
    return bool(lines) and _LAST_ERROR.match(lines[-1]) is not None


def _types(run: EndedRun, found: tuple[str, ...], kind: str) -> tuple[str, ...]:
    given = (run.exception_type,) if run.exception_type else ()
    # A test report names exceptions that the tests provoke on purpose; only the supervisor's own word counts there.
    return given if kind == programs.VERIFIER else tuple(dict.fromkeys((*given, *found)))


def _signal(run: EndedRun) -> int | None:
    if run.signal:
        return run.signal
    code = run.exit_code
    if code is None or code == 0:
        return None
    if code < 0:
        return -code
    return code - 128 if 128 < code < 160 and code - 128 in (2, 6, 9, 11, 15) else None


def _marks(run: EndedRun, kind: str, types: tuple[str, ...], text: str, number: int | None) -> set[str]:
    marks = {kind} if kind else set()
    if run.risk == "external_side_effect" or kind == programs.PUBLISHER:
        marks.add("outward")
    if not text.strip() and not types and run.http_status is None and not number:
        marks.add("silent")
    if run.exit_code == 0:
        marks.add("exit_zero")
    if any(programs.is_model_error(name) for name in types):
        marks.add("model_call")
    facts = {
        "cancel_requested": run.cancel_requested,
        "wall_clock": run.wall_clock_kill,
        "intent_open": run.ledger in ("open", "unknown"),
        "acted": run.ledger == "confirmed",
        "not_sent": run.request_sent is False or run.ledger == "absent",
        "sent": run.request_sent is True,
        "killed": number == SIGKILL,
        "terminated": number == 15,
        "interrupted": number == 2,
        "crashed": number in (6, 11),
    }
    return marks | {name for name, holds in facts.items() if holds}


def _longest(*seconds: float | None) -> float | None:
    known = [value for value in seconds if value is not None]
    return max(known) if known else None
