"""H3: the takeover person and whoever wants it are told, once, without payloads; a failure keeps nothing back."""

import hashlib
import hmac
import json
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread

import pytest
from django.core import mail
from django.utils import timezone

from jobs.core.states import Event
from jobs.models import Job, Notice, ReviewCase
from jobs.services import cases, notices
from tests.services import situations
from tests.services.test_two_people import decide, in_review, make

pytestmark = pytest.mark.django_db
MAIL = "django.core.mail.backends.locmem.EmailBackend"


@pytest.fixture(autouse=True)
def post_office(settings):
    settings.EMAIL_BACKEND = MAIL


@pytest.fixture
def tom(db):
    return make("tom", "reviewers", email="tom@example.test")


def handed_to(registered, name: str) -> ReviewCase:
    job = situations.new(registered, takeover_person=name)
    situations.act(job, Event.HOLD, reason="unknown")
    return ReviewCase.objects.get(job=job)


def test_the_takeover_person_is_told_once_and_told_nothing_of_the_payload(registered, tom):
    case = handed_to(registered, "tom")
    assert notices.run() == 1
    assert notices.run() == 0
    (message,) = mail.outbox
    assert message.to == ["tom@example.test"]
    assert f"J-{case.job_id}" in message.subject and "unknown" in message.body
    assert "notes.md" not in message.body and registered.name not in message.body


def test_an_escalation_and_a_second_person_are_told_to_whom_it_concerns(registered, tom):
    rita = make("rita", "reviewers", email="rita@example.test")
    notices.prefer(rita, mail_second_person=True)
    make("olga", "owners", email="olga@example.test")
    risky = in_review(registered)
    decide(risky, "user:ana")
    late = handed_to(registered, "tom")
    ReviewCase.objects.filter(pk=late.pk).update(due_at=timezone.now())
    cases.escalate_due()
    notices.run()
    told = {(notice.kind, notice.person) for notice in Notice.objects.filter(sent_at__isnull=False)}
    assert told == {("second_person", "user:rita"), ("escalated", "user:tom")}
    assert {message.to[0] for message in mail.outbox} == {"tom@example.test", "rita@example.test"}


def test_who_does_not_want_mail_gets_none(registered, tom):
    notices.prefer(tom, mail_mine=False)
    handed_to(registered, "tom")
    assert notices.run() == 0
    assert mail.outbox == []
    assert Notice.objects.get().trouble == "not_wanted"


def test_a_mail_server_that_is_down_costs_some_tries_and_no_job_anything(registered, tom, monkeypatch):
    def down(*_args, **_kwargs):
        raise ConnectionRefusedError

    case = handed_to(registered, "tom")
    monkeypatch.setattr(notices, "send_mail", down)
    now = timezone.now()
    for _round in range(8):
        assert notices.run(now) == 0
        now += timedelta(days=1)
    notice = Notice.objects.get()
    assert (notice.tries, notice.sent_at, notice.trouble) == (notices.MOST_TRIES, None, "ConnectionRefusedError")
    decide(case, "user:ana", Event.RESUME)
    assert Job.objects.get(pk=case.job_id).state == "queued"


class Receiver(BaseHTTPRequestHandler):
    seen: list = []
    status = 204

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.seen.append((dict(self.headers), body))
        self.send_response(self.status)
        self.end_headers()

    def log_message(self, *_args):
        """Silent."""


@pytest.fixture
def receiver(settings):
    Receiver.seen, Receiver.status = [], 204
    with HTTPServer(("127.0.0.1", 0), Receiver) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        settings.AGENTQ_WEBHOOK_URL = f"http://127.0.0.1:{server.server_port}/hook"
        settings.AGENTQ_WEBHOOK_SECRET = "shared between two"
        yield Receiver
        server.shutdown()


def test_the_webhook_gets_ids_and_counts_that_it_can_verify(registered, receiver):
    case = in_review(registered)
    assert notices.run() == 1
    ((headers, body),) = receiver.seen
    signed = headers["X-Agentq-Time"].encode() + b"." + body
    expected = hmac.new(b"shared between two", signed, hashlib.sha256).hexdigest()
    assert headers["X-Agentq-Signature"] == f"sha256={expected}"
    told = json.loads(body)
    assert (told["event"], told["review"], told["job"], told["open_reviews"]) == (
        "opened",
        case.pk,
        f"J-{case.job_id}",
        1,
    )
    assert set(told) == {
        "event", "instance", "review", "job", "risk", "reason", "due_at", "open_reviews", "address"
    }  # fmt: skip


def test_a_receiver_that_fails_or_points_elsewhere_is_tried_again_later(registered, receiver):
    in_review(registered)
    receiver.status = 500
    assert notices.run() == 0
    assert notices.run() == 0 and len(receiver.seen) == 1
    receiver.status = 302
    assert notices.run(timezone.now() + timedelta(minutes=2)) == 0
    receiver.status = 204
    assert notices.run(timezone.now() + timedelta(hours=1)) == 1
