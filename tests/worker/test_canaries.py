"""Z1, Z5, F4, goal T17: twelve planted secrets go through real runs and turn up in no table, file of the database,
audit event or log line."""

import json
import logging
from collections.abc import Iterator
from io import StringIO
from pathlib import Path

import pytest
from django.db import connection

from agentq_site.logs import JsonFormatter
from jobs.core.states import State
from jobs.errors import SecretRefused
from jobs.models import Attempt, AuditEvent, Evidence, Job
from jobs.services import enqueue
from jobs.services.requests import Request
from tests import factories
from tests.secret_cases import whole
from tests.worker.engine import Engine, ended

pytestmark = [pytest.mark.engine, pytest.mark.xdist_group("engine")]
CANARIES = {
    "environment": whole("plain¦canaryfromtheenvironment"),
    "payload": whole("sk-ant-¦api03-Mm4e1mJBKnaUB5oHQaV6fH7zpjeKh46D4edjX99Bj"),
    "branch": whole("glpat-¦Zx81kQw7Lm20PqR5tYv9"),
    "stdout": whole("ghp_¦VTwJBlqY7aAWYDilRDZq¦byN5muNwNr0xveoC"),
    "exception": whole("Tr0ub4¦dor&3x!"),
    "url": whole("qV7CUbyM¦JcxDWo7h"),
    "header": whole("k3J9x¦Qw82LmPz71VtRb56Yn40Hs"),
    "cookie": whole("pb6sghwl¦2a85h3oyr2ibodfwltn9x6us"),
    "chinese": whole("Lx2A9Y¦#hlnSt"),
    "card": whole("4539 2723¦ 8740 1539"),
    "diff": whole("AKIA¦QONAPYL5JOZZCMYR"),
    "file name": whole("sk_live_¦092bZWNXfb3ddtIQ4gmFY1TI"),
}
PRINTED = {
    "environment": "started with {}",
    "stdout": "pushing with {}",
    "exception": "ConnectionError: login failed (password={})",
    "url": "could not connect: postgresql://billing:{}@db.internal:5432/billing",
    "header": "> Authorization: Bearer {}",
    "cookie": "> Cookie: theme=dark; sessionid={}",
    "chinese": "数据库密码是{}",
    "card": "refused card {}",
    "payload": "{{'x-api-key': '{}'}}",
}


@pytest.fixture
def logged() -> Iterator[StringIO]:
    """What this process logs, as the site would write it."""
    stream = StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonFormatter())
    logging.getLogger("jobs").addHandler(handler)
    try:
        yield stream
    finally:
        logging.getLogger("jobs").removeHandler(handler)


def leaky(room: Path) -> Path:
    """A repository whose programs print and write every canary; the values stand in a file outside it."""
    values = room / "canaries"
    values.mkdir()
    lines = "\n".join(text.format(CANARIES[name]) for name, text in PRINTED.items())
    (values / "printed.txt").write_text(lines + "\n")
    (values / "added.py").write_text(f'KEY = "{CANARIES["diff"]}"\n')
    (values / "name.txt").write_text(CANARIES["file name"])
    files = {
        "README.md": "A sample.\n",
        "fail.sh": f"cat {values}/printed.txt\ncat {values}/printed.txt >&2\nexit 3\n",
        "add.sh": f'cp {values}/added.py added.py\nread -r name < {values}/name.txt\ntouch "$name.txt" || true\n',
    }
    return factories.source(room / "leaky", files)


def readable(engine: Engine, more: str) -> list[str]:
    """The canaries that stand somewhere in the database, its files or the logs."""
    texts = [more, engine.logs()]
    with connection.cursor() as cursor:
        for table in connection.introspection.table_names(cursor):
            cursor.execute(f"SELECT * FROM {connection.ops.quote_name(table)}")
            texts += [repr(row) for row in cursor.fetchall()]
    for path in engine.room.glob("db.sqlite3*"):
        texts.append(path.read_bytes().decode("utf-8", errors="replace"))
    everything = "\n".join(texts)
    escaped = {name: json.dumps(value)[1:-1] for name, value in CANARIES.items()}
    return [name for name, value in CANARIES.items() if value in everything or escaped[name] in everything]


def test_no_planted_secret_is_stored_or_logged(engine: Engine, logged: StringIO) -> None:
    repository = factories.repository(
        leaky(engine.room),
        name="demo/leaky",
        commands={"fail": ["sh", "fail.sh"], "add": ["sh", "add.sh"]},
        checks=[{"name": "tests", "argv": ["sh", "fail.sh"], "kind": "tests"}],
    )
    for refused in (
        Request("demo/leaky", "main", "sample-agent", {"paths": ["a.md"], "text": f"use {CANARIES['payload']}"}),
        Request("demo/leaky", CANARIES["branch"], "sample-agent", {"paths": ["a.md"], "text": "x"}),
        Request("demo/leaky", "main", "sample-agent", {CANARIES["stdout"]: "x"}),
    ):
        with pytest.raises(SecretRefused) as caught:
            enqueue.enqueue(refused, actor="user:operator")
        logging.getLogger("jobs.canary").warning("refused: %s", caught.value, exc_info=caught.value)
    failing = engine.enqueue(Request("demo/leaky", "main", "run-command", {"command": "fail"}))
    engine.run_workers(1, CANARY=CANARIES["environment"], AGENTQ_CREDENTIALS="CANARY_KEY=env:CANARY")
    ended(failing, State.REVIEW, State.FAILED_TERMINAL)
    tail = Attempt.objects.get(job=failing, fence=1).error_tail
    assert tail.count("[redacted:") >= 8, tail
    assert "[redacted:injected]" in tail
    tested = ended(engine.job(repository), State.REVIEW, State.FAILED_TERMINAL)
    assert Evidence.objects.filter(job=tested, check_name="tests", verdict="fail").exists()
    assert logged.getvalue().count("refused: ") == 3
    assert readable(engine, logged.getvalue()) == []
    # The search itself sees what is there.
    Attempt.objects.filter(job=failing).update(error_tail=CANARIES["url"])
    assert readable(engine, CANARIES["card"]) == ["url", "card"]


def test_a_result_with_secrets_waits_for_a_person_and_its_evidence_names_only_kinds(engine: Engine) -> None:
    repository = factories.repository(
        leaky(engine.room), name="demo/adding", commands={"add": ["sh", "add.sh"]}, checks=[]
    )
    job = engine.enqueue(Request(repository.name, "main", "run-command", {"command": "add"}))
    engine.run_workers(1)
    ended(job, State.REVIEW)
    assert job.stop_reason == "secret_found"
    [check] = Evidence.objects.filter(job=job, check_name="secrets")
    assert (check.verdict, check.notes) == ("fail", ["secrets_found", "aws_key", "stripe_key"])
    listed = json.loads((job_output(job) / "secrets.json").read_text())["findings"]
    assert sorted((one["kind"], one["path"], one["line"]) for one in listed) == [
        ("aws_key", "added.py", 1),
        ("stripe_key", "[redacted:stripe_key].txt", 0),
    ]
    assert readable(engine, json.dumps(listed)) == []
    assert not AuditEvent.objects.filter(body__contains=CANARIES["diff"]).exists()


def job_output(job: Job) -> Path:
    from jobs.services import artifacts

    return artifacts.attempt_dir(job.pk, job.fence)
