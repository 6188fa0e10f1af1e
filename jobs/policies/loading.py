"""Reads policy documents and hands them to the pure rules: TOML text, stored canonical JSON, the built-in version."""

import tomllib
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from jobs.core import policy as core
from jobs.policies.document import PolicyDocument, RulePart
from jobs.policies.source import line_of

BUILTIN_PATH = Path(__file__).with_name("builtin-v1.toml")


class PolicyInvalid(ValueError):
    """The policy document cannot be used; each line of the message names file, line, key and what is wrong."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


def load(text: str, source: str) -> PolicyDocument:
    """The validated document of a TOML text. Refuses (PolicyInvalid) with file, line and key of every problem."""
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise PolicyInvalid([f"{source}: not valid TOML: {error}"]) from error
    try:
        return PolicyDocument.model_validate(data)
    except ValidationError as error:
        raise PolicyInvalid([_problem(text, source, item) for item in error.errors()]) from error


def load_json(text: str) -> PolicyDocument:
    """The document of a stored canonical JSON. Refuses (ValidationError) what the schema does not know."""
    return PolicyDocument.model_validate_json(text)


@cache
def builtin() -> PolicyDocument:
    """The built-in version 1."""
    return load(BUILTIN_PATH.read_text(encoding="utf-8"), BUILTIN_PATH.name)


def to_policy(document: PolicyDocument) -> core.Policy:
    """The frozen policy that the pure rules take."""
    return core.Policy(
        version=document.version,
        signals=tuple(
            core.Signal(
                name=part.name,
                text=part.text,
                codes=frozenset(part.codes),
                types=part.types,
                statuses=frozenset(part.statuses),
                exit_codes=frozenset(part.exit_codes),
            )
            for part in document.signals
        ),
        rules=tuple(_rule(part) for part in document.rules),
        budgets=tuple(
            core.Budget(**{**part.model_dump(), "tools": frozenset(part.tools)}) for part in document.budgets
        ),
        team_budgets=tuple(core.TeamBudget(**part.model_dump()) for part in document.team_budgets),
        backoff=core.Backoff(**document.backoff.model_dump()),
        breakers=core.BreakerThresholds(**document.breakers.model_dump()),
        paths=tuple(core.PathRule(**part.model_dump()) for part in document.paths),
        gates=core.Gates(**document.gates.model_dump()),
        retry_ratio=core.RetryRatio(**document.retry_ratio.model_dump()),
        retention=core.Retention(**document.retention.model_dump()),
    )


def _rule(part: RulePart) -> core.Rule:
    sets = {name: frozenset(getattr(part, name)) for name in ("stages", "risks", "overrides")}
    return core.Rule(**{**part.model_dump(), **sets})


def _problem(text: str, source: str, item: Any) -> str:
    location = tuple(item["loc"])
    line = line_of(text, location)
    key = ".".join(str(part) for part in location) or "document"
    return f"{source}:{line or 1}: {key}: {item['msg'].removeprefix('Value error, ')}"
