"""P3: a draft made from an unknown failure is a valid document whose own case decides by the new rule."""

import tomllib

import pytest

from jobs.core import replays
from jobs.core.failures import FailureFacts
from jobs.policies import cases
from jobs.policies.document import PolicyDocument
from jobs.policies.drafting import with_rule
from jobs.policies.loading import BUILTIN_PATH, PolicyInvalid, builtin, load, to_policy

TEXT = BUILTIN_PATH.read_text(encoding="utf-8")
POLICY = to_policy(builtin())
CASE = (
    '\n[[cases]]\nid = "odd"\nprogram = "tool"\nexit_code = 1\nexception_type = "ConnectionResetError"\n'
    'expected_class = "transient"\nexpected_action = "%s"\nexpected_rule = "%s"\n'
)


def draft(facts: FailureFacts, code: str = "") -> PolicyDocument:
    stored = replays.keep(facts, POLICY, code)
    return load(with_rule(TEXT, stored, version="v2", mark="abc123"), "draft.toml")


@pytest.mark.parametrize(
    ("facts", "code"),
    [
        (FailureFacts(program="sample", stage="modify", exit_code=3), ""),
        (FailureFacts(program="codex", exit_code=1, exception_types=("vendor.errors.OddThing",)), ""),
        (FailureFacts(program="sample", stage="modify", exit_code=1), "odd_thing"),
        (FailureFacts(program="tool", exit_code=1, http_status=418), ""),
    ],
)
def test_a_draft_from_an_unknown_failure_passes_its_own_case_by_the_new_rule(facts: FailureFacts, code: str) -> None:
    document = draft(facts, code)
    (answered,) = cases.answers(document)
    assert answered.passes and answered.answer.rule == "new-abc123"
    assert cases.unproven(document, builtin()) == []
    assert (document.version, len(document.rules)) == ("v2", len(builtin().rules) + 1)


def test_a_draft_of_a_failure_that_showed_nothing_typed_waits_for_its_owner() -> None:
    document = draft(FailureFacts(program="tool", exit_code=None, text="words"))
    assert not cases.answers(document)[0].passes


def test_a_quote_in_a_stored_name_cannot_break_out_of_the_draft() -> None:
    stored = replays.keep(FailureFacts(program='a"\n[[rules]]\nid = "x', exit_code=1), POLICY)
    data = tomllib.loads(with_rule(TEXT, stored, version="v2", mark="abc123"))
    assert [rule["id"] for rule in data["rules"]][-1] == "new-abc123"


def test_a_case_that_expects_another_answer_fails() -> None:
    document = load(TEXT + CASE % ("review", "52-network"), "draft.toml")
    assert [answered.passes for answered in cases.answers(document)] == [False]
    assert [each.passes for each in cases.answers(load(TEXT + CASE % ("retry", "52-network"), "d.toml"))] == [True]


def test_a_new_rule_that_no_case_proves_is_named() -> None:
    rule = '\n[[rules]]\nid = "mine"\nclass = "unknown"\ncode = "x"\naction = "review"\nany = ["money"]\nwhy = "w"\n'
    assert cases.unproven(load(TEXT + rule, "draft.toml"), builtin()) == ["mine"]
    assert cases.unproven(builtin(), None) == []


def test_a_case_must_name_a_rule_that_exists_and_its_line_is_told() -> None:
    with pytest.raises(PolicyInvalid, match="expects the rule 'gone', which is not defined"):
        load(TEXT + CASE % ("retry", "gone"), "draft.toml")
    with pytest.raises(PolicyInvalid) as caught:
        load(TEXT + '\n[[cases]]\nid = "x"\nexpected_class = "luck"\nexpected_action = "retry"\n', "draft.toml")
    line = len(TEXT.splitlines()) + 4
    assert any(f"draft.toml:{line}:" in problem for problem in caught.value.problems)
