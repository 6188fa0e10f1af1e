"""Two clusters share one database, one of them dies in between: every job is done, once (L1, L3, S1, A1)."""

import json
import os
import signal
from pathlib import Path

import pytest

from jobs.core.states import State
from jobs.models import Attempt, Job
from jobs.services import enqueue
from jobs.services.requests import Request
from tests.factories import git
from tests.worker.engine import Engine, assert_whole, until

pytestmark = [pytest.mark.engine, pytest.mark.xdist_group("engine")]


def test_sixty_jobs_over_three_repositories_survive_the_death_of_one_of_two_clusters(engine: Engine) -> None:
    repositories = [engine.repository(f"demo/{name}") for name in ("one", "two", "three")]
    requests = [
        Request(repository.name, "main", "sample-agent", {"paths": ["notes.md"], "text": f"{number}\n"})
        for number in range(20)
        for repository in repositories
    ]
    jobs = [
        Job.objects.get(pk=answer.job_id)
        for answer in enqueue.enqueue_many(requests, actor="user:operator")
        if isinstance(answer, enqueue.Enqueued)
    ]
    assert len(jobs) == 60
    dying, living = engine.run_workers(2), engine.run_workers(2)
    node = dying.node()
    assert node is not None
    until(lambda: Attempt.objects.filter(outcome="accepted").exclude(worker__startswith=node.identity).count() > 2)
    until(lambda: Attempt.objects.filter(ended_at=None, worker__startswith=node.identity).exists())
    os.kill(dying.process.pid, signal.SIGSTOP)  # so that it starts no other
    dying.kill_session()
    dying.process.kill()
    until(lambda: Job.objects.filter(state=State.ACCEPTED).count() == 60, seconds=120)

    assert living.process.poll() is None
    for repository in repositories:
        source, mine = Path(repository.location), [job for job in jobs if job.repository_id == repository.pk]
        branches = git(source, "for-each-ref", "--format=%(refname:short)", "refs/heads/agentq").split()
        assert sorted(branches) == sorted(branch_of(job) for job in mine)
        for job in mine:
            assert git(source, "show", f"{branch_of(job)}:notes.md") == json.loads(job.payload)["text"].strip()
            assert git(source, "rev-parse", f"{branch_of(job)}^") == git(source, "rev-parse", "main")
    assert set(Attempt.objects.values_list("outcome", flat=True)) <= {"accepted", "expired"}
    assert Attempt.objects.filter(outcome="accepted").count() == 60
    assert_whole(*jobs)


def branch_of(job: Job) -> str:
    return f"agentq/{job.pk}-{job.idempotency_key[:8]}"
