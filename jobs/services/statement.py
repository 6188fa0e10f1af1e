"""One fenced write: the job's UPDATE and every row that belongs to it, together or not at all.

PostgreSQL gets one statement: the fenced UPDATE first, the other rows from its RETURNING, so that nothing is
written when the fence does not hold. SQLite gets plain statements in one IMMEDIATE transaction, audit rows
first because its trigger looks for them BEFORE the update.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from django.db import IntegrityError, connection, transaction
from django.db.models import CharField, DateTimeField, Field, JSONField, Model, TextField

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


class _Unfenced(Exception):
    """Rolls the SQLite transaction back; never leaves this module."""


def run(write: Write) -> bool:
    """True when the job row was as `where` says and everything is written; False when nothing is."""
    if connection.vendor == "postgresql":
        return _one_statement(write)
    # Made before the transaction: nobody else writes while it is open.
    audit = [_insert(AuditEvent, values) for values in write.audit]
    fenced, also = _update(Job, write.values, write.where), [_part(part) for part in write.also]
    try:
        with transaction.atomic(), connection.cursor() as cursor:
            for text, params in audit:
                cursor.execute(text, params)
            cursor.execute(*fenced)
            if cursor.rowcount != 1:
                raise _Unfenced
            for text, params in also:
                cursor.execute(text, params)
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
    shape, params = split(Job, write.values)
    condition, more = _condition(Job, write.where)
    params += more
    parts: list[PartShape] = []
    for part in (*(Insert(AuditEvent, values) for values in write.audit), *write.also):
        part_shape, more = split(part.model, part.values)
        params += more
        where = ""
        if isinstance(part, Update):
            where, more = _condition(part.model, part.where)
            params += more
        parts.append((part.model, part_shape, where))
    with connection.cursor() as cursor:
        cursor.execute(_fenced_text(shape, condition, tuple(parts)), params)
        return bool(cursor.fetchone()[0] == 1)


def _part(part: Insert | Update) -> tuple[str, list[Any]]:
    if isinstance(part, Insert):
        return _insert(part.model, part.values)
    return _update(part.model, part.values, part.where)


def _insert(model: type[Model], values: Values) -> tuple[str, list[Any]]:
    shape, params = split(model, values)
    return insert_text(model, shape), params


def _update(model: type[Model], values: Values, where: Values) -> tuple[str, list[Any]]:
    shape, params = split(model, values)
    condition, more = _condition(model, where)
    return _update_text(model, shape, condition), params + more


# --- Values: what goes into the text, what goes as a parameter ---------------------------------------------------

# Attribute names with the SQL that stands for each value. Equal shapes have equal texts: a text is made once in a
# process, and the database plans it once.
Shape = tuple[tuple[str, str], ...]
# A model, its values, and the condition of an update; an insert has none.
PartShape = tuple[type[Model], Shape, str]


def split(model: type[Model], values: Values) -> tuple[Shape, list[Any]]:
    """What of these values goes into the text, and the parameters, in order."""
    columns = _columns(model)
    shape: list[tuple[str, str]] = []
    params: list[Any] = []
    for name, value in values.items():
        column = columns[name]
        if isinstance(value, Sql):
            shape.append((name, value.text))
            params += value.params
        elif value is None:
            shape.append((name, column.null))
        elif value == "":
            shape.append((name, column.empty))  # many columns are empty most of the time
        else:
            shape.append((name, column.slot))
            params.append(value if column.convert is None else column.convert(value))
    return tuple(shape), params


def _condition(model: type[Model], where: Values) -> tuple[str, list[Any]]:
    tests: list[str] = []
    params: list[Any] = []
    columns = _columns(model)
    for name, value in where.items():
        if isinstance(value, Sql):
            tests.append(value.text)
            params += value.params
            continue
        column = columns[name]
        if value is None:
            tests.append(column.is_null)
        else:
            tests.append(column.equals)
            params.append(value if column.convert is None else column.convert(value))
    return " AND ".join(tests), params


@dataclass(frozen=True, slots=True)
class _Column:
    """How a column is written. `convert` makes the driver's value of ours; None where they are the same."""

    name: str
    slot: str
    null: str
    empty: str
    equals: str
    is_null: str
    convert: Callable[[Any], Any] | None


@lru_cache
def _columns(model: type[Model]) -> dict[str, _Column]:
    """By attribute name (`job_id`)."""
    return {column.attname: _column(column) for column in model._meta.concrete_fields}


def _column(column: "Field[Any, Any]") -> _Column:
    # PostgreSQL cannot tell a parameter's type from `INSERT … SELECT`.
    cast = f"::{column.rel_db_type(connection)}" if connection.vendor == "postgresql" else ""
    name = f'"{column.column}"'
    return _Column(
        name, f"%s{cast}", f"NULL{cast}", f"''{cast}", f"{name} = %s", f"{name} IS NULL", _conversion(column)
    )


def _conversion(column: "Field[Any, Any]") -> Callable[[Any], Any] | None:
    """Numbers, truth values and PostgreSQL's times are written as they are; text only sheds its enum."""
    if isinstance(column, CharField | TextField):
        return str
    if isinstance(column, JSONField):
        return lambda value: column.get_db_prep_save(value, connection)
    if isinstance(column, DateTimeField) and connection.vendor != "postgresql":
        return connection.ops.adapt_datetimefield_value
    return None


# --- Texts, each made once in a process --------------------------------------------------------------------------


@lru_cache(maxsize=512)
def insert_text(model: type[Model], shape: Shape) -> str:
    """The INSERT of one row."""
    names, slots = lists(model, shape)
    return f"INSERT INTO {model._meta.db_table} ({names}) VALUES ({slots})"


@lru_cache(maxsize=512)
def _update_text(model: type[Model], shape: Shape, condition: str) -> str:
    columns = _columns(model)
    assignments = ", ".join(f"{columns[name].name} = {slot}" for name, slot in shape)
    return f"UPDATE {model._meta.db_table} SET {assignments} WHERE {condition}"


@lru_cache(maxsize=512)
def _fenced_text(shape: Shape, condition: str, parts: tuple[PartShape, ...]) -> str:
    clauses = [f"fenced AS ({_update_text(Job, shape, condition)} RETURNING id)"]
    for number, (model, part, where) in enumerate(parts):
        if where:
            text = f"{_update_text(model, part, where)} AND EXISTS (SELECT 1 FROM fenced)"
        else:
            names, slots = lists(model, part)
            text = f"INSERT INTO {model._meta.db_table} ({names}) SELECT {slots} FROM fenced"
        clauses.append(f"part{number} AS ({text})")
    return f"WITH {', '.join(clauses)} SELECT count(*) FROM fenced"


@lru_cache(maxsize=512)
def lists(model: type[Model], shape: Shape) -> tuple[str, str]:
    """The names of the columns, and what stands for their values."""
    columns = _columns(model)
    return ", ".join(columns[name].name for name, _ in shape), ", ".join(slot for _, slot in shape)
