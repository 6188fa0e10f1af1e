"""P1, B2, V2: a policy document is validated with the line that is wrong, and can never allow outward retries."""

import re
from dataclasses import replace

import pytest

from jobs.core.policy import DEFAULT_POLICY, RISKS
from jobs.policies.document import PolicyDocument
from jobs.policies.loading import BUILTIN_PATH, PolicyInvalid, builtin, load, load_json, to_policy
from jobs.policies.source import line_of

TEXT = BUILTIN_PATH.read_text(encoding="utf-8")
NEW_RULE = '\n[[rules]]\nid = "mine"\nclass = "%s"\ncode = "x"\naction = "%s"\nany = ["money"]\nwhy = "no"\n'
UNKNOWN_RULE = "\n[[rules]]\nid = 'r'\nclass = 'unknown'\ncode = 'x'\naction = 'review'\nwhy = 'w'\n"


def problems(text: str) -> list[str]:
    with pytest.raises(PolicyInvalid) as caught:
        load(text, "draft.toml")
    return caught.value.problems


def changed(old: str, new: str) -> str:
    assert TEXT.count(old) == 1, old
    return TEXT.replace(old, new)


def line_with(text: str, part: str) -> int:
    return next(number for number, line in enumerate(text.splitlines(), 1) if part in line)


def test_the_built_in_policy_explains_every_rule() -> None:
    rules = builtin().rules
    assert len(rules) > 40
    assert all(len(rule.why) > 20 for rule in rules)


def test_equal_documents_have_one_digest_and_changed_ones_another() -> None:
    again = load(TEXT + "\n# a comment changes nothing\n", "again.toml")
    assert again.digest() == builtin().digest()
    assert re.fullmatch(r"[0-9a-f]{64}", builtin().digest())
    other = load(changed("jitter_seconds = 10", "jitter_seconds = 11"), "other.toml")
    assert other.digest() != builtin().digest()


def test_the_stored_form_gives_the_same_policy_back() -> None:
    stored = load_json(builtin().canonical())
    assert stored == builtin()
    assert to_policy(stored) == to_policy(builtin())


def test_the_built_in_numbers_are_the_ones_the_pure_rules_assume() -> None:
    policy = to_policy(builtin())
    for name in ("backoff", "breakers", "gates", "retry_ratio", "retention", "budgets"):
        assert getattr(policy, name) == getattr(DEFAULT_POLICY, name), name
    assert {path.name for path in policy.paths} == {"auth", "billing", "permissions", "deployment"}


def test_retries_of_external_side_effects_are_refused() -> None:
    text = changed('risk = "external_side_effect"\nattempts = 1', 'risk = "external_side_effect"\nattempts = 2')
    [problem] = problems(text)
    assert problem.startswith("draft.toml:")
    assert "never retried automatically" in problem


@pytest.mark.parametrize("action", ["retry", "wait"])
def test_a_rule_that_would_repeat_an_outward_act_is_refused(action: str) -> None:
    rule = (
        f'\n[[rules]]\nid = "mine"\nclass = "transient"\ncode = "x"\naction = "{action}"\nany = ["money"]\nwhy = "no"\n'
    )
    [problem] = problems(TEXT + rule + 'risks = ["external_side_effect"]\n')
    assert "external_side_effect is never retried" in problem


@pytest.mark.parametrize("class_", ["billing_unknown", "permission", "side_effect_unknown", "conflict", "unknown"])
def test_a_class_that_never_repeats_cannot_be_given_a_retry(class_: str) -> None:
    rule = NEW_RULE % (class_, "retry")
    [problem] = problems(TEXT + rule)
    assert f"class {class_} may not retry" in problem


def test_an_error_names_file_line_and_key() -> None:
    text = changed("failure_share = 0.5", "failure_share = 1.5")
    [problem] = problems(text)
    assert problem.startswith(f"draft.toml:{line_with(text, 'failure_share')}: breakers.failure_share:")


def test_an_error_inside_the_third_of_several_tables_names_its_own_line() -> None:
    text = changed('id = "03-key-reused"\nclass = "conflict"', 'id = "03-key-reused"\nclass = "clash"')
    [problem] = problems(text)
    assert problem.startswith(f"draft.toml:{line_with(text, 'clash')}: rules.2.class:")


def test_all_errors_are_told_at_once() -> None:
    text = changed("failure_share = 0.5", "failure_share = 2").replace("factor = 2", "factor = 0")
    assert len(problems(text)) == 2


def test_an_unbounded_pattern_is_refused_with_its_line() -> None:
    text = TEXT + "\n[[signals]]\nname = 'mine'\ntext = ['a.*b']\n"
    [problem] = problems(text)
    assert problem.startswith(f"draft.toml:{line_with(text, 'a.*b')}:")
    assert "bounded" in problem


@pytest.mark.parametrize(
    ("addition", "message"),
    [
        ("\n[[signals]]\nname = 'money'\n", "twice"),
        (UNKNOWN_RULE + "any = ['nope']\n", "not defined"),
        (UNKNOWN_RULE, "at least one signal"),
        ("\n[surprise]\nx = 1\n", "not permitted"),
        ("\nthis is not toml", "not valid TOML"),
    ],
)
def test_what_does_not_fit_together_is_refused(addition: str, message: str) -> None:
    assert any(message in problem for problem in problems(TEXT + addition))


@pytest.mark.parametrize("name", ["auth", "billing", "permissions", "deployment"])
def test_the_four_path_rules_cannot_be_left_out(name: str) -> None:
    text = TEXT.replace(f'[[paths]]\nname = "{name}"', '[[paths]]\nname = "other"')
    assert any("path rule is missing" in problem for problem in problems(text))


def test_a_path_rule_can_only_ask_for_review() -> None:
    data = builtin().model_dump(by_alias=True)
    data["paths"][0]["decision"] = "allow"
    with pytest.raises(ValueError, match="review"):
        PolicyDocument.model_validate(data)


def test_every_risk_has_a_budget_and_an_unknown_one_gets_the_tightest() -> None:
    policy = to_policy(builtin())
    assert [policy.budget_for(risk).risk for risk in RISKS] == list(RISKS)
    assert policy.budget_for("never heard of").attempts == 1


def test_a_budget_for_an_action_comes_before_the_one_of_its_risk() -> None:
    special = replace(DEFAULT_POLICY.budget_for("read_only"), action="scan", attempts=9)
    policy = replace(DEFAULT_POLICY, budgets=(*DEFAULT_POLICY.budgets, special))
    assert policy.budget_for("read_only", "scan").attempts == 9
    assert policy.budget_for("read_only", "other").attempts == 4


def test_a_line_is_found_for_the_nearest_known_key() -> None:
    text = "a = 1\n[[t]]\nx = 1\n[[t]]\nx = 2\n[u.v]\nz = 3\n"
    assert line_of(text, ("t", 1, "x")) == 5
    assert line_of(text, ("t", 1, "missing")) == 4
    assert line_of(text, ("u", "v", "z")) == 7
    assert line_of(text, ("nothing",)) is None
