"""P2: a draft is replayed on past decisions; what it cannot know it says, and risky classes that loosen are named."""

import pytest

from jobs.core.failures import FailureFacts
from jobs.models import Attempt, FailureRecord
from jobs.policies.loading import BUILTIN_PATH, load, to_policy
from jobs.services import policies
from jobs.simulation import simulate
from tests import factories
from tests.services import situations
from tests.services.conftest import *  # noqa: F403  the same fixtures in this room

pytestmark = pytest.mark.django_db
TEXT = BUILTIN_PATH.read_text(encoding="utf-8")
GATEWAY = FailureFacts(program="sample", stage="modify", exit_code=1, http_status=503)
DISK = FailureFacts(program="sample", stage="modify", exit_code=1, codes=frozenset({"enospc"}))
ODD = FailureFacts(program="sample", stage="modify", exit_code=77)
TALKING = FailureFacts(program="sample", stage="modify", exit_code=78, text="the moon is full")


def draft(*changes: tuple[str, str], more: str = ""):
    text = TEXT
    for old, new in changes:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return to_policy(load(text + more, "draft.toml"))


def failure(repository, facts: FailureFacts, **values) -> FailureRecord:
    policies.rules.cache_clear()
    job = situations.new(repository)
    situations.claim(job)
    return factories.failure(situations.attempt(job), facts=facts, **values)


def test_the_same_policy_changes_nothing(registered):
    for facts in (GATEWAY, DISK, ODD, TALKING):
        failure(registered, facts)
    failure(registered, GATEWAY, code="tests_failed")
    result = simulate(policies.active().rules)
    assert (result.number, result.changed, result.undecided) == (5, [], [])
    assert (result.attempts, result.seconds, result.reviews, result.warnings) == (0, 0, 0, {})


def test_a_tighter_rule_saves_the_attempt_that_there_was_and_the_minutes_it_took(registered):
    record = failure(registered, GATEWAY)
    situations.act(record.job, situations.Event.RETRY, worker=situations.WORKER, next_run_at=record.at)
    situations.claim(record.job)
    Attempt.objects.filter(job=record.job, fence=2).update(seconds=90.0)
    rule = 'id = "51-server-error"\nclass = "transient"\ncode = "temporary_unavailable"\naction = '
    result = simulate(draft((rule + '"retry"', rule + '"review"')))
    (case,) = result.changed
    assert (case.old, case.new, case.effect) == ("retry_with_backoff", "human_check", "tighter")
    assert result.matrix == {("retry_with_backoff", "human_check"): 1}
    assert (result.attempts, result.seconds, result.reviews) == (-1, -90.0, 1)


def test_a_looser_rule_adds_an_attempt_and_warns_for_a_risky_class(registered):
    failure(registered, ODD, seconds=30.0)
    failure(registered, GATEWAY)
    more = (
        '\n[[signals]]\nname = "odd"\nexit_codes = [77]\n\n[[rules]]\nid = "odd"\nclass = "environment"\ncode = "odd"\n'
        'action = "retry"\nany = ["odd"]\nwhy = "w"\n'
    )
    result = simulate(draft(more=more))
    (case,) = result.changed
    assert (case.old, case.new, case.new_rule, case.effect) == ("human_check", "retry_with_backoff", "odd", "looser")
    assert (result.attempts, result.seconds, result.reviews) == (1, 30.0, -1)
    assert result.warnings == {"unknown": 1}


def test_what_hangs_on_text_that_was_not_stored_is_listed_and_not_guessed(registered):
    talking, silent = failure(registered, TALKING), failure(registered, ODD)
    more = (
        '\n[[signals]]\nname = "moon"\ntext = ["full moon"]\n\n[[rules]]\nid = "moon"\nclass = "environment"\n'
        'code = "moon"\naction = "stop"\nany = ["moon"]\nwhy = "w"\n'
    )
    result = simulate(draft(more=more))
    assert [case.record for case in result.undecided] == [talking]
    assert sum(result.matrix.values()) == 1
    assert silent.job_id not in {case.record.job_id for case in result.undecided}


def test_fewer_attempts_in_the_budget_stop_what_was_retried(registered):
    failure(registered, GATEWAY)
    result = simulate(draft(("attempts = 3\nseconds = 5400", "attempts = 1\nseconds = 5400")))
    (case,) = result.changed
    assert (case.old, case.new) == ("retry_with_backoff", "open_circuit")


def test_only_the_newest_are_replayed(registered):
    for _ in range(3):
        failure(registered, ODD)
    assert simulate(policies.active().rules, limit=2).number == 2
