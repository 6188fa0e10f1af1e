"""Keeps an agent or a check apart from the host (Z3): own mounts, processes and, when asked, no network.

What is inside is an allow-list: the system's programs and libraries, what the caller names, an empty /tmp. Homes, other
repositories, mirrors, the database and its settings are not there. Two ways, whichever works here: `unshare` with
enter.py, or bubblewrap. Both use a user namespace, so that root inside is nobody's root outside.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Literal

from jobs.executors import clis
from jobs.executors.process import PATH

Level = Literal["namespace", "process"]
ENTER = Path(__file__).with_name("enter.py")
LEVELS: dict[str, Level] = {"unshare": "namespace", "bwrap": "namespace", "": "process"}
PROBE_SECONDS = 20.0
# Of /etc only what programs need to start, to name users and hosts, and to check certificates.
_ETC = (
    *("alternatives", "ca-certificates", "ca-certificates.conf", "group", "hosts", "ld.so.cache", "ld.so.conf"),
    *("ld.so.conf.d", "localtime", "mime.types", "nsswitch.conf", "passwd", "pki", "protocols", "resolv.conf"),
    *("services", "ssl", "terminfo", "timezone"),
)
_TOP = ("usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32")


def level() -> Level:
    """What `wrap` gives on this host: own namespaces, or only an own process tree and environment."""
    return LEVELS[method()]


@lru_cache(maxsize=1)
def method() -> str:
    """`unshare`, `bwrap` or empty, tried for real once per process. AGENTQ_ISOLATION=process turns it off."""
    if os.environ.get("AGENTQ_ISOLATION", "") == "process":
        return ""
    return next((name for name in ("unshare", "bwrap") if works(name)), "")


def wrap(
    argv: Sequence[str],
    *,
    checkout: Path,
    home: Path,
    tmp: Path,
    readonly: Iterable[Path] = (),
    writable: Iterable[Path] = (),
    network: bool,
    method: str | None = None,
) -> tuple[str, ...]:
    """The command line that runs `argv` in `checkout`, apart; `argv` itself where no way works (see `level`).

    Written are checkout, home, tmp and `writable`; read are the system, this Python and `readonly`. Paths that do not
    exist are left out. The environment is handed on as it is.
    """
    way = globals()["method"]() if method is None else method
    if not way:
        return tuple(argv)
    read = [path.resolve() for path in (*_python(), *readonly) if path.exists()]
    written = [path.resolve() for path in (checkout, home, tmp, *writable)]
    rules = {
        "links": [[f"/{name}", str(Path("/", name).readlink())] for name in _TOP if Path("/", name).is_symlink()],
        "read": [*_system(), *_texts(read)],
        "write": _texts(written),
        "cwd": str(checkout.resolve()),
        "network": network,
    }
    return (*(_unshare(rules) if way == "unshare" else _bwrap(rules)), *argv)


def works(way: str) -> bool:
    """True when this way really runs a program here."""
    if way == "bwrap" and clis.find("bwrap") is None:
        return False
    here = ENTER.parent
    argv = wrap(["true"], checkout=here, home=here, tmp=here, network=False, method=way)
    try:
        done = subprocess.run(
            argv, env={"PATH": PATH}, stdin=subprocess.DEVNULL, capture_output=True, timeout=PROBE_SECONDS, check=False
        )
    except (OSError, subprocess.SubprocessError):
        return False
    return done.returncode == 0


def _unshare(rules: dict[str, object]) -> tuple[str, ...]:
    flags = ["--user", "--map-root-user", "--mount", "--pid", "--ipc", "--uts", "--fork", "--kill-child=KILL"]
    if not rules["network"]:
        flags.append("--net")
    return ("unshare", *flags, "--", sys.executable, "-I", "-S", str(ENTER), json.dumps(rules))


def _bwrap(rules: dict[str, object]) -> tuple[str, ...]:
    words = [str(clis.find("bwrap")), "--die-with-parent", "--unshare-user", "--unshare-pid", "--unshare-ipc"]
    words += ["--unshare-uts", "--proc", "/proc", "--dev", "/dev"]
    if not rules["network"]:
        words.append("--unshare-net")
    for place in ("/tmp", "/run", "/var/tmp"):  # noqa: S108  (empty ones, inside)
        words += ["--tmpfs", place]
    links, read, write = rules["links"], rules["read"], rules["write"]
    assert isinstance(links, list) and isinstance(read, list) and isinstance(write, list)
    for link, target in links:
        words += ["--symlink", target, link]
    for path in read:
        words += ["--ro-bind", path, path]
    for path in write:
        words += ["--bind", path, path]
    return (*words, "--chdir", str(rules["cwd"]), "--")


def _system() -> list[str]:
    tops = [Path("/", name) for name in _TOP]
    return [
        *(str(path) for path in tops if path.is_dir() and not path.is_symlink()),
        *(f"/etc/{name}" for name in _ETC if Path("/etc", name).exists()),
    ]


def _python() -> tuple[Path, ...]:
    """This interpreter, its packages and AgentQ's own scripts: checks and the built-in formatter run with them."""
    return (Path(sys.prefix), Path(sys.base_prefix), ENTER.parents[1])


def _texts(paths: Iterable[Path]) -> list[str]:
    """Shortest first, so that a folder never covers what lies in it."""
    return sorted(
        {str(path) for path in paths if not str(path).startswith("/usr/")}, key=lambda text: (len(text), text)
    )
