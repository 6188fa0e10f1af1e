"""The six stages of an attempt, in order, and how a stage's input is identified (C1, C2)."""

from enum import StrEnum

from jobs.core.keys import canonical_json, sha256_hex


class Stage(StrEnum):
    """`inspect` is shown to people as the review stage; review as a *state* means a person decides."""

    READ = "read"
    PLAN = "plan"
    MODIFY = "modify"
    TEST = "test"
    INSPECT = "inspect"
    DELIVER = "deliver"


ORDER = tuple(Stage)
AGENT_STAGES = (Stage.READ, Stage.PLAN, Stage.MODIFY)
VERIFY_STAGES = (Stage.TEST, Stage.INSPECT, Stage.DELIVER)


def following(stage: Stage, stages: tuple[Stage, ...]) -> Stage | None:
    """The stage after this one in a workflow's own list; None after the last."""
    later = [other for other in stages if ORDER.index(other) > ORDER.index(stage)]
    return later[0] if later else None


def at_or_after(stage: Stage, stages: tuple[Stage, ...]) -> Stage:
    """The stage itself, or the next one that the workflow has: not every workflow reads or plans."""
    return stage if stage in stages else following(stage, stages) or stages[-1]


def input_digest(
    *, base_tree: str, workflow_digest: str, payload_digest: str, previous_output: str, notes: str = ""
) -> str:
    """What a stage's result depends on. `notes` is the digest of people's clarifications for this stage."""
    return sha256_hex(canonical_json([base_tree, workflow_digest, payload_digest, previous_output, notes]))
