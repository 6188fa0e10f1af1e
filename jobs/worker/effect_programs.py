"""The programs behind an act: what exactly is run, in which environment, what its first line says (X1, Z3, Z5)."""

import os
import sys
from pathlib import Path

from django.conf import settings

from jobs.core.redaction import redact_tail
from jobs.core.side_effects import PUSH, Act
from jobs.executors import credentials
from jobs.executors.process import ProcessSpec, minimal_environment
from jobs.worker.own_values import own_values
from jobs.workspaces import push

REFERENCE_CHARS = 500
LOOKUP_SECONDS = 60.0
OUTPUT_BYTES = 256 * 1024


def act_spec(act: Act, mirror: Path, room: Path, *, name: str, token: str, **limits: float | None) -> ProcessSpec:
    """The program that acts. `room` is a private folder; `name` its output files'; `limits` are the spec's own."""
    argv = _push("push", act, mirror) if act.kind == PUSH else act.argv
    return _spec(argv, act, room, name, token, limits)


def lookup_spec(act: Act, mirror: Path, room: Path, *, name: str, token: str, **limits: float | None) -> ProcessSpec:
    """The read-only program that finds an existing result; ask `act.can_be_looked_up` first."""
    argv = _push("lookup", act, mirror) if act.kind == PUSH else act.lookup or ()
    return _spec(argv, act, room, name, token, {"seconds": min(float(act.seconds), LOOKUP_SECONDS), **limits})


def first_line(path: Path) -> str:
    """What the program said first, fit to be stored: redacted and short (Z1)."""
    try:
        with path.open("rb") as file:
            line = file.read(16 * 1024).strip().partition(b"\n")[0]
    except OSError:
        return ""
    return redact_tail(line, REFERENCE_CHARS, injected=own_values()).strip()


def _push(verb: str, act: Act, mirror: Path) -> tuple[str, ...]:
    protocols = ",".join(settings.AGENTQ_PUSH_PROTOCOLS)
    script = (sys.executable, "-I", "-S", str(push.__file__), verb, protocols)
    return (*script, str(mirror), act.argv[0], act.branch, act.sha)


def _spec(
    argv: tuple[str, ...], act: Act, room: Path, name: str, token: str, limits: dict[str, float | None]
) -> ProcessSpec:
    room.mkdir(mode=0o700, parents=True, exist_ok=True)
    references = credentials.parse(settings.AGENTQ_CREDENTIALS)
    secrets = credentials.resolve(references, act.credentials)
    path = os.pathsep.join((str(Path(sys.executable).parent), "/usr/local/bin", "/usr/bin", "/bin"))
    values = {"seconds": float(act.seconds), "grace_seconds": settings.AGENTQ_GRACE_SECONDS, **limits}
    return ProcessSpec(
        argv=argv,
        cwd=room,
        env={**minimal_environment(home=room, tmp=room, extra=secrets), "PATH": path},
        stdout_path=room / f"{name}.stdout",
        stderr_path=room / f"{name}.stderr",
        token=token,
        output_cap_bytes=OUTPUT_BYTES,
        **values,
    )
