"""One row of each kind, made as the services make it where they do."""

from datetime import date
from pathlib import Path

import pytest
from django.contrib.auth.models import User

from jobs.models import (
    Attempt,
    AuditEvent,
    Batch,
    Checkpoint,
    Evidence,
    FailureRecord,
    FailureSample,
    FollowUp,
    Job,
    Notice,
    PolicyActivation,
    PolicyVersion,
    Preference,
    Repository,
    ReviewCase,
    ReviewDecision,
    SideEffect,
    ViewedFile,
    WorkerNode,
    WorkflowVersion,
)
from jobs.policies.loading import builtin
from jobs.services import clock, nodes, policies
from tests import factories
from tests.services import situations
from tests.services.conftest import *  # noqa: F403  the same fixtures in this room
from tests.services.situations import Event


@pytest.fixture
def row(registered):
    """Model → a new valid row of it."""

    def make(model):
        return MAKERS[model](registered)

    return make


def _attempt(repository):
    job = situations.new(repository)
    situations.claim(job)
    return situations.attempt(job)


def _checkpoint(repository):
    attempt = _attempt(repository)
    situations.checkpoint(situations.held(attempt.job), "read")
    return Checkpoint.objects.get(job=attempt.job)


def _evidence(repository):
    return Evidence.objects.create(
        job=_attempt(repository).job, fence=1, check_name="tests", verdict="pass", created_at=clock.now()
    )


def _failure(repository):
    return factories.failure(_attempt(repository))


def _sample(repository):
    return FailureSample.objects.create(
        record=_failure(repository), kind="not_retried", week=date(2026, 11, 23), drawn_at=clock.now()
    )


def _side_effect(repository):
    job = _attempt(repository).job
    situations.intend(job)
    return SideEffect.objects.get(job=job)


def _case(repository):
    job = situations.new(repository)
    situations.act(job, Event.HOLD)
    return ReviewCase.objects.get(job=job)


def _decision(repository):
    job = situations.new(repository)
    situations.act(job, Event.HOLD, result_digest=situations.DIGEST)
    situations.decide(job, Event.APPROVE)
    return ReviewDecision.objects.get(job=job)


def _follow_up(repository):
    now = clock.now()
    return FollowUp.objects.create(
        case=_case(repository), opened_by="user:olga", reason="could not wait", opened_at=now, due_at=now
    )


def _notice(repository):
    now = clock.now()
    return Notice.objects.create(case=_case(repository), kind="opened", next_try_at=now, created_at=now)


def _preference(_repository):
    return Preference.objects.create(user=User.objects.create_user(f"person-{User.objects.count()}"))


def _policy_version(_repository):
    policies.active()  # the first version is the built-in one
    number = PolicyVersion.objects.count() + 1
    return PolicyVersion.objects.create(
        number=number, digest=f"{number:064x}", document="{}", author="user:owner", note="", created_at=clock.now()
    )


def _activation(repository):
    policies.active()
    return policies.activate(_policy_document().number, actor="user:owner", reason="the newest")


def _policy_document():
    changed = builtin().model_copy(update={"note": f"version {PolicyVersion.objects.count() + 1}"})
    return policies.publish(changed, author="user:owner", note="", parent=1)


def _workflow(repository):
    stored = situations.new(repository).workflow
    number = WorkflowVersion.objects.count()
    return WorkflowVersion.objects.create(
        name=stored.name, version=f"other-{number}", document="{}", digest="d" * 64, created_at=clock.now()
    )


def _node(_repository):
    number = WorkerNode.objects.count()
    nodes.started(identity=f"host:{number}:1", host="host", pid=number, queue="agentq", workers=1, version="1")
    return WorkerNode.objects.latest("pk")


MAKERS = {
    Attempt: _attempt,
    AuditEvent: lambda repository: situations.newest_event(situations.new(repository)),
    Batch: lambda _repository: factories.batch(),
    Checkpoint: _checkpoint,
    Evidence: _evidence,
    FailureRecord: _failure,
    FailureSample: _sample,
    FollowUp: _follow_up,
    Job: situations.new,
    Notice: _notice,
    Preference: _preference,
    PolicyActivation: _activation,
    PolicyVersion: _policy_version,
    Repository: lambda repository: factories.repository(Path(repository.location)),
    ReviewCase: _case,
    ReviewDecision: _decision,
    SideEffect: _side_effect,
    ViewedFile: lambda repository: ViewedFile.objects.create(case=_case(repository), actor="user:li", path="a.py"),
    WorkerNode: _node,
    WorkflowVersion: _workflow,
}
