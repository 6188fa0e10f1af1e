"""Real processes at once on a database of their own: one key, one hundred claims, one audit stream (K2, L1, A1)."""

import json
import os
import sqlite3
import subprocess
import sys
import uuid
from pathlib import Path

import pytest
from django.conf import settings

from tests import factories

pytestmark = pytest.mark.engine

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def database(tmp_path):
    """The URL of an empty database that other processes can open, and a way to ask it something."""
    if settings.ON_SQLITE:
        path = tmp_path / "race.sqlite3"
        yield f"sqlite:///{path}", lambda text: sqlite3.connect(path).execute(text).fetchall()
        return
    import psycopg

    given = settings.DATABASES["default"]
    name = f"agentq_race_{uuid.uuid4().hex[:12]}"
    keys = {"HOST": "host", "PORT": "port", "USER": "user", "PASSWORD": "password"}
    where = {keys[key]: given[key] for key in keys if given[key]}

    def ask(text, dbname=name):
        with psycopg.connect(dbname=dbname, autocommit=True, **where) as connection:
            cursor = connection.execute(text)
            return cursor.fetchall() if cursor.description else []

    ask(f'CREATE DATABASE "{name}"', dbname="postgres")
    login = where.get("user", "") + (f":{where['password']}" if "password" in where else "")
    host = f"{where.get('host', '')}:{where['port']}" if "port" in where else where.get("host", "")
    try:
        yield f"postgres://{login}{'@' if login else ''}{host.replace('/', '%2F')}/{name}", ask
    finally:
        ask(f'DROP DATABASE "{name}" WITH (FORCE)', dbname="postgres")


def crowd(tmp_path: Path, url: str, act: str, size: int, amount: int = 0) -> list:
    source = factories.source(tmp_path / "source")
    done = subprocess.run(
        [sys.executable, "-m", "tests.race.crowd", str(source), act, str(size), str(amount)],
        cwd=ROOT,
        env={**os.environ, "DATABASE_URL": url, "AGENTQ_DATA_DIR": str(tmp_path / "data"), "PYTHONWARNINGS": "ignore"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_fifty_processes_that_enqueue_one_key_at_once_make_one_job(tmp_path, database):
    url, ask = database
    answers = crowd(tmp_path, url, "enqueue", 50)
    assert len(answers) == 50
    assert sorted(created for _, created, _ in answers) == [False] * 49 + [True]
    assert {(job_id, state) for job_id, _, state in answers} == {(answers[0][0], "queued")}
    assert ask("SELECT count(*) FROM jobs_job") == [(1,)]
    assert ask("SELECT count(*) FROM jobs_auditevent WHERE stream LIKE 'job:%'") == [(1,)]


def test_eight_processes_claim_a_hundred_jobs_each_exactly_once(tmp_path, database):
    url, ask = database
    answers = crowd(tmp_path, url, "claim", 8, 100)
    claimed = [(job_id, fence) for each in answers for job_id, fence in each]
    assert len(claimed) == len({job_id for job_id, _ in claimed}) == 100
    assert {fence for _, fence in claimed} == {1}
    assert ask("SELECT count(*), min(fence), max(fence) FROM jobs_job WHERE state = 'running'") == [(100, 1, 1)]
    assert ask("SELECT count(*), count(DISTINCT job_id) FROM jobs_attempt") == [(100, 100)]
    assert ask("SELECT count(*) FROM jobs_auditevent WHERE event = 'claim'") == [(100,)]


def test_processes_that_append_to_one_stream_each_get_their_numbers(tmp_path, database):
    url, ask = database
    answers = crowd(tmp_path, url, "append", 4, 10)
    assert sorted(number for each in answers for number in each) == list(range(1, 41))
    assert ask("SELECT count(*), max(seq) FROM jobs_auditevent WHERE stream = 'node'") == [(40, 40)]


def test_of_eight_processes_that_claim_at_once_only_as_many_run_as_the_repository_allows(tmp_path, database):
    url, ask = database
    answers = crowd(tmp_path, url, "limited", 8, 20)
    assert sum(answers) == 3
    assert ask("SELECT count(*) FROM jobs_job WHERE state = 'running'") == [(3,)]


@pytest.mark.parametrize("people", [1, 2])
def test_of_eight_who_decide_at_once_only_as_many_count_as_it_takes(tmp_path, database, people):
    url, ask = database
    answers = crowd(tmp_path, url, "decide", 8, people)
    assert answers.count("queued") == 1
    assert answers.count("review") == people - 1
    assert ask("SELECT count(*), count(DISTINCT actor) FROM jobs_reviewdecision") == [(people, people)]
    assert ask("SELECT state FROM jobs_job") == [("queued",)]


def test_of_eight_who_claim_a_case_at_once_one_has_it(tmp_path, database):
    url, ask = database
    assert crowd(tmp_path, url, "take", 8, 1).count(True) == 1
    assert ask("SELECT count(*) FROM jobs_auditevent WHERE event = 'case_claimed'") == [(1,)]
