"""An orderly stop: running jobs end at their stage's end or after the drain's limit, and go on later (L3, Z4)."""

import os
import signal

import pytest

from jobs.models import Attempt
from jobs.services.requests import Request
from tests.worker.engine import HANG_ONCE, Engine, assert_whole, attempts, audit_events, ended, running, until

pytestmark = [pytest.mark.engine, pytest.mark.xdist_group("engine")]


def test_term_stops_what_outlasts_the_drain_and_gives_its_charge_back(engine: Engine) -> None:
    cluster = engine.run_workers(2)
    node = cluster.node()
    assert node is not None
    job = engine.job(engine.repository(), **HANG_ONCE)
    running(job)
    cluster.process.terminate()
    assert cluster.exit_code() == 0
    assert engine.processes() == {}
    job.refresh_from_db()
    assert (job.state, job.charged, job.crashes) == ("failed_retryable", 0, 0)
    assert Attempt.objects.get(job=job, fence=1).snapshot != ""
    node.refresh_from_db()
    assert node.stopped_at is not None
    assert len(audit_events("node", "stopped")) == 1

    engine.run_workers(1)
    ended(job)
    assert attempts(job) == [(1, "released"), (2, "accepted")]
    assert job.charged == 1
    assert_whole(job)


def test_ctrl_c_lets_a_running_stage_end_and_the_job_goes_on_after_it(engine: Engine) -> None:
    cluster = engine.run_workers(1)
    commands = {"slow": ["sh", "-c", "touch begun; until test -e ../go; do sleep 0.05; done; rm begun; touch made"]}
    repository = engine.repository(commands=commands)
    job = engine.enqueue(Request(repository.name, "main", "run-command", {"command": "slow"}))
    tree = until(lambda: next(engine.room.glob(f"artifacts/work/{job.pk}-1-*/tree/begun"), None)).parent
    os.killpg(cluster.process.pid, signal.SIGINT)
    (tree.parent / "go").touch()
    assert cluster.exit_code() == 0
    assert engine.processes() == {}
    job.refresh_from_db()
    assert (job.state, job.charged, job.next_stage) == ("failed_retryable", 0, "test")

    engine.run_workers(1)
    ended(job)
    assert attempts(job) == [(1, "released"), (2, "accepted")]
    assert Attempt.objects.get(job=job, fence=2).first_stage == "test"
    assert_whole(job)


def test_after_kill_9_of_the_supervisor_its_cluster_drains_and_ends_by_itself(engine: Engine) -> None:
    cluster = engine.run_workers(2)
    node = cluster.node()
    assert node is not None
    job = engine.job(engine.repository(), **HANG_ONCE)
    running(job)
    cluster.process.kill()
    until(lambda: engine.processes() == {})
    node.refresh_from_db()
    assert node.stopped_at is not None
    assert attempts(job) == [(1, "released")]
    assert_whole(job)
