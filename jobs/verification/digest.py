"""The digests that bind an acceptance to its evidence (V1)."""

from collections.abc import Iterable, Sequence

from jobs.core.keys import canonical_json, sha256_hex
from jobs.verification.checks import Check


def argv_digest(argv: Sequence[str]) -> str:
    """SHA-256 of a command line, word by word."""
    return sha256_hex(canonical_json(list(argv)))


def result_digest(
    *, base_tree: str, snapshot_tree: str, workflow_digest: str, policy_version: str, checks: Iterable[Check]
) -> str:
    """SHA-256 over what was judged and how: both trees, workflow, policy and each check's verdict (V1).

    The order of the checks, durations and outputs do not count: they are evidence beside it.
    """
    rows = sorted(
        ([check.name, check.argv_digest or "", check.exit_code, str(check.verdict)] for check in checks),
        key=canonical_json,
    )
    return sha256_hex(canonical_json([base_tree, snapshot_tree, workflow_digest, policy_version, rows]))
