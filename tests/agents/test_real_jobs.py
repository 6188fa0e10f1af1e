"""A job of a real agent CLI, from enqueue to a delivered branch or to a pause that keeps the work (C1, V1, V3, Z1)."""

import os
from pathlib import Path
from typing import Any

import pytest
from django.db import connection

from jobs.executors import isolation
from jobs.models import Attempt, AuditEvent, Checkpoint, Job
from jobs.services import enqueue
from jobs.worker import runner
from tests import factories, needs
from tests.agents.conftest import KEYS
from tests.agents.model_server import ModelServer

pytestmark = [pytest.mark.engine, pytest.mark.django_db(transaction=True)]
WORKFLOW = {"codex": "fix-issue", "claude": "fix-issue-claude"}
CHECK = {"name": "greets", "argv": ["grep", "-q", "hello.agent", "README.md"], "kind": "tests"}


@pytest.fixture(params=["codex", "claude"])
def agent(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, settings: Any, tmp_path: Path) -> str:
    name = str(request.param)
    needs.agent_cli(name)
    key, address, _ = KEYS[name]
    settings.ARTIFACTS_DIR = tmp_path / "artifacts"
    settings.AGENTQ_CREDENTIALS = f"{key}=env:TEAM_KEY {address}=env:TEAM_ADDRESS"
    monkeypatch.setenv("TEAM_KEY", "canary-key-4711")
    return name


def run(agent: str, scenario: str, server: ModelServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Job:
    """One attempt of one new job."""
    address = server.address(scenario, f"job-{agent}-{scenario}") + KEYS[agent][2]
    monkeypatch.setenv("TEAM_ADDRESS", address)
    source = factories.source(tmp_path / "source", {"README.md": "# demo\nhello world\n"})
    repository = factories.repository(source, checks=[CHECK])
    payload = {"issue": "#482", "description": "The greeting names the wrong one. canary-description"}
    answer = enqueue.enqueue(enqueue.Request(repository.name, "main", WORKFLOW[agent], payload), actor="user:operator")
    runner.run(answer.job_id)
    return Job.objects.get(pk=answer.job_id)


def test_a_job_ends_accepted_with_its_branch_in_the_repository(
    agent: str, server: ModelServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    job = run(agent, "ok_edit", server, monkeypatch, tmp_path)
    assert job.state == "accepted", list(Attempt.objects.values())
    branch = f"agentq/{job.pk}-{job.idempotency_key[:8]}"
    assert factories.git(tmp_path / "source", "show", f"{branch}:README.md") == "# demo\nhello agent"
    attempt = Attempt.objects.get(job=job)
    assert (attempt.outcome, attempt.executor) == ("accepted", agent)
    assert attempt.tokens is not None
    assert attempt.tokens > 1000
    assert {"edit", "shell"} <= set(attempt.tool_types)
    assert attempt.model
    assert attempt.cli_version
    assert attempt.isolation == isolation.level()
    assert Checkpoint.objects.get(job=job, stage="modify").session


def test_a_usage_limit_in_the_middle_of_an_edit_pauses_and_keeps_the_edit(
    agent: str, server: ModelServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    job = run(agent, "usage_after_edit", server, monkeypatch, tmp_path)
    assert (job.state, job.pause_reason) == ("paused", "usage_limit")
    assert job.charged == 0
    assert "+hello agent" in (tmp_path / "artifacts" / "jobs" / str(job.pk) / "1" / "changes.patch").read_text()


def test_neither_prompt_nor_key_is_in_the_database(
    agent: str, server: ModelServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    """The description is part of the payload; the prompt around it is nowhere."""
    run(agent, "ok_edit", server, monkeypatch, tmp_path)
    body = str(server.bodies[f"job-{agent}-ok_edit"])
    assert "Mend the fault described below" in body
    rows = [str(row) for table in connection.introspection.table_names() for row in _rows(table)]
    workflow = next(row for row in rows if "Mend the fault described below" in row)
    assert "canary-description" not in workflow  # the template with its placeholders, not what was made of it
    assert not any("canary-key-4711" in row for row in rows)
    assert not any("hello agent" in row for row in rows)
    assert AuditEvent.objects.exists()


def test_a_reference_without_a_value_sends_the_job_to_a_person(
    agent: str, server: ModelServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    monkeypatch.delenv("TEAM_KEY")
    job = run(agent, "ok_edit", server, monkeypatch, tmp_path)
    assert (job.state, Attempt.objects.get(job=job).failure_class) == ("review", "missing_input")
    assert os.environ.get("TEAM_KEY") is None


def _rows(table: str) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT * FROM {connection.ops.quote_name(table)}")
        return list(cursor.fetchall())
