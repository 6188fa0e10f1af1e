"""What a job costs the database, counted exactly: commits are what a slow disk makes dear, statements what a far
server does. A full job: at most 8 commits, and on PostgreSQL at most 12 statements from reservation to accepted.

Heartbeats are not counted. Nothing is measured in seconds here.
"""

import pytest
from django.db import connection, transaction

from jobs import history
from jobs.core.stages import Stage
from jobs.core.states import State
from jobs.drills.bench import lifecycle, scene
from jobs.drills.bench.counting import counted
from jobs.models import Attempt, AuditEvent, Checkpoint, Job
from jobs.services import audit, leases
from jobs.worker import runner
from tests import factories
from tests.services import situations

NAMES = lifecycle.Names("cluster", "cluster/1")
FULL_COMMITS = 8
FULL_STATEMENTS = 12
GROWING = ("jobs_job", "jobs_attempt", "jobs_auditevent", "jobs_checkpoint", "jobs_sideeffect")

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def warm(registered):
    """What a process reads once is read: workflow, policy."""
    situations.new(registered)
    assert lifecycle.run_next(NAMES, "agentq").state == State.ACCEPTED
    return registered


def test_a_full_job_is_eight_commits_and_nine_statements(warm):
    job = situations.new(warm)
    with counted() as counts:
        assert lifecycle.run_next(NAMES, "agentq").state == State.ACCEPTED
    assert counts.commits == FULL_COMMITS
    if factories.on_postgresql():
        assert counts.statements == 9 <= FULL_STATEMENTS
    _assert_whole(Job.objects.get(pk=job.pk), events=10, checkpoints=len(Stage))


def test_a_job_that_only_delivers_is_three_commits(warm):
    job = situations.new(warm)
    Job.objects.filter(pk=job.pk).update(next_stage=Stage.DELIVER)
    with counted() as counts:
        assert lifecycle.run_next(NAMES, "agentq").state == State.ACCEPTED
    assert counts.commits == 3
    if factories.on_postgresql():
        assert counts.statements == 5
    assert AuditEvent.objects.filter(stream=f"job:{job.pk}").count() == 5


def test_the_worker_s_own_loop_commits_no_more_often(db, tmp_path, settings):
    """With real git, a real agent process and its checks: what it adds are looks at the database, not writes."""
    settings.ARTIFACTS_DIR = tmp_path / "artifacts"
    job = factories.job(factories.repository(tmp_path / "source"))
    with counted() as counts:
        assert leases.reserve("cluster", "agentq").job_id == job.pk
        assert runner.run(job.pk) is not None
    job.refresh_from_db()
    assert (job.state, counts.commits) == (State.ACCEPTED, FULL_COMMITS)
    _assert_whole(job, events=10, checkpoints=len(Stage))


def test_looking_for_work_in_an_empty_queue_is_one_statement(db):
    with counted() as counts:
        assert leases.reserve("cluster", "agentq") is None
    assert counts.statements == 1


def test_a_write_is_planned_once_however_many_jobs_there_are(warm):
    """Equal writes have equal texts with few enough parameters: else psycopg reads and the server plans each anew."""
    texts: list[dict[str, int]] = []
    for _ in range(2):
        situations.new(warm)
        seen: dict[str, int] = {}
        with connection.execute_wrapper(_remember(seen)):
            lifecycle.run_next(NAMES, "agentq")
        texts.append(seen)
    assert texts[0] == texts[1]
    assert max(texts[0].values()) <= 50


def test_no_statement_of_the_path_reads_a_whole_table_or_index(warm):
    """A million finished jobs must not be read to find the next one; batches are few."""
    finished = Job.objects.get()
    scene.copy(finished.pk, scene.Copies(2000, {}))  # with statistics: they are what misleads a planner
    situations.new(warm)
    sent: list[tuple[str, list[object]]] = []
    with connection.execute_wrapper(_keep(sent)):
        lifecycle.run_next(NAMES, "agentq")
    plans = [line for sql, params in sent for line in _plan(sql, params)]
    assert any("job_ready" in line for line in plans)
    assert [line for line in plans if _reads_all(line)] == []


def test_the_counting_itself_counts_a_transaction_once_and_a_read_never(db):
    with counted() as counts:
        Job.objects.count()
        factories.batch("one")
        with transaction.atomic():
            factories.batch("two")
            factories.batch("three")
    assert (counts.commits, counts.statements) == (2, 4)


def _assert_whole(job, *, events, checkpoints):
    stream = f"job:{job.pk}"
    assert AuditEvent.objects.filter(stream=stream).count() == events
    assert Checkpoint.objects.filter(job=job).count() == checkpoints
    assert Attempt.objects.filter(job=job).count() == 1
    assert (audit.verify(stream), history.differences(job)) == (None, {})


def _remember(seen):
    def wrapper(execute, sql, params, many, context):
        seen[sql] = len(params or ())
        return execute(sql, params, many, context)

    return wrapper


def _keep(sent):
    def wrapper(execute, sql, params, many, context):
        if not sql.startswith("BEGIN"):
            sent.append((sql, params))
        return execute(sql, params, many, context)

    return wrapper


def _plan(sql, params):
    with connection.cursor() as cursor:
        if factories.on_postgresql():
            cursor.execute("SET enable_seqscan = off")  # so that small tables are planned like large ones
            cursor.execute(f"EXPLAIN {sql}", params)
            return [row[0].strip(" ->") for row in cursor.fetchall()]
        cursor.execute(f"EXPLAIN QUERY PLAN {sql}", params)
        return [row[3] for row in cursor.fetchall()]


def _reads_all(line):
    """Of the tables that grow with every job; `j`, `l` and `s` are names that the texts give them."""
    words = line.split()
    if "job_leased" in line:  # holds the running jobs only
        return False
    if factories.on_postgresql():
        return line.startswith("Seq Scan on") and words[3] in GROWING
    return words[0] == "SCAN" and words[1] in (*GROWING, "j", "l", "s")
