"""A database of the benchmark's own, of the configured kind, and gone afterwards."""

import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

from django.conf import settings
from django.db import DatabaseError, connection
from django.utils.translation import gettext as _

from jobs.errors import AgentQError

PREFIX = "agentq_bench_"


class NoDatabase(AgentQError):
    """The benchmark has no database of its own to run in."""


@contextmanager
def own_database() -> Iterator[Mapping[str, str]]:
    """The environment of a process that sees the new, empty database as its only one; afterwards both are gone.

    Beside the configured data, so that it lies on the same disk. Raises NoDatabase when none may be made; the
    configured database is never written to.
    """
    name = f"{PREFIX}{os.getpid()}"
    try:
        folder = Path(tempfile.mkdtemp(prefix=f"{name}_", dir=settings.DATA_DIR))
    except OSError as error:
        raise NoDatabase(
            _("The benchmark may not write in %(place)s (%(why)s). Point AGENTQ_DATA_DIR to a folder it may write in.")
            % {"place": settings.DATA_DIR, "why": error.strerror}
        ) from None
    try:
        with _server_database(name) if connection.vendor == "postgresql" else _file_database(folder, name) as url:
            yield {
                **os.environ,
                "DATABASE_URL": url,
                "AGENTQ_DATA_DIR": str(folder),
                "AGENTQ_ARTIFACTS": str(folder / "artifacts"),
                "AGENTQ_LOG_LEVEL": "ERROR",
            }
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def is_own() -> bool:
    """True in a process whose database was made by `own_database`: what the benchmark may fill and empty."""
    return Path(str(connection.settings_dict["NAME"])).name.startswith(PREFIX)


@contextmanager
def _file_database(folder: Path, name: str) -> Iterator[str]:
    yield f"sqlite:///{folder / name}.sqlite3"


@contextmanager
def _server_database(name: str) -> Iterator[str]:
    try:
        with connection.cursor() as cursor:
            cursor.execute(f'CREATE DATABASE "{name}" TEMPLATE template0')
    except DatabaseError as error:
        raise NoDatabase(
            _("The benchmark may not create a database (%(why)s). Let its role do so: ALTER ROLE … CREATEDB.")
            % {"why": str(error).strip()}
        ) from None
    try:
        yield urlsplit(os.environ["DATABASE_URL"])._replace(path=f"/{name}").geturl()
    finally:
        with connection.cursor() as cursor:
            cursor.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')
