"""E3: how many jobs of a repository run at once, and how an owner raises that and its autonomy, step by step."""

from dataclasses import replace

import pytest

from jobs.errors import ClaimRefused, StaleJob
from jobs.explain import explain
from jobs.models import AuditEvent, Job, Repository
from jobs.services import leases, repositories
from jobs.services.repositories import LimitsRefused
from tests import factories
from tests.services import situations

pytestmark = pytest.mark.django_db


@pytest.fixture
def narrow(registered):
    Repository.objects.filter(pk=registered.pk).update(concurrency=2)
    registered.refresh_from_db()
    return registered


def change(repository, **values):
    wanted = {"autonomy": repository.autonomy, "concurrency": repository.concurrency, "restricted": False}
    return repositories.set_limits(repository.pk, **{**wanted, **values}, reason="it went well", actor="user:olga")


def test_no_more_jobs_of_a_repository_run_than_it_may_and_the_next_starts_when_one_ends(narrow):
    first, second, third = (situations.new(narrow) for _ in range(3))
    situations.claim(first)
    situations.claim(second)
    with pytest.raises(ClaimRefused) as refusal:
        situations.claim(third)
    assert refusal.value.code == "repository_full"
    assert explain(third.pk).blockers[0].code == "repository_full"
    situations.act(first, situations.Event.RELEASE)
    situations.claim(third)


def test_a_full_repository_does_not_stand_before_another_ones_jobs(narrow, tmp_path):
    for _ in range(2):
        situations.claim(situations.new(narrow))
    waiting = situations.new(narrow, priority=50)
    other = situations.new(factories.repository(tmp_path / "other"))
    reserved = leases.reserve("cluster", "agentq")
    assert reserved is not None and reserved.job_id == other.pk
    assert leases.reserve("cluster", "agentq") is None
    assert Job.objects.get(pk=waiting.pk).reserved_by == ""


def test_the_write_itself_asks_again(narrow, monkeypatch):
    jobs = [situations.new(narrow) for _ in range(3)]
    look = leases.facts
    monkeypatch.setattr(leases, "facts", lambda job: replace(look(job), repository_full=False))
    situations.claim(jobs[0])
    situations.claim(jobs[1])
    with pytest.raises(StaleJob):
        situations.claim(jobs[2])


def test_more_freedom_comes_step_by_step_and_is_audited(narrow):
    with pytest.raises(LimitsRefused, match="twice"):
        change(narrow, concurrency=5)
    Repository.objects.filter(pk=narrow.pk).update(autonomy="prepare")
    narrow.refresh_from_db()
    with pytest.raises(LimitsRefused, match="One level"):
        change(narrow, autonomy="effects")
    changed = change(narrow, autonomy="branch", concurrency=4)
    assert (changed.autonomy, changed.concurrency) == ("branch", 4)
    event = AuditEvent.objects.filter(stream=f"repository:{narrow.pk}").latest("seq")
    assert (event.event, event.actor) == ("limits", "user:olga")
    assert '"concurrency_before":2' in event.body and "it went well" in event.body
    assert change(changed, autonomy="prepare", concurrency=1).concurrency == 1


def test_limits_stay_without_a_reason_or_a_difference(narrow):
    with pytest.raises(LimitsRefused):
        change(narrow)
    with pytest.raises(LimitsRefused):
        repositories.set_limits(
            narrow.pk, autonomy="branch", concurrency=3, restricted=False, reason=" ", actor="user:olga"
        )
