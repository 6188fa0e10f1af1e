"""The names by which a cluster, its workers and their processes are known (L1)."""

import os
import socket
from functools import cache

from django.conf import settings
from django.db import connection

from jobs.core.keys import sha256_hex
from jobs.executors.processes import make_token, read_all_stats, read_stat


def cluster() -> str:
    """host:pid:start of the sentinel, which pusher and workers have for a parent; the same text in all of them."""
    return _cluster(os.getppid())


def worker() -> str:
    """This worker process; what a lease names as its owner."""
    return f"{cluster()}/{os.getpid()}"


@cache
def site() -> str:
    """Tells the processes of this installation from those of another one on the same host."""
    database = connection.settings_dict
    return sha256_hex(f"{settings.ARTIFACTS_DIR}|{database['ENGINE']}|{database['HOST']}|{database['NAME']}")[:12]


def token(job_id: int, fence: int) -> str:
    """Marks every process of one attempt, so that what is left of it can be found and killed."""
    return make_token(site(), job_id, fence)


@cache
def _cluster(pid: int) -> str:
    return f"{socket.gethostname()}:{pid}:{read_stat(pid).start}"


def parent_of(pid: int) -> int:
    return read_stat(pid).parent


def children_of(pid: int) -> list[int]:
    return [child for child, stat in read_all_stats().items() if stat.parent == pid]
