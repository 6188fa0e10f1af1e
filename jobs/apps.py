"""The engine as a Django app: triggers are lifted before a migration and stand again after it."""

from typing import Any

from django.apps import AppConfig
from django.db import connections
from django.db.models.signals import post_migrate, pre_migrate


class JobsConfig(AppConfig):
    name = "jobs"
    verbose_name = "AgentQ engine"

    def ready(self) -> None:
        from jobs import checks  # noqa: F401  registers the system checks

        pre_migrate.connect(_lift, sender=self)
        post_migrate.connect(_restore, sender=self)


def _lift(using: str, **_kwargs: Any) -> None:
    from jobs import triggers

    triggers.remove(connections[using])


def _restore(using: str, **_kwargs: Any) -> None:
    from jobs import triggers

    connection = connections[using]
    # Migrating backwards can take the tables away.
    if "jobs_job" in connection.introspection.table_names():
        triggers.install(connection)
