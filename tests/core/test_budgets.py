"""B1, B2, B3: what may still be used, before the next step."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.core.budgets import (
    BudgetState,
    StopReason,
    TeamUse,
    remaining,
    retries_over_share,
    team_room,
    used_up,
    window_of,
)
from jobs.core.policy import RetryRatio, TeamBudget

NOW = datetime(2026, 5, 4, 12, 0, tzinfo=UTC)


def test_nothing_used_up_lets_the_job_go_on() -> None:
    assert used_up(BudgetState(attempts=1, max_attempts=3), NOW) is None


@pytest.mark.parametrize(
    ("state", "reason"),
    [
        (BudgetState(attempts=3, max_attempts=3), StopReason.ATTEMPTS),
        (BudgetState(attempts=1, max_attempts=3, seconds=60, max_seconds=60), StopReason.SECONDS),
        (BudgetState(attempts=1, max_attempts=3, tokens=10, max_tokens=10), StopReason.TOKENS),
        (BudgetState(attempts=1, max_attempts=3, deadline=NOW), StopReason.DEADLINE),
        (
            BudgetState(attempts=1, max_attempts=3, tools_used=frozenset({"net"}), tools_allowed=frozenset({"edit"})),
            StopReason.TOOLS,
        ),
    ],
)
def test_each_budget_stops_the_job_and_says_which(state: BudgetState, reason: StopReason) -> None:
    assert used_up(state, NOW) is reason


def test_a_step_that_is_not_charged_leaves_out_the_attempts() -> None:
    assert used_up(BudgetState(attempts=3, max_attempts=3), NOW, charging=False) is None


def test_a_step_that_could_only_start_after_the_deadline_is_forbidden_now() -> None:
    state = BudgetState(attempts=1, max_attempts=3, deadline=NOW + timedelta(seconds=30))
    assert used_up(state, NOW, delay=29) is None
    assert used_up(state, NOW, delay=30) is StopReason.DEADLINE


def test_unknown_tokens_stay_unknown_and_are_never_zero() -> None:
    state = BudgetState(attempts=1, max_attempts=3, tokens=None, max_tokens=10)
    left = remaining(state)
    assert (left.tokens, left.tokens_known) == (None, False)
    assert used_up(state, NOW) is None


def test_what_is_left_is_never_negative() -> None:
    state = BudgetState(attempts=5, max_attempts=3, seconds=99, max_seconds=60, tokens=20, max_tokens=10)
    left = remaining(state)
    assert (left.attempts, left.seconds, left.tokens) == (0, 0, 0)


def test_a_naive_time_is_refused() -> None:
    with pytest.raises(ValueError, match="zone"):
        used_up(BudgetState(attempts=1, max_attempts=3, deadline=NOW), NOW.replace(tzinfo=None))


@given(parts=st.lists(st.floats(min_value=0, max_value=1000), min_size=1, max_size=6))
def test_wall_clock_spans_all_attempts(parts: list[float]) -> None:
    state = BudgetState(attempts=1, max_attempts=99, seconds=sum(parts), max_seconds=600)
    assert (used_up(state, NOW) is StopReason.SECONDS) == (sum(parts) >= 600)


def test_retries_above_the_share_of_starts_are_held_back() -> None:
    ratio = RetryRatio(share=0.2, minimum_starts=10)
    assert not retries_over_share(retries=9, starts=9, ratio=ratio)
    assert not retries_over_share(retries=1, starts=10, ratio=ratio)
    assert retries_over_share(retries=2, starts=10, ratio=ratio)


def test_team_windows_are_aligned_and_follow_each_other() -> None:
    start, end = window_of(NOW + timedelta(minutes=17), 3600)
    assert (start, end) == (NOW, NOW + timedelta(hours=1))
    assert window_of(end, 3600)[0] == end


def test_reservations_of_running_attempts_count_against_the_team() -> None:
    budget = TeamBudget(service="codex", window_seconds=3600, tokens=100, attempts=3)
    assert team_room(TeamUse(tokens=40, reserved_tokens=30), budget, NOW, tokens=30).free
    full = team_room(TeamUse(tokens=40, reserved_tokens=31), budget, NOW, tokens=30)
    assert (full.free, full.full, full.until) == (False, "tokens", NOW + timedelta(hours=1))
    assert team_room(TeamUse(attempts=2, reserved_attempts=1), budget, NOW).full == "attempts"
