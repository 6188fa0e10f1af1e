"""Where the agent CLIs are, and which version it is."""

import os
import re
import shutil
import subprocess
from functools import lru_cache
from pathlib import Path

VERSION_SECONDS = 30.0
_SETTINGS = {"codex": "AGENTQ_CODEX", "claude": "AGENTQ_CLAUDE", "bwrap": "AGENTQ_BWRAP"}


def find(name: str) -> Path | None:
    """The program as set by AGENTQ_CODEX, AGENTQ_CLAUDE or AGENTQ_BWRAP, else as found on PATH; None without one.

    Codex as npm installs it is a Node script around the real program, which is answered where it is there: it needs
    no Node, and its sandbox lies beside it. That sandbox also serves as bwrap where the system has none.
    """
    wanted = os.environ.get(_SETTINGS[name], "")
    found = shutil.which(wanted or name)
    if found is None:
        return _bundled_bwrap() if name == "bwrap" and not wanted else None
    path = Path(found).resolve()
    return _native_codex(path) or path if name == "codex" else path


@lru_cache(maxsize=16)
def version(program: Path) -> str:
    """The version that the program states, such as 2.1.332; empty when it states none."""
    environment = {"PATH": os.environ.get("PATH", ""), "HOME": "/nonexistent", "LANG": "C.UTF-8"}
    try:
        said = subprocess.run(
            [program, "--version"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=VERSION_SECONDS,
            env=environment,
            check=False,
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    numbers = re.search(rb"\d+\.\d+[\w.+-]*", said.stdout)
    return numbers[0].decode() if said.returncode == 0 and numbers else ""


def install_root(program: Path) -> Path:
    """The folder that the program needs to run: its package, not only its file."""
    for parent in program.parents:
        if parent.name == "node_modules":
            return parent
    return program.parent


def _native_codex(wrapper: Path) -> Path | None:
    if wrapper.suffix != ".js":
        return None
    root = install_root(wrapper)
    found = sorted([*root.glob("@openai/codex-*/vendor/*/bin/codex"), *wrapper.parents[1].glob("vendor/*/bin/codex")])
    return next((path for path in found if os.access(path, os.X_OK)), None)


def _bundled_bwrap() -> Path | None:
    codex = find("codex")
    beside = codex.parents[1] / "codex-resources" / "bwrap" if codex else None
    return beside if beside is not None and os.access(beside, os.X_OK) else None
