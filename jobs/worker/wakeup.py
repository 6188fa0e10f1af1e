"""How an idle pusher learns of new work: LISTEN on PostgreSQL, a short sleep on SQLite."""

import time
from typing import Any

from django.db import connection

CHANNEL = "agentq"
# Without a notice the table is looked at all the same: retries become due by time, and a notice can be missed.
SAFETY_SECONDS = 0.5


class WakeUp:
    """Made in the pusher, after the fork: a connection must not cross one."""

    def __init__(self) -> None:
        self._listener = _listen() if connection.vendor == "postgresql" else None

    def wait(self, poll_seconds: float) -> None:
        """Returns when somebody enqueued, or after the poll (SQLite) or half a second (PostgreSQL)."""
        if self._listener is None:
            time.sleep(poll_seconds)
            return
        for _notice in self._listener.notifies(timeout=SAFETY_SECONDS, stop_after=1):
            pass

    def close(self) -> None:
        if self._listener is not None:
            self._listener.close()


def _listen() -> Any:
    import psycopg

    parameters = connection.get_connection_params()
    wanted = {name: value for name, value in parameters.items() if name in _CONNECTING}
    listener = psycopg.connect(**wanted, autocommit=True)
    listener.execute(f"LISTEN {CHANNEL}")
    return listener


_CONNECTING = ("dbname", "user", "password", "host", "port", "sslmode", "sslrootcert", "service", "passfile")
