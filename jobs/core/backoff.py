"""How long a retry waits (R1). Randomness is handed in, so that the same numbers give the same delay."""

from typing import Final, Protocol

from jobs.core.policy import Backoff

# 2^attempt grows past any float long before this; the cap has been reached by then for every allowed factor.
_MAX_DOUBLINGS: Final = 60


class Random(Protocol):
    """The one thing asked of a random source; `random.Random` has it."""

    def uniform(self, a: float, b: float) -> float:
        """A number from a to b."""


def delay_seconds(
    attempt: int, parameters: Backoff, rng: Random | None = None, retry_after: float | None = None
) -> float:
    """Seconds until the next attempt after attempt number `attempt` (1 is the first).

    min(base x factor^(attempt-1), cap) + jitter; an upstream's own retry-after is honoured when longer, with the jitter
    on top, so that waiting jobs do not all come back in the same second. Without `rng` there is no jitter.
    """
    doublings = min(max(attempt, 1) - 1, _MAX_DOUBLINGS)
    planned = min(parameters.base_seconds * parameters.factor**doublings, parameters.cap_seconds)
    jitter = rng.uniform(0.0, parameters.jitter_seconds) if rng is not None else 0.0
    return max(planned, retry_after or 0.0) + jitter
