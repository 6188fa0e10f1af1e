"""One JSON object a line on stderr: time in UTC, level, logger, event and the fields given in `extra` (A3, Z1).

Every text is redacted before it is written, whoever logs it and however.
"""

import json
import logging
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

from jobs.core.redaction import redact

MAX_CHARS = 16 * 1024  # of one text; a log is no place for outputs
_WITHHELD = "[withheld: redaction failed]"
_STANDARD = frozenset(logging.LogRecord("", 0, "", 0, "", (), None).__dict__) | {"message", "asctime", "taskName"}


class JsonFormatter(logging.Formatter):
    """Control characters are escaped by JSON itself, so outside text cannot forge a line."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": clean("", _message(record)),
        }
        extra = {name: value for name, value in record.__dict__.items() if name not in _STANDARD}
        line |= {clean("", name): clean(name, value) for name, value in extra.items()}
        if record.exc_info and record.exc_info[0] is not None:
            # The type and place locate a fault; the text of an exception may hold what a tool printed (Z1).
            line["exception"] = record.exc_info[0].__name__
            line["where"] = _where(record.exc_info[2])
        return json.dumps(line, ensure_ascii=False, default=str)


def clean(name: str, value: Any) -> Any:
    """The value without secrets, its inner values too; a text under a name such as `password` goes whole.

    When redaction fails, the text is withheld.
    """
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, Mapping):
        return {clean("", str(key)): clean(str(key), inner) for key, inner in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [clean(name, inner) for inner in value]
    try:
        return _clean_text(name, str(value))
    except Exception:  # noqa: BLE001  whatever went wrong, the text itself must not get through
        return _WITHHELD


def _clean_text(name: str, text: str) -> str:
    text = redact(text, injected=_own_values())
    text = text if len(text) <= MAX_CHARS else f"{text[:MAX_CHARS]} …"
    before = f"{name}="
    if not name or redact(before) != before:
        return text
    # A name in front can make a secret of what is none alone.
    return redact(before + text).removeprefix(before)


def _message(record: logging.LogRecord) -> str:
    try:
        return record.getMessage()
    except Exception:  # noqa: BLE001  a wrong format string must cost neither the line nor the program
        return str(record.msg)


def _own_values() -> tuple[str, ...]:
    # Read anew each minute: a key may be renewed in its file while this process runs.
    return _own_values_at(int(time.monotonic()) // 60)


@lru_cache(maxsize=1)
def _own_values_at(_minute: int) -> tuple[str, ...]:
    from jobs.worker.own_values import own_values  # settings are ready when the first line is written

    return own_values()


def _where(trace: object) -> list[str]:
    frames = []
    while trace is not None:
        code = trace.tb_frame.f_code  # type: ignore[attr-defined]
        frames.append(f"{code.co_filename.rsplit('/', 1)[-1]}:{trace.tb_lineno}:{code.co_name}")  # type: ignore[attr-defined]
        trace = trace.tb_next  # type: ignore[attr-defined]
    return frames[-8:]
