"""P1, P3, B2: versions are made once, activated with a reason by somebody, and never changed, also not by SQL."""

import json

import pytest
from django.db import IntegrityError, connection, transaction

from jobs import triggers
from jobs.errors import PolicyRefused
from jobs.models import AuditEvent, PolicyActivation, PolicyVersion
from jobs.policies.document import PolicyDocument
from jobs.policies.loading import BUILTIN_PATH, builtin, load
from jobs.services import clock, policies
from tests.services.situations import execute

pytestmark = pytest.mark.django_db
TEXT = BUILTIN_PATH.read_text(encoding="utf-8")
OWNER = "user:owner"
RULE = '\n[[rules]]\nid = "mine"\nclass = "environment"\ncode = "x"\naction = "review"\nany = ["mine"]\nwhy = "w"\n'
SIGNAL = '\n[[signals]]\nname = "mine"\ncodes = ["odd"]\nexit_codes = [77]\n'
CASE = (
    '\n[[cases]]\nid = "mine"\nprogram = "tool"\nexit_code = 77\nexpected_class = "environment"\n'
    'expected_action = "%s"\nexpected_rule = "mine"\n'
)


@pytest.fixture(autouse=True)
def first():
    policies.rules.cache_clear()
    assert policies.active().number == 1


def version(text: str, **values) -> PolicyVersion:
    return policies.publish(load(text, "draft.toml"), author=OWNER, note="a test", source=text, **values)


def other(mark: str) -> str:
    return TEXT.replace('note = "', f'note = "{mark} ')


def test_a_version_names_its_parent_author_and_text_and_is_not_active_yet():
    second = version(other("2"))
    assert (second.number, second.parent.number, second.author) == (2, 1, OWNER)
    assert policies.source(2) == other("2")
    assert policies.source(1) == TEXT
    assert policies.active().number == 1
    third = version(other("3"), parent=1)
    assert (third.number, third.parent.number) == (3, 1)


def test_the_same_document_is_published_once():
    with pytest.raises(PolicyRefused, match="version 1 already"):
        version(TEXT + "# only a comment\n")


def test_a_secret_in_a_pasted_case_is_refused_with_its_line_and_stored_nowhere():
    key = "ghp_" + "16C7e42F292c6912E7710c838347Ae178B4a"
    text = TEXT + (CASE % "review").replace("exit_code", f'stderr_tail = "token {key} is invalid"\nexit_code')
    text += SIGNAL + RULE
    line = next(number for number, each in enumerate(text.splitlines(), 1) if key in each)
    with pytest.raises(PolicyRefused, match=f"Line {line} holds what looks like a secret") as refusal:
        version(text)
    assert key not in str(refusal.value)
    assert PolicyVersion.objects.count() == 1


def test_activation_is_a_row_with_actor_and_reason_and_is_audited():
    version(other("2"))
    policies.activate(2, actor=OWNER, reason=" looks right ")
    assert policies.active().number == 2
    row = PolicyActivation.objects.latest("pk")
    assert (row.actor, row.reason) == (OWNER, "looks right")
    body = json.loads(AuditEvent.objects.filter(stream="policy", event="activate").latest("pk").body)
    assert (body["policy"], body["actor"], body["facts"]) == (2, OWNER, {"before": 1})


@pytest.mark.parametrize("reason", ["", "   "])
def test_an_activation_needs_a_reason(reason):
    version(other("2"))
    with pytest.raises(PolicyRefused, match="Say why"):
        policies.activate(2, actor=OWNER, reason=reason)


def test_going_back_to_an_older_version_needs_a_sentence():
    version(other("2"))
    policies.activate(2, actor=OWNER, reason="better")
    with pytest.raises(PolicyRefused, match="older"):
        policies.activate(1, actor=OWNER, reason="hm")
    policies.activate(1, actor=OWNER, reason="version 2 retried too much")
    assert policies.active().number == 1


def test_the_active_version_and_one_that_is_not_there_are_refused():
    with pytest.raises(PolicyRefused, match="active already"):
        policies.activate(1, actor=OWNER, reason="again and again")
    with pytest.raises(PolicyRefused, match="no policy version 9"):
        policies.activate(9, actor=OWNER, reason="a wish")


def test_a_version_whose_own_case_fails_is_not_activated():
    version(TEXT + SIGNAL + RULE + CASE % "stop")
    with pytest.raises(PolicyRefused, match="Case mine gives environment, review by mine"):
        policies.activate(2, actor=OWNER, reason="hurry")
    assert policies.active().number == 1


def test_a_new_rule_needs_a_case_that_proves_it():
    version(TEXT + SIGNAL + RULE)
    with pytest.raises(PolicyRefused, match="No case of its own proves: mine"):
        policies.activate(2, actor=OWNER, reason="hurry")
    version(TEXT + SIGNAL + RULE + CASE % "review", parent=1)
    policies.activate(3, actor=OWNER, reason="with its case")
    assert policies.active().number == 3


@pytest.mark.parametrize(
    "text",
    [
        "UPDATE jobs_policyversion SET note = 'x'",
        "UPDATE jobs_policyversion SET document = '{}' WHERE number = 1",
        "DELETE FROM jobs_policyversion",
        "DELETE FROM jobs_policyactivation",
        "UPDATE jobs_policyactivation SET reason = 'x'",
    ],
)
def test_sql_can_neither_change_nor_remove_a_version_or_an_activation(text):
    with pytest.raises(IntegrityError, match="agentq"), transaction.atomic():
        execute(text)


def stored(data: dict) -> None:
    PolicyVersion.objects.create(
        number=2, digest="d" * 64, document=json.dumps(data), author=OWNER, note="", created_at=clock.now()
    )


@pytest.mark.parametrize(
    "spoil",
    [
        lambda data: data["budgets"][2].update(attempts=2),
        lambda data: data["budgets"].append({"risk": "external_side_effect", "action": "publish", "attempts": 3}),
        lambda data: data["rules"][0].update(action="retry", risks=["external_side_effect"]),
        lambda data: data["rules"][0].update(action="wait", risks=["read_only", "external_side_effect"]),
    ],
)
def test_a_document_that_repeats_external_side_effects_is_refused_by_schema_and_by_database(spoil):
    data = json.loads(builtin().canonical())
    assert data["budgets"][2]["risk"] == "external_side_effect"
    spoil(data)
    with pytest.raises(ValueError, match="external_side_effect"):
        PolicyDocument.model_validate(data)
    with pytest.raises(IntegrityError, match="no policy repeats external side effects"), transaction.atomic():
        stored(data)


def test_the_database_takes_a_document_that_repeats_other_things():
    stored(json.loads(builtin().canonical()) | {"note": "another"})
    assert PolicyVersion.objects.count() == 2


def test_the_trigger_is_among_those_the_engine_will_not_start_without():
    assert "agentq_policyversion_no_outward_retry" in triggers.statements(connection.vendor)
    assert triggers.missing(connection) == []
