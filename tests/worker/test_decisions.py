"""F1, B1, P1, S4, D3: what really becomes of failures, through the runner, with the decision on record each time."""

import json

import pytest

from jobs.core.states import State
from jobs.models import Attempt, AuditEvent, FailureRecord, Job
from jobs.policies.loading import BUILTIN_PATH, load
from jobs.services import control, policies
from jobs.services.requests import Request
from jobs.worker import runner
from tests import factories
from tests.worker.engine import Engine, assert_whole

TEXT = BUILTIN_PATH.read_text(encoding="utf-8")
AT_ONCE = "base_seconds = 15", "base_seconds = 0.001"
PASSING = "import unittest\n\n\nclass Ok(unittest.TestCase):\n    def test_ok(self):\n        pass\n"
NO_JITTER = "jitter_seconds = 10", "jitter_seconds = 0"


def publish(*changes: tuple[str, str]) -> int:
    """A version whose retries are due at once, with further changes, active."""
    text = TEXT
    for old, new in (AT_ONCE, NO_JITTER, *changes):
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    policies.active()
    version = policies.publish(load(text, "test.toml"), author="user:owner", note="test", source=text)
    policies.activate(version.number, actor="user:owner", reason="retries at once, for a test")
    return version.number


def run(job: Job) -> Job:
    runner.run(job.pk)
    job.refresh_from_db()
    return job


def events(job: Job) -> list[dict]:
    bodies = AuditEvent.objects.filter(stream=f"job:{job.pk}").order_by("seq").values_list("body", flat=True)
    return [json.loads(body) for body in bodies]


def records(job: Job) -> list[FailureRecord]:
    return list(FailureRecord.objects.filter(job=job).order_by("fence"))


@pytest.fixture
def demo(engine: Engine):
    return engine.repository()


def test_a_time_out_and_then_success_is_exactly_one_controlled_retry(engine: Engine, demo) -> None:
    number = publish()
    job = engine.job(demo, fail_http_status=504, fail_attempts=1)
    assert run(job).state == State.FAILED_RETRYABLE
    assert run(job).state == State.ACCEPTED
    assert list(Attempt.objects.filter(job=job).values_list("fence", "outcome")) == [(1, "retry"), (2, "accepted")]
    (record,) = records(job)
    assert (record.action, record.failure_class, record.rule) == ("retry_with_backoff", "transient", "51-server-error")
    assert (record.policy_number, record.inputs["attempts"], record.inputs["max_attempts"]) == (number, 1, 3)
    retry = next(event for event in events(job) if event["event"] == "retry")
    assert (retry["policy"], retry["facts"]["rules"][0]) == (number, "51-server-error")
    assert_whole(job)


def test_a_failure_that_the_executor_names_has_a_rule_a_fingerprint_and_its_wait(engine: Engine, demo) -> None:
    publish()
    job = engine.job(demo, fail_code="rate_limited", fail_http_status=429, fail_retry_after=600, fail_attempts=1)
    assert run(job).state == State.FAILED_RETRYABLE
    (record,) = records(job)
    assert (record.action, record.failure_class, record.code) == ("wait", "rate_limited", "rate_limited")
    assert record.rule.startswith("23-") and record.fingerprint
    assert record.delay_seconds >= 600
    assert job.charged == 0


def test_bad_input_is_an_immediate_stop(engine: Engine, demo) -> None:
    number = publish()
    payload = {"task": "Read.", "fail_at": "plan", "fail_code": "bad_input"}
    job = engine.enqueue(Request(demo.name, "main", "sample-report", payload))
    assert run(job).state == State.FAILED_TERMINAL
    (record,) = records(job)
    assert (record.action, record.failure_class, record.rule) == ("stop", "deterministic", "42-usage-error")
    assert (record.policy_number, Attempt.objects.filter(job=job).count()) == (number, 1)
    assert runner.run(job.pk) is None


def test_tests_that_keep_failing_go_to_a_person_without_an_unchanged_retry(engine: Engine) -> None:
    number = publish()
    tests = [{"name": "unit", "argv": ["python3", "-m", "unittest", "-q"], "kind": "tests", "seconds": 60}]
    factories.source(engine.room / "sources" / "demo-checked", {"tests/__init__.py": "", "tests/test_ok.py": PASSING})
    checked = engine.repository("demo/checked", checks=tests)
    job = engine.job(checked, fail_how="break_tests")
    assert run(job).state == State.REVIEW
    (record,) = records(job)
    assert (record.action, record.failure_class, record.code) == ("stop", "deterministic", "tests_failed")
    assert (record.rule, record.policy_number, record.stage) == ("code:tests_failed", number, "test")
    assert runner.run(job.pk) is None
    assert Attempt.objects.filter(job=job).count() == 1
    assert_whole(job)


def test_a_policy_edited_mid_job_leaves_earlier_decisions_under_the_old_version(engine: Engine, demo) -> None:
    old = publish()
    job = engine.job(demo, fail_http_status=504)
    assert run(job).state == State.FAILED_RETRYABLE
    new = publish(('id = "51-server-error"', 'id = "51-renamed"\nmax_retries = 1'), ('note = "', 'note = "2 '), CASE)
    assert run(job).state == State.REVIEW
    first, second = records(job)
    assert (first.policy_number, first.rule, first.action) == (old, "51-server-error", "retry_with_backoff")
    assert (second.policy_number, second.rule, second.action) == (new, "51-renamed", "human_check")
    assert second.reason == "retries_used"
    # The earlier decision can still be explained: the old version is whole, with the rule's own sentence.
    assert policies.rules(first.policy_number).rule_of(first.code).why
    assert [event["policy"] for event in events(job) if event["event"] in ("retry", "hold")] == [old, new]


CASE = (
    "[retry_ratio]",
    (
        '[[cases]]\nid = "gateway"\nprogram = "sample"\nhttp_status = 504\nexit_code = 1\n'
        'expected_class = "transient"\nexpected_action = "retry"\nexpected_rule = "51-renamed"\n\n[retry_ratio]'
    ),
)


def test_the_same_cause_three_times_in_a_row_pauses_and_asks_for_a_breaker(engine: Engine, demo) -> None:
    publish()
    jobs = [engine.job(demo, fail_http_status=504) for _ in range(3)]
    assert [run(job).state for job in jobs] == [State.FAILED_RETRYABLE, State.FAILED_RETRYABLE, State.PAUSED]
    last = records(jobs[2])[0]
    assert (last.action, last.reason, last.trip, last.inputs["same_cause"]) == (
        "pause", "same_root_cause", "root_cause", 3,
    )  # fmt: skip
    trip = next(event for event in events(jobs[2]) if event["event"] == "trip")
    assert (trip["reason"], trip["facts"]["fingerprint"]) == ("root_cause", last.fingerprint)
    assert control.recover(jobs[2].pk, actor="user:ana", condition="breaker") == State.QUEUED
    assert_whole(*jobs)


def test_a_success_in_between_ends_the_row(engine: Engine, demo) -> None:
    publish()
    first, second = (engine.job(demo, fail_http_status=504) for _ in range(2))
    run(first), run(second)
    assert run(engine.job(demo)).state == State.ACCEPTED
    third = engine.job(demo, fail_http_status=504)
    assert run(third).state == State.FAILED_RETRYABLE
    assert records(third)[0].inputs["same_cause"] == 1


def test_too_many_retries_among_the_starts_hold_a_new_one_back(engine: Engine, demo) -> None:
    ratio = ("share = 0.2\nminimum_starts = 10", "share = 0.2\nminimum_starts = 1")
    publish(ratio, ("same_cause = 3", "same_cause = 9"))
    job = engine.job(demo, fail_http_status=504)
    assert run(job).state == State.FAILED_RETRYABLE
    (record,) = records(job)
    assert (record.reason, record.delay_seconds) == ("retry_ratio", 300)
    assert (record.inputs["starts"], job.charged) == (1, 1)


def test_a_used_up_budget_stops_the_job_before_its_next_stage_and_says_so(engine: Engine, demo) -> None:
    publish()
    job = engine.job(demo)
    Job.objects.filter(pk=job.pk).update(max_tokens=0)
    assert run(job).state == State.REVIEW
    (record,) = records(job)
    assert (record.action, record.rule, record.trip) == ("open_circuit", "budget:tokens_used_up", "budget")
    assert (job.stop_reason, record.stage, record.failure_class) == ("tokens_used_up", "read", "")


def test_a_tool_that_is_not_allowed_stops_the_job_before_its_next_stage(engine: Engine, demo) -> None:
    publish(("attempts = 3\nseconds = 5400", 'attempts = 3\nseconds = 5400\ntools = ["read"]'))
    job = engine.job(demo)
    assert run(job).state == State.REVIEW
    (record,) = records(job)
    assert (record.rule, record.stage) == ("budget:tools", "test")
    assert record.inputs["tools_used"] == ["edit"]
    assert Attempt.objects.get(job=job).tool_types == ["edit"]
    assert job.snapshot  # what was done before is kept


def test_no_word_of_a_tool_is_in_the_record(engine: Engine, demo) -> None:
    publish()
    job = engine.job(demo, fail_how="exit", text="the-agents-own-words\n")
    assert run(job).state == State.REVIEW
    (record,) = records(job)
    assert record.failure_class == "unknown"
    assert "Told to fail" not in json.dumps([record.facts, record.inputs])
    assert len(record.facts_digest) == 64
