"""Console tests need no collected static files, only a folder for them; pages are read by a signed-in person."""

import pytest
from django.contrib.auth.models import User


@pytest.fixture(autouse=True)
def static_folder(settings, tmp_path):
    settings.STATIC_ROOT = tmp_path


@pytest.fixture
def li(db):
    return User.objects.create_user("li", password="correct horse battery", first_name="Li", last_name="Wei")


@pytest.fixture
def console(client, li):
    """A client signed in as li."""
    client.force_login(li)
    return client
