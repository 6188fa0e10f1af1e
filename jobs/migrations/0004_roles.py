"""The four roles as groups of Django's own; what each may do is one table in `reviews.permissions`."""

from typing import Any

from django.db import migrations

ROLES = ("viewers", "operators", "reviewers", "owners")


def make(apps: Any, _editor: Any) -> None:
    groups = apps.get_model("auth", "Group")
    for name in ROLES:
        groups.objects.get_or_create(name=name)


class Migration(migrations.Migration):
    dependencies = [("jobs", "0003_people"), ("auth", "0012_alter_user_first_name_max_length")]
    operations = [migrations.RunPython(make, migrations.RunPython.noop)]
