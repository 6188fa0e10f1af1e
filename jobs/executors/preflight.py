"""Can the agent CLIs work on this host? Looked up without calling a model and without reading any secret's value."""

import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from jobs.errors import CredentialMissing
from jobs.executors import clis, credentials, isolation
from jobs.executors.claude import ClaudeExecutor
from jobs.executors.codex import CodexExecutor
from jobs.executors.process import PATH

PROBE_SECONDS = 30.0
_EXECUTORS = (CodexExecutor, ClaudeExecutor)

Lack = Literal["program", "version", "sandbox", "bwrap", "socat", "credential", "credential_empty"]


@dataclass(frozen=True)
class AgentState:
    """What is known about one CLI here. `login` says whether a job would have a key, not whether the service takes
    it: that is known only after a call. `lacks` is empty when jobs can run."""

    name: str
    path: str
    version: str
    sandbox: bool
    login: Literal["key", "none", "unreadable"]
    credentials: tuple[str, ...]
    lacks: tuple[Lack, ...]

    @property
    def usable(self) -> bool:
        return not self.lacks


def look(references: Mapping[str, str]) -> tuple[AgentState, ...]:
    """Every agent CLI, with the references to credentials as set (see credentials.parse)."""
    return tuple(_look_at(kind, references) for kind in _EXECUTORS)


def _look_at(kind: type[CodexExecutor | ClaudeExecutor], references: Mapping[str, str]) -> AgentState:
    path = clis.find(kind.name)
    version = clis.version(path) if path is not None else ""
    lacks: list[Lack] = []
    if path is None:
        lacks.append("program")
    elif not version:
        lacks.append("version")
    missing = (_codex_sandbox(path) if kind is CodexExecutor else _claude_sandbox()) if version and path else []
    login = _login(kind, references)
    lacks += missing
    if login != "key":
        lacks.append("credential" if login == "none" else "credential_empty")
    return AgentState(
        name=kind.name,
        path=str(path or ""),
        version=version,
        sandbox=bool(version) and not missing,
        login=login,
        credentials=tuple(sorted(kind.credentials)),
        lacks=tuple(lacks),
    )


def _login(
    kind: type[CodexExecutor | ClaudeExecutor], references: Mapping[str, str]
) -> Literal["key", "none", "unreadable"]:
    try:
        found = credentials.resolve(references, kind.credentials)
    except CredentialMissing:
        return "unreadable"
    return "key" if found else "none"


def _codex_sandbox(program: Path) -> list[Lack]:
    """Codex is asked to run `true` in its own sandbox."""
    with tempfile.TemporaryDirectory(prefix="agentq-check-") as place:
        environment = {"PATH": PATH, "HOME": place, "CODEX_HOME": place, "LANG": "C.UTF-8"}
        try:
            done = subprocess.run(
                [program, "sandbox", "--", "true"],
                cwd=place,
                env=environment,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=PROBE_SECONDS,
                check=False,
            )
        except (OSError, subprocess.SubprocessError):
            return ["sandbox"]
    return [] if done.returncode == 0 else ["sandbox"]


def _claude_sandbox() -> list[Lack]:
    """Claude Code's sandbox is made of two programs of the host; bubblewrap must also be allowed to work."""
    lacks: list[Lack] = []
    if clis.find("bwrap") is None:
        lacks.append("bwrap")
    elif not isolation.works("bwrap"):
        lacks.append("sandbox")
    if shutil.which("socat", path=PATH) is None:
        lacks.append("socat")
    return lacks
