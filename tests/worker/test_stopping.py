"""What ends a running attempt on purpose: cancel, pause, deadline and its two limits of time (S3, E1, B1, L3)."""

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.db import transaction

from jobs.core.budgets import StopReason
from jobs.core.states import State
from jobs.executors.processes import alive
from jobs.models import Attempt, Checkpoint, Job, Repository
from jobs.services import artifacts, clock, control
from jobs.services.requests import Request
from jobs.worker import identity
from tests.worker.engine import HANG_ONCE, Engine, assert_whole, attempts, ended, running, until

pytestmark = [pytest.mark.engine, pytest.mark.xdist_group("engine")]
COMMANDS = {"slow": ["sh", "-c", "touch begun; until test -e ../go; do sleep 0.05; done; rm begun; touch made"]}
TWO_SECONDS = """
name = "two-seconds"
version = "v1"
title = "Two seconds"
executor = "command"
risk = "writes_files"
stages = ["modify", "test", "inspect", "deliver"]
expects = "diff"
seconds = 2

[[fields]]
name = "command"
kind = "argv"
title = "Command"
required = true
"""


@pytest.fixture(scope="module")
def shared(make_engine: Callable[[], Any]) -> Iterator[tuple[Engine, Repository]]:
    with make_engine() as engine:
        (engine.room / "workflows" / "two-seconds.toml").write_text(TWO_SECONDS)
        engine.run_workers(2)
        yield engine, engine.repository(commands=COMMANDS)


def assert_stopped_with_its_work(job: Job) -> None:
    assert alive(identity.token(job.pk, 1)) == []
    assert Attempt.objects.get(job=job, fence=1).snapshot != ""
    folder = artifacts.attempt_dir(job.pk, 1)
    assert "notes.md" in (folder / "changes.patch").read_text()
    assert "Reproduce" in (folder / "todo.md").read_text()
    assert list(artifacts.workspaces().glob(f"{job.pk}-*")) == []
    assert_whole(job)


def test_a_cancelled_job_stops_at_once_and_keeps_its_work(shared: tuple[Engine, Repository]) -> None:
    engine, repository = shared
    job = engine.job(repository, fail_how="ignore_term")
    running(job)
    assert control.cancel(job.pk, actor="user:operator", reason="not needed") is State.RUNNING
    ended(job, State.CANCELLED)
    assert attempts(job) == [(1, "cancelled")]
    assert_stopped_with_its_work(job)


def test_a_paused_job_ends_its_stage_first_and_goes_on_behind_it(shared: tuple[Engine, Repository]) -> None:
    engine, repository = shared
    job = engine.enqueue(Request(repository.name, "main", "run-command", {"command": "slow"}))
    tree = until(lambda: next(artifacts.workspaces().glob(f"{job.pk}-1-*/tree/begun"), None)).parent
    control.pause(job.pk, actor="user:operator")
    (tree.parent / "go").touch()
    ended(job, State.PAUSED)
    assert (job.charged, job.pause_reason) == (0, "requested")
    assert list(Checkpoint.objects.filter(job=job).values_list("stage", flat=True)) == ["modify"]
    control.recover(job.pk, actor="user:operator", condition="requested")
    ended(job)
    assert attempts(job) == [(1, "paused"), (2, "accepted")]
    assert Attempt.objects.get(job=job, fence=2).first_stage == "test"
    assert_whole(job)


def test_a_deadline_that_passes_stops_the_attempt_for_a_person(shared: tuple[Engine, Repository]) -> None:
    engine, repository = shared
    payload = {"paths": ["notes.md"], "text": "by four\n", **HANG_ONCE}
    deadline = clock.now() + timedelta(seconds=4)
    job = engine.enqueue(Request(repository.name, "main", "sample-agent", payload, deadline=deadline))
    ended(job, State.REVIEW)
    assert job.stop_reason == "deadline"
    assert attempts(job) == [(1, "held")]
    assert_stopped_with_its_work(job)


def test_an_attempt_that_takes_longer_than_its_workflow_allows_is_stopped(shared: tuple[Engine, Repository]) -> None:
    engine, repository = shared
    job = engine.enqueue(Request(repository.name, "main", "two-seconds", {"command": "slow"}))
    ended(job, State.REVIEW)
    assert job.stop_reason == "wall_clock_kill"
    assert attempts(job) == [(1, "held")]
    assert alive(identity.token(job.pk, 1)) == []
    assert "begun" in (artifacts.attempt_dir(job.pk, 1) / "changes.patch").read_text()
    assert_whole(job)


def test_the_seconds_of_all_attempts_together_are_limited(shared: tuple[Engine, Repository]) -> None:
    engine, repository = shared
    # The budget comes from the policy; a smaller one shows in seconds what hours would.
    with transaction.atomic():
        job = engine.job(repository, fail_how="hang")
        Job.objects.filter(pk=job.pk).update(max_seconds=3)
    ended(job, State.REVIEW)
    assert job.stop_reason == StopReason.SECONDS
    assert attempts(job) == [(1, "held")]
    assert alive(identity.token(job.pk, 1)) == []
    assert job.seconds_spent >= 3
