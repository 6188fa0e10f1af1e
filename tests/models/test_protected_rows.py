"""What nobody changes or removes at the database's own prompt: audit, policy, decisions, jobs (A1, P1, X2)."""

import pytest
from django.apps import apps
from django.db import IntegrityError, connection, transaction

from jobs import triggers
from jobs.models import Attempt, Job, SideEffect
from jobs.triggers import APPEND_ONLY, FIXED, KEPT
from tests import factories
from tests.services import situations
from tests.services.situations import Event

pytestmark = pytest.mark.django_db

MODELS = {model._meta.db_table: model for model in apps.get_app_config("jobs").get_models()}
PROTECTED = sorted({**APPEND_ONLY, **KEPT})
SPEC = {
    "jobs_auditevent", "jobs_policyversion", "jobs_policyactivation", "jobs_reviewdecision", "jobs_evidence",
    "jobs_job", "jobs_attempt", "jobs_sideeffect", "jobs_checkpoint", "jobs_workflowversion",
    "jobs_failurerecord", "jobs_failuresample", "jobs_reviewcase", "jobs_followup",
}  # fmt: skip

OTHER = {
    "BigAutoField": 31_000,
    "ForeignKey": 31_000,
    "PositiveIntegerField": 31_000,
    "PositiveSmallIntegerField": 31_000,
    "DateTimeField": "2026-01-01 00:00:00+00:00",
    "DateField": "2026-01-05",
    "OneToOneField": 31_000,
}


def refused(text: str, *params: object) -> None:
    with pytest.raises(IntegrityError, match="agentq"), transaction.atomic():
        situations.execute(text, *params)


def columns_of(table: str) -> list[str]:
    return [field.column for field in MODELS[table]._meta.fields]


def test_exactly_the_rows_that_the_design_names_are_protected():
    assert set(PROTECTED) == SPEC
    assert set(FIXED) == set(KEPT)


@pytest.mark.parametrize("table", sorted(APPEND_ONLY))
def test_an_append_only_row_takes_no_update_of_any_column(row, table):
    made = row(MODELS[table])
    for column in columns_of(table):
        refused(f'UPDATE {table} SET "{column}" = "{column}" WHERE id = %s', made.pk)


@pytest.mark.parametrize("table", PROTECTED)
def test_a_protected_row_is_never_deleted(row, table):
    made = row(MODELS[table])
    refused(f"DELETE FROM {table} WHERE id = %s", made.pk)
    assert MODELS[table].objects.filter(pk=made.pk).exists()


@pytest.mark.parametrize("table", PROTECTED)
def test_django_does_not_delete_a_protected_row_either(row, table):
    made = row(MODELS[table])
    with pytest.raises(IntegrityError), transaction.atomic():
        made.delete()
    assert MODELS[table].objects.filter(pk=made.pk).exists()


@pytest.mark.parametrize("table", PROTECTED)
def test_a_table_of_protected_rows_is_never_emptied(row, table):
    made = row(MODELS[table])
    # SQLite empties a table at once when a DELETE has no condition; that must not pass the triggers by.
    if factories.on_postgresql():
        situations.execute("SET CONSTRAINTS ALL IMMEDIATE")  # or the pending foreign keys refuse first
    refused(f"TRUNCATE {table} CASCADE" if factories.on_postgresql() else f"DELETE FROM {table}")
    assert MODELS[table].objects.filter(pk=made.pk).exists()


@pytest.mark.parametrize("table", PROTECTED)
def test_a_protected_row_is_never_replaced_by_its_number_or_by_its_key(row, table):
    made = row(MODELS[table])
    before = MODELS[table].objects.values().get(pk=made.pk)
    columns = columns_of(table)
    names = ", ".join(f'"{column}"' for column in columns)
    without_id = ", ".join(f'"{column}"' for column in columns if column != "id")
    if factories.on_postgresql():
        # An upsert is an update.
        changes = ", ".join(f'"{column}" = EXCLUDED."{column}"' for column in columns if column not in ("id", "state"))
        text = f"INSERT INTO {table} ({names}) SELECT {names} FROM {table} WHERE id = %s"
        with pytest.raises(IntegrityError), transaction.atomic():
            situations.execute(text, made.pk)
        if table in APPEND_ONLY:
            refused(f"{text} ON CONFLICT (id) DO UPDATE SET {changes}", made.pk)
    else:
        for verb in ("INSERT OR REPLACE", "REPLACE", "INSERT OR IGNORE"):
            refused(f"{verb} INTO {table} ({names}) SELECT {names} FROM {table} WHERE id = %s", made.pk)
        if (APPEND_ONLY | KEPT)[table] != ("id",):
            refused(
                f"INSERT OR REPLACE INTO {table} ({without_id}) SELECT {without_id} FROM {table} WHERE id = %s",
                made.pk,
            )
    assert MODELS[table].objects.values().get(pk=made.pk) == before


@pytest.mark.parametrize(
    ("table", "column"), [(table, column) for table in sorted(FIXED) for column in FIXED[table].split(", ")]
)
def test_what_identifies_a_kept_row_never_changes(row, table, column):
    made = row(MODELS[table])
    kind = MODELS[table]._meta.get_field(column.removesuffix("_id")).get_internal_type()
    other = OTHER.get(kind, "plan" if column == "stage" else "other")
    refused(f'UPDATE {table} SET "{column}" = %s WHERE id = %s', other, made.pk)


def test_an_open_attempt_is_not_pushed_out_by_another(row):
    open_one = row(Attempt)
    names = ", ".join(f'"{column}"' for column in columns_of("jobs_attempt") if column not in ("id", "fence"))
    verb = "INSERT" if factories.on_postgresql() else "INSERT OR REPLACE"
    with pytest.raises(IntegrityError), transaction.atomic():
        situations.execute(
            f"{verb} INTO jobs_attempt (fence, {names}) SELECT 77, {names} FROM jobs_attempt WHERE id = %s", open_one.pk
        )
    situations.expire(open_one.job)
    situations.claim(open_one.job)
    verb = "UPDATE" if factories.on_postgresql() else "UPDATE OR REPLACE"
    with pytest.raises(IntegrityError), transaction.atomic():
        situations.execute(f"{verb} jobs_attempt SET ended_at = NULL, outcome = '' WHERE id = %s", open_one.pk)
    assert Attempt.objects.filter(job=open_one.job).count() == 2


def test_a_ledger_row_is_not_pushed_out_by_another_try(row):
    open_one = row(SideEffect)
    names = ", ".join(f'"{column}"' for column in columns_of("jobs_sideeffect") if column not in ("id", "number"))
    verb = "INSERT" if factories.on_postgresql() else "INSERT OR REPLACE"
    with pytest.raises(IntegrityError), transaction.atomic():
        situations.execute(
            f"{verb} INTO jobs_sideeffect (number, {names}) SELECT 2, {names} FROM jobs_sideeffect WHERE id = %s",
            open_one.pk,
        )
    assert SideEffect.objects.filter(pk=open_one.pk).exists()


def test_a_second_try_is_written_once_the_first_did_not_happen(row):
    first = row(SideEffect)
    situations.act(first.job, Event.RELEASE)
    situations.decide(first.job, Event.RESOLVE, outcome="absent", reference="looked it up")
    situations.claim(first.job)
    now = first.intended_at
    SideEffect.objects.create(
        job=first.job, fence=2, key=first.key, number=2, kind=first.kind, target=first.target, sha=first.sha,
        intended_at=now, not_after=now,
    )  # fmt: skip
    assert SideEffect.objects.filter(key=first.key).count() == 2


def test_inside_lifted_everything_passes_and_afterwards_nothing(row):
    job = row(Job)
    with triggers.lifted(connection):
        assert Job.objects.filter(pk=job.pk).update(branch="other") == 1
    refused("UPDATE jobs_job SET branch = 'third' WHERE id = %s", job.pk)


def test_lifted_triggers_stand_again_after_an_error(row):
    with pytest.raises(ZeroDivisionError), triggers.lifted(connection):
        raise ZeroDivisionError
    assert triggers.missing(connection) == []
