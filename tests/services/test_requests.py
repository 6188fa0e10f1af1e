"""What can refuse a request before anything is stored (E1, K1, K2, K4)."""

import pytest
from django.contrib.auth import get_user_model

from jobs.errors import EnqueueRefused, WorkflowConflict
from jobs.models import Job, WorkflowVersion
from jobs.services import enqueue, repositories
from tests import factories


def request(repository, text="hello", **values):
    payload = {"paths": ["notes.md"], "text": text}
    return enqueue.Request(
        **{"repo": repository.name, "branch": "main", "action": "sample-agent"} | values, payload=payload
    )


@pytest.mark.django_db
@pytest.mark.parametrize("bad", ["a\0b", "half \ud800"])
@pytest.mark.parametrize("field", ["repo", "branch", "action", "workflow_version", "batch", "takeover_person", "date"])
def test_text_that_no_database_can_hold_is_refused_at_its_field(repository, field, bad):
    with pytest.raises(EnqueueRefused) as refusal:
        enqueue.enqueue(request(repository, **{field: bad}), actor="user:ana")
    assert refusal.value.field == field
    assert not Job.objects.exists()


@pytest.mark.django_db
@pytest.mark.parametrize("date", ["20261129", "2026-W48-7", "29.11.2026", "2026-13-01"])
def test_a_day_has_one_form_so_that_it_has_one_key(repository, date):
    with pytest.raises(EnqueueRefused) as refusal:
        enqueue.enqueue(request(repository, date=date), actor="user:ana")
    assert refusal.value.field == "date"


@pytest.mark.django_db
def test_the_takeover_person_is_an_active_user(repository):
    get_user_model().objects.create_user("gone", is_active=False)
    get_user_model().objects.create_user("ana")
    for name in ("nobody", "gone"):
        with pytest.raises(EnqueueRefused) as refusal:
            enqueue.enqueue(request(repository, takeover_person=name), actor="user:ana")
        assert refusal.value.field == "takeover_person"
    answer = enqueue.enqueue(request(repository, takeover_person="ana"), actor="user:ana")
    assert Job.objects.get(pk=answer.job_id).takeover_person == "ana"


@pytest.mark.django_db
def test_the_case_of_a_name_beyond_ascii_does_not_count_either(tmp_path):
    first = factories.repository(tmp_path / "source", name="Überbau")
    assert repositories.find(" ÜBERBAU ") == first
    with pytest.raises(repositories.NameTaken):
        factories.repository(tmp_path / "source", name="überbau")
    made = enqueue.enqueue(request(first), actor="user:ana")
    same = enqueue.enqueue(request(first, repo="üBERBAU"), actor="user:ana")
    assert (same.created, same.job_id) == (False, made.job_id)


@pytest.mark.django_db
@pytest.mark.parametrize("name", ["", " ", "a\nb", "a\x9bb", "a|b", "\ud800", "x" * 201])
def test_a_name_that_would_disturb_pages_or_keys_is_refused(tmp_path, name):
    with pytest.raises(repositories.RegistrationRefused):
        repositories.register(name=name, location=str(factories.source(tmp_path / "source")), actor="user:owner")


@pytest.mark.django_db
@pytest.mark.parametrize(
    "values",
    [
        {"commands": {"fmt": []}},
        {"commands": {"fmt": ["a\0b"]}},
        {"commands": {"fmt": ["\ud800"]}},
        {"commands": {"": ["true"]}},
        {"checks": [{"name": "tests", "argv": [], "kind": "tests"}]},
        {"checks": [{"name": "tests", "argv": ["\udcff"], "kind": "tests"}]},
    ],
)
def test_commands_and_checks_are_lists_of_words(tmp_path, values):
    with pytest.raises(repositories.RegistrationRefused):
        factories.repository(tmp_path / "source", **values)


@pytest.mark.django_db
def test_a_changed_workflow_under_its_old_version_refuses_its_requests_and_no_others(repository):
    WorkflowVersion.objects.create(
        name="sample-agent", version="v1", document="{}", digest="0" * 64, created_at=repository.created_at
    )
    other = enqueue.Request(repository.name, "main", "sample-report", {"task": "look"})
    answers = list(enqueue.enqueue_many([request(repository), other], actor="user:ana"))
    assert isinstance(answers[0], WorkflowConflict)
    assert isinstance(answers[1], enqueue.Enqueued) and answers[1].created
    with pytest.raises(WorkflowConflict):
        enqueue.enqueue(request(repository), actor="user:ana")


@pytest.mark.django_db
def test_a_repository_that_may_not_be_read_refuses_its_requests_and_no_others(repository, tmp_path, monkeypatch):
    closed = factories.repository(tmp_path / "closed")
    read = repositories.branch_commit

    def branch_commit(asked, branch):
        if asked == closed:  # what the operating system says to an account without rights; tests may run as root
            raise PermissionError(13, "Permission denied", closed.location)
        return read(asked, branch)

    monkeypatch.setattr(repositories, "branch_commit", branch_commit)
    refused, answer = enqueue.enqueue_many([request(closed), request(repository)], actor="user:ana")
    assert isinstance(refused, EnqueueRefused) and refused.field == "repo" and "Permission denied" in str(refused)
    assert isinstance(answer, enqueue.Enqueued) and answer.created
