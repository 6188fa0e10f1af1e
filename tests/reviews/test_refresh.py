"""Live refresh: one small request, only changed rows, 204 when nothing changed; nothing is missed (U3, U7)."""

import re
from datetime import timedelta

import pytest
from django.utils import timezone

from jobs.models import Job
from jobs.services import control, leases
from reviews import queries, refresh
from tests import factories

JOBS = "/jobs/"


def page(console, address=JOBS) -> str:
    return console.get(address).content.decode()


def poll(console, html: str):
    """What the page asks next, by the address that it carries."""
    address = re.search(r'id="poll" data-poll hx-get="([^"]+)"', html)[1].replace("&amp;", "&")
    return console.get(address, headers={"HX-Request": "true"})


def changed(response) -> list[int]:
    return [int(n) for n in re.findall(r'<tr role="row" id="job-(\d+)" hx-swap-oob="true"', response.content.decode())]


@pytest.fixture
def two(repository):
    return [factories.job(repository).pk for _ in range(2)]


def test_nothing_changed_is_204_and_few_statements(console, two, django_assert_max_num_queries):
    html = page(console)
    with django_assert_max_num_queries(6):
        response = poll(console, html)
    assert (response.status_code, response.content) == (204, b"")


def test_only_the_row_that_changed_is_sent_and_then_the_page_is_up_to_date(console, two):
    html = page(console)
    control.cancel(two[0], actor="user:li", reason="no")
    response = poll(console, html)
    assert changed(response) == [two[0]]
    assert 'id="states"' in response.content.decode()
    assert poll(console, response.content.decode()).status_code == 204


def test_a_new_job_is_put_where_it_belongs(console, repository, two):
    html = page(console)
    new = factories.job(repository).pk
    sent = poll(console, html).content.decode()
    assert f'hx-swap-oob="beforebegin:#job-{two[1]}"><tr role="row" id="job-{new}"' in sent


def test_a_job_that_comes_under_the_filter_enters_the_list_between_its_neighbours(console, repository):
    first, middle, last = (factories.job(repository).pk for _ in range(3))
    for job_id in (first, last):
        leases.claim(job_id, worker="w")
    html = page(console, f"{JOBS}?state=running")
    leases.claim(middle, worker="w")
    sent = poll(console, html).content.decode()
    assert f'hx-swap-oob="beforebegin:#job-{first}"><tr role="row" id="job-{middle}"' in sent


def test_a_job_that_leaves_the_filter_stays_and_says_so(console, two):
    html = page(console, f"{JOBS}?state=queued")
    control.cancel(two[1], actor="user:li", reason="no")
    response = poll(console, html)
    assert changed(response) == [two[1]]
    assert "left this list" in response.content.decode()


def test_a_lease_that_runs_out_changes_the_row_although_nothing_was_audited(console, two):
    leases.claim(two[0], worker="w")
    html = page(console)
    assert poll(console, html).status_code == 204
    Job.objects.filter(pk=two[0]).update(lease_expires_at=timezone.now() - timedelta(seconds=1))
    response = poll(console, html)
    assert changed(response) == [two[0]]
    assert "st-expired" in response.content.decode()


def test_an_event_that_commits_late_with_a_smaller_id_is_not_missed(console, two):
    html = page(console)
    Job.objects.filter(pk=two[0]).update(audit_seq=2)  # as when another transaction's event was numbered earlier
    assert changed(poll(console, html)) == [two[0]]


def test_events_elsewhere_move_only_the_counts(console, repository, two, monkeypatch):
    monkeypatch.setattr(queries, "PAGE", 1)
    html = page(console, f"{JOBS}?before={two[1]}")
    leases.claim(two[1], worker="w")
    response = poll(console, html)
    assert response.status_code == 200
    assert changed(response) == []
    assert "running" in response.content.decode()


def test_the_first_job_reloads_an_empty_list(console, repository):
    html = page(console)
    factories.job(repository)
    assert poll(console, html).headers["HX-Refresh"] == "true"


def test_a_page_that_is_full_says_that_there_is_more(console, repository, two, monkeypatch):
    monkeypatch.setattr(refresh, "MOST_ROWS", 2)
    html = page(console)
    factories.job(repository)
    sent = poll(console, html).content.decode()
    assert "More jobs came in." in sent
    assert "<tr" not in sent


@pytest.mark.parametrize("query", ["shown=", "shown=x,1.,.,99999999999999999999.1.n&since=abc", "shown=1&since="])
def test_an_address_that_nobody_made_is_no_server_error(console, two, query):
    response = console.get(f"{JOBS}?{query}", headers={"HX-Request": "true"})
    assert response.status_code in (200, 204)
