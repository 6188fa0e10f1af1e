"""Rows and repositories for tests: plain functions, real git."""

import itertools
import subprocess
from pathlib import Path
from typing import Any

from django.db import connection
from django.utils import timezone

from jobs.core import replays
from jobs.core.budgets import BudgetState
from jobs.core.decisions import Starts, Task
from jobs.core.failures import FailureFacts, classify, named
from jobs.core.inputs import Inputs, decide_on, to_json
from jobs.core.keys import canonical_json, sha256_hex
from jobs.models import Attempt, Batch, FailureRecord, Job, Repository
from jobs.services import enqueue, policies, repositories

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
    values.setdefault("concurrency", 1000)
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


def failure(attempt: Attempt, *, facts: FailureFacts | None = None, code: str = "", **values: Any) -> FailureRecord:
    """The decision about an attempt, as the built-in policy makes it; `values` replace columns."""
    policy = policies.active().rules
    seen_facts = facts or FailureFacts(program="sample", stage="modify", exit_code=3)
    shown = classify(seen_facts, policy)
    seen = named(code, seen_facts, policy, shown) if code else shown
    task = Task(
        "sample-agent", "demo/repo", "main", "", attempts=1, max_attempts=3, risk=seen_facts.risk, stage="modify"
    )
    budget = BudgetState(attempts=1, max_attempts=3, seconds=10.0, max_seconds=5400)
    looked_at = Inputs(task, budget, same_cause=1, window=Starts(1, 0), now=values.pop("now", timezone.now()))
    decision = decide_on(looked_at, policy, seen)
    stored = replays.keep(seen_facts, policy, code)
    columns = {
        "at": looked_at.now,
        "stage": "modify",
        "risk": task.risk,
        "program": seen_facts.program,
        "policy_number": policies.active().number,
        "failure_class": decision.class_,
        "code": decision.code,
        "rule": decision.rules[0] if decision.rules else "no-rule",
        "rules": list(decision.rules),
        "confidence": decision.confidence,
        "fingerprint": decision.fingerprint,
        "action": decision.action,
        "reason": decision.reason,
        "trip": decision.trip or "",
        "delay_seconds": decision.delay_seconds,
        "seconds": 10.0,
        "facts": stored,
        "facts_digest": sha256_hex(canonical_json(stored)),
        "inputs": to_json(looked_at),
    }
    return FailureRecord.objects.create(job_id=attempt.job_id, fence=attempt.fence, **{**columns, **values})


def on_postgresql() -> bool:
    return connection.vendor == "postgresql"
