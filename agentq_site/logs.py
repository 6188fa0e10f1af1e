"""One JSON object a line on stderr: time in UTC, level, logger, event and the fields given in `extra` (A3)."""

import json
import logging
from datetime import UTC, datetime

_STANDARD = frozenset(logging.LogRecord("", 0, "", 0, "", (), None).__dict__) | {"message", "asctime", "taskName"}


class JsonFormatter(logging.Formatter):
    """Control characters are escaped by JSON itself, so outside text cannot forge a line."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        line |= {name: value for name, value in record.__dict__.items() if name not in _STANDARD}
        if record.exc_info and record.exc_info[0] is not None:
            # The type and place locate a fault; the text of an exception may hold what a tool printed (Z1).
            line["exception"] = record.exc_info[0].__name__
            line["where"] = _where(record.exc_info[2])
        return json.dumps(line, ensure_ascii=False, default=str)


def _where(trace: object) -> list[str]:
    frames = []
    while trace is not None:
        code = trace.tb_frame.f_code  # type: ignore[attr-defined]
        frames.append(f"{code.co_filename.rsplit('/', 1)[-1]}:{trace.tb_lineno}:{code.co_name}")  # type: ignore[attr-defined]
        trace = trace.tb_next  # type: ignore[attr-defined]
    return frames[-8:]
