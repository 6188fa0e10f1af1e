"""Console tests need no collected static files, only a folder for them; pages are read by a signed-in person."""

import pytest
from django.contrib.auth.models import Group, User


@pytest.fixture(autouse=True)
def static_folder(settings, tmp_path):
    settings.STATIC_ROOT = tmp_path


@pytest.fixture
def li(db):
    return person("li", "reviewers", password="correct horse battery", first_name="Li", last_name="Wei")


@pytest.fixture
def console(client, li):
    """A client signed in as li."""
    client.force_login(li)
    return client


def person(name: str, *groups: str, **values: str) -> User:
    """A person in these groups, made anew where a flush took them."""
    user = User.objects.create_user(name, **values)
    user.groups.set([Group.objects.get_or_create(name=group)[0] for group in groups])
    return user
