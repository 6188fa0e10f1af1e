"""An installation of its own for each test: a file database under SQLite, a database of its own on PostgreSQL."""

import os
import secrets
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import environ
import pytest
from django.conf import settings as django_settings
from django.db import connections
from django.db.utils import load_backend
from django.test import override_settings

from jobs.services import candidates, policies
from jobs.worker import identity
from tests.worker.engine import TIMES, Engine

LEASE = {"AGENTQ_LEASE_SECONDS": float(TIMES["AGENTQ_LEASE_SECONDS"])}
ON_POSTGRESQL = os.environ.get("DATABASE_URL", "").startswith("postgres")


@pytest.fixture(scope="session")
def migrated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path | str]:
    """An empty database with every migration, to be copied: a file, or a PostgreSQL database by name."""
    room = tmp_path_factory.mktemp("migrated")
    if not ON_POSTGRESQL:
        Engine(room, f"sqlite:///{room / 'db.sqlite3'}").manage("migrate")
        yield room / "db.sqlite3"
        return
    with _database() as name:
        Engine(room, _url(name)).manage("migrate")
        yield name


@pytest.fixture(scope="module")
def make_engine(migrated: Path | str, tmp_path_factory: pytest.TempPathFactory, django_db_blocker: Any) -> Any:
    """A context manager that gives a new installation, whose database is this process's default meanwhile."""

    @contextmanager
    def make() -> Iterator[Engine]:
        room = tmp_path_factory.mktemp("room")
        with _copy_of(migrated, room) as url, django_db_blocker.unblock(), _default_database(url, room):
            engine = Engine(room, url)
            (room / "workflows").mkdir()
            try:
                yield engine
            finally:
                engine.end()

    return make


@pytest.fixture
def engine(make_engine: Callable[[], Any]) -> Iterator[Engine]:
    with make_engine() as engine:
        yield engine


@contextmanager
def _copy_of(migrated: Path | str, room: Path) -> Iterator[str]:
    if isinstance(migrated, Path):
        shutil.copy(migrated, room / "db.sqlite3")
        yield f"sqlite:///{room / 'db.sqlite3'}"
        return
    with _database(template=migrated) as name:
        yield _url(name)


@contextmanager
def _default_database(url: str, room: Path) -> Iterator[None]:
    """Rows of the installation are those of `connection` until the block ends; nothing read before is remembered."""
    usual, values = connections["default"], environ.Env.db_url_config(url)
    options = dict(django_settings.DATABASES["default"]["OPTIONS"])
    if "timeout" in options:
        options["timeout"] = float(TIMES["AGENTQ_BUSY_SECONDS"])
    ours = {**usual.settings_dict, **values, "OPTIONS": options}
    connections["default"] = load_backend(ours["ENGINE"]).DatabaseWrapper(ours, "default")
    _forget()
    try:
        with override_settings(ARTIFACTS_DIR=room / "artifacts", WORKFLOWS_DIR=str(room / "workflows"), **LEASE):
            yield
    finally:
        connections["default"].close()
        connections["default"] = usual
        _forget()


def _forget() -> None:
    identity.site.cache_clear()
    candidates.definition.cache_clear()
    policies.rules.cache_clear()


@contextmanager
def _database(template: str = "template0") -> Iterator[str]:
    import psycopg

    name = f"agentq_engine_{secrets.token_hex(4)}"
    with psycopg.connect(_url("postgres"), autocommit=True) as admin:
        admin.execute(f'CREATE DATABASE "{name}" TEMPLATE "{template}"')
        try:
            yield name
        finally:
            admin.execute(f'DROP DATABASE "{name}" WITH (FORCE)')


def _url(name: str) -> str:
    given = urlsplit(os.environ["DATABASE_URL"])
    return f"{given.scheme}://{given.netloc}/{name}" + (f"?{given.query}" if given.query else "")
