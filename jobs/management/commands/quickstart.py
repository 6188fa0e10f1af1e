"""A working console with workers and a dozen jobs of all outcomes, in one command, on made-up data."""

import os
import re
import secrets
import signal
import socket
import subprocess
import sys
import time
from argparse import ArgumentParser
from collections.abc import Iterator
from types import FrameType
from typing import Any

from django.conf import settings
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError
from django.db import connection

from jobs.core.states import State
from jobs.drills import demo
from jobs.errors import EnqueueRefused
from jobs.models import Job, PolicyVersion, Repository
from jobs.policies.loading import BUILTIN_PATH, load
from jobs.services import control, enqueue, policies, repositories
from jobs.services.requests import Request

# A lease of seconds instead of minutes, so that a first look shows a takeover too; see agentq.E001 for the sum.
DEMO_TIMES = {
    "AGENTQ_LEASE_SECONDS": "6",
    "AGENTQ_BEAT_SECONDS": "1",
    "AGENTQ_FENCE_SECONDS": "3",
    "AGENTQ_GRACE_SECONDS": "0.5",
    "AGENTQ_BUSY_SECONDS": "1",
    "AGENTQ_RESERVATION_SECONDS": "1.2",
    "AGENTQ_DRAIN_SECONDS": "3",
    "AGENTQ_LOG_LEVEL": "WARNING",
}
PEOPLE = ("viewer", "operator", "reviewer", "owner")
ONCE_SECONDS = 180
ACTOR = "command:quickstart"
MOVING = (State.QUEUED, State.RUNNING, State.VERIFYING, State.FAILED_RETRYABLE)


class Command(BaseCommand):
    help = "Sets up demo users, repositories and jobs, and runs the console and the workers until Ctrl-C."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--once", action="store_true", help="run until nothing moves, print a table, exit")
        parser.add_argument("--port", type=int, default=8000, help="the console's port (default: 8000)")

    def handle(self, *_args: Any, **options: Any) -> None:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, _stop)
        children: list[subprocess.Popen[bytes]] = []
        try:
            self._prepare()
            jobs = list(self._enqueue())
            children.append(_start([sys.executable, sys.argv[0], "run_workers"]))
            if options["once"]:
                self._run_once(jobs, children[0])
                return
            self._serve(options["port"], children)
        except (_Stopped, KeyboardInterrupt):
            self.stdout.write("Stopping …")
        finally:
            _end(children)

    def _prepare(self) -> None:
        call_command("migrate", verbosity=0, skip_checks=True)
        if connection.vendor == "sqlite":
            self.stdout.write(f"Data: {settings.DATA_DIR}")
        self._make_people()
        _use_demo_policy()
        for name, files, commands in (
            (demo.SERVICE, demo.SERVICE_FILES, {}),
            (demo.SHOP, demo.SHOP_FILES, demo.SHOP_COMMANDS),
        ):
            path = settings.DATA_DIR / "samples" / name.partition("/")[2]
            demo.make_repository(path, files)
            if not Repository.objects.filter(name=name).exists():
                repositories.register(name=name, location=str(path), actor=ACTOR, commands=commands, checks=demo.TESTS)

    def _make_people(self) -> None:
        users = get_user_model()
        if users.objects.filter(username__in=PEOPLE).exists():
            self.stdout.write(f"Sign in as {', '.join(PEOPLE)}; a lost password: manage.py changepassword NAME")
            return
        password = secrets.token_urlsafe(15)
        for name in PEOPLE:
            user = users.objects.create_user(name, password=password)
            user.groups.add(Group.objects.get(name=f"{name}s"))
        self.stdout.write(f"Sign in as {', '.join(PEOPLE)} with the password (shown once): {password}")

    def _enqueue(self) -> Iterator[tuple[int, demo.DemoJob]]:
        for job in demo.JOBS:
            try:
                answer = enqueue.enqueue(Request(job.repo, "main", job.action, job.payload), actor=ACTOR)
            except EnqueueRefused as refusal:
                raise CommandError(str(refusal)) from None
            if job.cancel and answer.created:
                control.cancel(answer.job_id, actor=ACTOR, reason="shows what cancelling does")
            yield answer.job_id, job

    def _run_once(self, jobs: list[tuple[int, demo.DemoJob]], workers: "subprocess.Popen[bytes]") -> None:
        limit = time.monotonic() + ONCE_SECONDS
        while Job.objects.filter(pk__in=[job_id for job_id, _ in jobs], state__in=MOVING).exists():
            if workers.poll() is not None:
                raise CommandError("The workers ended. Look at what they printed above.")
            if time.monotonic() > limit:
                break
            time.sleep(0.2)
        wrong = self._print_table(jobs)
        if wrong:
            raise CommandError(f"{wrong} of {len(jobs)} jobs did not end as expected.")
        self.stdout.write(self.style.SUCCESS(f"All {len(jobs)} jobs ended as expected."))

    def _print_table(self, jobs: list[tuple[int, demo.DemoJob]]) -> int:
        rows = Job.objects.in_bulk([job_id for job_id, _ in jobs])
        wrong = 0
        self.stdout.write(f"{'JOB':<6} {'STATE':<17} {'TRIES':<6} {'REASON':<22} WHAT IT SHOWS")
        for job_id, expected in jobs:
            row = rows[job_id]
            as_expected = row.state == expected.state
            wrong += not as_expected
            note = expected.why if as_expected else f"EXPECTED {expected.state}: {expected.why}"
            reason = row.pause_reason or row.stop_reason or "-"
            self.stdout.write(f"J-{job_id:<4} {row.state:<17} {row.fence:<6} {reason:<22} {note}")
        return wrong

    def _serve(self, port: int, children: "list[subprocess.Popen[bytes]]") -> None:
        port = _free_port(port)
        address = f"127.0.0.1:{port}"
        gunicorn = ["-m", "gunicorn", "agentq_site.wsgi", "--bind", address, "--threads", "4", "--log-level", "warning"]
        children.append(_start([sys.executable, *gunicorn]))
        _await_port(port, children)
        self.stdout.write(f"Console: http://{address}  (Ctrl-C stops it with all its processes)")
        self.stdout.flush()
        while all(child.poll() is None for child in children):
            time.sleep(0.3)
        raise CommandError("The console or the workers ended. Look at what they printed above.")


class _Stopped(Exception):
    """TERM or Ctrl-C."""


def _stop(_number: int, _frame: FrameType | None) -> None:
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)  # once is enough: the clean-up must not be interrupted
    raise _Stopped


def _use_demo_policy() -> None:
    """The built-in rules with a backoff of a second, as a version of its own that says so."""
    if PolicyVersion.objects.filter(note=_DEMO_NOTE).exists():
        return
    policies.active()
    text = BUILTIN_PATH.read_text(encoding="utf-8")
    for line, short in _DEMO_LINES.items():
        text = re.sub(line, short, text, count=1, flags=re.MULTILINE)
    version = policies.publish(load(text, "demo.toml"), author=ACTOR, note=_DEMO_NOTE, source=text)
    policies.activate(version.number, actor=ACTOR, reason="the quick start must not wait")


_DEMO_NOTE = "built-in rules with the quick start's short backoff"
_DEMO_LINES = {
    r"^version = .*$": 'version = "demo"',
    r"^base_seconds = .*$": "base_seconds = 1",
    r"^jitter_seconds = .*$": "jitter_seconds = 1",
}


def _start(argv: list[str]) -> "subprocess.Popen[bytes]":
    environment = {**os.environ, **{name: os.environ.get(name, value) for name, value in DEMO_TIMES.items()}}
    environment.setdefault("DJANGO_SETTINGS_MODULE", "agentq_site.settings")
    # Out of this process's group: Ctrl-C reaches this process alone, which then ends the others in order.
    return subprocess.Popen(argv, env=environment, cwd=settings.BASE_DIR, process_group=0)


def _end(children: "list[subprocess.Popen[bytes]]") -> None:
    for child in reversed(children):
        if child.poll() is None:
            child.terminate()
    for child in reversed(children):
        try:
            child.wait(25)
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, signal.SIGKILL)
            child.wait()


def _free_port(wanted: int) -> int:
    """The wanted port, or the next one that nobody listens on."""
    for port in range(wanted, min(wanted + 50, 65536)):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise CommandError(f"No free port from {wanted} on. Choose another one with --port.", returncode=2)


def _await_port(port: int, children: "list[subprocess.Popen[bytes]]") -> None:
    while all(child.poll() is None for child in children):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    raise CommandError("The console could not start. Look at what it printed above.")
