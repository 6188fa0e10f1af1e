"""`reviews list|show|decide`: the same rules as in the console, and never the second of two decisions (H1, H2, A1)."""

import json

import pytest

from jobs.core.states import Event
from jobs.models import AuditEvent, Job, ReviewDecision
from tests.services.test_two_people import decide, in_review, make

pytestmark = pytest.mark.django_db
REASON = "--reason=the tests cover it"


def words(case, decision="approve", who="rita", **more):
    version = more.pop("version", case.job_version)
    return ["reviews", "decide", str(case.pk), decision, REASON, f"--as={who}", f"--job-version={version}"]


@pytest.fixture
def people(db):
    make("rita", "reviewers")
    make("vera", "viewers")


def test_the_list_has_the_riskiest_first_and_show_has_all_that_a_decision_is_bound_to(call, repository):
    plain, risky = in_review(repository, hits=()), in_review(repository)
    listed = call("reviews", "list", "--json").lines
    assert [each["case"] for each in listed] == [risky.pk, plain.pk]
    (shown,) = call("reviews", "show", str(risky.pk), "--json").lines
    assert (shown["job_version"], shown["required"], shown["decisions"]) == (risky.job_version, 2, [])
    assert f"J-{plain.job_id}" in call("reviews", "list").stdout


def test_a_reviewer_decides_by_command_with_the_same_audit(call, repository, people):
    case = in_review(repository, hits=())
    said = json.loads(call(*words(case), "--json").stdout)
    assert (said["state"], said["first_of_two"]) == ("queued", False)
    assert ReviewDecision.objects.get(case=case).actor == "user:rita"
    event = AuditEvent.objects.get(stream=f"job:{case.job_id}", event="approve")
    assert event.actor == "user:rita" and "the tests cover it" in event.body and '"policy":1' in event.body


def test_a_command_gives_the_first_but_not_the_second_approval(call, refusal, repository, people):
    case = in_review(repository)
    assert "first of two" in call(*words(case)).stdout
    make("sol", "reviewers")
    said = refusal(*words(case, who="sol"))
    assert said.code == 1 and "console" in said.stderr
    assert Job.objects.get(pk=case.job_id).state == "review"
    decide(case, "user:sol", Event.APPROVE)
    assert Job.objects.get(pk=case.job_id).state == "queued"


def test_who_may_not_or_looks_at_an_old_version_is_refused_on_record(refusal, repository, people):
    case = in_review(repository, hits=())
    assert "takes the role reviewer" in refusal(*words(case, who="vera")).stderr
    assert "moved on" in refusal(*words(case, version=1)).stderr
    assert refusal(*words(case, who="nobody")).code == 2
    events = AuditEvent.objects.filter(stream="auth").values_list("event", "actor")
    assert set(events) == {("refused", "user:vera"), ("decision_refused", "user:rita")}
    assert Job.objects.get(pk=case.job_id).state == "review"
