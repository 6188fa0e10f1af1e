"""`manage.py bench_engine`: figures beside raw SQL, in a database of its own that is gone afterwards."""

import json

import pytest
from django.conf import settings
from django.core.management import call_command
from django.core.management.base import CommandError
from django.db import connection
from django.db.utils import ProgrammingError

from jobs.drills.bench import database
from jobs.drills.bench.figures import Figure, percentile, table
from jobs.drills.bench.workloads import NAMES
from jobs.models import Job
from tests import factories


@pytest.fixture
def url(monkeypatch, tmp_path):
    """The settings of a process that runs the command by itself."""
    if not factories.on_postgresql():
        monkeypatch.setenv("DATABASE_URL", f"sqlite:///{tmp_path / 'configured.sqlite3'}")
    monkeypatch.setattr(settings, "DATA_DIR", tmp_path)
    return tmp_path


def databases():
    with connection.cursor() as cursor:
        if not factories.on_postgresql():
            return []
        cursor.execute("SELECT datname FROM pg_database WHERE datname LIKE 'agentq_bench_%%'")
        return [row[0] for row in cursor.fetchall()]


@pytest.mark.django_db(transaction=True)
def test_it_measures_real_processes_in_a_database_that_is_gone_afterwards(url, capsys):
    before = databases()
    with pytest.raises(SystemExit) as ended:
        call_command("bench_engine", "--only", "full", "--jobs", "100", "--json")
        raise SystemExit(0)
    found = json.loads(capsys.readouterr().out)
    figures = {figure["name"]: figure for figure in found["figures"]}
    assert figures["full job, commits"]["value"] == 8
    rate = figures["full job, rate"]
    assert min(rate["value"], rate["raw"], rate["same_rows"], rate["ratio"]) > 0
    assert ended.value.code in (0, 1)  # a busy machine may be below a floor
    assert (ended.value.code == 1) == any(figure["reached"] == "below" for figure in figures.values())
    assert (Job.objects.count(), databases(), list(url.iterdir())) == (0, before, [])


def test_too_few_jobs_are_refused_as_bad_usage():
    with pytest.raises(CommandError, match="100") as refused:
        call_command("bench_engine", "--jobs", "5")
    assert refused.value.returncode == 2


@pytest.mark.django_db
def test_the_measuring_part_refuses_a_database_that_is_not_the_benchmark_s():
    with pytest.raises(CommandError) as refused:
        call_command("bench_engine", "--inside")
    assert (refused.value.returncode, Job.objects.count()) == (2, 0)


def test_a_role_that_may_not_create_a_database_is_told_what_to_do(url, monkeypatch):
    def refuse():
        raise ProgrammingError("permission denied")

    monkeypatch.setattr(connection, "vendor", "postgresql")
    monkeypatch.setattr(connection, "cursor", refuse)
    with pytest.raises(database.NoDatabase, match=r"permission denied.*CREATEDB"), database.own_database():
        pass
    assert list(url.iterdir()) == []


def test_a_folder_that_cannot_be_written_to_is_named(url, monkeypatch):
    monkeypatch.setattr(settings, "DATA_DIR", url / "missing")
    with pytest.raises(database.NoDatabase, match="missing"), database.own_database():
        pass


def test_figures_are_judged_by_value_or_ratio_and_by_what_is_good():
    fast = Figure("a", 50, "jobs/s", raw=100, floor=0.4, goal=0.6, by_ratio=True)
    slow = Figure("b", 12, "ms", goal=10, least=True)
    assert (fast.verdict, slow.verdict, Figure("c", 1, "x").verdict) == ("floor", "below", "")
    assert Figure("d", 50, "jobs/s", raw=100, ratios=(0.7, 0.8, 0.9)).ratio == 0.8
    assert "12" in table([fast.row(), slow.row()]).splitlines()[2]
    assert (percentile([3, 1, 2], 50), percentile(range(1, 101), 95), percentile([7], 95)) == (2, 95, 7)


def test_every_part_can_be_asked_for_alone():
    assert list(NAMES) == ["minimal", "full", "enqueue", "latency", "history"]
