"""R1: the delay between attempts and its bounds."""

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from jobs.core.backoff import delay_seconds
from jobs.core.policy import Backoff

PLAIN = Backoff()


def test_delays_double_from_fifteen_seconds_to_fifteen_minutes() -> None:
    assert [delay_seconds(attempt, PLAIN) for attempt in (1, 2, 3, 7, 8, 500)] == [15, 30, 60, 900, 900, 900]


def test_the_upstreams_own_wait_is_honoured_when_longer() -> None:
    assert delay_seconds(1, PLAIN, retry_after=120) == 120
    assert delay_seconds(4, PLAIN, retry_after=20) == 120


def test_the_same_random_source_gives_the_same_delay() -> None:
    assert delay_seconds(2, PLAIN, Random(7)) == delay_seconds(2, PLAIN, Random(7))
    assert len({delay_seconds(2, PLAIN, Random(seed)) for seed in range(20)}) > 10


@given(
    attempt=st.integers(min_value=-5, max_value=10_000),
    seed=st.integers(),
    wait=st.none() | st.floats(min_value=0, max_value=1e6),
    base=st.floats(min_value=0.1, max_value=100),
    factor=st.floats(min_value=1, max_value=10),
    jitter=st.floats(min_value=0, max_value=60),
)
def test_a_delay_stays_within_its_bounds(
    attempt: int, seed: int, wait: float | None, base: float, factor: float, jitter: float
) -> None:
    parameters = Backoff(base_seconds=base, factor=factor, cap_seconds=900, jitter_seconds=jitter)
    delay = delay_seconds(attempt, parameters, Random(seed), wait)
    assert min(base, 900) <= delay
    assert (wait or 0) <= delay <= max(900, wait or 0) + jitter
