"""Inside fresh namespaces: build the allowed file tree, enter it, run the program as a child and hand on its end.

Run by `unshare` as `python -I -S enter.py RULES PROGRAM…`; see isolation.py for RULES. Standard library only, and
everything is loaded before the old tree goes away.
"""
# ruff: noqa: PTH103, PTH110, PTH112, PTH120, PTH211
# No pathlib: this runs before each isolated program.

import ctypes
import json
import os
import signal
import socket
import struct
import sys
from typing import Any

MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_BIND, MS_REC, MNT_DETACH = 2, 4, 8, 4096, 16384, 2
SYS_MOUNT_SETATTR, AT_FDCWD, AT_RECURSIVE, READ_ONLY_NOSUID = 442, -100, 0x8000, 3
PR_SET_NO_NEW_PRIVS = 38
SIOCSIFFLAGS, IFF_UP = 0x8914, 1
ROOT = "/tmp"  # noqa: S108  (any folder that exists everywhere: it is covered at once, in this namespace only)
DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
LINKS = (
    *(("fd", "/proc/self/fd"), ("stdin", "fd/0"), ("stdout", "fd/1"), ("stderr", "fd/2")),
    ("ptmx", "pts/ptmx"),
)
EMPTY = ("/tmp", "/run", "/var/tmp", "/dev/shm")  # noqa: S108
LIBC = ctypes.CDLL(None, use_errno=True)


def main() -> int:
    """Exit code of the program, 128 and more for a signal, 126 when the tree could not be built, 127 when it could
    not be started."""
    rules, argv = json.loads(sys.argv[1]), sys.argv[2:]
    try:
        build(rules)
        enter(rules["cwd"])
        if not rules["network"]:
            raise_loopback()
        LIBC.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    except OSError as error:
        sys.stderr.write(f"isolation: {error}\n")
        return 126
    return run(argv)


def build(rules: dict[str, Any]) -> None:
    # The old tree is held by a descriptor: the new root covers the path that it is mounted on.
    sources = {path: os.open(path, os.O_PATH) for path in [*rules["read"], *rules["write"]]}
    devices = {name: os.open(f"/dev/{name}", os.O_PATH) for name in DEVICES if os.path.exists(f"/dev/{name}")}
    mount("tmpfs", ROOT, "tmpfs", MS_NOSUID | MS_NODEV, "mode=755")
    for link, target in rules["links"]:
        os.symlink(target, ROOT + link)
    for place in EMPTY:
        os.makedirs(ROOT + place, exist_ok=True)
        mount("tmpfs", ROOT + place, "tmpfs", MS_NOSUID | MS_NODEV, "mode=1777")
    for path in rules["read"]:
        bind(sources[path], path)
        make_read_only(path)
    for path in rules["write"]:
        bind(sources[path], path)
    for name, source in devices.items():
        bind(source, f"/dev/{name}")
    os.makedirs(f"{ROOT}/dev/pts")
    mount("devpts", f"{ROOT}/dev/pts", "devpts", MS_NOSUID | MS_NOEXEC, "newinstance,ptmxmode=0666,mode=620")
    for link, target in LINKS:
        os.symlink(target, f"{ROOT}/dev/{link}")
    os.makedirs(f"{ROOT}/proc", exist_ok=True)
    mount("proc", f"{ROOT}/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, "")


def bind(source: int, path: str) -> None:
    """What the descriptor names appears at `path` in the new tree, with all that is mounted in it."""
    place = ROOT + path
    origin = f"/proc/self/fd/{source}"
    if os.path.isdir(origin):
        os.makedirs(place, exist_ok=True)
    else:
        os.makedirs(os.path.dirname(place), exist_ok=True)
        if not os.path.exists(place):
            os.close(os.open(place, os.O_WRONLY | os.O_CREAT, 0o600))
    mount(origin, place, "", MS_BIND | MS_REC, "")


def make_read_only(path: str) -> None:
    attributes = struct.pack("QQQQ", READ_ONLY_NOSUID, 0, 0, 0)
    where = ctypes.c_char_p((ROOT + path).encode())
    size = ctypes.c_size_t(len(attributes))
    done = LIBC.syscall(SYS_MOUNT_SETATTR, AT_FDCWD, where, AT_RECURSIVE, attributes, size)
    refuse(done, f"read-only {path}")


def enter(directory: str) -> None:
    """The new tree is the root, and the old one is gone for good."""
    os.chdir(ROOT)
    refuse(LIBC.pivot_root(b".", b"."), "pivot_root")
    refuse(LIBC.umount2(b".", MNT_DETACH), "umount")
    os.chdir("/")
    os.chdir(directory)


def raise_loopback() -> None:
    """A network namespace begins with its loopback down; tests talk to themselves over it."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        request = ctypes.create_string_buffer(struct.pack("16sh", b"lo", IFF_UP), 40)
        refuse(LIBC.ioctl(sock.fileno(), SIOCSIFFLAGS, request), "loopback")


def run(argv: list[str]) -> int:
    """As process 1: a program with that number would be deaf to TERM, and nobody would take in its orphans."""
    pid = os.fork()
    if pid == 0:
        try:
            os.execvp(argv[0], argv)  # noqa: S606
        except OSError as error:
            sys.stderr.write(f"isolation: {argv[0]}: {error.strerror}\n")
            sys.stderr.flush()
        os._exit(127)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    while True:
        ended, status = os.wait()
        if ended == pid:
            code = os.waitstatus_to_exitcode(status)
            return code if code >= 0 else 128 - code


def mount(source: str, place: str, kind: str, flags: int, options: str) -> None:
    done = LIBC.mount(source.encode(), place.encode(), kind.encode() or None, flags, options.encode() or None)
    refuse(done, f"mount {place.removeprefix(ROOT)}")


def refuse(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


if __name__ == "__main__":
    sys.exit(main())
