"""A real mirror, results made from plain file changes, and a runner that starts real programs."""

import os
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from jobs.verification.gate import GateRequest, GateResult, verify
from jobs.workspaces import checkout as checkouts
from jobs.workspaces import snapshot
from jobs.workspaces.mirror import Mirror
from jobs.workspaces.snapshot import Snapshot


@dataclass(frozen=True)
class Ended:
    """How a test's program ended."""

    exit_code: int | None = None
    signal: int | None = None
    timed_out: bool = False
    stopped: str | None = None
    start_error: str | None = None
    survivors: int = 0
    duration_seconds: float = 0.0


def run(argv, cwd: Path, env: Mapping[str, str], seconds: float, output_path: Path) -> Ended:
    started = time.monotonic()
    with output_path.open("wb") as output:
        try:
            done = subprocess.run(
                argv,
                cwd=cwd,
                env={"PATH": os.environ["PATH"], **env},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                timeout=seconds,
                check=False,
            )
        except FileNotFoundError:
            return Ended(start_error="exec:ENOENT")
        except subprocess.TimeoutExpired:
            return Ended(timed_out=True, stopped="timeout")
    spent = time.monotonic() - started
    if done.returncode < 0:
        return Ended(signal=-done.returncode, duration_seconds=spent)
    return Ended(exit_code=done.returncode, duration_seconds=spent)


@pytest.fixture
def runner() -> Callable[..., Ended]:
    return run


@pytest.fixture
def ended() -> type[Ended]:
    return Ended


@pytest.fixture
def naive() -> Callable[..., str]:
    """git without our wrapper: its answer as text, or the failure when `check` is left on."""

    def run_git(where: Path, *args: str, check: bool = True) -> str:
        done = subprocess.run(
            ["git", "-c", "user.name=Ann", "-c", "user.email=ann@example.org", *args],
            cwd=where,
            capture_output=True,
            check=False,
        )
        assert done.returncode == 0 or not check, done.stderr
        return done.stdout.decode(errors="surrogateescape").strip()

    return run_git


@pytest.fixture
def source(tmp_path: Path, naive: Callable[..., str]) -> Path:
    top = tmp_path / "source"
    (top / "src").mkdir(parents=True)
    (top / "tests").mkdir()
    (top / "src/billing.py").write_text("def total():\n    return 1\n")
    (top / "tests/test_billing.py").write_text("def test_total():\n    pass\n")
    (top / "check.sh").write_text("test ! -e broken\n")
    (top / ".gitignore").write_text("*.log\n")
    naive(top, "init", "-q", "-b", "main")
    naive(top, "add", "-A")
    naive(top, "commit", "-q", "-m", "first")
    return top


@pytest.fixture
def mirror(source: Path, tmp_path: Path) -> Mirror:
    mirror = Mirror(tmp_path / "mirrors" / "7.git", str(source), lock_seconds=20)
    mirror.fetch()
    return mirror


@pytest.fixture
def checkout(mirror: Mirror, tmp_path: Path) -> checkouts.Checkout:
    return checkouts.create(mirror, mirror.resolve("main"), tmp_path / "attempts", job=12, fence=3)


@pytest.fixture
def stored(mirror: Mirror, checkout: checkouts.Checkout) -> Callable[..., Snapshot]:
    """Takes a snapshot of the checkout as it is now."""

    def take(**more: object) -> Snapshot:
        identity = snapshot.Identity("AgentQ", "agentq@example.org")
        ref = snapshot.ref_for(12, 3, "modify")
        return snapshot.take(checkout, mirror, ref, identity=identity, timestamp=1, message="m", **more)

    return take


@pytest.fixture
def gate(mirror, checkout, stored, tmp_path) -> Callable[..., GateResult]:
    """Verifies the checkout as it is now."""

    def judge(**more: object) -> GateResult:
        settings = {
            "mirror": mirror,
            "base": checkout.base,
            "snapshot": more.pop("snapshot", None) or stored(),
            "run": run,
            "work": tmp_path / "verify",
            "output": tmp_path / "output",
            "workflow_digest": "w" * 64,
            "policy_version": "v1",
            **more,
        }
        return verify(GateRequest(**settings))

    return judge
