"""Acts outside happen once, whoever freezes, dies, loses an answer or is asked (X1, X2, X3, K3, E3, B2)."""

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from jobs.core.states import Event, State
from jobs.errors import DecisionRefused
from jobs.models import Job, Repository, ReviewCase, SideEffect
from jobs.services import proofs, reconcile, resolutions, reviews
from jobs.worker import lookups, maintenance, proof
from tests.worker.engine import Cluster, Engine, assert_whole, attempts, audit_events, ended, until

pytestmark = [pytest.mark.engine, pytest.mark.xdist_group("engine")]
PEOPLE = ("user:rea", "user:sol")
WORKFLOW = """\
name = "{name}"
version = "v1"
title = "Publish"
executor = "sample"
risk = "external_side_effect"
expects = "diff"
seconds = 300

[[fields]]
name = "paths"
kind = "paths"
required = true

[[fields]]
name = "text"
kind = "string"
required = true
"""


@pytest.fixture(scope="module")
def shared(make_engine: Callable[[], Any]) -> Iterator[tuple[Engine, Cluster]]:
    with make_engine() as engine:
        yield engine, engine.run_workers(2)


@pytest.fixture
def engine(shared: tuple[Engine, Cluster]) -> Engine:
    return shared[0]


class Outside:
    """What lies outside AgentQ in a test: a file in which each act leaves a line."""

    def __init__(self, engine: Engine, name: str) -> None:
        self.engine, self.name = engine, name
        self.log = engine.room / f"{name}.acts"
        self.log.touch()

    def effect(self, then: str = "echo done $1", kind: str = "notify", lookup: bool = False) -> str:
        script = f'echo "$1" >> {self.log}; {then}'
        lines = ["[[effects]]", f'kind = "{kind}"', f"argv = {_toml('sh', '-c', script, 'act', '{{ key }}')}"]
        if lookup:
            find = f'grep "$1" {self.log}'
            lines.append(f"lookup = {_toml('sh', '-c', find, 'look', '{{ key }}')}")
        return "\n".join(lines)

    def job(self, *effects: str, autonomy: str = "effects") -> Job:
        """A job that changes a file and then does these effects."""
        text = WORKFLOW.format(name=self.name) + "".join(f"\n{effect}\n" for effect in effects)
        (self.engine.room / "workflows" / f"{self.name}.toml").write_text(text)
        repository = self.engine.repository(f"demo/{self.name}")
        Repository.objects.filter(pk=repository.pk).update(autonomy=autonomy)
        return self.engine.job(repository, self.name)

    def acts(self) -> int:
        return len(self.log.read_text().splitlines())


@pytest.fixture
def outside(engine: Engine, request: pytest.FixtureRequest) -> Outside:
    name = f"publish-{abs(hash(request.node.name)) % 10**8}"
    return Outside(engine, name)


def _toml(*words: str) -> str:
    return "[" + ", ".join(f"'{word}'" for word in words) + "]"


def decide(job: Job, event: Event, **values: Any) -> None:
    """As many people decide as the case takes."""
    case = ReviewCase.objects.get(job=job, closed_at=None)
    for person in PEOPLE:
        if ReviewCase.objects.filter(pk=case.pk, closed_at=None).exists():
            decision = reviews.Decision(event=event, reason="I looked at it", job_version=case.job_version, **values)
            reviews.decide(case.pk, decision, actor=person)


def answer(job: Job, said: Any, reference: str = "seen outside") -> None:
    """As many people as it takes say what came of the job's open act."""
    effect = SideEffect.objects.filter(job=job, outcome__in=("", "unknown")).latest("pk")
    for person in PEOPLE:
        if SideEffect.objects.filter(pk=effect.pk, outcome="unknown").exists():
            resolutions.resolve(effect.pk, said, reference=reference, reason="I looked", actor=person)


def approved(job: Job) -> Job:
    """The job was held for its confirmation, and a person gave it."""
    ended(job, State.REVIEW)
    assert job.stop_reason == "confirm_effects"
    decide(job, Event.APPROVE)
    return job


def ledger(job: Job) -> list[tuple[int, str]]:
    return list(SideEffect.objects.filter(job=job).order_by("pk").values_list("number", "outcome"))


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
    outside.log.write_text("")
    from jobs.services import side_effects

    act = side_effects.declared(
        _definition(job), job_id=job.pk, key=job.idempotency_key, repo=job.repository.name, payload=job.payload,
        commit=_result_commit(job),
    )[0]  # fmt: skip
    outside.log.write_text(f"{act.key}\n")
    decide(job, Event.APPROVE)
    ended(job)
    assert ledger(job) == [(1, "confirmed")]
    assert outside.acts() == 1  # ours from above; the act itself did not run
    assert SideEffect.objects.get(job=job).reference == act.key


def test_an_act_that_cannot_start_did_not_happen_and_is_tried_again_only_by_decision(outside: Outside) -> None:
    tool = outside.engine.room / f"{outside.name}.sh"
    effect = f'[[effects]]\nkind = "notify"\nargv = {_toml(str(tool), "{{ key }}")}'
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


@pytest.mark.parametrize("said", ["happened", "absent"])
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
            ended(job)
            before = Job.objects.values().get(pk=job.pk), ledger(job), outside.acts()
        finally:
            os.kill(frozen, signal.SIGCONT)
        until(lambda: [facts for facts in audit_events("node", "late_result") if facts["job"] == job.pk])
        assert (Job.objects.values().get(pk=job.pk), ledger(job), outside.acts()) == before
        acts = {"happened": 0, "absent": 1}[said]
        assert outside.acts() == acts
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


def _definition(job: Job) -> Any:
    from jobs.services.candidates import definition

    return definition(job.workflow_id)


def _result_commit(job: Job) -> str:
    """The commit that deliver will make: the same each time, because it is made of the job alone."""
    from jobs.services import artifacts
    from jobs.worker.workspace import AUTHOR
    from jobs.workspaces.snapshot import commit_result

    mirror = artifacts.mirror(job.repository)
    tree = mirror.base_of(job.snapshot).tree
    message = f"{job.action} (AgentQ J-{job.pk})\n\nJob-Key: {job.idempotency_key}\n"
    return commit_result(mirror, tree, job.base_commit, message, AUTHOR, int(job.created_at.timestamp()))
