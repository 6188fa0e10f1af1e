"""Which clock decides about leases: the server's on PostgreSQL, the host's boot clock on SQLite (L4).

The boot clock runs on while the machine sleeps and never jumps when somebody sets the time. A lease from an
earlier boot is over: nothing that held it is alive.
"""

import time
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

from django.db import connection
from django.utils import timezone

from jobs.services.statement import Sql


@cache
def boot_id() -> str:
    """Names the running boot of this host."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def boot_seconds() -> float:
    """Seconds since this host booted, sleep included."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def lease(seconds: float) -> dict[str, Any]:
    """Column values for a lease that ends `seconds` from now."""
    if connection.vendor == "postgresql":
        return {"lease_expires_at": Sql("clock_timestamp() + make_interval(secs => %s)", (seconds,))}
    return {
        "lease_expires_at": timezone.now() + timedelta(seconds=seconds),
        "lease_boot": boot_id(),
        "lease_until": boot_seconds() + seconds,
    }


def lapsed() -> Sql:
    """A condition over jobs_job: the lease is over."""
    if connection.vendor == "postgresql":
        return Sql("lease_expires_at <= clock_timestamp()")
    return Sql("(lease_boot <> %s OR lease_until <= %s)", (boot_id(), boot_seconds()))


def now() -> datetime:
    """The time by which due dates and deadlines are read: the server's on PostgreSQL, the host's on SQLite; UTC."""
    if connection.vendor != "postgresql":
        return timezone.now()
    with connection.cursor() as cursor:
        cursor.execute("SELECT clock_timestamp()")
        return aware(cursor.fetchone()[0])


def aware(value: datetime | None) -> Any:
    """A time as the database driver gives it, in UTC: SQLite's driver returns it without a zone."""
    if value is None:
        return None
    return value.astimezone(UTC) if value.tzinfo else value.replace(tzinfo=UTC)
