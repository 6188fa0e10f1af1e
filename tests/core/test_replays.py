"""P2, Z1: a stored failure holds no text, and another policy's answer to it is the true one or none."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from jobs.core import replays
from jobs.core.adapters.cases import to_run
from jobs.core.adapters.runs import EndedRun, gather
from jobs.core.failures import Classification, FailureFacts, classify, named
from jobs.core.policy import Policy, Rule, Signal
from jobs.policies.loading import builtin, to_policy

FIXTURES = Path(__file__).parents[1] / "fixtures"
POLICY = to_policy(builtin())
NOTHING = Classification(class_="", code="", action="accept")


def corpus() -> list[FailureFacts]:
    names = ("failure_corpus.jsonl", "failure_cases.jsonl")
    lines = [line for name in names for line in (FIXTURES / name).read_text(encoding="utf-8").splitlines()]
    return [gather(to_run(json.loads(line))) for line in lines]


FACTS = corpus()


def kept(facts: FailureFacts, code: str = "") -> replays.Kept:
    stored = json.loads(json.dumps(replays.keep(facts, POLICY, code)))
    return replays.restore(stored, POLICY)


def drafts() -> dict[str, Policy]:
    rules, signals = list(POLICY.rules), list(POLICY.signals)
    new = Signal(name="draft", text=("timed? ?out", "error"))
    first = Rule(id="draft", class_="environment", code="draft", action="retry", any=("draft",))
    return {
        "the same": POLICY,
        "without its first rules": replace(POLICY, rules=tuple(rules[20:])),
        "in the other order": replace(POLICY, rules=tuple(reversed(rules))),
        "with a new text rule in front": replace(POLICY, rules=(first, *rules), signals=(*signals, new)),
        "with a new text rule at the end": replace(POLICY, rules=(*rules, first), signals=(*signals, new)),
        "with a new text in `none`": replace(
            POLICY, rules=tuple(replace(rule, none=(*rule.none, "draft")) for rule in rules), signals=(*signals, new)
        ),
        "with half of each text": replace(
            POLICY, signals=tuple(replace(signal, text=signal.text[::2]) for signal in signals)
        ),
        "without typed codes": replace(
            POLICY, signals=tuple(replace(signal, codes=frozenset(), statuses=frozenset()) for signal in signals)
        ),
    }


@pytest.mark.parametrize("name", drafts())
def test_a_replay_without_the_text_says_what_the_text_would_have_said_or_nothing(name: str) -> None:
    draft = drafts()[name]
    answered = 0
    for facts in FACTS:
        again = replays.reclassify(kept(facts), draft)
        if again is not None:
            answered += 1
            whole = classify(facts, draft)
            assert replace(again, rules=again.rules[:1]) == replace(whole, rules=whole.rules[:1])
    assert answered > 0


def test_under_its_own_policy_nearly_every_stored_failure_is_judged_again() -> None:
    assert sum(replays.reclassify(kept(facts), POLICY) is not None for facts in FACTS) >= 0.95 * len(FACTS)


def test_a_new_text_pattern_in_front_leaves_every_failure_that_said_something_undecided() -> None:
    draft = drafts()["with a new text rule in front"]
    said = [facts for facts in FACTS if facts.text.strip() and facts.failed]
    silent = [facts for facts in FACTS if not facts.text.strip()]
    assert said and silent
    assert all(replays.reclassify(kept(facts), draft) is None for facts in said)
    assert all(replays.reclassify(kept(facts), draft) is not None for facts in silent)


def test_nothing_of_the_output_is_stored() -> None:
    run = EndedRun(
        program="codex",
        exit_code=1,
        stderr="HTTP 503 Service Unavailable for /home/ana/secret-plan with key sk-ant-abc123DEF456\n",
        exception_type="requests.exceptions.ConnectionError",
    )
    facts = replace(gather(run), codes=frozenset({"overloaded_error", "sk-ant-abc123def456ghi789"}))
    text = json.dumps(replays.keep(facts, POLICY))
    assert "overloaded_error" in text and "requests.exceptions.ConnectionError" in text
    for part in ("ana", "secret-plan", "sk-ant", "Service Unavailable"):
        assert part not in text


def test_a_code_that_may_be_more_than_a_name_is_left_out_and_makes_a_replay_impossible() -> None:
    facts = FailureFacts(exit_code=1, codes=frozenset({"0c4f9a7b2d11e8"}))
    assert replays.keep(facts, POLICY)["codes"] == []
    assert replays.reclassify(kept(facts), POLICY) is None


@pytest.mark.parametrize(
    ("code", "name"),
    [
        ("tests_failed", True),
        ("e403", True),
        ("rate_limit_exceeded", True),
        ("ghp_16C7e42F292c6912E7", False),
        ("", False),
    ],
)
def test_a_code_is_a_name_of_words_and_short_numbers(code: str, name: bool) -> None:
    assert replays.is_name(code) is name


def test_a_named_failure_is_judged_by_the_meaning_of_its_code() -> None:
    facts = FailureFacts(stage="modify", exit_code=1)
    again = replays.reclassify(kept(facts, "network_reset"), POLICY)
    assert again == named("network_reset", facts, POLICY, classify(facts, POLICY))
    assert (again.class_, again.action, again.rule) == ("transient", "retry", "52-network")


def test_a_named_repetition_yields_to_more_careful_evidence() -> None:
    facts = FailureFacts(stage="modify", exit_code=1, http_status=402)
    seen = named("network_reset", facts, POLICY, classify(facts, POLICY))
    assert (seen.class_, seen.action) == ("billing_unknown", "freeze")


def test_a_named_repetition_needs_that_nothing_acted_outside_and_nobody_forbade_it() -> None:
    for facts in (
        FailureFacts(retry_forbidden=True),
        FailureFacts(marks=frozenset({"acted"})),
        FailureFacts(risk="external_side_effect"),
    ):
        assert named("network_reset", facts, POLICY, NOTHING).action == "review"


def test_a_code_that_nobody_defined_goes_to_a_person_without_a_rule() -> None:
    seen = named("odd_thing", FailureFacts(), POLICY, NOTHING)
    assert (seen.class_, seen.action, seen.rules, seen.confidence) == ("unknown", "review", (), "none")
