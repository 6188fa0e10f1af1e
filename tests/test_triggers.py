"""The triggers stand after every migration, also one that rebuilds the tables; without them nothing starts (A1)."""

import shutil
from pathlib import Path

import pytest
from django.core.management import call_command
from django.db import IntegrityError, OperationalError, connection, transaction
from django.test import override_settings

import jobs.migrations
from jobs import triggers
from jobs.checks import triggers_stand
from jobs.errors import TriggersMissing
from jobs.models import AuditEvent, Job
from tests import factories

# On SQLite each of these makes the table anew and copies its rows.
REBUILDING = """
from django.db import migrations, models

class Migration(migrations.Migration):
    dependencies = [("jobs", "{last}")]
    operations = [
        migrations.AlterField("job", "branch", models.CharField(max_length=300)),
        migrations.AlterField("auditevent", "event", models.CharField(max_length=80)),
        migrations.AddField("attempt", "nickname", models.CharField(max_length=9, default="")),
    ]
"""
FORBIDDEN = [
    "UPDATE jobs_job SET state = 'cancelled', finished_at = created_at, version = version + 1",
    "UPDATE jobs_job SET branch = 'other'",
    "UPDATE jobs_auditevent SET actor = 'nobody'",
    "DELETE FROM jobs_auditevent",
    "DELETE FROM jobs_job",
]


@pytest.fixture
def later_migration(tmp_path, monkeypatch):
    """The name of a migration after the last one, which only this test has."""
    package = tmp_path / "later_migrations"
    shutil.copytree(Path(jobs.migrations.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__"))
    last = sorted(path.stem for path in package.glob("0*.py"))[-1]
    name = f"{int(last[:4]) + 1:04d}_rebuild"
    (package / f"{name}.py").write_text(REBUILDING.format(last=last))
    monkeypatch.syspath_prepend(tmp_path)
    with override_settings(MIGRATION_MODULES={"jobs": "later_migrations"}):
        yield last, name
        migrate(last)


def migrate(*target: str) -> None:
    call_command("migrate", "jobs", *target, verbosity=0)


def assert_all_stand() -> None:
    assert triggers.missing(connection) == []
    for text in FORBIDDEN:
        with pytest.raises(IntegrityError, match="agentq"), transaction.atomic(), connection.cursor() as cursor:
            cursor.execute(text)


@pytest.mark.django_db(transaction=True)
def test_after_a_migration_that_rebuilds_both_tables_and_back_again_all_triggers_stand(repository, later_migration):
    last, rebuilt = later_migration
    factories.job(repository)
    before = AuditEvent.objects.values().get(stream__startswith="job:")
    migrate(rebuilt)
    assert_all_stand()
    assert AuditEvent.objects.values().get(stream__startswith="job:") == before
    migrate(last)
    assert_all_stand()
    assert Job.objects.count() == 1


@pytest.mark.django_db(transaction=True)
def test_a_rebuild_that_does_not_lift_the_triggers_loses_or_meets_them_on_sqlite(repository):
    """Why they are lifted: without that SQLite drops a table's triggers in silence, or fails over another's."""
    if factories.on_postgresql():
        assert triggers.missing(connection) == []  # PostgreSQL alters a table in place
        return
    factories.job(repository)
    old = AuditEvent._meta.get_field("event")
    new = old.clone()
    new.max_length = 80
    new.set_attributes_from_name("event")
    new.model = AuditEvent
    try:
        with connection.schema_editor() as editor:
            editor.alter_field(AuditEvent, old, new)
    except OperationalError as error:
        assert "jobs_auditevent" in str(error)
    else:
        assert triggers.missing(connection)
    triggers.install(connection)
    assert_all_stand()


@pytest.mark.django_db(transaction=True)
def test_after_migrating_to_nothing_and_back_all_triggers_stand(repository):
    factories.job(repository)
    with triggers.lifted(connection):
        for model in (AuditEvent, Job):
            model.objects.all().delete()
    migrate("zero")
    try:
        assert "jobs_job" not in connection.introspection.table_names()
    finally:
        call_command("migrate", verbosity=0)
    assert triggers.missing(connection) == []


@pytest.mark.django_db
@pytest.mark.parametrize("name", sorted(triggers.statements("sqlite")))
def test_the_engine_refuses_to_start_without_one_of_them(name):
    if name not in triggers.statements(connection.vendor):
        name = "agentq_job_no_truncate"  # PostgreSQL has this instead of SQLite's guards against REPLACE
    table = next(table for trigger, table in triggers._present(connection) if trigger == name)
    with connection.cursor() as cursor:
        cursor.execute(f"DROP TRIGGER {name}" + (f" ON {table}" if factories.on_postgresql() else ""))
    assert triggers.missing(connection) == [name]
    with pytest.raises(TriggersMissing):
        triggers.require(connection)
    (warning,) = triggers_stand(databases=["default"])
    assert name in warning.msg
    triggers.install(connection)
    triggers.require(connection)


@pytest.mark.django_db
def test_a_trigger_of_the_right_name_that_does_nothing_counts_as_missing():
    with connection.cursor() as cursor:
        if factories.on_postgresql():
            cursor.execute(
                "CREATE OR REPLACE FUNCTION agentq_job_legal() RETURNS trigger LANGUAGE plpgsql AS"
                " 'BEGIN RETURN NEW; END'"
            )
        else:
            cursor.execute("DROP TRIGGER agentq_job_legal")
            cursor.execute("CREATE TRIGGER agentq_job_legal BEFORE UPDATE ON jobs_job BEGIN SELECT 1; END")
    assert triggers.missing(connection) == ["agentq_job_legal"]


@pytest.mark.django_db
def test_a_trigger_that_is_switched_off_counts_as_missing():
    if not factories.on_postgresql():
        assert triggers.missing(connection) == []  # SQLite knows no switched-off trigger
        return
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE jobs_auditevent DISABLE TRIGGER agentq_auditevent_no_delete")
    assert triggers.missing(connection) == ["agentq_auditevent_no_delete"]


@pytest.mark.django_db
def test_a_new_install_takes_away_what_an_older_version_left():
    with connection.cursor() as cursor:
        if factories.on_postgresql():
            cursor.execute(
                "CREATE TRIGGER agentq_old BEFORE UPDATE ON jobs_job FOR EACH ROW EXECUTE FUNCTION agentq_job_legal()"
            )
        else:
            cursor.execute("CREATE TRIGGER agentq_old BEFORE UPDATE ON jobs_job BEGIN SELECT RAISE(ABORT, 'x'); END")
    triggers.install(connection)
    assert "agentq_old" not in [name for name, _ in triggers._present(connection)]
    assert triggers.missing(connection) == []
