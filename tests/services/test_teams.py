"""B3: a team's budget of a service is reserved at the claim, and a full window is a condition that ends by itself."""

from datetime import UTC, datetime, timedelta

import pytest

from jobs.core.budgets import window_of
from jobs.core.policy import TeamBudget
from jobs.core.states import State
from jobs.errors import ClaimRefused
from jobs.models import Attempt, Job
from jobs.policies.loading import BUILTIN_PATH, load
from jobs.services import candidates, policies, teams
from tests.services import situations

pytestmark = pytest.mark.django_db
SERVICE = "model-api"
HOUR = 3600
BUDGET = TeamBudget(SERVICE, HOUR, attempts=2)


@pytest.fixture
def limited(registered, monkeypatch):
    """A repository whose jobs call the service, under a policy that gives the team two attempts an hour."""
    text = BUILTIN_PATH.read_text(encoding="utf-8")
    text += f'\n[[team_budgets]]\nservice = "{SERVICE}"\nwindow_seconds = {HOUR}\nattempts = 2\n'
    policies.active()
    version = policies.publish(load(text, "t.toml"), author="user:owner", note="a team budget")
    policies.activate(version.number, actor="user:owner", reason="a team budget")
    policies.rules.cache_clear()
    named = candidates.definition

    def definition(workflow_id: int):
        return named(workflow_id).model_copy(update={"service": SERVICE})

    monkeypatch.setattr(candidates, "definition", definition)
    return registered


def end(job: Job, tokens: int | None) -> None:
    situations.act(job, situations.Event.STOP, worker=situations.WORKER)
    Attempt.objects.filter(job=job).update(tokens=tokens)


def test_running_attempts_count_as_used_and_the_next_claim_waits_for_the_window(limited):
    jobs = [situations.new(limited) for _ in range(3)]
    for job in jobs[:2]:
        situations.claim(job)
    with pytest.raises(ClaimRefused, match="team_budget"):
        situations.claim(jobs[2])
    waiting = Job.objects.get(pk=jobs[2].pk)
    assert waiting.state == State.QUEUED
    assert (waiting.charged, waiting.fence) == (0, 0)
    assert waiting.next_run_at == window_of(datetime.now(UTC), HOUR)[1]
    event = situations.newest_event(waiting)
    assert (event.event, '"full":"attempts"' in event.body) == ("waits_for_window", True)


def test_the_window_s_end_lets_it_start(limited):
    jobs = [situations.new(limited) for _ in range(3)]
    for job in jobs[:2]:
        situations.claim(job)
        end(job, tokens=10)
    with pytest.raises(ClaimRefused):
        situations.claim(jobs[2])
    after = window_of(datetime.now(UTC), HOUR)[1] + timedelta(seconds=1)
    assert situations.claim(jobs[2], at=after).held.state == State.RUNNING


def test_tokens_are_reserved_by_what_the_last_attempts_needed(limited):
    budget = TeamBudget(SERVICE, HOUR, tokens=1000)
    now = datetime.now(UTC)
    first, second = situations.new(limited), situations.new(limited)
    situations.claim(first)
    end(first, tokens=600)
    assert teams.share(budget, now).tokens == 600
    assert teams.share(budget, now).room.full == "tokens"
    situations.claim(second)
    Attempt.objects.filter(job=second).update(reserved_tokens=300)
    assert teams.use(budget, now).reserved_tokens == 300


def test_an_ended_attempt_that_cannot_say_what_it_used_counts_as_its_reservation(limited):
    job = situations.new(limited)
    situations.claim(job)
    Attempt.objects.filter(job=job).update(reserved_tokens=700)
    end(job, tokens=None)
    assert teams.use(TeamBudget(SERVICE, HOUR, tokens=1000), datetime.now(UTC)).tokens == 700


def test_a_workflow_without_a_service_is_not_counted(limited, monkeypatch):
    monkeypatch.undo()
    job = situations.new(limited)
    assert situations.claim(job).held.state == State.RUNNING
    assert teams.use(BUDGET, datetime.now(UTC)).reserved_attempts == 0
