"""Every address has a row in the one table, nobody reaches a page unsigned, and no GET changes anything (H3, U11)."""

from collections.abc import Iterator

import pytest
from django.apps import apps
from django.db import connection
from django.http import HttpResponse
from django.test.utils import CaptureQueriesContext
from django.urls import URLPattern, URLResolver, get_resolver, path, reverse

from reviews.permissions import WHO, Who, page
from tests import factories


def addresses(patterns: list[URLPattern | URLResolver]) -> Iterator[str]:
    for pattern in patterns:
        if isinstance(pattern, URLResolver):
            yield from addresses(pattern.url_patterns)
        else:
            yield pattern.name or str(pattern.pattern)


def missing(patterns: list[URLPattern | URLResolver]) -> set[str]:
    return set(addresses(patterns)) - set(WHO)


def test_every_address_of_the_site_has_a_row_and_every_row_an_address():
    assert missing(get_resolver().url_patterns) == set()
    assert set(WHO) == set(addresses(get_resolver().url_patterns))


def test_a_new_address_without_a_row_is_found_and_cannot_be_built():
    assert missing([path("secrets/", HttpResponse, name="secrets")]) == {"secrets"}
    with pytest.raises(KeyError):
        page("secrets/", HttpResponse, name="secrets")


def reach(name: str) -> str:
    """The address of a name, with a job number where it needs one."""
    return reverse(name, args=[1]) if name.startswith("job") and name != "jobs" else reverse(name)


@pytest.mark.parametrize("name", sorted(name for name, who in WHO.items() if who is Who.SIGNED_IN))
@pytest.mark.parametrize("method", ["get", "post"])
def test_who_is_not_signed_in_is_sent_to_sign_in(client, db, name, method):
    response = getattr(client, method)(reach(name))
    assert response.status_code == 302
    assert response.headers["Location"].startswith(reverse("login"))


def test_an_account_that_is_switched_off_is_out_at_its_next_request(console, li):
    assert console.get(reverse("jobs")).status_code == 200
    li.is_active = False
    li.save()
    assert console.get(reverse("jobs")).status_code == 302


def test_no_page_with_job_data_stays_in_a_cache(console):
    assert "no-store" in console.get(reverse("jobs")).headers["Cache-Control"]


def test_no_get_writes_anything(console, repository):
    job = factories.job(repository)
    addresses = [
        reverse("home"),
        reverse("jobs"),
        f"{reverse('jobs')}?state=open&created=24h",
        f"{reverse('jobs')}?since=0&shown=1.1.n",
        reverse("job", args=[job.pk]),
        f"{reverse('job', args=[job.pk])}?check",
        reverse("job_diff", args=[job.pk]),
        reverse("enqueue"),
        f"{reverse('enqueue')}?action=run-command&repo={repository.name}",
    ]
    for address in addresses:
        with CaptureQueriesContext(connection) as queries:
            assert console.get(address, headers={"HX-Request": "true"}).status_code in (200, 204, 302)
        assert [q["sql"] for q in queries if not q["sql"].lstrip("( ").upper().startswith("SELECT")] == [], address


def test_the_enqueue_page_of_an_empty_database_stores_no_policy(console):
    assert console.get(reverse("enqueue")).status_code == 200
    rows = {model.__name__: model.objects.count() for model in apps.get_app_config("jobs").get_models()}
    assert set(rows.values()) == {0}


@pytest.mark.parametrize("name", ["job_cancellation", "job_again"])
def test_an_act_is_refused_by_get(console, repository, name):
    job = factories.job(repository)
    assert console.get(reverse(name, args=[job.pk])).status_code == 405
