"""M4, P3: each week some failures that were not retried are drawn, and a person judges each once."""

from datetime import UTC, date, datetime, timedelta

import pytest

from jobs.core.failures import FailureFacts
from jobs.errors import SampleRefused
from jobs.models import AuditEvent, FailureRecord, FailureSample
from jobs.services import samples
from tests import factories
from tests.services import situations

pytestmark = pytest.mark.django_db
MONDAY = date(2026, 11, 23)
IN_WEEK = datetime(2026, 11, 25, 12, tzinfo=UTC)
AFTER = datetime(2026, 11, 30, 0, 1, tzinfo=UTC)
UNKNOWN = FailureFacts(program="sample", stage="modify", exit_code=3)
NETWORK = FailureFacts(program="sample", stage="modify", exit_code=1, http_status=503)


def failure(repository, at: datetime = IN_WEEK, facts: FailureFacts = UNKNOWN, **values) -> FailureRecord:
    job = situations.new(repository)
    situations.claim(job)
    return factories.failure(situations.attempt(job), facts=facts, now=at, **values)


def test_a_week_begins_on_monday_in_utc():
    assert samples.week_of(IN_WEEK) == MONDAY
    assert samples.week_of(AFTER - timedelta(minutes=2)) == MONDAY


def test_what_was_not_retried_is_drawn_once_and_what_was_retried_is_not(registered):
    unknown = failure(registered)
    stopped = failure(registered, code="tests_failed")
    retried = failure(registered, facts=NETWORK)
    early, late = failure(registered, at=IN_WEEK - timedelta(days=7)), failure(registered, at=AFTER)
    assert retried.action == "retry_with_backoff"
    assert samples.draw_due(AFTER) == 2
    drawn = dict(FailureSample.objects.values_list("record", "kind"))
    assert drawn == {unknown.pk: "unknown", stopped.pk: "not_retried"}
    assert not {retried.pk, early.pk, late.pk} & set(drawn)
    assert samples.draw_due(AFTER) == 0
    assert samples.draw(MONDAY) == 0


def test_a_sample_is_small_and_the_same_whoever_draws_it(registered, monkeypatch):
    monkeypatch.setattr(samples, "SIZE", 3)
    for _ in range(7):
        failure(registered)
    assert samples.draw(MONDAY) == 3
    first = set(FailureSample.objects.values_list("record", flat=True))
    with_triggers_lifted(lambda: FailureSample.objects.all().delete())
    samples.draw(MONDAY)
    assert set(FailureSample.objects.values_list("record", flat=True)) == first


def with_triggers_lifted(act) -> None:
    from django.db import connection

    from jobs import triggers

    with triggers.lifted(connection):
        act()


def test_a_judgement_is_stored_with_its_author_and_audited(registered):
    record = failure(registered)
    samples.draw(MONDAY)
    sample = samples.judge(record.sample.pk, "should_retry", actor="user:ana", note=" a proxy was down ")
    assert (sample.judgement, sample.judged_by, sample.note) == ("should_retry", "user:ana", "a proxy was down")
    event = AuditEvent.objects.filter(stream="policy", event="sample_judged").latest("pk")
    assert (event.actor, f'"job":{record.job_id}' in event.body) == ("user:ana", True)


def test_a_failure_is_judged_once_and_in_known_words(registered):
    record = failure(registered)
    samples.draw(MONDAY)
    with pytest.raises(SampleRefused, match="Say one of"):
        samples.judge(record.sample.pk, "", actor="user:ana")
    samples.judge(record.sample.pk, "new_rule", actor="user:ana")
    with pytest.raises(SampleRefused, match="in the meantime"):
        samples.judge(record.sample.pk, "rightly_stopped", actor="user:bo")
    assert FailureSample.objects.get().judged_by == "user:ana"
