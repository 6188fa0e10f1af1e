"""H3, A1: owners manage people in Django's own admin, every change on record; engine rows are only looked at there."""

import pytest
from django.apps import apps
from django.contrib import admin
from django.contrib.auth.models import Group, User
from django.test import Client
from django.urls import reverse

from jobs.models import AuditEvent, Job
from reviews.permissions import SIGNED_IN_AT
from tests.reviews.conftest import person
from tests.services.test_two_people import in_review


@pytest.fixture
def owner(client, db):
    client.force_login(person("olga", "owners"))
    return client


@pytest.mark.parametrize("groups", [(), ("viewers",), ("operators",), ("reviewers",)])
def test_nobody_but_owners_opens_it_whatever_django_says_of_staff(client, db, groups):
    assert client.get(reverse("admin:index"), follow=True).redirect_chain[-1][0].startswith(reverse("login"))
    client.force_login(person("stan", *groups, is_staff=True))
    for address in (
        reverse("admin:index"),
        reverse("admin:auth_user_changelist"),
        reverse("admin:jobs_job_changelist"),
    ):
        assert client.get(address, follow=True).status_code == 403


def test_an_owner_makes_a_person_gives_a_role_and_that_is_on_record(owner):
    made = owner.post(
        reverse("admin:auth_user_add"),
        {"username": "rita", "password1": "correct horse battery", "password2": "correct horse battery",
         "usable_password": "true"},
    )  # fmt: skip
    assert made.status_code == 302
    rita = User.objects.get(username="rita")
    reviewers = Group.objects.get_or_create(name="reviewers")[0]
    changed = owner.post(
        reverse("admin:auth_user_change", args=[rita.pk]),
        {"username": "rita", "is_active": "on", "groups": [reviewers.pk]},
    )
    assert changed.status_code == 302
    assert list(rita.groups.values_list("name", flat=True)) == ["reviewers"]
    events = AuditEvent.objects.filter(stream="auth").order_by("seq")
    assert [(event.event, event.actor) for event in events] == [
        ("user_added", "user:olga"),
        ("user_changed", "user:olga"),
    ]
    assert "Groups" in events[1].body and "correct horse" not in "".join(event.body for event in events)


def test_people_and_roles_are_not_removed_and_role_groups_keep_their_names(owner):
    rita = person("rita", "reviewers")
    group = Group.objects.get(name="reviewers")
    assert owner.post(reverse("admin:auth_user_delete", args=[rita.pk]), {"post": "yes"}).status_code == 403
    assert owner.post(reverse("admin:auth_group_delete", args=[group.pk]), {"post": "yes"}).status_code == 403
    assert owner.post(reverse("admin:auth_group_change", args=[group.pk]), {"name": "x"}).status_code == 403
    assert Group.objects.filter(name="reviewers").exists()


def test_changing_people_takes_a_password_typed_lately_and_looking_does_not(owner):
    rita = person("rita", "viewers")
    session = owner.session
    session[SIGNED_IN_AT] -= 16 * 60
    session.save()
    address = reverse("admin:auth_user_change", args=[rita.pk])
    assert owner.get(address).status_code == 200
    refused = owner.post(address, {"username": "rita", "is_superuser": "on"})
    assert refused.status_code == 403 and "15 minutes" in refused.content.decode()
    assert not User.objects.get(pk=rita.pk).is_superuser


def test_ending_sessions_puts_a_person_out_at_once(owner):
    other, rita = Client(), person("rita", "reviewers")
    other.force_login(rita)
    assert other.get(reverse("jobs")).status_code == 200
    ended = {"action": "end_sessions", "_selected_action": [rita.pk]}
    assert owner.post(reverse("admin:auth_user_changelist"), ended).status_code == 302
    assert other.get(reverse("jobs")).status_code == 302
    assert owner.get(reverse("admin:index")).status_code == 200


def test_every_row_of_the_engine_is_looked_at_and_never_written(owner, repository):
    job = in_review(repository).job
    for model in apps.get_app_config("jobs").get_models():
        name = model._meta.model_name
        assert owner.get(reverse(f"admin:jobs_{name}_changelist")).status_code == 200, name
        assert owner.get(reverse(f"admin:jobs_{name}_add")).status_code == 403, name
    change = reverse("admin:jobs_job_change", args=[job.pk])
    assert owner.get(change).status_code == 200
    assert owner.post(change, {"state": "accepted"}).status_code == 403
    assert owner.post(reverse("admin:jobs_job_delete", args=[job.pk]), {"post": "yes"}).status_code == 403
    assert Job.objects.get(pk=job.pk).state == "review"


def test_the_task_queues_own_admin_is_off():
    assert not [model for model in apps.get_app_config("django_q").get_models() if admin.site.is_registered(model)]
