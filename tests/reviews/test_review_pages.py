"""H1, H2, U2: the queue, one review, and what a person does there; what is refused says why and loses no text."""

import re
from datetime import timedelta

import pytest
from django.db import connection
from django.urls import reverse

from jobs import triggers
from jobs.core.states import Event
from jobs.models import Attempt, AuditEvent, FollowUp, Job, Repository, ReviewCase, ReviewDecision, ViewedFile
from jobs.services import artifacts, cases, clock, policies
from tests import factories
from tests.reviews.conftest import person
from tests.services import situations
from tests.services.test_reviews import in_workflow
from tests.services.test_two_people import in_review

REASON = "the tests cover it"


@pytest.fixture
def case(repository):
    return in_review(repository, hits=())


@pytest.fixture
def risky(repository):
    return in_review(repository)


def text(response) -> str:
    return re.sub(r"\s+", " ", response.content.decode())


def post(console, case, choice="approve", **values):
    case.refresh_from_db()
    typed = {
        "choice": choice,
        "reason": REASON,
        "job_version": case.job_version,
        "result_digest": case.result_digest,
        "policy": policies.active().number,
    }
    return console.post(reverse("review_decision", args=[case.pk]), {**typed, **values})


def state(case) -> str:
    return Job.objects.get(pk=case.job_id).state


# --- The queue ----------------------------------------------------------------------------------------------------


def test_the_queue_is_sorted_by_risk_then_by_target(console, repository):
    plain, high = in_review(repository, hits=()), in_review(repository)
    low = in_review(repository, hits=(), reason="attempts_used_up")
    older = in_review(repository, hits=())
    ReviewCase.objects.filter(pk=older.pk).update(due_at=clock.now())
    shown = re.findall(r'id="case-(\d+)"', text(console.get(reverse("reviews"))))
    assert [int(pk) for pk in shown] == [high.pk, older.pk, plain.pk, low.pk]


def test_each_tab_shows_its_cases_and_how_many(console, repository):
    mine, taken, snoozed, second = (in_review(repository) for _ in range(4))
    cases.claim(mine.pk, actor="user:li")
    cases.claim(taken.pk, actor="user:ana")
    cases.snooze(snoozed.pk, until=clock.now() + timedelta(days=1), actor="user:ana", reason="")
    ReviewDecision.objects.create(
        case=second, job=second.job, decision="approve", actor="user:ana", reason="x", job_version=second.job_version,
        policy_number=1, requested_by="user:operator", risk="high", closing=False, created_at=clock.now(),
    )  # fmt: skip
    expected = {
        "all": {mine, taken, second}, "mine": {mine}, "unclaimed": {second}, "second": {second}, "snoozed": {snoozed},
    }  # fmt: skip
    for tab, found in expected.items():
        page = text(console.get(f"{reverse('reviews')}?tab={tab}"))
        assert {int(pk) for pk in re.findall(r'id="case-(\d+)"', page)} == {each.pk for each in found}, tab


def test_an_empty_queue_says_so_and_the_navigation_counts(console, db):
    assert "Nothing waits" in text(console.get(reverse("reviews")))


def test_many_are_snoozed_after_a_preview_with_a_result_for_each(console, repository):
    free, taken = in_review(repository), in_review(repository)
    cases.claim(taken.pk, actor="user:ana")
    given = {"do": "snooze", "hours": "4", "case": [free.pk, taken.pk]}
    preview = text(console.post(reverse("reviews"), given))
    assert "Nothing is changed yet" in preview and "ana is on it" in preview
    assert not ReviewCase.objects.filter(snoozed_until__isnull=False).exists()
    result = text(console.post(reverse("reviews"), {**given, "sure": "1"}))
    assert "done" in result and "ana is on this case" in result
    assert ReviewCase.objects.get(snoozed_until__isnull=False) == free


def test_nothing_is_decided_in_bulk(console, case):
    response = console.post(reverse("reviews"), {"do": "approve", "case": [case.pk], "sure": "1"})
    assert response.status_code == 422
    assert state(case) == "review"


# --- One review ---------------------------------------------------------------------------------------------------


def test_the_page_asks_one_question_and_says_what_each_choice_will_do(console, case):
    page = text(console.get(reverse("review", args=[case.pk])))
    assert "May this change be accepted?" in page
    assert "goes to deliver" in page and "2 of 3 attempts are left" in page
    assert "Failed for good" in page and "policy v1" in page


def test_a_decision_is_taken_and_the_next_case_opens_itself(console, case, repository):
    following = in_review(repository, hits=())
    response = post(console, case)
    assert response.headers["Location"] == reverse("review", args=[following.pk])
    assert state(case) == "queued"
    decision = ReviewDecision.objects.get(case=case)
    assert (decision.actor, decision.reason, decision.decision) == ("user:li", REASON, "approve")
    assert "Decided" in text(console.get(reverse("review", args=[case.pk])))


@pytest.mark.parametrize(
    ("values", "word"),
    [({"reason": "short"}, "10"), ({"reason": ""}, "what others read"), ({"choice": ""}, "Choose"),
     ({"choice": "request_changes"}, "what should change"), ({"choice": "supply", "payload": "{"}, "no JSON")],
)  # fmt: skip
def test_an_incomplete_decision_is_422_and_moves_nothing(console, case, values, word):
    response = post(console, case, **values)
    assert response.status_code == 422
    assert word in text(response)
    assert state(case) == "review"


def test_a_stale_tab_is_409_with_what_changed_and_the_typed_text(console, case):
    version = case.job_version
    situations.decide(case.job, Event.RESUME)
    situations.claim(case.job)
    situations.act(case.job, Event.HOLD, reason="unknown")
    response = post(console, case, job_version=version, note="kept text")
    assert response.status_code == 409
    assert "rea decided meanwhile" in text(response)
    assert state(case) == "review"


def test_a_moved_policy_is_409_and_the_text_is_kept_for_the_next_try(console, case):
    response = post(console, case, policy=7, note="half a page of text")
    assert response.status_code == 409
    page = text(response)
    assert "Policy version 1" in page and "half a page of text" in page and REASON in page
    assert post(console, case).status_code == 302


def test_a_double_click_decides_once(console, case):
    assert post(console, case).status_code == 302
    assert post(console, case).status_code == 409
    assert ReviewDecision.objects.filter(case=case).count() == 1


def test_the_first_of_two_leaves_it_in_review_and_shows_it_to_the_second(client, console, risky):
    assert post(console, risky).status_code == 302
    assert state(risky) == "review"
    refused = post(console, risky)
    assert refused.status_code == 409 and "second person" in text(refused)
    client.force_login(person("rita", "reviewers"))
    page = text(client.get(reverse("review", args=[risky.pk])))
    assert "li: approve" in page and "1 of 2" in page
    assert post(client, risky).status_code == 302
    assert state(risky) == "queued"


@pytest.mark.parametrize("superuser", [False, True])
def test_who_asked_for_a_risky_job_cannot_decide_it_by_direct_post_either(client, risky, superuser):
    own = person("operator", "owners", is_superuser=superuser)
    client.force_login(own)
    assert "another person decides that" in text(client.get(reverse("review", args=[risky.pk])))
    for choice in ("approve", "reject", "resume"):
        assert post(client, risky, choice).status_code == 409
    assert post(client, risky, alone="on", reason="nobody else is here today").status_code == 409
    assert state(risky) == "review"
    assert AuditEvent.objects.filter(stream="auth", event="decision_refused", actor="user:operator").count() == 4


def test_an_owner_decides_alone_and_another_person_closes_the_follow_up(client, console, risky):
    refused = post(console, risky, alone="on", reason="nobody else is here today")
    assert refused.status_code == 403
    client.force_login(person("olga", "owners"))
    assert post(client, risky, alone="on", reason="nobody else is here today").status_code == 302
    follow_up = FollowUp.objects.get()
    assert "another person" in text(client.get(reverse("reviews"))).lower()
    address = reverse("follow_up", args=[follow_up.pk])
    assert client.post(address, {"note": "fine"}).status_code == 409
    client.force_login(person("rita", "reviewers"))
    assert client.post(address, {"note": "fine"}).status_code == 302


def test_another_input_makes_a_new_job_from_the_page(console, case):
    response = post(console, case, "supply", payload='{"paths": ["b.md"], "text": "other"}')
    assert response.status_code == 302
    assert state(case) == "cancelled"
    assert Job.objects.exclude(pk=case.job_id).get().requested_by == "user:li"


def test_a_case_is_taken_given_back_handed_over_and_snoozed(console, case):
    address = reverse("review_act", args=[case.pk])
    person("rita", "reviewers")
    assert console.post(address, {"do": "claim"}).status_code == 302
    assert "yours until" in text(console.get(reverse("review", args=[case.pk])))
    assert console.post(address, {"do": "release"}).status_code == 302
    assert console.post(address, {"do": "assign", "to": "rita"}).status_code == 302
    assert console.post(address, {"do": "assign", "to": "nobody"}).status_code == 422
    assert console.post(address, {"do": "snooze", "hours": "24"}).status_code == 302
    case.refresh_from_db()
    assert (case.assigned_to, case.claimed_by) == ("user:rita", "") and case.snoozed_until
    events = AuditEvent.objects.filter(stream=f"job:{case.job_id}", actor="user:li").values_list("event", flat=True)
    assert list(events) == ["case_claimed", "case_released", "case_assigned", "case_snoozed"]


def test_a_refused_claim_hand_over_and_follow_up_are_on_record_too(console, case):
    cases.claim(case.pk, actor="user:ana")
    address = reverse("review_act", args=[case.pk])
    person("rita", "reviewers")
    for given in ({"do": "claim"}, {"do": "assign", "to": "rita"}, {"do": "snooze", "hours": "4"}):
        response = console.post(address, given)
        assert response.status_code == 409 and "ana is on this case" in text(response)
    assert console.post(reverse("follow_up", args=[1]), {"note": "x"}).status_code == 409
    refused = AuditEvent.objects.filter(stream="auth", event="refused", actor="user:li")
    assert refused.count() == 4


@pytest.mark.parametrize("name", ["queue", "review"])
def test_an_open_page_learns_that_something_changed_and_is_left_alone_otherwise(console, case, name):
    address = reverse("reviews") if name == "queue" else reverse("review", args=[case.pk])
    poll = re.search(r'hx-get="([^"]*shown=[^"]*)"', text(console.get(address)))[1].replace("&amp;", "&")
    assert console.get(poll, headers={"HX-Request": "true"}).status_code == 204
    cases.claim(case.pk, actor="user:ana")
    assert "Something changed" in text(console.get(poll, headers={"HX-Request": "true"}))


def test_the_job_page_leads_to_its_open_case(console, case):
    assert reverse("review", args=[case.pk]) in text(console.get(reverse("job", args=[case.job_id])))


def test_every_human_act_is_in_the_jobs_history_with_actor_reason_and_policy(console, case):
    post(console, case, "request_changes", note="smaller, please")
    page = text(console.get(reverse("job", args=[case.job_id])))
    assert REASON in page and "policy v1" in page and "request changes" in page


# --- Diff and contents --------------------------------------------------------------------------------------------


@pytest.fixture
def changed(repository, tmp_path, settings):
    """A case whose result changed two files."""
    settings.ARTIFACTS_DIR = tmp_path / "artifacts"
    case = in_review(repository, hits=())
    source = tmp_path / "source"
    base = factories.git(source, "rev-parse", "HEAD")
    (source / "src" / "billing").mkdir(parents=True, exist_ok=True)
    (source / "src" / "billing" / "refund.py").write_text("RATE = 2\n")
    (source / "README.md").write_text("Changed.\n")
    factories.git(source, "add", "--all")
    factories.git(source, "commit", "--quiet", "-m", "change")
    head = factories.git(source, "rev-parse", "HEAD")
    factories.git(source, "clone", "--quiet", "--bare", str(source), str(artifacts.mirror(repository).path))
    with triggers.lifted(connection):
        ReviewCase.objects.filter(pk=case.pk).update(snapshot=head)
        Job.objects.filter(pk=case.job_id).update(base_commit=base, snapshot=head)
    case.refresh_from_db()
    return case


def test_the_diff_names_the_rules_that_files_hit_and_keeps_ticks(console, changed):
    page = text(console.get(reverse("review", args=[changed.pk])))
    assert "src/billing/refund.py" in page and "billing</span>" in page
    assert "0 of 2 viewed by you" in page
    address = reverse("review_viewed", args=[changed.pk])
    answer = console.post(address, {"path": ["README.md", "not/there.py"]}, headers={"HX-Request": "true"})
    assert "1 of 2 viewed by you" in text(answer)
    assert list(ViewedFile.objects.values_list("path", "actor")) == [("README.md", "user:li")]


def test_the_diff_can_start_from_the_base_the_attempt_before_or_what_was_reviewed_last(console, changed):
    base = Job.objects.get(pk=changed.job_id).base_commit
    address = reverse("review", args=[changed.pk])
    assert "?base=attempt" not in text(console.get(address))
    with triggers.lifted(connection):
        Attempt.objects.filter(job=changed.job).update(snapshot=base, base_commit=base)
        earlier = ReviewCase.objects.create(
            job=changed.job, reason="unknown", allowed=[], policy_number=1, job_version=1, snapshot=base,
            opened_at=clock.now(), closed_at=clock.now(),
        )  # fmt: skip
        ReviewCase.objects.filter(pk=changed.pk).update(id=earlier.pk + 1)
    address = reverse("review", args=[earlier.pk + 1])
    page = text(console.get(address))
    for name in ("base", "attempt", "seen"):
        assert f"?base={name}" in page
        assert "refund.py" in text(console.get(f"{address}?base={name}"))


def test_what_is_in_a_restricted_repository_is_shown_to_its_own_people_only(client, console, changed):
    Repository.objects.update(restricted=True)
    page = text(console.get(reverse("review", args=[changed.pk])))
    assert "restricted" in page and "refund.py" not in page
    assert post(console, changed).status_code == 403
    assert console.get(reverse("job_diff", args=[changed.job_id])).status_code == 403
    name = Repository.objects.get().name
    client.force_login(person("rita", "reviewers", f"repo:{name}"))
    assert "refund.py" in text(client.get(reverse("review", args=[changed.pk])))


def test_viewers_see_no_payload(client, case):
    client.force_login(person("vera", "viewers"))
    page = text(client.get(reverse("job", args=[case.job_id])))
    assert "Canonical JSON" not in page and "notes.md" not in page
    assert "Reviewers decide; your role only looks." in text(client.get(reverse("review", args=[case.pk])))


def test_my_decisions_and_the_ledger_show_what_happened(console, case, repository):
    post(console, case)
    assert REASON in text(console.get(reverse("my_decisions")))
    job = situations.new(repository)
    situations.claim(job)
    situations.intend(job)
    situations.act(job, Event.RETRY)
    page = text(console.get(f"{reverse('ledger')}?outcome=open"))
    assert "test-act" in page and "decide in its review" in page and "1 act of unknown outcome" in page


def test_an_owner_sets_limits_step_by_step(client, console, repository):
    address = reverse("repository_limits", args=[repository.pk])
    wanted = {"autonomy": "effects", "concurrency": 8, "reason": "went well"}
    assert console.post(address, wanted).status_code == 403
    client.force_login(person("olga", "owners"))
    Repository.objects.update(concurrency=4)
    refused = client.post(address, {**wanted, "concurrency": 9})
    assert refused.status_code == 409 and "twice" in text(refused)
    assert client.post(address, wanted).status_code == 302
    assert client.get(reverse("repositories")).status_code == 200


def test_preferences_are_kept(console, li):
    assert console.post(reverse("preferences"), {"mail_high_risk": "on"}).status_code == 302
    page = text(console.get(reverse("preferences")))
    assert page.count("checked") == 1


def test_near_matches_in_a_restricted_repository_are_not_shown_to_others(client, repository):
    job = factories.job(repository, text="their words")
    typed = {
        "do": "preview", "repo": repository.name, "action": "sample-agent", "branch": "main", "workflow_version": "",
        "p-paths": "notes.md", "p-text": "other words",
    }  # fmt: skip
    client.force_login(person("otto", "operators"))
    asked = {"path": reverse("enqueue"), "data": typed, "headers": {"HX-Request": "true"}}
    assert "their words" in text(client.post(**asked)) and f"J-{job.pk}" in text(client.post(**asked))
    Repository.objects.update(restricted=True)
    assert "their words" not in text(client.post(**asked))


def test_the_page_says_word_for_word_what_an_approval_will_do_outside(console, case):
    effects = [
        {
            "kind": "release",
            "target": "{{ repo }} v2",
            "argv": ["tool", "publish", "--key", "{{ key }}", "{{ commit }}"],
        }
    ]
    in_workflow(case.job, {"risk": "external_side_effect", "effects": effects}, risk="external_side_effect")
    with triggers.lifted(connection):
        ReviewCase.objects.filter(pk=case.pk).update(reason="confirm_effects", snapshot="a" * 40)
    page = text(console.get(reverse("review", args=[case.pk])))
    assert "May this result be delivered, and then act outside?" in page
    assert f"release: {case.job.repository.name} v2" in page and "tool publish --key" in page
    assert "Then 1 act outside, once." in page and "cannot be looked up" in page
