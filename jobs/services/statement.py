"""One fenced write: the job's UPDATE and every row that belongs to it, together or not at all.

PostgreSQL gets one statement: the fenced UPDATE first, the other rows from its RETURNING, so that nothing is
written when the fence does not hold. SQLite gets plain statements in one IMMEDIATE transaction, audit rows
first because its trigger looks for them BEFORE the update.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from django.db import IntegrityError, connection, transaction
from django.db.models import Model

from jobs.models import AuditEvent, Job

Values = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Sql:
    """A value that the database computes."""

    text: str
    params: tuple[Any, ...] = ()


@dataclass(frozen=True, slots=True)
class Insert:
    """A row to add. Keys are attribute names of the model's columns (`job_id`)."""

    model: type[Model]
    values: Values


@dataclass(frozen=True, slots=True)
class Update:
    """Rows to change beside the job's own; `where` are equalities, None means IS NULL."""

    model: type[Model]
    values: Values
    where: Values


@dataclass(frozen=True, slots=True)
class Write:
    """`where` is the fence: the write happens to exactly one row or not at all."""

    where: Values
    values: Values
    audit: Sequence[Values]
    also: Sequence[Insert | Update] = field(default=())


def next_id(model: type[Model]) -> int:
    """The id that the next row gets. On SQLite only inside the transaction that then inserts it."""
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            cursor.execute("SELECT nextval(pg_get_serial_sequence(%s, 'id'))", [model._meta.db_table])
        else:
            cursor.execute("SELECT seq + 1 FROM sqlite_sequence WHERE name = %s", [model._meta.db_table])
        row = cursor.fetchone()
    return int(row[0]) if row else 1


def insert_new(model: type[Model], values: Values, *, unique: str, also: tuple[type[Model], Sequence[Values]]) -> bool:
    """True when the row and those of `also` are stored; False, and nothing is, when `unique` is taken.

    Takes part in the caller's transaction.
    """
    slots, params = _slots(model, values)
    names, table = _names(model, values), model._meta.db_table
    if connection.vendor == "postgresql":
        text = f"INSERT INTO {table} ({names}) VALUES ({', '.join(slots)}) ON CONFLICT ({unique}) DO NOTHING"
    else:
        # Our own trigger refuses a clash before ON CONFLICT is asked; under the writer's lock looking is deciding.
        text = f"INSERT INTO {table} ({names}) SELECT {', '.join(slots)} WHERE NOT EXISTS"
        text += f" (SELECT 1 FROM {table} WHERE {unique} = %s)"
        params.append(values[unique])
    if _execute(text, params) != 1:
        return False
    for row in also[1]:
        _execute(*_insert(also[0], row))
    return True


class _Unfenced(Exception):
    """Rolls the SQLite transaction back; never leaves this module."""


def run(write: Write) -> bool:
    """True when the job row was as `where` says and everything is written; False when nothing is."""
    if connection.vendor == "postgresql":
        return _one_statement(write)
    try:
        with transaction.atomic():
            for values in write.audit:
                _execute(*_insert(AuditEvent, values))
            if _execute(*_update(Job, write.values, write.where)) != 1:
                raise _Unfenced
            for part in write.also:
                _execute(*_part(part))
    except _Unfenced:
        return False
    except IntegrityError:
        # The audit comes first here, so a row that moved shows as a clash of audit numbers.
        if _stands(write.where):
            raise
        return False
    return True


def _stands(where: Values) -> bool:
    condition, params = _condition(Job, where)
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT 1 FROM jobs_job WHERE {condition}", params)
        return cursor.fetchone() is not None


def _one_statement(write: Write) -> bool:
    text, params = _update(Job, write.values, write.where)
    clauses = [f"fenced AS ({text} RETURNING id)"]
    parts: Iterable[Insert | Update] = (*(Insert(AuditEvent, values) for values in write.audit), *write.also)
    for number, part in enumerate(parts):
        text, more = _insert_fenced(part) if isinstance(part, Insert) else _update_fenced(part)
        clauses.append(f"part{number} AS ({text})")
        params += more
    with connection.cursor() as cursor:
        cursor.execute(f"WITH {', '.join(clauses)} SELECT count(*) FROM fenced", params)
        return bool(cursor.fetchone()[0] == 1)


def _execute(text: str, params: list[Any]) -> int:
    with connection.cursor() as cursor:
        cursor.execute(text, params)
        return int(cursor.rowcount)


def _part(part: Insert | Update) -> tuple[str, list[Any]]:
    if isinstance(part, Insert):
        return _insert(part.model, part.values)
    return _update(part.model, part.values, part.where)


def _insert(model: type[Model], values: Values) -> tuple[str, list[Any]]:
    slots, params = _slots(model, values)
    return f"INSERT INTO {model._meta.db_table} ({_names(model, values)}) VALUES ({', '.join(slots)})", params


def _insert_fenced(part: Insert) -> tuple[str, list[Any]]:
    slots, params = _slots(part.model, part.values)
    table = part.model._meta.db_table
    return f"INSERT INTO {table} ({_names(part.model, part.values)}) SELECT {', '.join(slots)} FROM fenced", params


def _update(model: type[Model], values: Values, where: Values) -> tuple[str, list[Any]]:
    slots, params = _slots(model, values)
    columns = _columns(model)
    assignments = ", ".join(f'"{columns[name][0]}" = {slot}' for name, slot in zip(values, slots, strict=True))
    condition, more = _condition(model, where)
    return f"UPDATE {model._meta.db_table} SET {assignments} WHERE {condition}", params + more


def _update_fenced(part: Update) -> tuple[str, list[Any]]:
    text, params = _update(part.model, part.values, part.where)
    return f"{text} AND EXISTS (SELECT 1 FROM fenced)", params


def _condition(model: type[Model], where: Values) -> tuple[str, list[Any]]:
    tests: list[str] = []
    params: list[Any] = []
    columns = _columns(model)
    for name, value in where.items():
        if value is None:
            tests.append(f'"{columns[name][0]}" IS NULL')
        elif isinstance(value, Sql):
            tests.append(value.text)
            params += value.params
        else:
            tests.append(f'"{columns[name][0]}" = %s')
            params.append(columns[name][2].get_db_prep_value(value, connection))
    return " AND ".join(tests), params


def _names(model: type[Model], values: Values) -> str:
    columns = _columns(model)
    return ", ".join(f'"{columns[name][0]}"' for name in values)


def _slots(model: type[Model], values: Values) -> tuple[list[str], list[Any]]:
    columns = _columns(model)
    cast = connection.vendor == "postgresql"
    slots: list[str] = []
    params: list[Any] = []
    for name, value in values.items():
        if isinstance(value, Sql):
            slots.append(value.text)
            params += value.params
            continue
        _, db_type, column = columns[name]
        slots.append(f"%s::{db_type}" if cast else "%s")
        params.append(column.get_db_prep_save(value, connection))
    return slots, params


@lru_cache
def _columns(model: type[Model]) -> dict[str, tuple[str, str, Any]]:
    """Attribute name → column name, type for a cast, field."""
    return {
        column.attname: (str(column.column), column.rel_db_type(connection) or "", column)
        for column in model._meta.concrete_fields
    }
