"""These tests are about rows and make thousands of them: git and the built-in files are read once."""

from functools import cache

import pytest

from jobs.services import policies, repositories, workflows
from tests import factories

_read_once = {
    (policies, "builtin"): cache(policies.builtin),
    (repositories, "branch_commit"): cache(repositories.branch_commit),
    (repositories, "inspect_source"): cache(repositories.inspect_source),
    (workflows, "definitions"): cache(workflows.definitions),
}


@pytest.fixture(scope="session")
def one_source(tmp_path_factory):
    return factories.source(tmp_path_factory.mktemp("repositories") / "source")


@pytest.fixture
def registered(db, one_source, monkeypatch):
    """A registered repository that no test changes."""
    for (module, name), read in _read_once.items():
        monkeypatch.setattr(module, name, read)
    return factories.repository(one_source)
