"""The ledger's rows: one try at a time, proof before "did not happen", an anchor outside the database (X1, X2)."""

from datetime import timedelta
from typing import Any

import pytest
from django.core.management import call_command
from django.db import connection

from jobs import history, triggers
from jobs.core.side_effects import Act, Ask, Do, Reuse
from jobs.core.states import Event, State
from jobs.errors import DecisionRefused, EffectTaken
from jobs.models import Job, SideEffect
from jobs.models.side_effect import EffectOutcome
from jobs.services import anchors, clock, proofs, resolutions, side_effects
from jobs.services.transitions import Held
from tests.services import situations

ACT = Act("notify", "outsiders", "0" * 64, "feedfacefeedface", ("send",), None, 60)


def verifying(job: Job) -> Held:
    claimed = situations.claim(job)
    return situations.act(job, Event.VERIFY, worker=claimed.held.worker, next_stage="deliver")


def intend(held: Held, number: int = 1) -> Held:
    at = clock.now()
    return side_effects.intend(held, ACT, number, actor="worker:w", at=at, not_after=at + timedelta(seconds=60))


def settle(held: Held, outcome: EffectOutcome) -> Held:
    return side_effects.settle(held, ACT, 1, outcome, "where", actor="worker:w", at=clock.now())


def in_review(registered: Any) -> tuple[Job, SideEffect]:
    """A job in review with an act whose outcome nobody knows."""
    job = situations.new(registered)
    intend(verifying(job))
    assert situations.expire(job) == State.REVIEW
    return job, SideEffect.objects.get(job=job)


def resolve(effect: SideEffect, answer: Any, **values: Any) -> Held:
    for person in situations.PEOPLE:
        effect.refresh_from_db()
        if effect.outcome == "unknown":
            words = {"reference": "their page", "reason": "I looked", **values}
            held = resolutions.resolve(effect.pk, answer, actor=person, **words)
    return held


def test_an_intent_is_open_until_it_is_settled_and_both_are_in_the_history(registered: Any) -> None:
    job = situations.new(registered)
    held = intend(verifying(job))
    assert held.open_intent is True
    assert isinstance(side_effects.next_step(job.pk, ACT.key), Ask)
    held = settle(held, EffectOutcome.CONFIRMED)
    assert held.open_intent is False
    assert side_effects.next_step(job.pk, ACT.key) == Reuse("where")
    job.refresh_from_db()
    assert [moment.event["event"] for moment in history.replay(job.pk)][-2:] == ["intent", "effect_settled"]
    assert history.differences(job) == {}


def test_two_jobs_never_do_one_act_at_a_time(registered: Any) -> None:
    first, second = situations.new(registered), situations.new(registered)
    intend(verifying(first))
    held = verifying(second)
    with pytest.raises(EffectTaken):
        intend(held)
    assert SideEffect.objects.count() == 1
    assert isinstance(side_effects.next_step(second.pk, ACT.key), Ask)


def test_what_did_not_happen_may_be_done_again_only_after_a_decision(registered: Any) -> None:
    job = situations.new(registered)
    settle(intend(verifying(job)), EffectOutcome.ABSENT)
    assert side_effects.next_step(job.pk, ACT.key) == Ask()
    situations.act(job, Event.HOLD)
    situations.decide(job, Event.RERUN, grants={"attempts": 1})
    assert side_effects.next_step(job.pk, ACT.key) == Do(2)


def test_absent_is_refused_until_the_attempt_is_proven_gone(registered: Any) -> None:
    job, effect = in_review(registered)
    SideEffect.objects.filter(pk=effect.pk).update(not_after=clock.now() - timedelta(days=1))
    with pytest.raises(DecisionRefused, match="may still act"):
        resolve(effect, "absent")  # its time limit has passed, which proves nothing
    situations.gone(job)
    assert resolve(effect, "absent").state == State.QUEUED
    effect.refresh_from_db()
    assert (effect.outcome, effect.resolved_by) == ("absent", situations.PEOPLE[1])
    assert side_effects.next_step(job.pk, ACT.key) == Do(2)


def test_an_owners_statement_that_the_host_is_down_stands_for_the_proof(registered: Any) -> None:
    _job, effect = in_review(registered)
    with pytest.raises(DecisionRefused, match="Give a reason"):
        resolutions.state_down(effect.pk, reason=" ", actor="user:owner")
    resolutions.state_down(effect.pk, reason="its rack burned down", actor="user:owner")
    assert proofs.proven(effect)
    assert resolve(effect, "absent").state == State.QUEUED


def test_a_proof_for_an_earlier_attempt_proves_nothing_about_a_later_one(registered: Any) -> None:
    job, effect = in_review(registered)
    situations.gone(job)
    resolve(effect, "absent")
    again = situations.claim(job)
    intend(again.held, 2)
    situations.expire(job)
    (second,) = proofs.open_effects(job.pk)
    assert (second.fence, proofs.proven(second)) == (2, False)


@pytest.mark.parametrize("answers", [(), ("absent", "found"), ("before",)], ids=str)
def test_absent_needs_a_lookup_after_the_proof_that_found_nothing(
    registered: Any, monkeypatch: pytest.MonkeyPatch, answers: tuple[str, ...]
) -> None:
    asks = Act(**{name: getattr(ACT, name) for name in ACT.__slots__} | {"lookup": ("find",)})
    monkeypatch.setattr(side_effects, "act_of", lambda _effect: asks)
    job, effect = in_review(registered)
    if answers == ("before",):
        look(job, effect, "absent")
    situations.gone(job)
    for answer in answers:
        if answer != "before":
            look(job, effect, answer)
    with pytest.raises(DecisionRefused, match="It happened" if answers[-1:] == ("found",) else "Look it up first"):
        resolve(effect, "absent")
    look(job, effect, "absent")
    assert resolve(effect, "absent").state == State.QUEUED


def look(job: Job, effect: SideEffect, answer: str) -> None:
    side_effects.looked_up(situations.held(job), effect, answer, "PR 12", actor="user:rea", at=clock.now())


def test_what_is_settled_or_not_in_review_cannot_be_resolved(registered: Any) -> None:
    job = situations.new(registered)
    held = intend(verifying(job))
    effect = SideEffect.objects.get(job=job)
    with pytest.raises(DecisionRefused, match="not waiting for a person"):
        resolve_once(effect)
    settle(held, EffectOutcome.CONFIRMED)
    with pytest.raises(DecisionRefused, match="known already"):
        resolve_once(effect)
    with pytest.raises(DecisionRefused, match="no act number"):
        resolutions.resolve(0, "happened", reference="x", reason="x", actor="user:rea")


def resolve_once(effect: SideEffect) -> None:
    resolutions.resolve(effect.pk, "happened", reference="x", reason="I looked", actor="user:rea")


def test_only_an_approval_of_this_very_result_that_moved_the_job_confirms_it(registered: Any) -> None:
    job = situations.new(registered)
    situations.claim(job)
    situations.act(job, Event.HOLD, reason="path_rule", result_digest=situations.DIGEST, next_stage="inspect")
    assert side_effects.confirmed(job.pk, situations.DIGEST) is False
    situations.decide(job, Event.APPROVE)
    assert side_effects.confirmed(job.pk, situations.DIGEST) is True
    assert side_effects.confirmed(job.pk, "f" * 64) is False
    assert side_effects.confirmed(job.pk, "") is False


def test_a_ledger_that_lost_its_newest_acts_is_behind_its_anchor(registered: Any, settings: Any, tmp_path: Any) -> None:
    settings.ARTIFACTS_DIR = tmp_path / "artifacts"
    assert anchors.behind() is False
    _job, first = in_review(registered)
    anchors.raise_to(first)
    assert anchors.behind() is False
    with triggers.lifted(connection):
        SideEffect.objects.filter(pk=first.pk).update(key="0" * 16)
    assert anchors.behind() is True  # another act took its number since the backup was put back
    with triggers.lifted(connection):
        SideEffect.objects.filter(pk=first.pk).delete()
    assert anchors.behind() is True
    with pytest.raises(DecisionRefused):
        anchors.accept(actor="user:owner", reason="")
    anchors.accept(actor="user:owner", reason="compared")
    assert anchors.behind() is False


def test_a_damaged_anchor_lets_nothing_act(registered: Any, settings: Any, tmp_path: Any) -> None:
    settings.ARTIFACTS_DIR = tmp_path / "artifacts"
    _job, first = in_review(registered)
    anchors.raise_to(first)
    anchors.path().write_text("{")
    assert anchors.behind() is True


def test_the_command_gives_the_first_decision_and_never_the_second(
    registered: Any, django_user_model: Any, capsys: Any
) -> None:
    for name in ("rea", "sol"):
        django_user_model.objects.create_superuser(name, password=None)
    job, effect = in_review(registered)
    arguments = ("resolve_side_effect", str(effect.pk), "--outcome=happened", "--reference=seen", "--reason=I looked")
    call_command(*arguments, "--as=rea", "--json")
    assert '"settled": false' in capsys.readouterr().out
    with pytest.raises(Exception, match="in the console"):
        call_command(*arguments, "--as=sol")
    job.refresh_from_db()
    assert job.state == State.REVIEW


def test_the_command_asks_for_the_role(registered: Any, django_user_model: Any) -> None:
    django_user_model.objects.create_user("vic")
    _job, effect = in_review(registered)
    with pytest.raises(Exception, match="may not do that"):
        call_command(
            "resolve_side_effect", str(effect.pk), "--outcome=unknown", "--reason=I looked", "--as=vic", "--host-down"
        )
