"""What a test needs from the machine: where it is absent the test skips with the reason, but under CI it fails."""

import importlib.util
import os
import shutil
from pathlib import Path

import pytest


def browser() -> str:
    """The path of a Chromium that tests may drive: from CHROMIUM, else where Debian has it, else from PATH."""
    named = os.environ.get("CHROMIUM", "")
    for found in (named, "/usr/bin/chromium", shutil.which("chromium") or "", shutil.which("google-chrome") or ""):
        if found and Path(found).exists():
            return found
    return _absent("this test drives a real Chromium: install the package chromium, or name one in CHROMIUM")


def axe() -> str:
    """The script that looks for barriers (axe-core), from the package axe-playwright-python."""
    found = importlib.util.find_spec("axe_playwright_python")
    if found is None or not found.submodule_search_locations:
        return _absent("this test looks for barriers with axe-core: install axe-playwright-python")
    return (Path(found.submodule_search_locations[0]) / "axe.min.js").read_text(encoding="utf-8")


def isolation(way: str) -> None:
    """The kernel and the account allow this way of running programs apart. CI's own containers often do not."""
    from jobs.executors import isolation as ways

    if not ways.works(way):
        _absent(f"this test needs user namespaces and {way}", in_ci_too=True)


def agent_cli(name: str) -> Path:
    """A real agent CLI, as AGENTQ_CODEX or AGENTQ_CLAUDE name it or as found on PATH. CI must have those that
    AGENTQ_CI_AGENTS lists, such as `codex`."""
    from jobs.executors import clis

    found = clis.find(name)
    if found is None or not clis.version(found):
        wanted = name in os.environ.get("AGENTQ_CI_AGENTS", "").split()
        _absent(f"this test runs the real {name} CLI: install it or set AGENTQ_{name.upper()}", in_ci_too=not wanted)
    assert found is not None
    return found


def _absent(why: str, *, in_ci_too: bool = False) -> str:
    """CI runs the suite once on each database, so the wrong database is no lack there."""
    if os.environ.get("CI") and not in_ci_too:
        pytest.fail(f"{why} (CI may skip nothing)")
    pytest.skip(why)
