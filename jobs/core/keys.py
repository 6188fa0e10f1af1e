"""Identity: the keys by which AgentQ knows that the same input, or the same outside act, was seen before."""

import datetime
import hashlib
import json
from collections.abc import Mapping
from typing import Any

EFFECT_KEY_DIGITS = 16


def make_idempotency_key(
    *, repo: str, branch: str, action: str, payload: Mapping[str, Any], workflow_version: str
) -> str:
    """The job's key, 64 hex digits: equal for equal input, whoever asks and whenever (K1).

    Spaces around `repo` and `branch`, the case of `repo` and the order of keys do not count; all else does.
    Refuses what `canonical_json` refuses.
    """
    return sha256_hex(
        canonical_json(
            {
                "repo": repo.strip().lower(),
                "branch": branch.strip(),
                "action": action,
                "payload": payload,
                "workflow_version": workflow_version,
            }
        )
    )


def make_effect_key(
    *, kind: str, repo: str, target: str, sha: str, planned_date: datetime.date | str | None = None
) -> str:
    """The key of one act on the outside world, 16 hex digits (K3).

    `sha` is the commit's, or the SHA-256 of the exact bytes that will be sent. `planned_date` is a day
    (a date or YYYY-MM-DD), only for acts planned for one. Raises ValueError for another date form, and
    for a `|` in kind, repo or sha: only `target` may hold one, else two different acts could share a key.
    """
    for name, part in (("kind", kind), ("repo", repo), ("sha", sha)):
        if "|" in part:
            raise ValueError(f"An effect's {name} must not contain '|'.")
    parts = [kind, repo, target, sha]
    if planned_date is not None:
        parts.append(_day(planned_date))
    return sha256_hex("|".join(parts))[:EFFECT_KEY_DIGITS]


def canonical_json(value: object) -> str:
    """The one text that stands for `value`: sorted keys, no spaces, no ASCII escaping (K1).

    Raises ValueError for NaN, infinity and lone surrogates, TypeError for what JSON does not know, also for
    keys that are no strings: JSON would write 1 and "1" alike, and two inputs would share a key.
    """
    _refuse_odd_keys(value)
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, sort_keys=True, separators=(",", ":"))
    text.encode()  # a lone surrogate has no UTF-8 form and fails here, not in the database
    return text


def sha256_hex(data: str | bytes) -> str:
    """SHA-256 as 64 hex digits; text counts as UTF-8."""
    return hashlib.sha256(data.encode() if isinstance(data, str) else data).hexdigest()


def _refuse_odd_keys(value: object) -> None:
    if isinstance(value, Mapping):
        for key, inner in value.items():
            if not isinstance(key, str):
                raise TypeError(f"A key in canonical JSON is text, not {type(key).__name__}.")
            _refuse_odd_keys(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            _refuse_odd_keys(inner)


def _day(planned: datetime.date | str) -> str:
    if isinstance(planned, datetime.datetime):
        raise ValueError("A planned date is a day, without a time.")
    if isinstance(planned, datetime.date):
        return planned.isoformat()
    if datetime.date.fromisoformat(planned).isoformat() != planned:
        raise ValueError("A planned date is written YYYY-MM-DD.")
    return planned
