"""A lack of the machine is a skip with its reason at home and a failure under CI: nothing is skipped there unseen."""

import pytest

from tests import needs


@pytest.fixture
def bare(monkeypatch):
    """A machine without any Chromium."""
    monkeypatch.delenv("CI", raising=False)
    monkeypatch.setenv("CHROMIUM", "/nowhere/chromium")
    monkeypatch.setattr(needs.Path, "exists", lambda _path: False)
    return monkeypatch


def test_a_bare_machine_skips_and_says_what_to_install(bare):
    with pytest.raises(pytest.skip.Exception, match="install the package chromium"):
        needs.browser()


def test_ci_fails_instead(bare):
    bare.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match="CI may skip nothing"):
        needs.browser()


def test_a_browser_named_by_the_person_comes_first(monkeypatch, tmp_path):
    monkeypatch.setenv("CHROMIUM", str(tmp_path))
    assert needs.browser() == str(tmp_path)
