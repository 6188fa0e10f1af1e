"""K3, X1, X2, X3, E3: what is sent under which key, and when an act may be done at all."""

from datetime import UTC, datetime, timedelta

import pytest

from jobs.core import side_effects
from jobs.core.keys import canonical_json, make_effect_key, sha256_hex
from jobs.core.side_effects import Ask, Delivered, Do, Reuse, Template, Try, acts, needs_person, plan

NOW = datetime(2026, 11, 29, 12, tzinfo=UTC)
BEFORE, AFTER = NOW - timedelta(seconds=1), NOW + timedelta(seconds=1)
COMMIT = "c" * 40
DELIVERED = Delivered(job="7", repo="demo/shop", branch="agentq/7-12345678", commit=COMMIT)
NOTHING = Delivered(job="7", repo="demo/shop")


def template(*argv: str, kind: str = "notify", target: str = "outsiders", lookup: tuple[str, ...] | None = None):
    return Template(kind, target, argv, lookup, 60)


def test_a_first_act_may_be_done():
    assert plan([], None) == Do(1)


def test_what_happened_is_reused_whatever_was_decided_since():
    assert plan([Try(1, "confirmed", NOW, "PR 12")], AFTER) == Reuse("PR 12")


@pytest.mark.parametrize("outcome", ["", "unknown"])
def test_without_a_known_outcome_only_a_person_goes_on(outcome):
    assert plan([Try(1, outcome, NOW if outcome else None)], AFTER) == Ask()


@pytest.mark.parametrize(("decided", "answer"), [(None, Ask()), (BEFORE, Ask()), (NOW, Do(2)), (AFTER, Do(2))], ids=str)
def test_what_did_not_happen_is_tried_again_only_after_a_decision_that_came_later(decided, answer):
    assert plan([Try(1, "absent", NOW)], decided) == answer


def test_a_person_who_says_that_it_did_not_happen_decides_that_it_may_be_done():
    assert plan([Try(1, "absent", NOW, by_person=True)], None) == Do(2)


def test_the_newest_try_counts_in_whatever_order_they_are_read():
    tries = [Try(2, "confirmed", NOW, "second"), Try(1, "absent", BEFORE, by_person=True)]
    assert plan(tries, AFTER) == plan(tries[::-1], AFTER) == Reuse("second")


def test_placeholders_are_filled_in_every_word():
    argv = ("tool", "--head={{branch}}", "{{ commit }}", "{{ key }}")
    words = template(*argv, target="{{ repo }}#{{ job }}", lookup=("find", "{{ key }}"))
    (act,) = acts([words], DELIVERED)
    key = make_effect_key(kind="notify", repo="demo/shop", target="demo/shop#7", sha=COMMIT)
    assert (act.target, act.sha, act.key) == ("demo/shop#7", COMMIT, key)
    assert act.argv == ("tool", "--head=agentq/7-12345678", COMMIT, key)
    assert act.lookup == ("find", key)


def test_what_a_value_holds_is_never_read_as_a_placeholder():
    (act,) = acts([template("x", "{{ repo }}")], Delivered(job="7", repo="{{ commit }}", commit=COMMIT))
    assert act.argv[1] == "{{ commit }}"


def test_without_a_commit_the_key_is_made_of_the_bytes_that_will_be_sent():
    (act,) = acts([template("send", "hello {{ job }}", "{{ key }}")], NOTHING)
    assert act.sha == sha256_hex(canonical_json(["send", "hello 7", "{{ key }}"]))
    assert act.argv == ("send", "hello 7", act.key)


def test_the_planned_date_is_part_of_the_key():
    planned = Delivered(job="7", repo="demo/shop", commit=COMMIT, planned_date="2026-11-29")
    (act,) = acts([template("send")], planned)
    assert act.key == make_effect_key(
        kind="notify", repo="demo/shop", target="outsiders", sha=COMMIT, planned_date="2026-11-29"
    )


def test_nothing_is_sent_of_a_result_that_changed_nothing():
    push = template("/srv/remote.git", kind=side_effects.PUSH)
    told = template("send", "report of {{ job }}")
    assert [act.kind for act in acts([push, template("x", "{{ branch }}"), told], NOTHING)] == ["notify"]


def test_only_pushing_a_results_own_branch_where_effects_may_act_goes_without_a_person():
    assert needs_person(["push-branch", "push-branch"], may_act=True) is False
    assert needs_person(["push-branch"], may_act=False) is True
    assert needs_person(["push-branch", "release"], may_act=True) is True


def test_a_push_can_always_be_looked_up_another_act_only_by_its_own_command():
    push, asks, blind = acts(
        [template("/r", kind=side_effects.PUSH), template("x", lookup=("y",), target="a"), template("x")], DELIVERED
    )
    assert [act.can_be_looked_up for act in (push, asks, blind)] == [True, True, False]
