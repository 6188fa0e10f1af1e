"""Real repositories for the workspace tests, and plain git as a person would call it."""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from jobs.workspaces.mirror import Mirror
from jobs.workspaces.snapshot import Identity

Naive = Callable[..., str]
MakeSource = Callable[..., Path]


@pytest.fixture
def naive() -> Naive:
    """git without our wrapper: its answer as text, or the failure when `check` is left on."""

    def run(where: Path, *args: str, check: bool = True, env: dict[str, str] | None = None) -> str:
        done = subprocess.run(
            ["git", "-c", "user.name=Ann", "-c", "user.email=ann@example.org", *args],
            cwd=where,
            env={**os.environ, **(env or {})},
            capture_output=True,
            check=False,
        )
        assert done.returncode == 0 or not check, done.stderr
        return done.stdout.decode(errors="surrogateescape").strip()

    return run


@pytest.fixture
def make_source(tmp_path: Path, naive: Naive) -> MakeSource:
    """Makes a repository with a few files on branch main."""

    def make(name: str = "shop") -> Path:
        top = tmp_path / "sources" / name
        top.mkdir(parents=True)
        naive(top, "init", "-q", "-b", "main")
        (top / "src").mkdir()
        (top / "src" / "billing.py").write_text("def total():\n    return 1\n")
        (top / "README.md").write_text("# Shop\n")
        (top / ".gitignore").write_text("*.log\n")
        naive(top, "add", "-A")
        naive(top, "commit", "-q", "-m", "first")
        return top

    return make


@pytest.fixture
def source(make_source: MakeSource) -> Path:
    return make_source()


@pytest.fixture
def mirror(source: Path, tmp_path: Path) -> Mirror:
    mirror = Mirror(tmp_path / "mirrors" / "7.git", str(source), lock_seconds=20)
    mirror.fetch()
    return mirror


@pytest.fixture
def identity() -> Identity:
    return Identity("AgentQ", "agentq@example.org")


@pytest.fixture
def take(mirror: Mirror, identity: Identity) -> Callable[..., object]:
    """Takes a snapshot with everything but the checkout fixed."""
    from jobs.workspaces import snapshot

    def run(checkout: object, stage: str = "modify", **more: object) -> object:
        ref = snapshot.ref_for(checkout.job, checkout.fence, stage)
        settings = {"identity": identity, "timestamp": 1_790_000_000, "message": "Stage", **more}
        return snapshot.take(checkout, mirror, ref, **settings)

    return run
