"""The enqueue form: fields by action, the key before anything is stored, "already there" is no error (E1, K1, K5)."""

import re

import pytest

from jobs.core.states import State
from jobs.models import AuditEvent, Job, WorkflowVersion
from jobs.services import control
from jobs.services import enqueue as service
from tests import factories

NEW = "/jobs/new/"


def text(response) -> str:
    return " ".join(re.sub(r"<[^>]+>", " ", response.content.decode()).split())


def given(repository, **values: str) -> dict[str, str]:
    """What a browser sends for one sample-agent job."""
    fields = {
        "repo": repository.name,
        "branch": "main",
        "action": "sample-agent",
        "workflow_version": "",
        "priority": "0",
        "p-paths": "notes.md\r\nsrc/app.py\r\n",
        "p-text": "hello\r\nworld",
    }
    return fields | values


def fields(response) -> set[str]:
    return set(re.findall(r'<(?:input|select|textarea)[^>]* name="(p-[a-z_]+)"', response.content.decode()))


def test_choosing_an_action_by_address_shows_its_fields(console, repository):
    shown = console.get(f"{NEW}?action=run-command&repo={repository.name}")
    assert fields(shown) == {"p-command"}
    assert '<option value="touch">touch</option>' in shown.content.decode()
    assert {"p-paths", "p-text", "p-fail_attempts"} <= fields(console.get(f"{NEW}?action=sample-agent"))


def test_choosing_an_action_by_button_keeps_what_was_typed_and_stores_nothing(console, repository):
    shown = console.post(NEW, given(repository, action="format-code", do="fields"))
    assert shown.status_code == 200
    assert "notes.md" in shown.content.decode()
    back = console.post(NEW, given(repository, do="fields"))
    assert "hello\nworld" in back.content.decode().replace("\r\n", "\n")
    assert not Job.objects.exists() and not WorkflowVersion.objects.exists()


def test_a_field_of_another_action_comes_back_with_it(console, repository):
    shown = console.post(NEW, given(repository, action="run-command", do="fields")).content.decode()
    assert re.search(r'<input type="hidden" name="p-text" value="hello\r?\nworld">', shown)


def test_the_branches_are_those_of_the_repository(console, repository, tmp_path):
    factories.git(tmp_path / "source", "branch", "hotfix/rounding")
    html = console.get(NEW).content.decode()
    assert '<option value="hotfix/rounding">' in html
    assert '<option value="main" selected>' in html


def test_a_repository_that_cannot_be_read_is_said_in_words(console, repository, tmp_path):
    (tmp_path / "source").rename(tmp_path / "gone")
    response = console.get(NEW)
    assert response.status_code == 200
    assert "there is no directory at this path" in text(response)


def test_the_form_and_the_service_make_the_same_job(console, repository):
    request = service.Request(
        repository.name, "main", "sample-agent", {"paths": ["notes.md", "src/app.py"], "text": "hello\nworld"}
    )
    key = service.prepare(request).key
    response = console.post(NEW, given(repository))
    job = Job.objects.get()
    assert response.headers["Location"] == f"/jobs/{job.pk}/"
    assert job.idempotency_key == key
    assert job.requested_by == "user:li"


def test_plan_fields_are_stored_and_are_no_part_of_the_key(console, repository, li):
    plan = {"priority": "5", "batch": "spring", "deadline": "2999-01-02T03:04", "takeover_person": "li"}
    console.cookies["agentq-zone"] = "Asia/Shanghai"
    console.post(NEW, given(repository, **plan))
    job = Job.objects.get()
    assert (job.priority, job.batch.name, job.takeover_person) == (5, "spring", "li")
    assert job.deadline.isoformat() == "2999-01-01T19:04:00+00:00"
    assert "Already there" in text(console.post(NEW, given(repository)))


def test_typed_values_become_their_declared_types(console, repository):
    console.post(NEW, given(repository, **{"p-fail_attempts": "2", "p-fail_at": "plan"}))
    assert '"fail_attempts":2' in Job.objects.get().payload
    assert '"fail_at":"plan"' in Job.objects.get().payload


def test_a_duplicate_is_information_with_a_link_and_the_way_on(console, repository):
    console.post(NEW, given(repository))
    job = Job.objects.get()
    response = console.post(NEW, given(repository))
    assert response.status_code == 200
    assert "Already there" in text(response)
    assert f'href="/jobs/{job.pk}/"' in response.content.decode()
    assert "It waits in the queue" in text(response)
    control.cancel(job.pk, actor="user:li", reason="no")
    assert "ask for it again" in text(console.post(NEW, given(repository)))
    assert Job.objects.count() == 1


@pytest.mark.parametrize(
    ("wrong", "field", "words"),
    [
        ({"repo": "nowhere"}, "repo", "There is no repository nowhere"),
        ({"branch": "gone"}, "branch", "no such branch"),
        ({"action": "dance"}, "action", "There is no action dance"),
        ({"workflow_version": "v99"}, "workflow_version", "v99"),
        ({"priority": "1000"}, "priority", "between -100 and 100"),
        ({"priority": "many"}, "priority", "whole number"),
        ({"deadline": "2000-01-01T00:00"}, "deadline", "passed already"),
        ({"p-paths": ""}, "p-paths", "needed"),
        ({"p-paths": "../x"}, "p-paths", "inside the repository"),
        ({"p-do": "dance"}, "p-do", "must be one of"),
        ({"p-fail_attempts": "0"}, "p-fail_attempts", "between 1 and 100"),
        ({"p-old": "a\0b"}, "p-old", "Null characters"),
        ({"takeover_person": "nobody"}, "takeover_person", "no active user nobody"),
        ({"batch": "b" * 200}, "batch", "at most"),
    ],
)
def test_an_error_stands_at_its_field_and_nothing_that_was_typed_is_lost(console, repository, wrong, field, words):
    typed = given(repository, **wrong)
    response = console.post(NEW, typed)
    html = response.content.decode()
    assert response.status_code == 422
    error = re.search(rf'id="id_{field}_error">(.*?)</div>', html, re.DOTALL)
    assert error and words in error[1].replace("&#x27;", "'")
    assert "hello" in html
    assert not Job.objects.exists() and not AuditEvent.objects.filter(stream__startswith="job:").exists()


def test_the_preview_shows_the_key_of_a_new_input_and_stores_nothing(console, repository):
    typed = given(repository, do="preview")
    response = console.post(NEW, typed, headers={"HX-Request": "true"})
    page = text(response)
    assert "new" in page
    assert "Canonical JSON" in page
    assert not Job.objects.exists() and not AuditEvent.objects.filter(stream__startswith="job:").exists()
    assert not WorkflowVersion.objects.exists()
    console.post(NEW, given(repository))
    assert Job.objects.get().idempotency_key[:12] in response.content.decode()


def test_the_preview_names_the_job_that_has_the_key(console, repository):
    console.post(NEW, given(repository))
    job = Job.objects.get()
    page = console.post(NEW, given(repository, do="preview"), headers={"HX-Request": "true"})
    assert "exists already" in text(page)
    assert f'href="/jobs/{job.pk}/"' in page.content.decode()


def test_the_preview_names_a_job_that_differs_in_one_field_only(console, repository):
    console.post(NEW, given(repository))
    console.post(NEW, given(repository, **{"p-text": "other", "p-paths": "else.md"}))
    page = text(console.post(NEW, given(repository, do="preview", **{"p-text": "new"}), headers={"HX-Request": "true"}))
    assert page.count("differs in payload.text") == 1
    assert "Near matches" in page


def test_the_preview_says_what_is_missing(console, repository):
    typed = given(repository, do="preview", **{"p-text": "", "p-paths": ""})
    page = text(console.post(NEW, typed, headers={"HX-Request": "true"}))
    assert "The key needs: Paths, Text." in page


def test_without_javascript_the_preview_is_the_whole_page_with_what_was_typed(console, repository):
    response = console.post(NEW, given(repository, do="preview"))
    assert response.status_code == 200
    assert "Enqueue a job" in text(response)
    assert "Canonical JSON" in text(response)
    assert "src/app.py" in response.content.decode()


def test_a_hostile_payload_is_shown_escaped_and_inert(console, repository):
    hostile = '<a hx-get="/" hx-trigger="load">\u202e'
    html = console.post(NEW, given(repository, do="preview", **{"p-text": hostile}), headers={"HX-Request": "true"})
    assert "<a hx-get" not in html.content.decode()
    assert "U+202E" in html.content.decode()


def test_the_page_takes_at_most_twelve_statements(console, repository, django_assert_max_num_queries):
    with django_assert_max_num_queries(12):
        console.get(NEW)
    with django_assert_max_num_queries(12):
        console.post(NEW, given(repository, do="preview"), headers={"HX-Request": "true"})


def test_without_any_repository_the_page_says_how_to_register_one(console):
    assert "register_repo" in text(console.get(NEW))
    assert Job.objects.filter(state=State.QUEUED).count() == 0
