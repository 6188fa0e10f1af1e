"""A progress bar on a terminal's stderr; silent where nobody watches."""

import time
from types import TracebackType

from django.core.management.base import OutputWrapper

WIDTH = 30
SECONDS_BETWEEN_DRAWINGS = 0.1


class Progress:
    """Shows `done` of `total`; without a total only the number. Leaves the line empty when it ends."""

    def __init__(self, stream: OutputWrapper, what: str, total: int | None = None) -> None:
        self._stream = stream
        self._what = what
        self._total = total
        self._watched = stream.isatty()
        self._drawn = False
        self._next = 0.0

    def __enter__(self) -> "Progress":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.clear()

    def show(self, done: int, note: str = "") -> None:
        """Draws at most ten times a second. `note` stands behind the bar."""
        now = time.monotonic()
        if not self._watched or now < self._next:
            return
        self._next = now + SECONDS_BETWEEN_DRAWINGS
        self._stream.write(f"\r\x1b[2K{bar(self._what, done, self._total)} {note}".rstrip(), ending="")
        self._stream.flush()
        self._drawn = True

    def clear(self) -> None:
        """Frees the line, before anything else is printed on the same terminal."""
        if self._drawn:
            self._stream.write("\r\x1b[2K", ending="")
            self._stream.flush()
            self._drawn = False


def bar(what: str, done: int, total: int | None) -> str:
    """The bar as text."""
    if not total:
        return f"{what} {done}"
    part = min(done / total, 1.0)
    filled = round(part * WIDTH)
    return f"{what} [{'#' * filled}{'.' * (WIDTH - filled)}] {part:4.0%}"
