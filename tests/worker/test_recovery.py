"""What dies, dies alone: the job runs again, once, and its first work is kept (L1, L2, L3, S4, V3)."""

import json
import os
import signal
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.conf import settings

from jobs.core.states import Event, State
from jobs.errors import LeaseLost
from jobs.executors.processes import alive
from jobs.models import Attempt, AuditEvent, Job, Repository
from jobs.services import artifacts, clock, transitions
from jobs.worker import identity
from jobs.workspaces.snapshot import ref_for
from tests.worker.engine import (
    HANG_ONCE,
    Cluster,
    Engine,
    assert_whole,
    attempts,
    audit_events,
    children,
    ended,
    measured,
    running,
    token_of,
    until,
)

pytestmark = [pytest.mark.engine, pytest.mark.xdist_group("engine")]
EXPIRED_THEN_ACCEPTED = [(1, "expired"), (2, "accepted")]


@pytest.fixture(scope="module")
def shared(make_engine: Callable[[], Any]) -> Iterator[tuple[Engine, Cluster, Repository]]:
    """One cluster for the tests that only hurt their own job's worker."""
    with make_engine() as engine:
        yield engine, engine.run_workers(2), engine.repository()


def test_after_kill_9_of_a_worker_its_job_runs_again_once_and_its_work_is_kept(
    shared: tuple[Engine, Cluster, Repository],
) -> None:
    engine, _cluster, repository = shared
    job = engine.job(repository, text="half done\n", **HANG_ONCE)
    worker = running(job)
    stale = transitions.load(job.pk, worker=job.lease_owner, policy=1)
    with measured("worker", job):
        os.kill(worker, signal.SIGKILL)
        ended(job)
    assert attempts(job) == EXPIRED_THEN_ACCEPTED
    with pytest.raises(LeaseLost):
        transitions.transition(stale, Event.CANCEL, actor="worker:late", at=clock.now())
    # Its half-done work became a snapshot and a patch.
    attempt = until(lambda: Attempt.objects.filter(job=job, fence=1).exclude(snapshot="").first())
    mirror = artifacts.mirror(repository)
    assert mirror.commit_at(ref_for(job.pk, 1, "partial")) == attempt.snapshot
    assert mirror.git.text("show", f"{attempt.snapshot}:notes.md") == "half done"
    assert "+half done" in (artifacts.attempt_dir(job.pk, 1) / "changes.patch").read_text()
    assert [path.name for path in artifacts.workspaces().glob(f"{job.pk}-*")] == []
    assert audit_events(f"job:{job.pk}", "rescued") == [{"fence": 1, "snapshot": attempt.snapshot}]
    assert_whole(job)


def test_after_kill_9_of_the_shim_the_lease_is_given_up_at_once(shared: tuple[Engine, Cluster, Repository]) -> None:
    engine, _cluster, repository = shared
    job = engine.job(repository, **HANG_ONCE)
    shims = [pid for pid in children(running(job)) if token_of(pid) == identity.token(job.pk, 1)]
    assert len(shims) == 1
    with measured("shim", job):
        os.kill(shims[0], signal.SIGKILL)
        ended(job)
    assert attempts(job) == EXPIRED_THEN_ACCEPTED
    first = Attempt.objects.get(job=job, fence=1)
    # The lease would have run for seconds yet.
    assert first.seconds is not None and first.seconds < settings.AGENTQ_LEASE_SECONDS
    assert_whole(job)


def test_a_worker_frozen_past_its_lease_writes_nothing_and_its_late_result_is_kept(
    shared: tuple[Engine, Cluster, Repository],
) -> None:
    engine, _cluster, repository = shared
    job = engine.job(repository, text="late\n", **HANG_ONCE)
    worker, token = running(job), identity.token(job.pk, 1)
    os.kill(worker, signal.SIGSTOP)
    try:
        until(lambda: alive(token) == [])
        assert Job.objects.get(pk=job.pk).fence == 1  # its own shim's fence did it, before anybody else could claim
        ended(job)
        before = Job.objects.values().get(pk=job.pk)
    finally:
        os.kill(worker, signal.SIGCONT)
    late = artifacts.attempt_dir(job.pk, 1) / "late-1.json"
    until(lambda: [facts for facts in audit_events("node", "late_result") if facts["job"] == job.pk])
    assert Job.objects.values().get(pk=job.pk) == before
    told = json.loads(late.read_text())
    assert artifacts.mirror(repository).git.text("show", f"{told['snapshot']}:notes.md") == "late"
    assert attempts(job) == EXPIRED_THEN_ACCEPTED
    assert_whole(job)


def test_a_job_whose_worker_dies_twice_waits_for_a_person(shared: tuple[Engine, Cluster, Repository]) -> None:
    engine, _cluster, repository = shared
    job = engine.job(repository, fail_how="hang")
    os.kill(running(job, 1), signal.SIGKILL)
    os.kill(running(job, 2), signal.SIGKILL)
    ended(job, State.REVIEW)
    assert (job.stop_reason, job.crashes) == ("crashed_twice", 2)
    assert attempts(job) == [(1, "expired"), (2, "expired")]
    until(lambda: Attempt.objects.filter(job=job).exclude(snapshot="").count() == 2)
    assert_whole(job)


def test_after_kill_9_of_the_whole_cluster_the_supervisor_starts_anew(engine: Engine) -> None:
    cluster = engine.run_workers(1)
    job = engine.job(engine.repository(), **HANG_ONCE)
    running(job)
    with measured("cluster session", job):
        cluster.kill_session()
        ended(job)
    assert attempts(job) == EXPIRED_THEN_ACCEPTED
    assert_whole(job)
    until(lambda: Attempt.objects.filter(job=job, fence=1).exclude(snapshot="").exists())


def test_after_kill_9_of_everything_a_new_start_takes_over(engine: Engine) -> None:
    cluster = engine.run_workers(1)
    job = engine.job(engine.repository(), **HANG_ONCE)
    running(job)
    with measured("supervisor and session", job):
        os.kill(cluster.process.pid, signal.SIGSTOP)  # so that neither sees the other die
        cluster.kill_session()
        cluster.process.kill()
        engine.run_workers(1)
        ended(job)
    assert attempts(job) == EXPIRED_THEN_ACCEPTED
    assert_whole(job)


def test_kill_9_of_the_idle_worker_that_holds_the_queue_is_noticed(engine: Engine) -> None:
    cluster = engine.run_workers(2)
    wedged = cluster.node()
    assert wedged is not None
    for worker in cluster.idle_workers():
        os.kill(worker, signal.SIGKILL)  # one of them sits in the queue's lock, whichever it is
    job = engine.job(engine.repository())
    with measured("wedge", job, fence=1):
        ended(job)
    wedged.refresh_from_db()
    assert (wedged.wedged, wedged.stopped_at is not None) == (True, True)
    assert [json.loads(event.body)["actor"] for event in AuditEvent.objects.filter(stream="node", event="wedged")] == [
        f"node:{wedged.identity}"
    ]
    assert cluster.process.poll() is None
    assert cluster.node() != wedged
    assert attempts(job) == [(1, "accepted")]
    assert_whole(job)
