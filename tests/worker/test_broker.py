"""What the pusher is offered: never more than its workers can take, the best first, and never an exception (L1).

The contract with django-q2: a list of (acknowledge id, signed package) or None, whatever the database does.
"""

import mmap
import pydoc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.db import connection
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.utils import load_backend
from django.test import override_settings
from django_q.conf import Conf
from django_q.models import OrmQ
from django_q.signals import post_execute_in_worker, pre_execute
from django_q.signing import SignedPackage
from django_q.tasks import async_task

from jobs.core.states import State
from jobs.models import AuditEvent, Job, WorkerNode
from jobs.services import leases
from jobs.services.requests import Request
from jobs.worker import board, broker, identity, maintenance, runner
from jobs.worker.broker import JobsBroker
from tests.worker.engine import Engine, until

pytestmark = [pytest.mark.engine, pytest.mark.xdist_group("engine")]


@pytest.fixture(autouse=True)
def _two_workers_and_an_empty_board(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Conf, "WORKERS", 2)
    monkeypatch.setattr(board, "_memory", mmap.mmap(-1, len(board._memory)))


@pytest.fixture
def jobs(engine: Engine) -> list[Job]:
    """Five waiting jobs; the fourth is urgent."""
    repository = engine.repository()
    requests = [
        Request(repository.name, "main", "sample-agent", {"paths": ["notes.md"], "text": str(number)}, priority=urgent)
        for number, urgent in enumerate((0, 0, 0, 7, 0))
    ]
    return [engine.enqueue(request) for request in requests]


@pytest.fixture
def offered(jobs: list[Job]) -> Iterator[JobsBroker]:
    made = JobsBroker("agentq")
    yield made
    made.close()


def job_of(answer: Any) -> int:
    ((_ack, package),) = answer
    (job_id,) = SignedPackage.loads(package)["args"]
    return int(job_id)


def take(job_id: int) -> leases.Claimed:
    """What a worker does with a message, in this process."""
    pre_execute.send(sender="test", func=None, task={})
    return leases.claim(job_id, worker=identity.worker())


def test_a_message_is_what_django_q2_can_run_and_acknowledging_it_changes_nothing(
    offered: JobsBroker, jobs: list[Job]
) -> None:
    ((ack, package),) = offered.dequeue() or []
    task = SignedPackage.loads(package)
    assert pydoc.locate(task["func"]) is runner.run_message
    assert (task["args"], task["kwargs"]) == ((jobs[3].pk,), {})
    assert isinstance(task["timeout"], int) and task["timeout"] > jobs[3].max_seconds
    assert (task["save"], task["ack_failure"], task["id"], task["name"]) == (False, True, ack, ack)
    before = list(Job.objects.values())
    offered.acknowledge(ack)
    offered.fail(ack)
    assert list(Job.objects.values()) == before


def test_the_urgent_job_comes_first_then_the_oldest(
    offered: JobsBroker, jobs: list[Job], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Conf, "WORKERS", 5)
    order = [job_of(offered.dequeue()) for _ in jobs]
    assert order == [jobs[index].pk for index in (3, 0, 1, 2, 4)]


def test_no_more_messages_are_out_than_workers_are_free(offered: JobsBroker) -> None:
    first, second = job_of(offered.dequeue()), job_of(offered.dequeue())
    assert offered.dequeue() is None
    take(first)
    assert offered.dequeue() is None  # one worker is busy, for the other a message is out
    post_execute_in_worker.send(sender="test", func=None, task={})
    assert job_of(offered.dequeue()) not in (first, second)
    assert offered.dequeue() is None


def test_a_worker_is_not_free_while_it_does_maintenance(offered: JobsBroker) -> None:
    pre_execute.send(sender="test", func=None, task={})
    assert offered.dequeue() is not None
    assert offered.dequeue() is None


def test_maintenance_goes_through_the_inherited_queue_between_two_jobs(offered: JobsBroker) -> None:
    async_task("jobs.worker.maintenance.run", broker=offered)
    ((ack, package),) = offered.dequeue() or []
    assert pydoc.locate(SignedPackage.loads(package)["func"]) is maintenance.run
    assert offered.dequeue() is not None
    offered.acknowledge(ack)
    assert not OrmQ.objects.exists()


def test_a_job_whose_lease_is_over_is_offered_again(
    offered: JobsBroker, jobs: list[Job], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Conf, "WORKERS", len(jobs) + 1)
    claimed = take(job_of(offered.dequeue()))
    post_execute_in_worker.send(sender="test", func=None, task={})
    assert leases.surrender(claimed.held.id, worker=claimed.held.worker, fence=claimed.held.fence)
    until(lambda: (answer := offered.dequeue()) and job_of(answer) == claimed.held.id)
    again = Job.objects.get(pk=claimed.held.id)
    assert (again.state, again.crashes) == (State.FAILED_RETRYABLE, 1)


def test_a_reservation_that_no_worker_takes_up_is_given_back(offered: JobsBroker) -> None:
    with override_settings(AGENTQ_RESERVATION_SECONDS=0.05):
        first = job_of(offered.dequeue())
        until(lambda: (answer := offered.dequeue()) and job_of(answer) == first)


def test_messages_that_nobody_takes_end_the_cluster_but_not_under_a_running_job(
    offered: JobsBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    ends: list[int] = []
    monkeypatch.setattr(broker, "_end_cluster", lambda: ends.append(1))
    with override_settings(AGENTQ_RESERVATION_SECONDS=0.05):
        take(job_of(offered.dequeue()))
        until(lambda: offered.dequeue() is None and offered._lapses >= broker.LAPSES_OF_A_WEDGE)
        out = OrmQ.objects.count(), Job.objects.exclude(reserved_by="").count()
        assert offered.dequeue() is None
        assert (out, ends) == ((0, 0), [])
        post_execute_in_worker.send(sender="test", func=None, task={})
        assert offered.dequeue() is None
    assert ends == [1]
    assert WorkerNode.objects.get(identity=identity.cluster()).wedged
    assert AuditEvent.objects.filter(stream="node", event="wedged").count() == 1


def test_a_message_that_is_taken_late_is_no_wedge(offered: JobsBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broker, "_end_cluster", lambda: pytest.fail("the cluster was ended"))
    first = job_of(offered.dequeue())
    offered._lapses = broker.LAPSES_OF_A_WEDGE
    take(first)
    offered.dequeue()
    assert offered._lapses == 0


def test_a_draining_cluster_is_offered_nothing(offered: JobsBroker) -> None:
    board.drain()
    assert offered.dequeue() is None
    assert not Job.objects.exclude(reserved_by="").exists()


def test_a_database_that_is_away_raises_nothing_and_is_found_again(offered: JobsBroker) -> None:
    offered.dequeue()
    name = connection.settings_dict["NAME"]
    connection.close()
    connection.settings_dict["NAME"] = "/nowhere/at/all"
    try:
        assert offered.dequeue() is None
    finally:
        connection.settings_dict["NAME"] = name
    assert offered.dequeue() is not None


@contextmanager
def locked() -> Iterator[None]:
    """Somebody else writes jobs for longer than anyone waits."""
    other = load_backend(connection.settings_dict["ENGINE"]).DatabaseWrapper(connection.settings_dict, "other")
    try:
        with transaction_of(other) as cursor:
            if connection.vendor == "postgresql":
                cursor.execute("LOCK TABLE jobs_job")
                with connection.cursor() as ours:
                    ours.execute("SET lock_timeout = '300ms'")
            yield
    finally:
        other.close()


@contextmanager
def transaction_of(other: BaseDatabaseWrapper) -> Iterator[Any]:
    with other.cursor() as cursor:
        cursor.execute("BEGIN IMMEDIATE" if other.vendor == "sqlite" else "BEGIN")
        yield cursor
        cursor.execute("ROLLBACK")


def test_a_database_that_is_locked_raises_nothing(offered: JobsBroker) -> None:
    offered.dequeue()
    with locked():
        assert offered.dequeue() is None
    assert offered.dequeue() is not None
