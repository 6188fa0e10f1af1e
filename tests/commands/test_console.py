"""What every command shares: errors as one sentence, never a traceback; outside text that a terminal cannot obey."""

import json
import sqlite3

import pytest
from django.core.management.base import OutputWrapper
from django.db import DataError, OperationalError, ProgrammingError

from jobs import errors
from jobs.management import console
from jobs.management.progress import WIDTH, Progress, bar
from jobs.services.repositories import NameTaken, RegistrationRefused
from tests.commands.conftest import ended, manage

ENQUEUE = ["enqueue_job", "--repo=demo/one", "--branch=main", "--action=sample-agent"]


@pytest.mark.parametrize(
    ("error", "code", "names"),
    [
        (errors.EnqueueRefused("Say x."), 2, "Say x."),
        (errors.PayloadRefused(), 2, "payload"),
        (errors.WorkflowConflict(), 1, "workflow version"),
        (errors.BranchUnknown("gone"), 2, "gone"),
        (errors.DiskFull(), 2, "Free some space"),
        (errors.IllegalTransition(), 1, "Reload"),
        (RegistrationRefused(), 2, "not registered"),
        (NameTaken(), 1, "already"),
        (FileNotFoundError(2, "No such file", "a\nb"), 2, "a\\nb: No such file"),
        (OSError(28, "No space left on device"), 2, "Free some space"),
        (UnicodeEncodeError("utf-8", "\ud800", 0, 1, "surrogates not allowed"), 2, "UTF-8"),
        (OperationalError("database is locked"), 2, "Try again"),
        (OperationalError("database or disk is full"), 2, "Free some space"),
        (OperationalError("no such table: jobs_job"), 2, "migrate"),
        (ProgrammingError('relation "jobs_job" does not exist\nLINE 1: SELECT'), 2, "migrate"),
        (OperationalError("connection refused\nIs the server running?"), 2, "DATABASE_URL"),
        (DataError("value too long"), 2, "value too long"),
    ],
)
def test_a_failure_is_one_sentence_with_its_exit_code(error, code, names):
    found = console.explained(error)
    assert found.returncode == code and names in str(found) and str(found).isprintable()


@pytest.mark.parametrize("text", ["\x1b[2J", "a\rb", "\x9b31m", "\u202eevil", "half \ud800", "\x7f", "tab\t"])
def test_outside_text_cannot_steer_a_terminal_and_json_still_says_the_same(text):
    assert console.plain(text).isprintable()
    assert console.json_line({"a": text}).isprintable()
    assert json.loads(console.json_line({"a": text})) == {"a": text}


def test_readable_text_stays_as_it_is():
    assert console.plain("größe 代码 😀") == "größe 代码 😀"
    assert console.json_line("größe 😀") == '"größe 😀"'
    assert json.loads(console.json_line("größe 😀", encoding="iso-8859-1")) == "größe 😀"
    assert console.json_line("größe 😀", encoding="iso-8859-1").isascii()


class Terminal:
    def __init__(self, watched):
        self.watched, self.written = watched, []

    def isatty(self):
        return self.watched

    def write(self, text):
        self.written.append(text)

    def flush(self):
        pass


def test_the_bar_is_drawn_on_a_terminal_only_and_leaves_it_clean():
    watched, piped = Terminal(True), Terminal(False)
    for terminal in (watched, piped):
        with Progress(OutputWrapper(terminal), "Reading", 10) as progress:
            progress.show(5, "line 5")
    assert piped.written == []
    assert f"Reading [{'#' * (WIDTH // 2)}" in watched.written[0] and watched.written[-1] == "\r\x1b[2K"


def test_the_bar_never_runs_over_its_end():
    assert bar("x", 20, 10) == f"x [{'#' * WIDTH}] 100%"
    assert bar("x", 7, None) == "x 7"


@pytest.mark.parametrize(
    "argv",
    [
        ENQUEUE,
        ["register_repo", "name", "."],
        ["job_history", "1"],
        ["why_not_running", "1"],
        ["verify_audit"],
        ["reconcile"],
    ],
)
def test_a_database_that_was_never_migrated_is_said_with_the_command_to_run(tmp_path, argv):
    from tests import factories

    factories.git(tmp_path, "init", "--quiet", "--initial-branch=main")
    factories.git(tmp_path, "commit", "--quiet", "--allow-empty", "-m", "first")
    said = ended(manage(*argv, data=tmp_path))
    assert (said.code, said.stdout) == (2, "")
    assert said.stderr.startswith("Error: ") and said.stderr.count("\n") == 1 and "manage.py migrate" in said.stderr


def test_a_locked_database_is_said_and_nothing_is_stored(installation):
    held = sqlite3.connect(installation / "db.sqlite3", isolation_level=None)
    try:
        held.execute("BEGIN IMMEDIATE")
        payload = '--payload={"paths": ["a"], "text": "locked"}'
        said = ended(manage(*ENQUEUE, payload, data=installation, AGENTQ_BUSY_SECONDS="0.2"))
        assert held.execute("SELECT count(*) FROM jobs_job WHERE payload LIKE '%locked%'").fetchone() == (0,)
    finally:
        held.close()
    assert (said.code, said.stdout) == (2, "")
    assert said.stderr == "Error: The database is busy: another process holds its lock. Try again in a moment.\n"


def test_a_server_that_does_not_answer_is_said(tmp_path):
    said = ended(manage("verify_audit", data=tmp_path, database="postgres://nobody:secret@127.0.0.1:1/none"))
    assert said.code == 2 and "DATABASE_URL" in said.stderr
    assert "Traceback" not in said.stderr and "secret" not in said.stderr


def test_an_argument_that_is_no_text_is_said(installation):
    said = ended(manage("register_repo", b"bad\xff".decode(errors="surrogateescape"), ".", data=installation))
    assert said.code == 2 and said.stderr.startswith("Error: ") and "Traceback" not in said.stderr


def test_missing_words_are_bad_usage(installation):
    for argv in (["job_history"], ["job_history", "many"], ["register_repo", "x"], ["enqueue_job", "--priority=x"]):
        assert ended(manage(*argv, data=installation)).code == 2


def test_lines_from_standard_input_are_enqueued(installation):
    line = b'{"payload": {"paths": ["a"], "text": "from stdin"}}\n'
    said = ended(manage(*ENQUEUE, "--jsonl=-", data=installation), line)
    assert (said.code, said.stderr, len(said.lines)) == (0, "", 1)
