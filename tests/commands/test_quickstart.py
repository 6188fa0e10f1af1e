"""The first command a newcomer runs: every outcome, a console that answers, and nothing left behind (issue 1, D5)."""

import os
import re
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest
from django.conf import settings

from tests.waiting import until

pytestmark = [pytest.mark.engine, pytest.mark.xdist_group("engine")]


@pytest.fixture
def environment(tmp_path):
    """A data folder of its own on SQLite: the quick start's default."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("AGENTQ_", "DATABASE_URL"))}
    return {**kept, "AGENTQ_DATA_DIR": str(tmp_path / "data"), "PYTHONUNBUFFERED": "1"}


def manage(environment, *args):
    argv = [sys.executable, "manage.py", *args]
    return subprocess.run(argv, cwd=settings.BASE_DIR, env=environment, capture_output=True, text=True, check=False)


def test_once_ends_every_job_as_expected_and_each_history_equals_its_row(environment):
    done = manage(environment, "quickstart", "--once")
    assert done.returncode == 0, done.stdout + done.stderr
    rows = re.findall(r"^J-(\d+) +(\w+)", done.stdout, re.MULTILINE)
    assert {state for _, state in rows} >= {"accepted", "review", "paused", "failed_terminal", "cancelled"}
    assert re.search(r"password \(shown once\): \S{15,}", done.stdout)
    for job_id, _ in rows[:3]:
        checked = manage(environment, "job_history", job_id, "--verify")
        assert checked.returncode == 0, checked.stdout + checked.stderr
    assert manage(environment, "verify_audit").returncode == 0
    again = manage(environment, "quickstart", "--once")
    assert again.returncode == 0
    assert "shown once" not in again.stdout


def test_term_stops_the_console_the_workers_and_everything_they_started(environment, tmp_path):
    log = tmp_path / "log"
    with log.open("wb") as file:
        process = subprocess.Popen(
            [sys.executable, "manage.py", "quickstart", "--port", "18400"],
            cwd=settings.BASE_DIR, env=environment, stdout=file, stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip
    try:
        address = until(lambda: re.search(r"http://127\.0\.0\.1:\d+", log.read_text()), process=process, log=log)[0]
        assert urllib.request.urlopen(f"{address}/accounts/login/").status == 200
        os.killpg(process.pid, signal.SIGTERM)
        assert process.wait(40) == 0, log.read_text()
        until(lambda: not _of(tmp_path))
    finally:
        for pid in _of(tmp_path):
            os.kill(pid, signal.SIGKILL)


def _of(folder: Path) -> list[int]:
    """Processes whose environment names the test's data folder."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                text = (entry / "environ").read_bytes()
            except OSError:
                continue
            if f"AGENTQ_DATA_DIR={folder}".encode() in text:
                found.append(int(entry.name))
    return found
