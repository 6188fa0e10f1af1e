"""Before deliver the target is compared with the base (V4): same files, too far or rewritten → review."""

from dataclasses import replace

import pytest

from jobs import history
from jobs.core.states import Event, State
from jobs.models import Job, ReviewCase
from jobs.services import artifacts, enqueue, policies, reviews
from jobs.services.requests import Request
from jobs.services.reviews import Decision
from jobs.worker import runner
from tests import factories

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def source(tmp_path):
    return tmp_path / "source"


@pytest.fixture
def job(source, settings, tmp_path) -> Job:
    """A formatter's job, fixed to the commit that its branch has now."""
    settings.ARTIFACTS_DIR = tmp_path / "artifacts"
    repository = factories.repository(source)
    request = Request(repository.name, "main", "format-code", {"paths": ["src/*"]})
    return Job.objects.get(pk=enqueue.enqueue(request, actor="user:operator").job_id)


def commit(source, name: str, text: str, *args: str) -> None:
    (source / name).parent.mkdir(parents=True, exist_ok=True)
    (source / name).write_text(text)
    factories.git(source, "add", "--all")
    factories.git(source, "commit", "--quiet", "-m", "moved", *args)


def run(job: Job) -> Job:
    runner.run(job.pk)
    job.refresh_from_db()
    return job


def branches(source) -> list[str]:
    return factories.git(source, "for-each-ref", "--format=%(refname:short)", "refs/heads/agentq").split()


def test_a_target_that_moved_on_beside_the_result_is_delivered_to(job: Job, source) -> None:
    commit(source, "docs/other.md", "other\n")
    assert run(job).state == State.ACCEPTED
    assert len(branches(source)) == 1


def test_a_target_that_changed_the_same_file_is_a_conflict_until_a_person_approves(job: Job, source) -> None:
    commit(source, "src/app.py", "VALUE = 2\n")
    assert (run(job).state, job.stop_reason) == (State.REVIEW, "target_moved")
    assert job.attempts.get().failure_class == "conflict"
    assert branches(source) == []
    case = ReviewCase.objects.get(job=job)
    assert Event.APPROVE in case.allowed
    decision = Decision(Event.APPROVE, "merged by hand afterwards", job.version)
    reviews.decide(case.pk, decision, actor="user:rita")
    assert run(job).state == State.ACCEPTED
    assert len(branches(source)) == 1
    assert history.differences(job) == {}


def test_a_rewritten_target_is_a_conflict(job: Job, source) -> None:
    artifacts.mirror(job.repository).fetch()  # as any earlier job of the repository does
    commit(source, "docs/other.md", "other\n", "--amend")
    assert (run(job).state, job.stop_reason) == (State.REVIEW, "target_moved")


def test_a_target_that_moved_too_far_is_a_conflict(job: Job, source, monkeypatch) -> None:
    strict = policies.rules(1)
    strict = replace(strict, gates=replace(strict.gates, max_target_commits=1))
    monkeypatch.setattr(policies, "rules", lambda _number: strict)
    commit(source, "docs/one.md", "one\n")
    commit(source, "docs/two.md", "two\n")
    assert (run(job).state, job.stop_reason) == (State.REVIEW, "target_moved")
