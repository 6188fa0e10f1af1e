"""The rules that constraints cannot say, as database triggers for SQLite and PostgreSQL (S2, A1, P1, X2).

They are not migrations: SQLite rebuilds a table to alter it, silently drops the table's triggers, and fails when
another table's trigger names the rebuilt one. So they are dropped before every migrate and created after it, and
the engine refuses to start without them.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from django.db.backends.base.base import BaseDatabaseWrapper

from jobs.core.states import PAIRS
from jobs.errors import TriggersMissing
from jobs.trigger_conditions import (
    ENDS_TOO_EARLY,
    FALSE_COPIES,
    OUSTS_DECISION,
    OUTWARD_RETRY,
    POSTGRESQL_RETRIES_OUTSIDE,
    SQLITE_RETRIES_OUTSIDE,
    TOO_EARLY,
    UNTRUE,
)

PREFIX = "agentq_"
SQLITE_STREAM = "'job:' || NEW.id"
POSTGRESQL_STREAM = "'job:' || NEW.id::text"
UNAUDITED = "a change of job state needs its audit event"
BACKWARDS = "the numbers of a job never fall"
NUMBERS = "fence, version, audit_seq"
APPEND_ONLY = {
    "jobs_auditevent": ("id", "stream, seq"),
    "jobs_policyversion": ("id", "number", "digest"),
    "jobs_policyactivation": ("id",),
    "jobs_reviewdecision": ("id",),
    "jobs_evidence": ("id", "job_id, fence, check_name"),
    "jobs_failurerecord": ("id", "job_id, fence"),
}
KEPT = {
    "jobs_job": ("id", "idempotency_key"),
    "jobs_attempt": ("id", "job_id, fence"),
    "jobs_sideeffect": ("id", "key, number"),
    "jobs_workflowversion": ("id", "name, version"),
    "jobs_checkpoint": ("id", "job_id, fence, stage"),
    "jobs_failuresample": ("id", "record_id"),
    "jobs_reviewcase": ("id",),
    "jobs_followup": ("id", "case_id"),
}

# What identifies a row, and what it was made from, stays as it was first written.
FIXED = {
    "jobs_job": (
        "id, idempotency_key, payload, repository_id, branch, action, workflow_id, risk, requested_by, policy_id,"
        " created_at"
    ),
    "jobs_attempt": "id, job_id, fence",
    "jobs_sideeffect": "id, job_id, fence, key, number, kind, target, sha",
    "jobs_workflowversion": "id, name, version, document, digest",
    "jobs_checkpoint": "id, job_id, fence, stage",
    "jobs_failuresample": "id, record_id, kind, week",
    "jobs_reviewcase": (
        "id, job_id, reason, policy_number, job_version, result_digest, requested_by, risk, required_approvals,"
        " opened_at"
    ),
    "jobs_followup": "id, case_id, opened_by, reason, opened_at, due_at",
}
# Rows that are unique only while a condition holds: a REPLACE would push the other row out.
ONE_AT_A_TIME = {
    "jobs_attempt": ("job_id", "{row}ended_at IS NULL", "ended_at"),
    "jobs_sideeffect": ("key", "{row}outcome <> 'absent'", "outcome"),
    "jobs_reviewcase": ("job_id", "{row}closed_at IS NULL", "closed_at"),
}


def install(connection: BaseDatabaseWrapper) -> None:
    """Every trigger exists in its present form; earlier forms are gone."""
    remove(connection)
    with connection.cursor() as cursor:
        for statement in statements(connection.vendor).values():
            cursor.execute(statement)


def remove(connection: BaseDatabaseWrapper) -> None:
    """None of ours is left. Only for migrations, test flushes and bulk loading, while no worker lives."""
    with connection.cursor() as cursor:
        for name, table in _present(connection):
            suffix = f" ON {table}" if connection.vendor == "postgresql" else ""
            cursor.execute(f"DROP TRIGGER IF EXISTS {name}{suffix}")


@contextmanager
def lifted(connection: BaseDatabaseWrapper) -> Iterator[None]:
    """Inside, the database accepts what the rules forbid. Restored on the way out, whatever happened."""
    remove(connection)
    try:
        yield
    finally:
        install(connection)


def missing(connection: BaseDatabaseWrapper) -> list[str]:
    """Names of our triggers that the database lacks, has in another form or has switched off, sorted."""
    standing = _standing(connection)
    return sorted(
        name for name, text in statements(connection.vendor).items() if not _says(standing.get(name, ""), text)
    )


def require(connection: BaseDatabaseWrapper) -> None:
    """Returns when all triggers stand; else raises TriggersMissing: the engine must not run without them."""
    if missing(connection):
        raise TriggersMissing()


def statements(vendor: str) -> dict[str, str]:
    """Trigger name → the SQL that creates it. On PostgreSQL each text creates its function first."""
    return _postgresql() if vendor == "postgresql" else _sqlite()


def _present(connection: BaseDatabaseWrapper) -> list[tuple[str, str]]:
    query = (
        "SELECT t.tgname, c.relname FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid"
        " WHERE NOT t.tgisinternal AND t.tgname LIKE 'agentq%%' AND pg_table_is_visible(c.oid)"
        if connection.vendor == "postgresql"
        else "SELECT name, tbl_name FROM sqlite_master WHERE type = 'trigger' AND name LIKE 'agentq%%'"
    )
    with connection.cursor() as cursor:
        cursor.execute(query.replace("%%", "%"))
        return [(name, table) for name, table in cursor.fetchall()]


def _standing(connection: BaseDatabaseWrapper) -> dict[str, str]:
    """Trigger name → what it does, as the database tells it: its text on SQLite, its function's on PostgreSQL."""
    query = (
        "SELECT t.tgname, p.prosrc FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid"
        " JOIN pg_proc p ON p.oid = t.tgfoid"
        " WHERE NOT t.tgisinternal AND t.tgenabled IN ('O', 'A') AND pg_table_is_visible(c.oid)"
        if connection.vendor == "postgresql"
        else "SELECT name, sql FROM sqlite_master WHERE type = 'trigger'"
    )
    with connection.cursor() as cursor:
        cursor.execute(query)
        return dict(cursor.fetchall())


def _says(standing: str, text: str) -> bool:
    return bool(standing) and standing in text


# --- SQLite ----------------------------------------------------------------------------------------------------


def _sqlite() -> dict[str, str]:
    found: dict[str, str] = {}
    for table in APPEND_ONLY:
        _add_sqlite(found, table, "no_update", "BEFORE UPDATE", "", f"{table} is append-only")
    for table, keys in (APPEND_ONLY | KEPT).items():
        _add_sqlite(found, table, "no_delete", "BEFORE DELETE", "", f"{table} rows are never deleted")
        # REPLACE deletes without firing delete triggers, so the clash itself is refused.
        clashes = " OR ".join(
            f"EXISTS (SELECT 1 FROM {table} WHERE ({key}) = ({', '.join(f'NEW.{part}' for part in key.split(', '))}))"
            for key in keys
        )
        _add_sqlite(found, table, "no_replace", "BEFORE INSERT", clashes, f"{table} rows are never replaced")
    for table, (key, condition, column) in ONE_AT_A_TIME.items():
        other = f"SELECT 1 FROM {table} WHERE {key} = NEW.{key} AND {condition.format(row='')} AND id <> NEW.id"
        clash = f"{condition.format(row='NEW.')} AND EXISTS ({other})"
        _add_sqlite(found, table, "no_ousting", "BEFORE INSERT", clash, f"{table} rows are never replaced")
        _add_sqlite(found, table, "no_taking", f"BEFORE UPDATE OF {column}", clash, f"{table} rows are never replaced")
    for table, columns in FIXED.items():
        _add_sqlite(found, table, "fixed", f"BEFORE UPDATE OF {columns}", _differs(columns), f"{table} keeps its input")
    _add_sqlite(found, "jobs_job", "born_queued", "BEFORE INSERT", "NEW.state <> 'queued'", "a job starts as queued")
    _add_sqlite(
        found, "jobs_job", "legal", "BEFORE UPDATE OF state",
        f"OLD.state <> NEW.state AND NOT {_legal()}", "illegal change of job state",
    )  # fmt: skip
    _add_sqlite(
        found, "jobs_job", "audited", "BEFORE UPDATE OF state",
        f"OLD.state <> NEW.state AND NOT ({_audited(SQLITE_STREAM)})", UNAUDITED,
    )  # fmt: skip
    _add_sqlite(found, "jobs_job", "numbers", f"BEFORE UPDATE OF {NUMBERS}", _falls(), BACKWARDS)
    decisions, cases = "jobs_reviewdecision", "jobs_reviewcase"
    _add_sqlite(found, decisions, "no_ousting", "BEFORE INSERT", OUSTS_DECISION, f"{decisions} rows are never replaced")
    _add_sqlite(found, decisions, "true_copies", "BEFORE INSERT", FALSE_COPIES, UNTRUE)
    # BEFORE is soon enough: the door writes the decision first, then closes the case.
    _add_sqlite(found, cases, "two_people", "BEFORE UPDATE OF closed_at", ENDS_TOO_EARLY, TOO_EARLY)
    _add_sqlite(found, "jobs_policyversion", "no_outward_retry", "BEFORE INSERT", SQLITE_RETRIES_OUTSIDE, OUTWARD_RETRY)
    return found


def _add_sqlite(found: dict[str, str], table: str, rule: str, moment: str, when: str, message: str) -> None:
    name = f"{PREFIX}{table.removeprefix('jobs_')}_{rule}"
    condition = f" WHEN {when}" if when else ""
    found[name] = (
        f"CREATE TRIGGER {name} {moment} ON {table} FOR EACH ROW{condition}"
        f" BEGIN SELECT RAISE(ABORT, 'agentq: {message}'); END"
    )


# --- PostgreSQL ------------------------------------------------------------------------------------------------


def _postgresql() -> dict[str, str]:
    found: dict[str, str] = {}
    for table in APPEND_ONLY:
        _add_postgresql(found, table, "no_update", "BEFORE UPDATE", "", f"{table} is append-only")
    for table in APPEND_ONLY | KEPT:
        _add_postgresql(found, table, "no_delete", "BEFORE DELETE", "", f"{table} rows are never deleted")
        _add_postgresql(
            found, table, "no_truncate", "BEFORE TRUNCATE", "", f"{table} is never emptied", each="STATEMENT"
        )
    _add_postgresql(
        found, "jobs_job", "born_queued", "BEFORE INSERT", "NEW.state <> 'queued'", "a job starts as queued"
    )
    _add_postgresql(
        found, "jobs_job", "legal", "BEFORE UPDATE OF state",
        f"OLD.state <> NEW.state AND NOT {_legal()}", "illegal change of job state",
    )  # fmt: skip
    _add_postgresql(found, "jobs_job", "numbers", f"BEFORE UPDATE OF {NUMBERS}", _falls(), BACKWARDS)
    for table, columns in FIXED.items():
        _add_postgresql(
            found, table, "fixed", f"BEFORE UPDATE OF {columns}", _differs(columns), f"{table} keeps its input"
        )
    name = f"{PREFIX}policyversion_no_outward_retry"
    found[name] = (
        _function(name, f"IF {POSTGRESQL_RETRIES_OUTSIDE} THEN {_raise(OUTWARD_RETRY)} END IF; RETURN NEW;")
        + f" CREATE TRIGGER {name} BEFORE INSERT ON jobs_policyversion FOR EACH ROW EXECUTE FUNCTION {name}()"
    )
    name = f"{PREFIX}reviewdecision_true_copies"
    found[name] = (
        _function(name, f"IF {FALSE_COPIES} THEN {_raise(UNTRUE)} END IF; RETURN NEW;")
        + f" CREATE TRIGGER {name} BEFORE INSERT ON jobs_reviewdecision FOR EACH ROW EXECUTE FUNCTION {name}()"
    )
    name = f"{PREFIX}reviewcase_two_people"
    found[name] = _function(name, f"IF {ENDS_TOO_EARLY} THEN {_raise(TOO_EARLY)} END IF;") + (
        f" CREATE TRIGGER {name} AFTER UPDATE OF closed_at ON jobs_reviewcase FOR EACH ROW EXECUTE FUNCTION {name}()"
    )
    # AFTER: the audit rows of the same statement are visible only once the statement has ended.
    name = f"{PREFIX}job_audited"
    found[name] = _function(name, f"IF NOT ({_audited(POSTGRESQL_STREAM)}) THEN {_raise(UNAUDITED)} END IF;") + (
        f" CREATE TRIGGER {name} AFTER UPDATE OF state ON jobs_job FOR EACH ROW"
        f" WHEN (OLD.state <> NEW.state) EXECUTE FUNCTION {name}()"
    )
    return found


def _add_postgresql(
    found: dict[str, str], table: str, rule: str, moment: str, when: str, message: str, each: str = "ROW"
) -> None:
    name = f"{PREFIX}{table.removeprefix('jobs_')}_{rule}"
    condition = f" WHEN ({when})" if when else ""
    found[name] = _function(name, _raise(message)) + (
        f" CREATE TRIGGER {name} {moment} ON {table} FOR EACH {each}{condition} EXECUTE FUNCTION {name}()"
    )


def _function(name: str, body: str) -> str:
    return (
        f"CREATE OR REPLACE FUNCTION {name}() RETURNS trigger LANGUAGE plpgsql AS"
        f" $agentq$ BEGIN {body} RETURN NULL; END $agentq$;"
    )


def _raise(message: str) -> str:
    return f"RAISE EXCEPTION 'agentq: {message}' USING ERRCODE = 'integrity_constraint_violation';"


# --- Conditions that both databases read alike ------------------------------------------------------------------


def _legal() -> str:
    pairs = ", ".join(f"'{source}>{target}'" for source, target in PAIRS)
    return f"(OLD.state || '>' || NEW.state IN ({pairs}))"


def _audited(stream: str) -> str:
    return (
        f"NEW.version = OLD.version + 1 AND EXISTS (SELECT 1 FROM jobs_auditevent a WHERE a.stream = {stream}"
        " AND a.seq > OLD.audit_seq AND a.seq <= NEW.audit_seq AND a.version = NEW.version AND a.to_state = NEW.state)"
    )


def _falls() -> str:
    return " OR ".join(f"NEW.{column} < OLD.{column}" for column in NUMBERS.split(", "))


def _differs(columns: str) -> str:
    return " OR ".join(f"OLD.{column} <> NEW.{column}" for column in columns.split(", "))
