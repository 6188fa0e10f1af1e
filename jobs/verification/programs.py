"""Runs a workflow's tests and static commands, each in a clean work tree of its own."""

import hashlib
import json
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from jobs.verification.checks import Check, ProgramRun, Runner, Verdict
from jobs.verification.digest import argv_digest
from jobs.workspaces.checkout import clean
from jobs.workspaces.git import clear_disk_errors
from jobs.workspaces.mirror import Base, Mirror

Kind = Literal["tests", "static"]
# The program itself ended this run; every other reason is the worker's, and ends the whole verification.
_OWN_STOPS = frozenset({"timeout", "output_cap"})


@dataclass(frozen=True)
class Program:
    """A command that must end with exit code 0. `seconds` limits its wall clock."""

    name: str
    argv: tuple[str, ...]
    kind: Kind = "tests"
    seconds: float = 600.0


@dataclass(frozen=True)
class Rooms:
    """Where programs run and where their output goes; all outside what the agent can write."""

    mirror: Mirror
    work: Path
    output: Path
    env: Mapping[str, str]
    run: Runner
    label: str


@dataclass(frozen=True)
class Ran:
    """A finished check; `stopped` is the worker's reason when it ended the program, else None."""

    check: Check
    stopped: str | None = None


def run_program(rooms: Rooms, program: Program, commit: str, *, suffix: str = "") -> Ran:
    """Run a program on a fresh tree of `commit`; a check before it cannot have changed a file.

    Raises DiskFull and GitFailed when the tree cannot be made.
    """
    output = rooms.output / f"{program.name}{suffix}.log"
    with clear_disk_errors():
        rooms.output.mkdir(parents=True, exist_ok=True)
    with clean(rooms.mirror, commit, rooms.work, label=rooms.label) as room:
        own = {
            "HOME": str(room.home),
            "TMPDIR": str(room.tmp),
            # A test that calls git must not find a repository above its tree.
            "GIT_CEILING_DIRECTORIES": str(room.root),
        }
        ended = rooms.run(program.argv, room.tree, {**rooms.env, **own}, program.seconds, output)
    verdict, details = _judge(ended)
    check = Check(
        name=program.name,
        argv_digest=argv_digest(program.argv),
        exit_code=ended.exit_code,
        verdict=verdict,
        seconds=ended.duration_seconds,
        output_digest=_file_digest(output),
        output_path=output if output.is_file() else None,
        details=details,
    )
    return Ran(check, None if ended.stopped in _OWN_STOPS or ended.timed_out else ended.stopped)


def base_verdict(rooms: Rooms, program: Program, base: Base, cache: Path | None) -> Verdict:
    """What the program says about the base tree; answered from `cache` when this tree and command were run before."""
    place = cache and cache / f"{base.tree}-{argv_digest(program.argv)}.json"
    if place and (known := _read(place)):
        return known
    verdict = run_program(rooms, program, base.commit, suffix=".base").check.verdict
    if place and verdict in {Verdict.PASS, Verdict.FAIL}:
        _write(place, verdict)
    return verdict


def _judge(ended: ProgramRun) -> tuple[Verdict, tuple[str, ...]]:
    if ended.start_error is not None:
        absent = ended.start_error == "exec:ENOENT"
        return (Verdict.MISSING, ("program_not_found",)) if absent else (Verdict.ERROR, ("not_started",))
    if ended.survivors:
        return Verdict.ERROR, ("survivors",)
    if ended.timed_out:
        return Verdict.ERROR, ("timed_out",)
    if ended.stopped is not None:
        return Verdict.ERROR, ("stopped", ended.stopped)
    if ended.exit_code is None:
        return Verdict.FAIL, ("killed_by_signal",)
    return (Verdict.PASS, ()) if ended.exit_code == 0 else (Verdict.FAIL, ("exit_code",))


def _file_digest(path: Path) -> str | None:
    if not path.is_file():
        return None
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _read(place: Path) -> Verdict | None:
    try:
        return Verdict(json.loads(place.read_text())["verdict"])
    except (OSError, ValueError, KeyError, TypeError):
        return None  # not there or damaged: run again


def _write(place: Path, verdict: Verdict) -> None:
    fresh = place.with_name(f"{place.name}.{secrets.token_hex(4)}")
    with clear_disk_errors():
        place.parent.mkdir(parents=True, exist_ok=True)
        fresh.write_text(json.dumps({"verdict": str(verdict)}))
        fresh.replace(place)
