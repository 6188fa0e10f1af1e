"""One job's page: the sentence, blockers, timeline from audit rows, evidence, late results, diff, acts (U6, A2, L2)."""

import json
import re

import pytest
from django.db import connection
from django.utils import timezone

from jobs import triggers
from jobs.core.keys import sha256_hex
from jobs.core.states import Event, State
from jobs.models import Attempt, AuditEvent, Checkpoint, Evidence, Job
from jobs.services import artifacts, control, leases, transitions
from jobs.services.audit import Entry
from jobs.services.statement import Insert
from jobs.services.transitions import Change
from tests import factories

HOSTILE = '<a hx-get="/jobs/" hx-trigger="load">x</a>\u202egnp.\x1b[31m'


def text(response) -> str:
    return " ".join(re.sub(r"<[^>]+>", " ", response.content.decode()).split())


def address(job_id: int, rest: str = "") -> str:
    return f"/jobs/{job_id}/{rest}"


@pytest.fixture
def job(repository):
    return factories.job(repository, takeover_person="")


def held(job: Job, reason: str = "tests_failed", **attempt: object) -> None:
    """The job was claimed by w-1 and stopped for a person."""
    claimed = leases.claim(job.pk, worker="w-1")
    change = Change(attempt={"seconds": 2.5, "last_stage": "read", **attempt})
    transitions.transition(
        claimed.held, Event.HOLD, actor="worker:w-1", at=timezone.now(), reason=reason, change=change
    )


def evidence(job: Job, **values: object) -> Insert:
    row = {
        "job_id": job.pk,
        "fence": 1,
        "check_name": "tests",
        "argv": "pytest -q",
        "argv_digest": "",
        "exit_code": 1,
        "verdict": "fail",
        "base_verdict": "pass",
        "seconds": 1.2,
        "output_digest": "ab" * 32,
        "notes": [],
        "created_at": timezone.now(),
    }
    return Insert(Evidence, row | values)


def test_the_sentence_says_what_why_what_next_and_who(console, job):
    held(job)
    page = text(console.get(address(job.pk)))
    assert "The job stopped before the stage read and waits for a person." in page
    assert "Why: the tests failed." in page
    assert "A person decides:" in page
    assert "Who: a reviewer." in page
    assert "policy v1" in page


def test_a_waiting_job_lists_its_blockers_in_order(console, job):
    assert "No worker is alive" in text(console.get(address(job.pk)))


def test_the_timeline_is_made_of_audit_rows_alone(console, job):
    held(job)
    rows = text(console.get(address(job.pk)))
    assert "rebuilt from 3 audit events only" in rows
    assert "claimed by a worker, read" in rows
    assert "running → review" in rows
    # A row changed behind the door's back does not change the timeline, and the comparison names it.
    triggers.remove(connection)
    Job.objects.filter(pk=job.pk).update(priority=7)
    triggers.install(connection)
    assert "rebuilt from 3 audit events only" in text(console.get(address(job.pk)))
    checked = text(console.get(address(job.pk, "?check")))
    assert "The chain of 3 events is whole." in checked
    assert "priority: 0 → 7" in checked


def test_a_changed_event_is_named_by_the_check(console, job):
    triggers.remove(connection)
    AuditEvent.objects.filter(stream=f"job:{job.pk}").update(hash="0" * 64)
    triggers.install(connection)
    assert "The chain breaks at event 1" in text(console.get(address(job.pk, "?check")))


def test_an_untouched_job_equals_its_events(console, job):
    held(job)
    assert "The row equals what its events add up to." in text(console.get(address(job.pk, "?check")))


def test_an_attempt_shows_class_code_worker_fence_and_its_tail_inert(console, job):
    held(job, failure_class="unknown", failure_code="exit_7", exit_code=7, error_tail=HOSTILE)
    html = console.get(address(job.pk)).content.decode()
    page = text(console.get(address(job.pk)))
    assert "w-1, fence 1" in page
    assert "exit_7" in page and "exit code 7" in page
    tail = re.search(r"<details open id=\"tail-1\" hx-disable>.*?</details>", html, re.DOTALL)[0]
    assert "&lt;a hx-get=" in tail
    assert "U+202E" in tail and "U+001B" in tail
    assert "<a hx-get" not in html


def test_stage_bars_say_what_was_verified_and_where_it_ended(console, job):
    claimed = leases.claim(job.pk, worker="w-1")
    point = {
        "job_id": job.pk,
        "fence": 1,
        "stage": "read",
        "input_digest": sha256_hex("in"),
        "output_digest": sha256_hex("out"),
        "snapshot": "",
        "session": "",
        "seconds": 1.5,
        "created_at": timezone.now(),
    }
    entry = Entry("checkpoint", "worker:w-1", timezone.now(), facts={"stage": "read"})
    after = transitions.record(claimed.held, entry, job={"next_stage": "plan"}, also=[Insert(Checkpoint, point)])
    transitions.transition(after, Event.HOLD, actor="worker:w-1", at=timezone.now(), reason="unknown")
    html = console.get(address(job.pk)).content.decode()
    bars = re.search(r"<title>(read: .*?)</title>", html)[1]
    assert bars.startswith("read: 1.5 s, verified. plan: ended here. modify: not reached.")
    assert "stage verified, read" in text(console.get(address(job.pk)))


def test_evidence_is_shown_with_verdict_and_what_the_base_said(console, job):
    claimed = leases.claim(job.pk, worker="w-1")
    rows = [evidence(job), evidence(job, check_name="static", verdict="missing", exit_code=None, base_verdict="")]
    transitions.transition(
        claimed.held, Event.HOLD, actor="worker:w-1", at=timezone.now(), reason="tests_failed", change=Change(also=rows)
    )
    page = text(console.get(address(job.pk)))
    assert "pytest -q" in page
    assert "before the change: pass" in page
    assert "missing" in page
    assert "impossible until all checks have run" in page


def test_a_late_result_is_shown_as_kept_and_counting_for_nothing(console, job, settings, tmp_path):
    settings.ARTIFACTS_DIR = tmp_path / "artifacts"
    held(job)
    folder = artifacts.make_attempt_dir(job.pk, 1)
    (folder / "late-1.json").write_text(json.dumps({"stage": "modify", "note": HOSTILE}))
    (folder / "todo.md").write_text("- look at <b>this</b>\n")
    html = console.get(address(job.pk)).content.decode()
    assert "Late result late-1.json" in html
    assert "counts for nothing" in html
    assert "&lt;b&gt;this&lt;/b&gt;" in html
    assert "<a hx-get" not in html


def test_the_identity_shown_is_the_text_that_makes_the_key(console, job):
    html = console.get(address(job.pk)).content.decode()
    shown = re.search(r'aria-label="Canonical JSON" hx-disable>(.*?)</pre>', html, re.DOTALL)[1]
    assert sha256_hex(shown.replace("&quot;", '"')) == job.idempotency_key
    assert job.idempotency_key in html


def test_a_page_takes_at_most_fourteen_statements_however_much_happened(console, job, django_assert_max_num_queries):
    for number in range(1, 4):
        claimed = leases.claim(job.pk, worker=f"w-{number}")
        transitions.transition(
            claimed.held,
            Event.RELEASE,
            actor="worker:w",
            at=timezone.now(),
            change=Change(job={"next_run_at": job.created_at}),
        )
    with django_assert_max_num_queries(14):
        assert console.get(address(job.pk)).status_code == 200
    assert Attempt.objects.filter(job=job).count() == 3


@pytest.mark.parametrize("job_id", [999, 10**30])
def test_a_job_that_does_not_exist_is_a_404(console, job_id):
    assert console.get(address(job_id)).status_code == 404
    assert console.get(address(job_id, "diff/")).status_code == 404
    assert console.post(address(job_id, "cancellation/"), {"reason": "x"}).status_code == 404


def test_every_time_is_a_time_element_with_utc_in_its_title(console, job):
    held(job)
    html = console.get(address(job.pk)).content.decode()
    times = re.findall(r"<time[^>]*>", html)
    assert len(times) > 5
    assert all(
        re.search(r'title="[^"]+ UTC"', each) for each in times if "hidden" not in each and "data-as-of>" not in each
    )
    bare = re.sub(r"<time.*?</time>|<dd><code>.*?</code></dd>", "", html)
    assert not re.search(r">[^<]*\d\d:\d\d:\d\d[^<]*<", bare)


def test_a_job_is_cancelled_with_a_reason_that_the_timeline_shows(console, job):
    response = console.post(address(job.pk, "cancellation/"), {"reason": "wrong branch"}, follow=True)
    page = text(response)
    assert f"J-{job.pk} is cancelled." in page
    assert "Why: wrong branch." in page
    assert "by li" in page
    assert Job.objects.get(pk=job.pk).state == State.CANCELLED


def test_a_running_job_is_asked_to_stop(console, job):
    leases.claim(job.pk, worker="w-1")
    page = text(console.post(address(job.pk, "cancellation/"), {"reason": "no"}, follow=True))
    assert "is asked to stop" in page
    assert Job.objects.get(pk=job.pk).cancel_requested


def test_cancelling_without_a_reason_is_refused_at_the_field(console, job):
    response = console.post(address(job.pk, "cancellation/"), {"reason": " "})
    assert response.status_code == 422
    assert 'id="id_reason_error"' in response.content.decode()
    assert Job.objects.get(pk=job.pk).state == State.QUEUED


def test_an_act_on_a_job_that_ended_meanwhile_is_409_and_keeps_what_was_typed(console, job):
    control.cancel(job.pk, actor="user:ana", reason="first")
    response = console.post(address(job.pk, "cancellation/"), {"reason": "my long reason"})
    assert response.status_code == 409
    assert "Nothing was changed." in text(response)
    assert "my long reason" in text(response)


def test_an_ended_job_runs_again_with_a_reason_and_both_name_each_other(console, job):
    control.cancel(job.pk, actor="user:li", reason="no")
    response = console.post(address(job.pk, "again/"), {"reason": "after the fix"}, follow=True)
    new = Job.objects.exclude(pk=job.pk).get()
    assert response.redirect_chain == [(address(new.pk), 302)]
    assert f"J-{job.pk}" in text(response)
    assert f"J-{new.pk} queued" in text(console.get(address(job.pk)))
    twice = text(console.post(address(job.pk, "again/"), {"reason": "after the fix"}, follow=True))
    assert "Nothing new was made" in twice


def test_a_page_polls_and_gets_204_until_something_happens(console, job):
    html = console.get(address(job.pk)).content.decode()
    poll = re.search(r'data-poll hx-get="([^"]+)"', html)[1]
    assert console.get(poll, headers={"HX-Request": "true"}).status_code == 204
    leases.claim(job.pk, worker="w-1")
    sent = console.get(poll, headers={"HX-Request": "true"})
    assert "st-running" in sent.content.decode()
    assert 'id="acts"' not in sent.content.decode()  # what somebody types there stays
    control.cancel(job.pk, actor="user:li", reason="no")
    transitions.transition(transitions.load(job.pk), Event.CANCEL, actor="worker:w-1", at=timezone.now())
    assert 'id="acts"' in console.get(poll, headers={"HX-Request": "true"}).content.decode()
