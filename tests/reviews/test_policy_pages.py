"""P1, P2, P3, M4, H3: what owners and judges see and do about policies, failures and samples."""

import re

import pytest
from django.contrib.auth.models import Group
from django.urls import reverse

from jobs.core.failures import FailureFacts
from jobs.models import FailureSample, Job, PolicyActivation, PolicyVersion
from jobs.policies.loading import BUILTIN_PATH, load
from jobs.services import policies, samples
from tests import factories
from tests.services import situations

TEXT = BUILTIN_PATH.read_text(encoding="utf-8")
TIGHT = TEXT.replace("attempts = 3\nseconds = 5400", "attempts = 1\nseconds = 5400")
GATEWAY = FailureFacts(program="sample", stage="modify", exit_code=1, http_status=503)
ODD = FailureFacts(program="sample", stage="modify", exit_code=77)
UNSAFE = '<img src=x onerror="alert(1)">'


@pytest.fixture(autouse=True)
def fresh_policies():
    policies.rules.cache_clear()


@pytest.fixture
def owner(li):
    li.groups.add(Group.objects.get_or_create(name="owners")[0])
    return li


@pytest.fixture
def failure(repository):
    def make(facts: FailureFacts = GATEWAY, **values):
        job = situations.new(repository)
        situations.claim(job)
        return factories.failure(situations.attempt(job), facts=facts, **values)

    return make


@pytest.fixture
def second(db):
    policies.active()
    return policies.publish(load(TIGHT, "t.toml"), author="user:ana", note="tighter", source=TIGHT)


def words(response) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", response.content.decode()))


def test_the_list_names_author_note_activation_and_what_was_decided(console, failure, second):
    failure()
    page = words(console.get(reverse("policies")))
    assert "v1 active" in page and "v2 never active" in page
    assert "tighter made from v1 ana" in page
    assert "1 1 decision" in page


def test_the_list_of_a_new_installation_writes_nothing(console):
    assert console.get(reverse("policies")).status_code == 200
    assert PolicyVersion.objects.count() == 0


def test_a_version_explains_each_of_its_rules(console, second):
    page = words(console.get(reverse("policy", args=[2])))
    for rule in load(TEXT, "t.toml").rules:
        assert rule.id in page


def test_a_comparison_shows_differences_matrix_cases_and_the_estimate(console, failure, second):
    record = failure()
    page = words(console.get(reverse("policy_compare", args=[1, 2])))
    assert "v1 to v2: 1 difference, 1 of 1 decision changes" in page
    assert "Budget writes_files: attempts 3 1 tighter" in page
    assert "1 tighter" in page and f"J-{record.job_id} attempt 1 temporary_unavailable" in page
    assert "Attempts -1 (−1, +0)" in page
    assert "Only an owner activates a version." in page


def test_an_owner_activates_with_a_reason(console, owner, second):
    address = reverse("policy_activation", args=[2])
    assert console.post(address, {"reason": ""}).status_code == 422
    assert console.post(address, {"reason": "after the incident"}).status_code == 302
    row = PolicyActivation.objects.latest("pk")
    assert (row.version.number, row.actor, row.reason) == (2, "user:li", "after the incident")
    again = console.post(address, {"reason": "once more"})
    assert (again.status_code, "active already" in again.content.decode()) == (409, True)


def test_a_refused_activation_says_what_its_cases_say_and_keeps_the_reason(console, owner, db):
    case = (
        '\n[[cases]]\nid = "c"\nprogram = "t"\nexit_code = 9\nexpected_class = "transient"\nexpected_action = "retry"\n'
    )
    policies.active()
    policies.publish(load(TEXT + case, "t.toml"), author="user:li", note="x", source=TEXT + case)
    response = console.post(reverse("policy_activation", args=[2]), {"reason": "in a hurry"})
    assert response.status_code == 409
    assert "Case c gives unknown, review" in words(response)
    assert "in a hurry" in response.content.decode()
    assert "You wrote this version yourself" in words(response)
    assert policies.active().number == 1


@pytest.mark.parametrize("name", ["policy_draft", "policy_activation"])
def test_who_is_no_owner_is_refused(console, second, name):
    address = reverse(name, args=[2] if name == "policy_activation" else [])
    assert console.post(address, {"reason": "because"}).status_code == 403
    assert policies.active().number == 1


def test_a_draft_with_a_mistake_keeps_the_text_and_names_the_line(console, owner, db):
    bad = TEXT.replace("base_seconds = 15", 'base_seconds = "soon"')
    line = next(number for number, text in enumerate(bad.splitlines(), 1) if "soon" in text)
    response = console.post(reverse("policy_draft"), {"source": bad, "note": "n", "do": "check"})
    assert response.status_code == 422
    assert f"line:{line}: backoff.base_seconds" in words(response)
    assert "soon" in response.content.decode()


def test_checking_a_draft_replays_it_and_stores_nothing(console, owner, failure):
    failure()
    response = console.post(
        reverse("policy_draft"), {"source": TIGHT.replace("\n", "\r\n"), "note": "n", "do": "check"}
    )
    assert response.status_code == 200
    assert "The document is valid" in words(response) and "1 tighter" in words(response)
    assert PolicyVersion.objects.count() == 1


def test_publishing_a_draft_stores_its_text_and_leads_to_the_comparison(console, owner, db):
    response = console.post(
        reverse("policy_draft"), {"source": TIGHT.replace("\n", "\r\n"), "note": "less often", "do": "publish"}
    )
    assert response.headers["Location"] == reverse("policy_compare", args=[1, 2])
    version = PolicyVersion.objects.get(number=2)
    assert (version.author, version.note, version.source) == ("user:li", "less often", TIGHT)
    assert policies.active().number == 1


def test_an_owner_learns_from_an_unknown_failure_all_the_way_to_the_next_version(console, owner, failure):
    record = failure(ODD)
    page = console.get(reverse("failures")).content.decode()
    address = f"{reverse('policy_draft')}?failure={record.pk}"
    assert address in page
    form = console.get(address).context["form"]
    text = form.initial["source"].replace('code = "new-', 'code = "odd-exit-')
    assert "exit_codes = [77]" in text
    console.post(reverse("policy_draft"), {"source": text, "note": form.initial["note"], "do": "publish"})
    console.post(reverse("policy_activation", args=[2]), {"reason": "the tool leaves with 77 when its cache is cold"})
    assert policies.active().number == 2
    compared = words(console.get(reverse("policy_compare", args=[1, 2])))
    assert "New: Rule new-" in compared


def test_failures_are_grouped_by_cause_with_one_link_to_their_jobs(console, failure):
    records = [failure(), failure(), failure(ODD)]
    situations.act(records[0].job, situations.Event.HOLD, worker=situations.WORKER)
    response = console.get(reverse("failures"))
    page = words(response)
    assert "temporary_unavailable" in page and "1 review" in page and "1 running" in page
    link = f"{reverse('jobs')}?fingerprint={records[0].fingerprint}"
    assert response.content.decode().count(link) == 1
    listed = console.get(link)
    assert {row.job.pk for row in listed.context["rows"]} == {record.job_id for record in records[:2]}
    assert console.get(reverse("failures") + "?class=transient").context["groups"][0].count == 2
    assert console.get(reverse("failures") + "?class=luck").status_code == 404


def test_a_sampled_failure_is_judged_once(console, li, failure):
    record = failure(ODD)
    samples.draw(samples.week_of(record.at))
    sample = FailureSample.objects.get()
    address = reverse("sample_judgement", args=[sample.pk])
    assert console.post(address, {"judgement": "maybe", "note": ""}).status_code == 422
    assert console.post(address, {"judgement": "new_rule", "note": UNSAFE}).status_code == 302
    sample.refresh_from_db()
    assert (sample.judgement, sample.judged_by) == ("new_rule", "user:li")
    assert console.post(address, {"judgement": "should_retry", "note": ""}).status_code == 409
    page = console.get(reverse("samples")).content.decode()
    assert UNSAFE not in page and "needs a new rule" in page


def test_the_job_page_tells_each_decision_with_rule_inputs_and_version(console, failure):
    record = failure()
    response = console.get(reverse("job", args=[record.job_id]))
    page = words(response)
    assert "rule 51-server-error" in page and "policy v1" in page
    assert "A single server error before anything was done outside." in page
    assert "HTTP status 503" in page and "attempts 1 of 3" in page
    assert "Context tokens" in page


def test_unknown_use_of_tokens_is_never_shown_as_nothing(console, failure):
    record = failure()
    assert Job.objects.get(pk=record.job_id).tokens_spent is None
    page = words(console.get(reverse("job", args=[record.job_id])))
    assert "Context tokens unknown" in page
