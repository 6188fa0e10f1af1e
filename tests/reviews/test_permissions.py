"""Every address × method × identity against the one table; no GET changes anything (H3, U11)."""

from collections.abc import Iterator

import pytest
from django.apps import apps
from django.db import connection
from django.http import HttpResponse
from django.test.utils import CaptureQueriesContext
from django.urls import URLPattern, URLResolver, get_resolver, path, reverse

from jobs.models import AuditEvent
from jobs.services.people import ACTS, GROUPS, Role
from reviews.permissions import ADDRESSES, page
from tests import factories
from tests.reviews.conftest import person

IDENTITIES = {"anonymous": Role.NOBODY, "no role": Role.SIGNED_IN, **GROUPS}
METHODS = ("get", "head", "post", "put", "delete")
OUTSIDE = ("login", "logout", "password_change", "password_change_done")  # Django's own views


def addresses(patterns: list[URLPattern | URLResolver]) -> Iterator[str]:
    for pattern in patterns:
        if isinstance(pattern, URLResolver):
            if pattern.namespace != "admin":  # owners only, as a whole: see test_people_pages
                yield from addresses(pattern.url_patterns)
        else:
            yield pattern.name or str(pattern.pattern)


def missing(patterns: list[URLPattern | URLResolver]) -> set[str]:
    return set(addresses(patterns)) - set(ADDRESSES)


def test_every_address_of_the_site_has_a_row_and_every_row_an_address():
    assert missing(get_resolver().url_patterns) == set()
    assert set(ADDRESSES) == set(addresses(get_resolver().url_patterns))


def test_a_new_address_without_a_row_is_found_and_cannot_be_built():
    assert missing([path("secrets/", HttpResponse, name="secrets")]) == {"secrets"}
    with pytest.raises(KeyError):
        page("secrets/", HttpResponse, name="secrets")


def reach(name: str) -> str:
    """The address of a name, with a number wherever it needs one."""
    found = get_resolver().reverse_dict.getlist(name)[0]
    return reverse(name, args=[1] * len(found[0][0][1]))


def expected(name: str, method: str, role: Role) -> str:
    """What the table says: in, to the sign-in page, refused, or a method that is not served."""
    if role is Role.NOBODY:
        return "sign in"
    needed = ADDRESSES[name].role(method.upper())
    if needed is None:
        return "not served"
    return "in" if role >= needed else "refused"


def found(response: HttpResponse) -> str:
    if response.status_code == 302 and response.headers["Location"].startswith(reverse("login")):
        return "sign in"
    return {403: "refused", 405: "not served"}.get(response.status_code, "in")


@pytest.mark.parametrize("identity", IDENTITIES)
def test_each_address_and_method_answers_each_identity_as_the_table_says(client, db, identity):
    if identity != "anonymous":
        client.force_login(person("x", *([identity] if identity in GROUPS else [])))
    wrong = {}
    for name in sorted(set(ADDRESSES) - set(OUTSIDE)):
        for method in METHODS:
            seen = found(getattr(client, method)(reach(name)))
            if seen != expected(name, method, IDENTITIES[identity]):
                wrong[name, method] = seen
    assert wrong == {}


def test_the_table_lets_each_role_do_what_the_one_before_it_may_and_stopping_is_cheaper_than_starting_again():
    assert ACTS["pause"] < ACTS["resume"]
    assert ACTS["cancel"] < ACTS["decide"] < ACTS["decide alone"]
    assert ACTS["see"] < ACTS["see payloads"]


def test_a_role_that_is_taken_away_is_gone_at_the_next_request(console, li):
    assert console.get(reverse("enqueue")).status_code == 200
    li.groups.clear()
    assert console.get(reverse("enqueue")).status_code == 403


def test_a_refused_act_is_on_record_and_a_refused_look_writes_nothing(client, db):
    client.force_login(person("vera", "viewers"))
    assert client.get(reverse("enqueue")).status_code == 403
    assert not AuditEvent.objects.filter(stream="auth").exists()
    assert client.post(reverse("job_cancellation", args=[1]), {"reason": "x"}).status_code == 403
    event = AuditEvent.objects.get(stream="auth")
    assert (event.event, event.actor) == ("refused", "user:vera")
    assert '"act":"cancel"' in event.body


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
