"""Commands, called in this process, and as people call them: a process with an exit code and a stderr."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from io import StringIO
from pathlib import Path

import pytest
from django.core.management import call_command
from django.db import connection

from tests import factories

PROJECT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Said:
    """What a command printed."""

    stdout: str
    stderr: str
    code: int = 0

    @property
    def lines(self) -> list:
        return [json.loads(line) for line in self.stdout.splitlines()]


@pytest.fixture
def call():
    """Runs a command in this process and database; its refusal is raised."""

    def run(*argv: str) -> Said:
        stdout, stderr = StringIO(), StringIO()
        call_command(*argv, stdout=stdout, stderr=stderr)
        return Said(stdout.getvalue(), stderr.getvalue())

    return run


@pytest.fixture
def refusal():
    """Runs a command that must end with an error; gives what was printed, the sentence and the exit code."""
    from django.core.management import CommandError

    def run(*argv: str) -> Said:
        stdout, stderr = StringIO(), StringIO()
        with pytest.raises(CommandError) as raised:
            call_command(*argv, stdout=stdout, stderr=stderr)
        return Said(stdout.getvalue(), f"{stderr.getvalue()}{raised.value}\n", raised.value.returncode)

    return run


def manage(*argv: str, data: Path, database: str = "", **env: str) -> subprocess.Popen:
    """`manage.py ARGV` as its own process, with a data directory of its own."""
    clean = {name: value for name, value in os.environ.items() if name not in ("DATABASE_URL", "AGENTQ_WORKFLOWS")}
    clean |= {"AGENTQ_DATA_DIR": str(data)} | ({"DATABASE_URL": database} if database else {}) | env
    command = [sys.executable, str(PROJECT / "manage.py"), *argv]
    return subprocess.Popen(
        command, env=clean, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=data
    )


def ended(process: subprocess.Popen, stdin: bytes = b"") -> Said:
    stdout, stderr = process.communicate(stdin, timeout=120)
    return Said(stdout.decode(), stderr.decode(), process.returncode)


@pytest.fixture(scope="session")
def installation(tmp_path_factory) -> Path:
    """The data directory of a migrated SQLite installation, shared by the tests that only need one."""
    data = tmp_path_factory.mktemp("installation")
    done = ended(manage("migrate", "-v0", data=data))
    assert done.code == 0, done.stderr
    factories.source(data / "source")
    done = ended(manage("register_repo", "demo/one", str(data / "source"), data=data))
    assert done.code == 0, done.stderr
    return data


@pytest.fixture
def database(transactional_db, installation) -> dict:
    """Arguments for `manage`: the test database where it is a server's, else the installation's own file."""
    if connection.vendor != "postgresql":
        return {"data": installation}
    name, host = connection.settings_dict["NAME"], connection.settings_dict["HOST"]
    return {"data": installation, "database": f"postgres://{host.replace('/', '%2F')}/{name}"}
