"""Files that hold what a child printed: capped while written, read from the end."""

import os
import stat

from jobs.executors.channel import CHUNK_BYTES, code_of

TAIL_BYTES = 65536  # kept in memory per stream, so that the end of a cut output (the terminal event) survives


def tail(path: str | os.PathLike[str], size: int) -> str:
    """The last `size` bytes of an output file as text; empty when there is no such regular file.

    Never follows a link and never blocks on a pipe that took the file's place."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return ""
    try:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            return ""
        return os.pread(fd, size, max(0, status.st_size - size)).decode(errors="replace")
    finally:
        os.close(fd)


def write_private(path: str | os.PathLike[str], text: str) -> None:
    """Write a file that only this user can read; a link in its place is refused."""
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
    with os.fdopen(file, "w", encoding="utf-8", errors="surrogatepass") as handle:
        handle.write(text)


class Output:
    """One stream of the child, kept in a file of at most `cap` bytes: its head and its tail."""

    def __init__(self, path: str, cap: int) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
        self.file = os.open(path, flags, 0o600)
        os.fchmod(self.file, 0o600)
        self.pipe, self.child_end = os.pipe()
        os.set_blocking(self.pipe, False)
        self.cap = cap
        self.tail_room = min(cap // 2, TAIL_BYTES)
        self.head_room = cap - self.tail_room
        self.tail = bytearray()
        self.total = 0
        self.open = True
        self.error: str | None = None

    @property
    def over(self) -> bool:
        return self.total > self.cap

    def read(self) -> bool:
        """Take one chunk; False when there is none now, or never again."""
        try:
            data = os.read(self.pipe, CHUNK_BYTES)
        except BlockingIOError:
            return False
        self.open = bool(data)
        self.total += len(data)
        head = data[: self.head_room]
        self.head_room -= len(head)
        self.write(head)
        self.tail += data[len(head) :]
        if len(self.tail) > self.tail_room:
            del self.tail[: len(self.tail) - self.tail_room]
        return self.open

    def finish(self) -> None:
        """Take what is left without waiting (a survivor may still hold the pipe), then write the tail."""
        for _ in range(64):  # four times what a pipe can hold
            if not self.read():
                break
        if self.over:
            left_out = self.total - (self.cap - self.tail_room) - len(self.tail)
            marker = b"\n[agentq: about %d bytes left out here]\n" % left_out
            self.tail[: len(marker)] = marker
        self.write(bytes(self.tail))
        os.close(self.file)
        os.close(self.pipe)

    def write(self, data: bytes) -> None:
        """A full disk costs output, never the hold on the child."""
        try:
            while data and self.error is None:
                data = data[os.write(self.file, data) :]
        except OSError as error:
            self.error = code_of(error)
