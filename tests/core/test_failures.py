"""F1-F3, B2: recorded failures get the right class, and nothing dangerous is ever repeated or accepted."""

import json
import random
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.core import patterns
from jobs.core.adapters.cases import to_run
from jobs.core.adapters.runs import EndedRun, gather
from jobs.core.failures import Classification, FailureFacts, classify
from jobs.core.policy import REPEATS, RISKS, Policy, Rule, Signal
from jobs.core.scores import Judged, score
from jobs.policies.loading import builtin, to_policy

FIXTURES = Path(__file__).parents[1] / "fixtures"
POLICY = to_policy(builtin())


def cases(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (FIXTURES / name).read_text(encoding="utf-8").splitlines()]


def answer(run: EndedRun) -> Classification:
    return classify(gather(run), POLICY)


def judged(name: str) -> list[Judged]:
    found = []
    for case in cases(name):
        run = to_run(case)
        seen = answer(run)
        found.append(Judged(case["expected_class"], case["expected_action"], seen.class_, seen.action, run.risk))
    return found


def test_the_corpus_of_real_failures_meets_the_bar() -> None:
    result = score(judged("failure_corpus.jsonl"))
    assert result.cases == 70
    assert result.dangerous == 0
    assert result.actions >= 0.95 * result.cases
    assert result.classes >= 0.9 * result.cases


@pytest.mark.parametrize("case", cases("failure_cases.jsonl"), ids=lambda case: case["id"])
def test_a_case_of_a_known_kind_gets_its_class_and_action(case: dict[str, Any]) -> None:
    seen = answer(to_run(case))
    assert (seen.class_, seen.action) == (case["expected_class"], case["expected_action"])


@pytest.mark.parametrize("name", ["failure_corpus.jsonl", "failure_cases.jsonl"])
def test_no_case_is_repeated_once_its_risk_is_outward(name: str) -> None:
    for case in cases(name):
        seen = answer(replace(to_run(case), risk="external_side_effect", stage="deliver"))
        assert seen.action not in REPEATS


def test_words_alone_never_allow_a_repetition() -> None:
    words_alone = ("the connection was reset by the peer", "Too many requests", "temporarily unavailable", "timed out")
    for words in words_alone:
        seen = answer(EndedRun(program="python step.py", exit_code=1, stderr=words))
        assert (seen.action, seen.confidence) == ("review", "low")


def test_an_agents_prose_is_no_typed_evidence() -> None:
    prose = "I looked at the log. It says ECONNRESET and (socket hang up), so the remote end hung up."
    assert answer(EndedRun(program="claude -p", exit_code=1, stdout=prose)).action == "review"
    report = "API Error: socket hang up (ECONNRESET)"
    assert answer(EndedRun(program="claude -p", exit_code=1, stdout=report)).action == "retry"


def test_a_summary_that_speaks_of_money_reaches_a_person_but_freezes_nothing() -> None:
    seen = answer(EndedRun(program="aider --yes", exit_code=0, stdout="fix: handle insufficient balance"))
    assert (seen.class_, seen.action) == ("billing_unknown", "review")


def test_the_upstreams_do_not_retry_is_final() -> None:
    run = EndedRun(program="python a.py", exit_code=1, http_status=503)
    assert answer(run).action == "retry"
    assert answer(replace(run, retry_forbidden=True)).action == "review"
    assert answer(replace(run, stderr="x-should-retry: false")).action == "review"


def test_what_already_acted_outside_is_not_run_again() -> None:
    run = EndedRun(program="codex exec", exit_code=1, http_status=503, ledger="confirmed")
    assert answer(run).action == "review"


def test_the_ledger_decides_whether_an_act_is_open() -> None:
    run = EndedRun(program="python a.py", stage="deliver", risk="external_side_effect", exit_code=1, ledger="open")
    assert answer(run).class_ == "side_effect_unknown"
    assert answer(replace(run, exit_code=0)).class_ == "side_effect_unknown"
    unsent = replace(run, ledger="absent", exception_type="httpx.ReadTimeout")
    assert (answer(unsent).class_, answer(unsent).action) == ("transient", "review")


def test_our_own_cancel_request_is_a_cancel() -> None:
    run = EndedRun(program="codex exec", exit_code=-15, cancel_requested=True)
    assert (answer(run).class_, answer(run).action) == ("cancelled", "stop")


def test_silence_with_exit_one_is_unknown_and_goes_to_a_person() -> None:
    seen = answer(EndedRun(program="claude -p", exit_code=1))
    assert (seen.class_, seen.action, seen.rules) == ("unknown", "review", ())


@pytest.mark.parametrize("line", ["API Error: 500 Internal server error", "fatal: bad object HEAD", "Error: oops"])
def test_a_last_line_that_reports_an_error_is_no_success(line: str) -> None:
    assert answer(EndedRun(program="claude -p", exit_code=0, stdout=f"working\n{line}")).action != "accept"


def test_an_event_stream_without_its_terminal_event_is_no_success() -> None:
    started: dict[str, Any] = {"type": "turn.started"}
    cut = EndedRun(program="codex exec", exit_code=0, events=[started])
    assert (answer(cut).class_, answer(cut).action) == ("unknown", "review")
    assert answer(replace(cut, events=[started, {"type": "turn.completed"}])).action == "accept"


def test_a_clean_end_is_accepted_by_the_classifier() -> None:
    assert answer(EndedRun(program="claude -p", exit_code=0, stdout="Done.")).action == "accept"


def test_a_failure_names_every_rule_that_held() -> None:
    seen = answer(EndedRun(program="git fetch", exit_code=1, http_status=503, stderr="connection reset by peer"))
    assert seen.rules[0] == seen.rule
    assert len(seen.rules) > 1


def test_the_fingerprint_ignores_ids_numbers_and_paths() -> None:
    def print_of(text: str, program: str = "npm ci") -> str:
        return answer(EndedRun(program=program, exit_code=1, stderr=text)).fingerprint

    first = print_of("npm error code ECONNRESET\nrequest to https://a.example.test/x/1 failed, id 77")
    assert first == print_of("npm error code ECONNRESET\nrequest to https://b.example.test/other failed, id 9")
    assert first != print_of("npm error code ENOSPC")
    assert first != print_of("npm error code ECONNRESET", program="pnpm install")


def test_a_repetition_yields_to_a_more_careful_rule_unless_it_overrides_it() -> None:
    again = Rule(id="again", class_="transient", code="x", action="retry", any=("s",))
    careful = Rule(id="careful", class_="permission", code="y", action="review", any=("t",))
    signals = (Signal(name="s", statuses=frozenset({503})), Signal(name="t", text=("denied",)))
    facts = FailureFacts(http_status=503, text="denied")
    both = Policy(signals=signals, rules=(again, careful))
    stronger = replace(again, overrides=frozenset({"careful"}))
    assert classify(facts, both).action == "review"
    assert classify(facts, replace(both, rules=(stronger, careful))).action == "retry"


rules = st.lists(
    st.builds(
        Rule,
        id=st.text("abc", min_size=1, max_size=4),
        class_=st.sampled_from(["transient", "rate_limited", "deterministic"]),
        code=st.just("c"),
        action=st.sampled_from(["retry", "wait", "stop", "pause"]),
        any=st.just(("s",)),
    ),
    max_size=4,
)


@given(
    rules=rules, risk=st.sampled_from(RISKS), status=st.sampled_from([None, 503]), text=st.sampled_from(["", "down"])
)
def test_no_rule_can_make_an_outward_act_or_mere_words_repeat(
    rules: list[Rule], risk: str, status: int | None, text: str
) -> None:
    signal = Signal(name="s", text=("down",), statuses=frozenset({503}))
    facts = FailureFacts(risk=risk, http_status=status, text=text)
    seen = classify(facts, Policy(signals=(signal,), rules=tuple(rules)))
    if risk == "external_side_effect" or status is None:
        assert seen.action not in REPEATS


@given(
    out=st.text(max_size=300),
    err=st.text(max_size=300),
    code=st.none() | st.integers(-64, 255),
    status=st.none() | st.integers(100, 599),
    events=st.lists(
        st.dictionaries(st.sampled_from(["type", "item", "message", "error"]), st.text(max_size=9)), max_size=3
    ),
)
def test_any_output_gets_an_answer_and_outward_acts_never_repeat(
    out: str, err: str, code: int | None, status: int | None, events: list[dict[str, str]]
) -> None:
    run = EndedRun("x", "deliver", "external_side_effect", code, None, None, status, out, err, events)
    assert answer(run).action not in REPEATS


HOSTILE = [
    "a" * 200_000, "\n" * 200_000, "{" * 200_000, '{"type":' * 25_000, "1/1 retry attempt " * 12_000, "E" * 200_000,
    "another operation " * 11_200, "limit resets suspended payment " * 6_500, "no missing api key without " * 7_500,
    "permission was requested tool was " * 6_000,
    "余额" * 100_000, "\x1b[" * 100_000, "e\u0301" * 100_000, "a.b." * 50_000,
]  # fmt: skip


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_text_costs_no_more_than_the_cut_text(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # Counted, not timed: every search sees at most the cut text, and every pattern has a bounded number of ways.
    seen: list[int] = []
    real = patterns.matches

    def counting(pattern: str, where: str) -> bool:
        seen.append(len(where))
        return real(pattern, where)

    monkeypatch.setattr(patterns, "matches", counting)
    assert answer(EndedRun(program="codex exec", exit_code=1, stdout=text, stderr=text)).action
    most = 3 * (patterns.HEAD_CHARS + patterns.TAIL_CHARS) + 10
    assert max(seen) <= most


def test_the_answer_does_not_depend_on_what_lies_in_the_cut_out_middle() -> None:
    head, tail = "start\n" * 400, "tail\n" * 1_300 + "npm error code ECONNRESET"
    generator = random.Random(3)
    middles = ["".join(generator.choices("abc \n", k=20_000)), "card declined, insufficient balance\n" * 3_000]
    found = {answer(EndedRun("npm ci", "read", "writes_files", 1, stderr=head + middle + tail)) for middle in middles}
    assert len(found) == 1


def test_no_rule_knows_a_case_by_its_id() -> None:
    text = json.dumps(builtin().model_dump(mode="json"))
    assert not re.search(r"fc-[0-9a-f]{8}|made-\d", text)


BAIT = [
    "npm warn retry ECONNRESET, trying again\n",
    "Error: HTTP 503 Service Unavailable\nRetrying in 5s (attempt 2/5)\n",
    "error: 429 Too Many Requests, retry-after: 3\n",
    "please try again later\n",
]
NEVER = {"side_effect_unknown", "billing_unknown", "permission", "conflict", "cancelled", "missing_input"}


@pytest.mark.parametrize("bait", BAIT)
@pytest.mark.parametrize("name", ["failure_corpus.jsonl", "failure_cases.jsonl"])
def test_earlier_trouble_in_the_output_does_not_turn_a_refusal_into_a_retry(name: str, bait: str) -> None:
    lured = []
    for case in cases(name):
        if case["expected_class"] in NEVER:
            run = to_run(case)
            if answer(replace(run, stderr=bait + run.stderr)).action in REPEATS:
                lured.append(case["id"])
    assert lured == []
