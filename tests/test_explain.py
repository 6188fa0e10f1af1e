"""Why a job does not run, in the order in which it clears, and who can act (M2, S2)."""

import inspect
import json
import re
from datetime import timedelta

import pytest
from django.utils import timezone

from jobs.core import claims
from jobs.core.states import Event, State
from jobs.errors import ClaimRefused
from jobs.explain import explain
from jobs.models import Batch, Job
from jobs.services import control, leases, nodes, transitions
from jobs.wording import BLOCKERS, reason_text
from tests import factories

pytestmark = pytest.mark.django_db


def alive() -> None:
    nodes.started(identity="h:1:1", host="h", pid=1, queue="agentq", workers=1, version="0")


def test_a_due_job_with_a_worker_alive_has_no_blocker(repository):
    alive()
    found = explain(factories.job(repository).pk)
    assert found.claimable
    assert found.blockers == []
    assert "attempt 1" in found.next_action


def test_a_job_that_nobody_is_there_to_claim_says_so(repository):
    found = explain(factories.job(repository).pk)
    assert found.claimable
    assert [(blocker.code, blocker.self_clearing) for blocker in found.blockers] == [("no_worker", False)]


def test_the_blockers_are_those_for_which_a_claim_is_refused_in_the_same_order(repository):
    alive()
    batch = factories.batch()
    job = factories.job(repository, batch=batch.name)
    later = timezone.now() + timedelta(minutes=5)
    Batch.objects.filter(pk=batch.pk).update(paused_at=timezone.now())
    Job.objects.filter(pk=job.pk).update(next_run_at=later)
    found = explain(job.pk)
    assert [blocker.code for blocker in found.blockers] == ["batch_paused", "not_due"]
    assert found.blockers[1].until == later
    assert not found.claimable
    assert found.who_can_act == "an operator"
    with pytest.raises(ClaimRefused) as refused:
        leases.claim(job.pk, worker="w-1")
    assert refused.value.code == found.blockers[0].code


def test_a_job_that_only_waits_for_its_time_needs_nobody_and_names_the_time(repository):
    alive()
    job = factories.job(repository)
    later = timezone.now() + timedelta(minutes=5)
    Job.objects.filter(pk=job.pk).update(next_run_at=later)
    found = explain(job.pk)
    assert found.next_at == later
    assert found.who_can_act == "nobody needs to act"


def test_a_job_in_review_names_the_reason_and_the_decisions(repository):
    job = factories.job(repository)
    transitions.transition(
        transitions.load(job.pk), Event.HOLD, actor="engine:test", at=timezone.now(), reason="deadline"
    )
    found = explain(job.pk)
    assert (found.state, found.reason, found.why) == (State.REVIEW, "deadline", "its deadline passed")
    assert "run from the start" in found.next_action
    assert not found.blockers[0].self_clearing


def test_a_held_job_names_its_worker_and_a_lapsed_lease_is_taken_over(repository):
    job = factories.job(repository)
    leases.claim(job.pk, worker="w-7")
    assert "w-7" in explain(job.pk).blockers[0].text
    leases.surrender(job.pk, worker="w-7", fence=1)
    assert "takes it over" in explain(job.pk).next_action


def test_a_finished_job_says_that_nothing_more_happens(repository):
    job = factories.job(repository)
    control.cancel(job.pk, actor="user:li", reason="not needed")
    found = explain(job.pk)
    assert found.blockers[0].code == "finished"
    assert found.as_dict()["state"] == "cancelled"
    json.dumps(found.as_dict())


def test_every_blocker_of_the_rules_has_words():
    codes = set(re.findall(r'Blocker\("([a-z_]+)"', inspect.getsource(claims)))
    codes |= {f"state_{state}" for state in ("running", "verifying", "review", "paused")}
    assert codes == set(BLOCKERS)


def test_a_reason_without_words_of_its_own_is_spelled_out():
    assert reason_text("some_new_code") == "some new code"


def test_two_reads_are_enough(repository, django_assert_num_queries):
    job = factories.job(repository)
    explain(job.pk)
    with django_assert_num_queries(2):
        explain(job.pk)


def test_a_job_that_does_not_exist_is_an_error(db):
    with pytest.raises(Job.DoesNotExist):
        explain(999)
