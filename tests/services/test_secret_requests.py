"""K5: a request that holds a secret is refused with field and kind, and the value is stored and said nowhere."""

import pytest
from django.db import connection

from jobs.errors import EnqueueRefused, SecretRefused
from jobs.models import AuditEvent, Batch, Job
from jobs.services import enqueue
from jobs.services.enqueue import Request
from tests.secret_cases import whole

pytestmark = pytest.mark.django_db
TOKEN = whole("ghp_¦VTwJBlqY7aAWYDilRDZq¦byN5muNwNr0xveoC")


def refused(repository, **values) -> SecretRefused:
    usual = {"repo": repository.name, "branch": "main", "action": "sample-agent"}
    payload = {"paths": ["notes.md"], "text": "hello", **values.pop("payload", {})}
    with connection.execute_wrapper(_no_token), pytest.raises(SecretRefused) as caught:
        enqueue.enqueue(Request(**{**usual, **values}, payload=payload), actor="user:ana")
    assert not Job.objects.exists()
    assert not Batch.objects.exists()
    assert not AuditEvent.objects.filter(body__contains=TOKEN).exists()
    return caught.value


def _no_token(execute, sql, params, many, context):
    assert TOKEN not in repr((sql, params))
    return execute(sql, params, many, context)


@pytest.mark.parametrize("name", ["repo", "branch", "action", "workflow_version", "batch", "takeover_person"])
def test_a_secret_beside_the_payload_is_refused_before_any_database_sees_it(repository, name):
    refusal = refused(repository, **{name: f"x-{TOKEN}"})
    assert (refusal.field, refusal.kind) == (name, "github_token")
    assert TOKEN not in str(refusal)


@pytest.mark.parametrize(
    ("payload", "field", "kind"),
    [
        ({"text": f"use {TOKEN}"}, "text", "github_token"),
        ({"paths": ["a.md", TOKEN]}, "paths", "github_token"),
        ({"task": whole("登录密码：Lx2A9¦Y#hlnSt")}, "task", "password"),
        ({"task": "customer pays with 4539 2723 8740 1539"}, "task", "card_number"),
        ({"task": "验证码是 482913"}, "task", "verification_code"),
        ({"task": whole("Cookie: sessionid=pb6sghwl2a85¦h3oyr2ibodfwltn9x6us")}, "task", "cookie"),
        ({"password": whole("Lx2A9¦Y#hlnSt")}, "password", "password"),
        ({TOKEN: "x"}, "", "github_token"),
    ],
)
def test_a_secret_in_the_payload_is_refused_with_its_field_and_kind(repository, payload, field, kind):
    refusal = refused(repository, payload=payload)
    assert refusal.kind == kind
    assert field == "" or refusal.field == field
    for value in payload.values():
        assert str(value) not in str(refusal) or value == "x"
    assert TOKEN not in str(refusal)


def test_a_refusal_that_rests_on_words_says_how_to_go_on(repository):
    unsure = refused(repository, payload={"task": whole("the password is Lx2A9¦Y#hlnSt, log in")})
    assert "in other words" in str(unsure)
    sure = refused(repository, payload={"task": TOKEN})
    assert "by reference" in str(sure)


def test_one_refused_request_does_not_stop_the_others(repository):
    def request(text):
        return Request(repository.name, "main", "sample-agent", {"paths": ["notes.md"], "text": text})

    answers = list(enqueue.enqueue_many([request(TOKEN), request("fine")], actor="user:ana"))
    assert isinstance(answers[0], EnqueueRefused)
    assert isinstance(answers[1], enqueue.Enqueued)
