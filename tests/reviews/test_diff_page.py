"""A job's diff: read from the mirror, numbered, with hidden characters marked, escaped and inert (V3)."""

import re

import pytest
from django.utils import timezone

from jobs.core.states import Event
from jobs.services import artifacts, leases, transitions
from jobs.services.transitions import Change
from reviews import patch
from tests import factories

HOSTILE = '<a hx-get="/" hx-trigger="load">\u202e  '


def text(response) -> str:
    return " ".join(re.sub(r"<[^>]+>", " ", response.content.decode()).split())


@pytest.fixture
def changed(repository, tmp_path, settings):
    """A job whose snapshot adds one hostile file and changes one line, both in the mirror."""
    settings.ARTIFACTS_DIR = tmp_path / "artifacts"
    job = factories.job(repository)
    source = tmp_path / "source"
    base = factories.git(source, "rev-parse", "HEAD")
    (source / "src/app.py").write_text("VALUE = 1\n")
    (source / "odd \u202ename.txt").write_text(HOSTILE + "\n")
    (source / "blob.bin").write_bytes(b"\0\1\2")
    factories.git(source, "add", "--all")
    factories.git(source, "commit", "-m", "second")
    snapshot = factories.git(source, "rev-parse", "HEAD")
    artifacts.mirror(repository).fetch()
    claimed = leases.claim(job.pk, worker="w-1")
    change = Change(
        job={"base_commit": base, "snapshot": snapshot}, attempt={"snapshot": snapshot, "base_commit": base}
    )
    transitions.transition(claimed.held, Event.HOLD, actor="worker:w-1", at=timezone.now(), reason="x", change=change)
    return job, base, snapshot


def test_the_diff_shows_files_lines_and_numbers(console, changed):
    job, _base, snapshot = changed
    response = console.get(f"/jobs/{job.pk}/diff/?snapshot={snapshot}")
    page = text(response)
    assert "src/app.py" in page
    assert "+1 −1" in page
    assert "binary" in page
    assert '<tr class="del"><td class="ln">1</td>' in response.content.decode()


def test_hostile_names_and_lines_are_marked_and_inert(console, changed):
    html = console.get(f"/jobs/{changed[0].pk}/diff/").content.decode()
    assert "<a hx-get" not in html
    assert "&lt;a hx-get=" in html
    assert "\u202e" not in html
    assert '<mark class="odd">··</mark>' in html
    assert 'aria-label="Changed files" hx-disable' in html


def test_a_snapshot_that_is_not_the_jobs_is_a_404(console, changed):
    job, base, _snapshot = changed
    assert console.get(f"/jobs/{job.pk}/diff/?snapshot={base}").status_code == 404
    assert console.get(f"/jobs/{job.pk}/diff/?snapshot=--output=/tmp/x").status_code == 404


def test_a_mirror_that_is_not_here_is_said_in_words(console, changed, settings, tmp_path):
    settings.ARTIFACTS_DIR = tmp_path / "elsewhere"
    response = console.get(f"/jobs/{changed[0].pk}/diff/")
    assert response.status_code == 200
    assert "cannot be read on this machine" in text(response)


def test_a_job_without_a_snapshot_says_so(console, repository):
    assert "No diff yet" in text(console.get(f"/jobs/{factories.job(repository).pk}/diff/"))


def test_lines_that_look_like_headers_stay_lines_of_their_file():
    found = patch.read("diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n-diff --git a/y b/y\n+@@ -9 +9 @@\n c\n")
    assert len(found) == 1
    assert [(line.kind, line.old, line.new) for line in found[0].lines] == [
        ("hunk", None, None),
        ("del", 1, None),
        ("add", None, 1),
        ("", 2, 2),
    ]


def test_a_long_file_is_cut_and_says_so():
    lines = "".join(f"+{n}\n" for n in range(patch.LINES_OF_A_FILE + 5))
    found = patch.read(f"diff --git a/x b/x\n@@ -0,0 +1,900 @@\n{lines}")
    assert len(found[0].lines) == patch.LINES_OF_A_FILE
    assert found[0].cut
