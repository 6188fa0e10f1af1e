"""The built-in push: looked up by its remote ref, never sent twice, and without a person only where effects may act
(X1, X2, E3). A lost answer goes to a person whatever the lookup says."""

import itertools
import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from jobs.core import side_effects as rules
from jobs.core.states import Event, State
from jobs.errors import ClaimRefused, DecisionRefused
from jobs.models import Job, Repository, ReviewCase, SideEffect
from jobs.services import enqueue, leases, proofs, reconcile
from jobs.services.requests import Request
from jobs.worker import lookups, maintenance
from jobs.workspaces import push
from jobs.workspaces.git import Git
from tests import factories
from tests.worker.engine import Cluster, Engine, assert_whole, audit_events, ended
from tests.worker.outside import Outside, answer, decide, ledger

pytestmark = [pytest.mark.engine, pytest.mark.xdist_group("engine")]
NUMBERS = itertools.count(1)
# The ref is there for good, then the connection dies before a word about it is sent.
DROPS_THE_ANSWER = """#!/bin/sh
while read -r _old _new ref; do echo "$1 $ref" >> "{log}"; done
[ "$1" = committed ] && kill -9 $PPID
exit 0
"""


@pytest.fixture(scope="module")
def shared(make_engine: Callable[[], Any]) -> Iterator[tuple[Engine, Cluster]]:
    with make_engine() as engine:
        yield engine, engine.run_workers(2)


@pytest.fixture
def outside(shared: tuple[Engine, Cluster]) -> Outside:
    return Outside(shared[0], f"push-{next(NUMBERS)}")


def remote(outside: Outside) -> Path:
    """An empty bare repository, as a server would have it."""
    path = outside.engine.room / f"{outside.name}.git"
    subprocess.run(["git", "init", "--quiet", "--bare", "--initial-branch=main", str(path)], check=True)
    return path


def pushing(path: Path) -> str:
    return f'[[effects]]\nkind = "push-branch"\nargv = ["{path}"]'


def ref_at(path: Path, job: Job) -> str:
    branch = rules.result_branch(job.pk, job.idempotency_key)
    return factories.git(path, "for-each-ref", "--format=%(objectname)", f"refs/heads/{branch}")


def test_where_effects_may_act_a_results_branch_is_pushed_without_a_person(outside: Outside) -> None:
    path = remote(outside)
    job = ended(outside.job(pushing(path)))
    effect = SideEffect.objects.get(job=job)
    assert (effect.outcome, effect.number, effect.sha) == ("confirmed", 1, ref_at(path, job))
    assert effect.reference == f"{path} refs/heads/{rules.result_branch(job.pk, job.idempotency_key)} {effect.sha}"
    assert_whole(job)


def test_where_only_branches_may_be_made_the_push_waits_for_a_person(outside: Outside) -> None:
    path = remote(outside)
    job = ended(outside.job(pushing(path), autonomy="branch"), State.REVIEW)
    assert (job.stop_reason, ref_at(path, job), ledger(job)) == ("confirm_effects", "", [])
    decide(job, Event.APPROVE)
    ended(job)
    assert ref_at(path, job) == SideEffect.objects.get(job=job).sha


def test_where_work_is_only_prepared_not_even_a_branch_is_made_before_an_approval(outside: Outside) -> None:
    repository = outside.engine.repository(f"demo/{outside.name}")
    Repository.objects.filter(pk=repository.pk).update(autonomy="prepare")
    job = ended(outside.engine.job(repository), State.REVIEW)
    source = Path(repository.location)
    assert (job.stop_reason, ref_at(source, job)) == ("autonomy_prepare", "")
    decide(job, Event.APPROVE)
    ended(job)
    assert ref_at(source, job)
    assert_whole(job)


def test_a_push_whose_answer_is_lost_is_never_sent_again_and_a_person_settles_it(outside: Outside) -> None:
    path, log = remote(outside), outside.engine.room / f"{outside.name}.updates"
    hook = path / "hooks" / "reference-transaction"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(DROPS_THE_ANSWER.format(log=log))
    hook.chmod(0o755)
    job = ended(outside.job(pushing(path)), State.REVIEW)
    assert (job.stop_reason, ledger(job)) == ("side_effect_unknown", [(1, "unknown")])
    sent = log.read_text()
    assert ref_at(path, job) and sent.count("committed refs/heads/agentq/") == 1
    effect = SideEffect.objects.get(job=job)
    found = {"effect": effect.pk, "key": effect.key, "answer": "found", "reference": _reference(path, job, effect)}
    assert audit_events(f"job:{job.pk}", "effect_looked_up") == [found]

    # Takeover, restart and whatever else may start work again.
    reconcile.sweep()
    maintenance.run()
    outside.engine.run_workers(1)
    request = Request(job.repository.name, job.branch, job.action, _payload(job))
    assert enqueue.enqueue(request, actor="user:operator").created is False
    with pytest.raises(ClaimRefused):
        leases.claim(job.pk, worker="host:1:1/1")
    for event in (Event.RESUME, Event.RERUN, Event.APPROVE):
        with pytest.raises(DecisionRefused):
            decide(job, event)
    job.refresh_from_db()
    assert (job.state, ledger(job), log.read_text()) == (State.REVIEW, [(1, "unknown")], sent)

    # The lookup shows the remote ref, so nobody can say that it did not happen.
    assert proofs.proven(effect)
    asked = lookups.ask_for_people(effect.pk, actor="user:rea")
    assert asked is not None and (asked.said, asked.reference) == ("found", found["reference"])
    with pytest.raises(DecisionRefused, match="It happened"):
        answer(job, "absent")
    answer(job, "happened", reference=asked.reference)
    ended(job)
    effect.refresh_from_db()
    assert (effect.outcome, effect.resolved_by != "", log.read_text()) == ("confirmed", True, sent)
    assert ReviewCase.objects.filter(job=job, closed_at=None).count() == 0
    assert_whole(job)


def test_a_push_only_ever_creates_its_branch(tmp_path: Path) -> None:
    source = factories.source(tmp_path / "source")
    first = factories.git(source, "rev-parse", "HEAD")
    (source / "more.txt").write_text("more\n")
    factories.git(source, "add", "--all")
    factories.git(source, "commit", "--quiet", "-m", "second")
    second = factories.git(source, "rev-parse", "HEAD")
    path = tmp_path / "remote.git"
    factories.git(tmp_path, "init", "--quiet", "--bare", str(path))
    git = Git(source / ".git", transports=("file",))
    assert push.look_up(git, str(path), "agentq/1-a", first) == push.NOT_THERE
    assert push.push(git, str(path), "agentq/1-a", first) == 0
    assert push.push(git, str(path), "agentq/1-a", first) == 0  # it is there: nothing to do
    assert push.look_up(git, str(path), "agentq/1-a", first) == 0
    assert push.look_up(git, str(path), "agentq/1-a", second) == push.CANNOT_TELL
    with pytest.raises(Exception, match="push"):
        push.push(git, str(path), "agentq/1-a", second)
    assert factories.git(path, "rev-parse", "refs/heads/agentq/1-a") == first


def _reference(path: Path, job: Job, effect: SideEffect) -> str:
    return f"{path} refs/heads/{rules.result_branch(job.pk, job.idempotency_key)} {effect.sha}"


def _payload(job: Job) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(job.payload)
    return found
