"""New rows, many in one statement: on SQLite, where a statement costs no round trip, one after the other."""
# ruff: noqa: S608 - names come from the models, values are always parameters

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from django.db import connection
from django.db.models import Model

from jobs.services.statement import Shape, Values, insert_text, lists, split


def next_ids(model: type[Model], count: int) -> list[int]:
    """The ids that the next rows get. On SQLite only inside the transaction that then inserts them."""
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            text = "SELECT nextval(pg_get_serial_sequence(%s, 'id')) FROM generate_series(1, %s)"
            cursor.execute(text, [model._meta.db_table, count])
            return [int(row[0]) for row in cursor.fetchall()]
        cursor.execute("SELECT seq FROM sqlite_sequence WHERE name = %s", [model._meta.db_table])
        last = int((cursor.fetchone() or [0])[0])
        return list(range(last + 1, last + count + 1))


def insert_new(model: type[Model], rows: Sequence[Values], *, unique: str) -> set[Any]:
    """The `unique` values of those rows that are stored now; of the others, whose value is taken, nothing is.

    Takes part in the caller's transaction.
    """
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            text, params = _insert_together(model, rows)
            cursor.execute(f"{text} ON CONFLICT ({unique}) DO NOTHING RETURNING {unique}", params)
            return {row[0] for row in cursor.fetchall()}
        stored = set()
        for values in rows:
            shape, params = split(model, values)
            cursor.execute(_insert_unless_taken(model, shape, unique), [*params, values[unique]])
            if cursor.rowcount == 1:
                stored.add(values[unique])
        return stored


def insert_all(model: type[Model], rows: Sequence[Values]) -> None:
    """All rows are stored. Takes part in the caller's transaction."""
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            cursor.execute(*_insert_together(model, rows))
            return
        for values in rows:
            cursor.execute(*_one(model, values))


def _insert_together(model: type[Model], rows: Sequence[Values]) -> tuple[str, list[Any]]:
    """One statement for rows of the same columns."""
    first, params = split(model, rows[0])
    texts = [insert_text(model, first)]
    for values in rows[1:]:
        shape, more = split(model, values)
        texts.append(f"({lists(model, shape)[1]})")
        params += more
    return ", ".join(texts), params


@lru_cache(maxsize=512)
def _insert_unless_taken(model: type[Model], shape: Shape, unique: str) -> str:
    # SQLite: our own trigger refuses a clash before ON CONFLICT is asked; under the writer's lock looking is deciding.
    names, slots = lists(model, shape)
    table = model._meta.db_table
    taken = f"SELECT 1 FROM {table} WHERE {unique} = %s"
    return f"INSERT INTO {table} ({names}) SELECT {slots} WHERE NOT EXISTS ({taken})"


def _one(model: type[Model], values: Values) -> tuple[str, list[Any]]:
    shape, params = split(model, values)
    return insert_text(model, shape), params
