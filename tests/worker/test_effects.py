"""Acts outside happen once, whoever freezes, dies, loses an answer or is asked (X1, X2, X3, K3, E3, B2)."""

import itertools
import json
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from jobs.core.states import Event, State
from jobs.errors import DecisionRefused
from jobs.models import Job, ReviewCase, SideEffect
from jobs.services import anchors, artifacts, proofs, reconcile, resolutions, side_effects
from jobs.services.candidates import definition
from jobs.worker import lookups, maintenance, proof
from jobs.worker.workspace import AUTHOR
from jobs.workspaces.snapshot import commit_result
from tests.worker.engine import Cluster, Engine, assert_whole, attempts, audit_events, ended, running, until
from tests.worker.outside import Outside, answer, approved, decide, ledger, toml

pytestmark = [pytest.mark.engine, pytest.mark.xdist_group("engine")]
NUMBERS = itertools.count(1)


@pytest.fixture(scope="module")
def shared(make_engine: Callable[[], Any]) -> Iterator[tuple[Engine, Cluster]]:
    with make_engine() as engine:
        yield engine, engine.run_workers(2)


@pytest.fixture
def engine(shared: tuple[Engine, Cluster]) -> Engine:
    return shared[0]


@pytest.fixture
def outside(engine: Engine) -> Outside:
    return Outside(engine, f"publish-{next(NUMBERS)}")


def test_an_effect_waits_for_an_approval_of_exactly_this_result_and_then_happens_once(outside: Outside) -> None:
    job = outside.job(outside.effect())
    ended(job, State.REVIEW)
    assert (job.stop_reason, outside.acts(), ledger(job)) == ("confirm_effects", 0, [])
    decide(job, Event.APPROVE)
    ended(job)
    effect = SideEffect.objects.get(job=job)
    assert (effect.outcome, effect.reference) == ("confirmed", f"done {effect.key}")
    assert outside.acts() == 1
    assert_whole(job)


def test_several_effects_happen_in_order_and_a_failed_one_stops_the_rest(outside: Outside) -> None:
    job = approved(
        outside.job(outside.effect(kind="first"), outside.effect("exit 7", kind="second"), outside.effect(kind="third"))
    )
    ended(job, State.REVIEW)
    assert (job.stop_reason, ledger(job)) == ("side_effect_unknown", [(1, "confirmed"), (1, "unknown")])
    answer(job, "happened")
    ended(job)
    assert ledger(job) == [(1, "confirmed"), (1, "confirmed"), (1, "confirmed")]
    assert outside.acts() == 3
    assert_whole(job)


def test_what_exists_outside_already_is_not_done_again(outside: Outside) -> None:
    job = outside.job(outside.effect(lookup=True))
    ended(job, State.REVIEW)
    (act,) = side_effects.declared(
        definition(job.workflow_id),
        job_id=job.pk,
        key=job.idempotency_key,
        repo=job.repository.name,
        payload=job.payload,
        commit=_result_commit(job),
    )
    outside.log.write_text(f"{act.key}\n")
    decide(job, Event.APPROVE)
    ended(job)
    assert ledger(job) == [(1, "confirmed")]
    assert outside.acts() == 1  # ours from above; the act itself did not run
    assert SideEffect.objects.get(job=job).reference == act.key


def test_an_act_that_cannot_start_did_not_happen_and_is_tried_again_only_by_decision(outside: Outside) -> None:
    tool = outside.engine.room / f"{outside.name}.sh"
    effect = f'[[effects]]\nkind = "notify"\nargv = {toml(str(tool), "{{ key }}")}'
    job = approved(outside.job(effect))
    ended(job, State.REVIEW)
    assert (job.stop_reason, ledger(job)) == ("effect_not_started", [(1, "absent")])
    tool.write_text(f'#!/bin/sh\necho "$1" >> {outside.log}\n')
    tool.chmod(0o755)
    decide(job, Event.RESUME, grants={"attempts": 1})  # which is no decision to do it
    until(lambda: _held_again(job))
    assert (job.stop_reason, ledger(job)) == ("effect_needs_decision", [(1, "absent")])
    decide(job, Event.APPROVE)
    ended(job)
    assert (ledger(job), outside.acts()) == ([(1, "absent"), (2, "confirmed")], 1)
    assert_whole(job)


@pytest.mark.parametrize("said", ["happened", "absent", "unknown"])
def test_an_attempt_frozen_before_its_act_and_thawed_after_the_takeover_never_acts(
    make_engine: Callable[[], Any], said: str
) -> None:
    with make_engine() as engine:
        engine.run_workers(2, AGENTQ_FAULTS="effect_intended@2:stop")
        outside = Outside(engine, "publish")
        job = approved(outside.job(outside.effect(lookup=True)))
        frozen = until(lambda: _frozen_worker(job))
        try:
            ended(job, State.REVIEW)
            assert (job.stop_reason, ledger(job), outside.acts()) == ("side_effect_unknown", [(1, "unknown")], 0)
            with pytest.raises(DecisionRefused):
                answer(job, "absent")
            assert proof.prove(job.pk)
            asked = lookups.ask_for_people(SideEffect.objects.get(job=job).pk, actor="user:rea")
            assert asked is not None and asked.said == "absent"
            answer(job, said)
            ended(job, State.REVIEW if said == "unknown" else State.ACCEPTED)
            before = Job.objects.values().get(pk=job.pk), ledger(job), outside.acts()
        finally:
            os.kill(frozen, signal.SIGCONT)
        until(lambda: [facts for facts in audit_events("node", "late_result") if facts["job"] == job.pk])
        assert (Job.objects.values().get(pk=job.pk), ledger(job), outside.acts()) == before
        assert outside.acts() == {"happened": 0, "absent": 1, "unknown": 0}[said]
        assert_whole(job)


@pytest.mark.parametrize(("place", "acts"), [("effect_intended", 0), ("effect_acted", 1)])
def test_a_worker_killed_beside_its_act_leaves_the_question_to_a_person(
    make_engine: Callable[[], Any], place: str, acts: int
) -> None:
    with make_engine() as engine:
        engine.run_workers(1, AGENTQ_FAULTS=f"{place}@2:kill")
        outside = Outside(engine, "publish")
        job = approved(outside.job(outside.effect()))
        ended(job, State.REVIEW)
        assert (job.stop_reason, ledger(job), outside.acts()) == ("side_effect_unknown", [(1, "unknown")], acts)
        engine.run_workers(1)
        maintenance.run()
        answer(job, "happened" if acts else "absent")
        ended(job)
        assert outside.acts() == 1
        assert_whole(job)


def test_a_worker_killed_in_the_middle_of_an_act_never_repeats_it(outside: Outside) -> None:
    job = approved(outside.job(outside.effect("exec sleep 60")))
    until(lambda: outside.acts() == 1)
    job.refresh_from_db()
    os.kill(int(job.lease_owner.rpartition("/")[2]), signal.SIGKILL)
    ended(job, State.REVIEW)
    assert (job.stop_reason, ledger(job)) == ("side_effect_unknown", [(1, "unknown")])
    assert ReviewCase.objects.get(job=job, closed_at=None).allowed == [Event.RESOLVE]
    answer(job, "happened")
    ended(job)
    assert (ledger(job), outside.acts()) == ([(1, "confirmed")], 1)
    assert attempts(job)[-1][1] == "accepted"
    assert_whole(job)


def test_maintenance_on_its_host_proves_that_a_dead_attempt_acts_no_more(outside: Outside) -> None:
    job = approved(outside.job(outside.effect("exit 3")))
    ended(job, State.REVIEW)
    (effect,) = proofs.open_effects(job.pk)
    maintenance.run()
    assert proofs.proven(effect)
    answer(job, "absent")
    ended(job, State.REVIEW)
    assert (ledger(job), outside.acts()) == ([(1, "absent"), (2, "unknown")], 2)


def test_cannot_tell_leaves_the_case_open_and_on_record(outside: Outside) -> None:
    job = approved(outside.job(outside.effect("exit 3")))
    ended(job, State.REVIEW)
    (effect,) = proofs.open_effects(job.pk)
    resolutions.resolve(effect.pk, "unknown", reference="", reason="their page is down", actor="user:rea")
    job.refresh_from_db()
    assert (job.state, ledger(job)) == (State.REVIEW, [(1, "unknown")])
    assert [facts["effect"] for facts in audit_events(f"job:{job.pk}", "effect_not_told")] == [effect.pk]
    assert reconcile.sweep().held == 0


def test_a_run_of_an_executor_that_acts_outside_is_one_act_and_never_begins_again(outside: Outside) -> None:
    job = outside.job(fail_how="hang", fail_attempts=1)
    ended(job, State.REVIEW)
    assert (job.stop_reason, ledger(job)) == ("confirm", [])
    decide(job, Event.CONFIRM)
    worker = running(job)
    assert ledger(job) == [(1, "")]
    os.kill(worker, signal.SIGKILL)
    ended(job, State.REVIEW)
    assert (job.stop_reason, ledger(job)) == ("side_effect_unknown", [(1, "unknown")])
    effect = SideEffect.objects.get(job=job)
    assert (effect.kind, effect.sha) == ("whole-run", job.idempotency_key)
    until(lambda: audit_events(f"job:{job.pk}", "rescued") or maintenance.run() is None)
    answer(job, "happened")
    ended(job)
    # A second run would have taken this path too, but it leaves a record of its own start.
    assert [
        facts.get("run") for facts in audit_events(f"job:{job.pk}", "checkpoint") if facts["stage"] == "modify"
    ] == ["not repeated"]
    assert not (artifacts.attempt_dir(job.pk, 2) / "modify.stdout").exists()
    assert_whole(job)


def test_a_ledger_older_than_its_anchor_acts_no_more(make_engine: Callable[[], Any]) -> None:
    with make_engine() as engine:
        engine.run_workers(1)
        outside = Outside(engine, "publish")
        ended(approved(outside.job(outside.effect())))
        noted = anchors.path().read_text()
        assert (json.loads(noted)["id"], anchors.path().stat().st_mode & 0o777) == (1, 0o600)
        # As after a backup of yesterday was put back: acts that the anchor knows of are not in the ledger.
        anchors.path().write_text(noted.replace('"id": 1', '"id": 2'))
        later = Outside(engine, "later")
        job = approved(later.job(later.effect()))
        ended(job, State.REVIEW)
        assert (job.stop_reason, ledger(job), later.acts()) == ("ledger_behind_anchor", [], 0)
        anchors.accept(actor="user:owner", reason="I compared both with what is outside")
        decide(job, Event.APPROVE)
        ended(job)
        assert (ledger(job), later.acts()) == ([(1, "confirmed")], 1)
        assert_whole(job)


def _held_again(job: Job) -> bool:
    job.refresh_from_db()
    return job.state == State.REVIEW and job.stop_reason == "effect_needs_decision"


def _frozen_worker(job: Job) -> int:
    job.refresh_from_db()
    worker = int(job.lease_owner.rpartition("/")[2] or 0)
    if not worker or not SideEffect.objects.filter(job=job).exists():
        return 0
    state = Path(f"/proc/{worker}/stat").read_text().rpartition(")")[2].split()[0]
    return worker if state == "T" else 0


def _result_commit(job: Job) -> str:
    """The commit that deliver will make: the same each time, because it is made of the job alone."""
    mirror = artifacts.mirror(job.repository)
    tree = mirror.base_of(job.snapshot).tree
    message = f"{job.action} (AgentQ J-{job.pk})\n\nJob-Key: {job.idempotency_key}\n"
    return commit_result(mirror, tree, job.base_commit, message, AUTHOR, int(job.created_at.timestamp()))
