"""Rows and repositories for tests: plain functions, real git."""

import itertools
import subprocess
from pathlib import Path
from typing import Any

from django.db import connection
from django.utils import timezone

from jobs.models import Batch, Job, Repository
from jobs.services import enqueue, repositories

_numbers = itertools.count(1)


def git(path: Path, *args: str) -> str:
    """git as a person would use it, with a name and without this machine's configuration."""
    env = {
        "PATH": "/usr/bin:/bin:/usr/local/bin",
        "HOME": str(path),
        "GIT_AUTHOR_NAME": "Ana",
        "GIT_AUTHOR_EMAIL": "ana@example.test",
        "GIT_COMMITTER_NAME": "Ana",
        "GIT_COMMITTER_EMAIL": "ana@example.test",
        "GIT_CONFIG_NOSYSTEM": "1",
    }
    done = subprocess.run(["git", *args], cwd=path, env=env, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def source(path: Path, files: dict[str, str] | None = None) -> Path:
    """A git repository with one commit on main."""
    path.mkdir(parents=True)
    git(path, "init", "--quiet", "--initial-branch=main")
    for name, text in (files or {"README.md": "A sample.\n", "src/app.py": "VALUE = 1  \n"}).items():
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_text(text)
    git(path, "add", "--all")
    git(path, "commit", "--quiet", "-m", "first")
    return path


def repository(path: Path, name: str = "", **values: Any) -> Repository:
    """A registered repository, its source made when it is not there."""
    if not path.exists():
        source(path)
    values.setdefault("commands", {"touch": ["touch", "made.txt"]})
    registered, _facts = repositories.register(
        name=name or f"demo/repo-{next(_numbers)}", location=str(path), actor="user:owner", **values
    )
    return registered


def job(repo: Repository, *, text: str = "", **values: Any) -> Job:
    """A queued job of the sample agent; each call has an input of its own."""
    payload = {"paths": ["notes.md"], "text": text or f"line {next(_numbers)}"}
    request = enqueue.Request(repo.name, "main", "sample-agent", payload, **values)
    answer = enqueue.enqueue(request, actor="user:operator")
    return Job.objects.get(pk=answer.job_id)


def batch(name: str = "") -> Batch:
    return Batch.objects.create(
        name=name or f"batch {next(_numbers)}", requested_by="user:operator", created_at=timezone.now()
    )


def on_postgresql() -> bool:
    return connection.vendor == "postgresql"
