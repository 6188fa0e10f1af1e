"""Fixtures that every room uses, and the one place where a test flush may lift the triggers."""

import os

os.environ.setdefault("PLAYWRIGHT_SKIP_BROWSER_DOWNLOAD", "1")

import pytest
from django.db import connections
from django.test import TransactionTestCase
from django.test.testcases import SimpleTestCase

from jobs import triggers
from jobs.services import candidates, policies

_flush = TransactionTestCase._fixture_teardown


def _flush_with_lifted_triggers(self: SimpleTestCase) -> None:
    """The rows that may never be deleted are deleted between tests, and only there."""
    connection = connections["default"]
    triggers.remove(connection)
    try:
        _flush(self)
    finally:
        triggers.install(connection)


TransactionTestCase._fixture_teardown = _flush_with_lifted_triggers  # type: ignore[method-assign]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """In CI nothing is skipped: real agent CLIs that this run is not meant for are not collected (see .ci/nightly)."""
    if not os.environ.get("CI"):
        return
    wanted = os.environ.get("AGENTQ_CI_AGENTS", "").split()
    absent = [name for name in ("codex", "claude") if name not in wanted]
    foreign = [item for item in items if "agents" in item.path.parts and any(name in item.name for name in absent)]
    config.hook.pytest_deselected(items=foreign)
    items[:] = [item for item in items if item not in foreign]


@pytest.fixture(autouse=True)
def fresh_rows():
    """A rolled-back test gives its row ids back: what a process reads once by id, it reads anew in the next test."""
    candidates.definition.cache_clear()
    policies.rules.cache_clear()


@pytest.fixture
def repository(db, tmp_path):
    from tests import factories

    return factories.repository(tmp_path / "source")
