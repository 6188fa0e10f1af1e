"""The jobs list: filters in the address, pages by key, capped counts, three kinds of empty (U5, U7, U8, U14)."""

import re
from datetime import timedelta

import pytest
import time_machine
from django.urls import reverse
from django.utils import timezone

from jobs.core.states import State
from jobs.models import Job
from jobs.services import control, leases
from reviews import queries
from reviews.filters import JobFilter
from tests import factories

JOBS = "/jobs/"


def listed(response) -> list[int]:
    """Ids of the rows, in order."""
    return [int(number) for number in re.findall(r'<tr role="row" id="job-(\d+)"', response.content.decode())]


def text(response) -> str:
    return " ".join(re.sub(r"<[^>]+>", " ", response.content.decode()).split())


@pytest.fixture
def three(repository):
    return [factories.job(repository).pk for _ in range(3)]


def test_the_start_page_leads_to_the_list_newest_first(console, three):
    assert console.get("/", follow=True).redirect_chain == [(JOBS, 302)]
    assert listed(console.get(JOBS)) == three[::-1]


def test_each_filter_of_the_address_narrows_the_list(console, repository, tmp_path, three):
    other = factories.repository(tmp_path / "other", "demo/other")
    moved = factories.job(other, batch="spring").pk
    control.cancel(three[0], actor="user:li", reason="no")
    assert listed(console.get(f"{JOBS}?repository=demo/other")) == [moved]
    assert listed(console.get(f"{JOBS}?repository=DEMO/Other")) == [moved]
    assert listed(console.get(f"{JOBS}?batch=spring")) == [moved]
    assert listed(console.get(f"{JOBS}?state=cancelled")) == [three[0]]
    assert listed(console.get(f"{JOBS}?state=open")) == [moved, three[2], three[1]]
    assert listed(console.get(f"{JOBS}?state=open&repository={repository.name}")) == [three[2], three[1]]
    assert listed(console.get(f"{JOBS}?action=format-code")) == []
    assert listed(console.get(f"{JOBS}?action=sample-agent&state=queued&batch=spring&created=24h")) == [moved]


def test_the_time_filter_leaves_out_what_is_too_old_by_a_second(console, repository):
    with time_machine.travel(timezone.now() - timedelta(hours=1, seconds=1)):
        old = [factories.job(repository).pk for _ in range(2)]
    new = factories.job(repository).pk
    assert listed(console.get(f"{JOBS}?created=1h")) == [new]
    assert listed(console.get(f"{JOBS}?created=24h")) == [new, *old[::-1]]


@pytest.mark.parametrize("query", ["state=lost", "created=1y"])
def test_a_filter_that_does_not_exist_is_an_error_in_words_and_hides_nothing_silently(console, three, query):
    response = console.get(f"{JOBS}?{query}")
    assert response.status_code == 422
    assert "There is no such" in text(response)


@pytest.mark.parametrize(
    "query", ["before=abc", "after=-1", "before=99999999999999999999", "repository=%00", "batch=%F0"]
)
def test_an_odd_address_is_no_server_error(console, three, query):
    assert console.get(f"{JOBS}?{query}").status_code == 200


def test_pages_follow_each_other_by_key_without_gap_or_repeat(console, repository, monkeypatch):
    monkeypatch.setattr(queries, "PAGE", 3)
    ids = [factories.job(repository).pk for _ in range(7)][::-1]
    seen, address = [], JOBS
    while True:
        response = console.get(address)
        seen += listed(response)
        older = re.search(r'id="page-older" href="([^"]+)"', response.content.decode())
        if older is None:
            break
        address = JOBS + older[1].replace("&amp;", "&")
    assert seen == ids
    newer = re.search(r'id="page-newer" href="([^"]+)"', response.content.decode())
    assert listed(console.get(JOBS + newer[1])) == ids[3:6]


def test_open_jobs_are_found_behind_any_number_of_finished_ones(console, repository, monkeypatch):
    monkeypatch.setattr(queries, "PAGE", 2)
    ids = [factories.job(repository).pk for _ in range(6)]
    for job_id in ids[2:]:
        control.cancel(job_id, actor="user:li", reason="no")
    assert listed(console.get(f"{JOBS}?state=open")) == [ids[1], ids[0]]


def test_counts_are_capped_and_no_statement_counts_all_jobs(console, three, monkeypatch, django_assert_max_num_queries):
    monkeypatch.setattr(queries, "LIVE_CAP", 2)
    with django_assert_max_num_queries(12) as statements:
        page = text(console.get(JOBS))
    assert "queued 2+" in page
    assert not [q["sql"] for q in statements if "COUNT(" in q["sql"].upper() and "LIMIT" not in q["sql"].upper()]


def test_the_number_of_statements_does_not_grow_with_the_rows(console, repository, django_assert_num_queries):
    factories.job(repository)
    console.get(JOBS)
    with django_assert_num_queries(10):
        console.get(JOBS)
    for _ in range(5):
        factories.job(repository)
    with django_assert_num_queries(10):
        console.get(JOBS)


def test_state_and_lease_are_two_axes(console, repository):
    job = factories.job(repository)
    leases.claim(job.pk, worker="w-7")
    page = console.get(JOBS).content.decode()
    assert "st-running" in page and "st-fresh" in page and "w-7" in page
    Job.objects.filter(pk=job.pk).update(lease_expires_at=timezone.now() - timedelta(seconds=1))
    page = console.get(JOBS).content.decode()
    assert "st-running" in page and "st-expired" in page
    assert "Another worker takes over" in page


@pytest.mark.parametrize("state", list(State))
def test_every_state_has_a_row_that_says_what_happens_next(repository, state):
    from reviews.rows import _next

    job = factories.job(repository)
    job.state, job.open_intent = state, False
    assert _next(job).text


def test_an_empty_list_says_which_of_three_kinds_it_is(console, tmp_path):
    assert "No repository yet" in text(console.get(JOBS))
    repository = factories.repository(tmp_path / "one")
    assert "No jobs yet" in text(console.get(JOBS))
    factories.job(repository)
    assert "Nothing matches" in text(console.get(f"{JOBS}?state=paused"))


def test_text_from_a_repository_is_escaped_and_inert(console, tmp_path):
    repository = factories.repository(tmp_path / "one", "<b hx-get=/x>")
    factories.job(repository, batch="spring\u202e")
    page = console.get(JOBS).content.decode()
    row = page[page.index('id="rows"') :]
    assert "&lt;b hx-get=/x&gt;" in row and "<b hx-get" not in page
    assert "U+202E" in row
    assert 'id="rows" hx-disable' in page


def test_picked_jobs_are_cancelled_and_a_refusal_stops_no_other(console, three):
    control.cancel(three[0], actor="user:li", reason="earlier")
    response = console.post(f"{JOBS}?created=24h", {"job": three, "reason": "wrong branch"}, follow=True)
    assert response.redirect_chain == [(f"{JOBS}?created=24h", 302)]
    assert set(Job.objects.values_list("state", flat=True)) == {State.CANCELLED}
    page = text(response)
    assert "2 jobs are cancelled" in page
    assert f"J-{three[0]} is finished" in page


@pytest.mark.parametrize("given", [{"job": ["1"]}, {"reason": "why"}, {"job": ["x"], "reason": "why"}])
def test_cancelling_without_reason_or_pick_is_refused_and_keeps_what_was_given(console, repository, given):
    job = factories.job(repository)
    if given.get("job") == ["1"]:
        given = {"job": [job.pk]}
    response = console.post(JOBS, given)
    page = response.content.decode()
    assert response.status_code == 422
    assert Job.objects.get(pk=job.pk).state == State.QUEUED
    assert (f'id="pick-{job.pk}" name="job" value="{job.pk}"' in page) and ("checked" in page) == (
        "reason" not in given
    )
    assert ('value="why"' in page) == ("reason" in given)


def test_a_filter_keeps_its_words_in_the_address():
    wanted = JobFilter(state="open", repository="demo/a b", batch="x&y")
    assert wanted.address() == "?state=open&repository=demo/a%20b&batch=x%26y"
    assert wanted.address(state="", batch="") == "?repository=demo/a%20b"
    assert JobFilter().address() == "?"
    assert reverse("jobs") == JOBS
