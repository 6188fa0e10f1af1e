"""Console tests need no collected static files, only a folder for them."""

import pytest


@pytest.fixture(autouse=True)
def static_folder(settings, tmp_path):
    settings.STATIC_ROOT = tmp_path
