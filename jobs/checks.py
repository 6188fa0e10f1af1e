"""System checks for what the engine relies on: lease numbers that add up, database options, the SQLite in use."""

import sqlite3
from collections.abc import Sequence
from typing import Any

from django.conf import settings
from django.core import checks
from django.core.checks import CheckMessage, Error, Info, Tags, register
from django.db import connections

from jobs import triggers

# Before 3.51.3 a rare race between a WAL reset and a checkpoint can damage a database under concurrent writers.
SQLITE_WITHOUT_WAL_RACE = (3, 51, 3)


@register
def lease_numbers(**_kwargs: Any) -> list[CheckMessage]:
    """A worker must have killed its agent before another may claim the job (L2)."""
    busy = settings.SQLITE_BUSY_SECONDS if settings.ON_SQLITE else 0
    stopped = settings.AGENTQ_FENCE_SECONDS + settings.AGENTQ_GRACE_SECONDS + busy
    found: list[CheckMessage] = []
    if stopped >= settings.AGENTQ_LEASE_SECONDS:
        found.append(
            Error(
                f"A worker may still act for {stopped:g} s after its last good beat, but the lease ends after"
                f" {settings.AGENTQ_LEASE_SECONDS:g} s.",
                hint="Keep AGENTQ_FENCE_SECONDS + AGENTQ_GRACE_SECONDS + AGENTQ_BUSY_SECONDS < AGENTQ_LEASE_SECONDS.",
                id="agentq.E001",
            )
        )
    if settings.AGENTQ_BEAT_SECONDS + busy >= settings.AGENTQ_FENCE_SECONDS:
        found.append(
            Error(
                "One slow beat would already stop a healthy agent.",
                hint="Keep AGENTQ_BEAT_SECONDS + AGENTQ_BUSY_SECONDS < AGENTQ_FENCE_SECONDS.",
                id="agentq.E002",
            )
        )
    return found


@register
def sqlite_options(**_kwargs: Any) -> list[CheckMessage]:
    """SQLite needs IMMEDIATE transactions and the write-ahead log, or claims fail with "database is locked" (Z4)."""
    if not settings.ON_SQLITE:
        return []
    options = settings.DATABASES["default"].get("OPTIONS", {})
    found: list[CheckMessage] = []
    if options.get("transaction_mode") != "IMMEDIATE" or "journal_mode=WAL" not in options.get("init_command", ""):
        found.append(
            Error(
                "SQLite must run with transaction_mode IMMEDIATE and journal_mode WAL.",
                hint="Use the DATABASES of agentq_site/settings.py.",
                id="agentq.E003",
            )
        )
    return found


@register(deploy=True)
def sqlite_version(**_kwargs: Any) -> list[CheckMessage]:
    """Said where an operator asks for advice, not at each command."""
    if not settings.ON_SQLITE or sqlite3.sqlite_version_info >= SQLITE_WITHOUT_WAL_RACE:
        return []
    return [
        Info(
            f"SQLite {sqlite3.sqlite_version} has a rare race that can damage a busy database.",
            hint="Take backups, or use SQLite 3.51.3 or later, or PostgreSQL.",
            id="agentq.I001",
        )
    ]


@register(Tags.database)
def triggers_stand(*, databases: Sequence[str] | None = None, **_kwargs: Any) -> list[CheckMessage]:
    """The append-only and state rules are enforced by the database (A1, S2)."""
    found: list[CheckMessage] = []
    for alias in databases or []:
        connection = connections[alias]
        if "jobs_job" in connection.introspection.table_names() and (names := triggers.missing(connection)):
            found.append(
                # A warning, since migrate itself runs this check before it can repair it; `triggers.require` refuses.
                checks.Warning(
                    f"The database lacks {len(names)} of AgentQ's triggers, for example {names[0]}.",
                    hint="Run `python manage.py migrate`: it installs them.",
                    id="agentq.W004",
                )
            )
    return found
