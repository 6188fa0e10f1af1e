"""The result digest binds trees, workflow, policy and verdicts, and nothing else (V1)."""

from dataclasses import replace
from hashlib import sha256

import pytest

from jobs.verification.checks import Check, Verdict
from jobs.verification.digest import argv_digest, result_digest

CHECKS = (
    Check("paths", None, None, Verdict.PASS),
    Check("unit", "a" * 64, 0, Verdict.PASS, 1.5, "b" * 64, None, ("tests_added",)),
)
INPUT = {"base_tree": "1" * 40, "snapshot_tree": "2" * 40, "workflow_digest": "3" * 64, "policy_version": "v1"}


def test_the_digest_is_that_of_the_documented_text():
    text = f'["{"1" * 40}","{"2" * 40}","{"3" * 64}","v1",[["paths","",null,"pass"],["unit","{"a" * 64}",0,"pass"]]]'
    assert result_digest(checks=CHECKS, **INPUT) == sha256(text.encode()).hexdigest()


@pytest.mark.parametrize("field", list(INPUT))
def test_every_input_counts(field):
    assert result_digest(checks=CHECKS, **{**INPUT, field: "x"}) != result_digest(checks=CHECKS, **INPUT)


@pytest.mark.parametrize(
    "change", [{"name": "x"}, {"argv_digest": "c" * 64}, {"exit_code": 1}, {"verdict": Verdict.FAIL}]
)
def test_every_verdict_counts(change):
    other = (CHECKS[0], replace(CHECKS[1], **change))
    assert result_digest(checks=other, **INPUT) != result_digest(checks=CHECKS, **INPUT)


def test_order_durations_and_outputs_do_not_count():
    other = (replace(CHECKS[1], seconds=9.0, output_digest="d" * 64, details=()), CHECKS[0])
    assert result_digest(checks=other, **INPUT) == result_digest(checks=CHECKS, **INPUT)


def test_a_command_line_is_digested_word_by_word():
    assert argv_digest(["a b"]) != argv_digest(["a", "b"])
