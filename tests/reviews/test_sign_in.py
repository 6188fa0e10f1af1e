"""Sign-in and the pages around it: one answer to every wrong attempt, own addresses only, the strict policy on all."""

import re

import pytest
from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied
from django.test import Client, override_settings
from django.urls import include, path, reverse

PASSWORD = "correct horse battery"


def failing(request):
    raise RuntimeError("a bug")


def forbidden(request):
    raise PermissionDenied


urlpatterns = [
    path("accounts/", include("django.contrib.auth.urls")),
    path("failing/", failing),
    path("forbidden/", forbidden),
    path("", include("reviews.urls")),
]


@pytest.fixture
def person(db):
    return User.objects.create_user("li", password=PASSWORD, first_name="Li", last_name="Wei")


def assert_strict(response):
    """The header forbids inline code, and the page has none."""
    policy = response.headers["Content-Security-Policy"]
    assert "script-src 'self'" in policy
    assert "style-src 'self'" in policy
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    page = response.content.decode()
    assert not re.search(r"<style|\sstyle=|\son\w+=|<script(?![^>]*\ssrc=)", page)


def sign_in(client, name, password, **more):
    return client.post(reverse("login"), {"username": name, "password": password, **more})


def test_the_sign_in_page_stands_under_the_strict_policy(client, db):
    response = client.get(reverse("login"))
    assert response.status_code == 200
    assert_strict(response)
    page = response.content.decode()
    assert 'autocomplete="username"' in page
    assert 'autocomplete="current-password"' in page


@override_settings(ROOT_URLCONF=__name__, LOGIN_REDIRECT_URL="password_change")
def test_a_person_signs_in_sees_the_frame_and_signs_out(client, person):
    assert sign_in(client, "li", PASSWORD).status_code == 302
    response = client.get(reverse("password_change"))
    assert_strict(response)
    page = response.content.decode()
    assert "Li Wei" in page
    assert "Skip to content" in page
    client.post(reverse("logout"))
    assert client.get(reverse("password_change")).status_code == 302


def test_every_wrong_attempt_gets_the_same_answer(client, person):
    User.objects.create_user("gone", password=PASSWORD, is_active=False)
    pages = []
    for name, password in [("li", "wrong"), ("nobody", PASSWORD), ("gone", PASSWORD)]:
        page = sign_in(client, name, password).content.decode()
        pages.append(re.findall(r'role="alert".*?</div>', page, re.DOTALL))
    assert pages[0]
    assert pages[0] == pages[1] == pages[2]


def test_a_wrong_attempt_keeps_the_way_back_but_never_leads_to_another_host(client, person):
    page = sign_in(client, "li", "wrong", next="/jobs/?state=review").content.decode()
    assert 'value="/jobs/?state=review"' in page
    assert sign_in(client, "li", PASSWORD, next="/jobs/").headers["Location"] == "/jobs/"
    client.logout()
    assert sign_in(client, "li", PASSWORD, next="//evil.example/").headers["Location"] == "/"


def test_a_form_without_its_token_is_refused_in_words(person):
    response = sign_in(Client(enforce_csrf_checks=True), "li", PASSWORD)
    assert response.status_code == 403
    assert "This form was refused" in response.content.decode()
    assert_strict(response)


@override_settings(ROOT_URLCONF=__name__)
@pytest.mark.parametrize(
    ("address", "code", "words"),
    [
        ("/nowhere/", 404, "There is no such page"),
        ("/forbidden/", 403, "Your role does not allow this"),
        ("/failing/", 500, "The console failed on this page"),
    ],
)
def test_an_error_page_says_what_to_do_and_tells_nothing_else(client, db, address, code, words):
    client.raise_request_exception = False
    response = client.get(address)
    assert response.status_code == code
    page = response.content.decode()
    assert words in page
    assert "a bug" not in page
    assert_strict(response)


@override_settings(ROOT_URLCONF=__name__)
def test_a_password_is_changed_by_its_owner_and_errors_stand_at_the_field(client, person):
    client.force_login(person)
    fields = {"old_password": "wrong", "new_password1": "four words make it", "new_password2": "four words make it"}
    page = client.post(reverse("password_change"), fields).content.decode()
    assert 'id="id_old_password_error"' in page
    assert 'aria-describedby="id_old_password_error"' in page
    client.post(reverse("password_change"), fields | {"old_password": PASSWORD})
    person.refresh_from_db()
    assert person.check_password("four words make it")


@override_settings(ROOT_URLCONF=__name__)
def test_times_are_shown_in_the_zone_of_the_cookie_and_an_unknown_zone_means_utc(client, person):
    client.force_login(person)
    client.cookies["agentq-zone"] = "Asia/Shanghai"
    assert "Asia/Shanghai" in client.get(reverse("password_change")).content.decode()
    client.cookies["agentq-zone"] = "../../etc/passwd"
    page = client.get(reverse("password_change")).content.decode()
    assert "<span>UTC</span>" in page
    assert "passwd" not in page
