"""The ledger's rules: what is sent and under which key, and whether an act may be done at all (X1, X2, K3)."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from jobs.core.keys import canonical_json, make_effect_key, sha256_hex

# The one act that AgentQ brings along: its argument list is the remote, and it can be looked up by the remote ref.
PUSH: Final = "push-branch"
PLACEHOLDERS: Final = ("branch", "commit", "key", "job", "repo")
# An executor that acts outside by itself: one row for its whole run.
WHOLE_RUN: Final = "whole-run"
_PLACEHOLDER: Final = re.compile(r"\{\{\s*([a-z][a-z0-9_]*)\s*\}\}")


@dataclass(frozen=True, slots=True)
class Template:
    """An effect as its workflow declares it, with placeholders in its words. `seconds` is wall clock."""

    kind: str
    target: str
    argv: tuple[str, ...]
    lookup: tuple[str, ...] | None
    seconds: int
    credentials: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Delivered:
    """What the placeholders stand for. Without a commit nothing was changed and there is no branch."""

    job: str
    repo: str
    branch: str = ""
    commit: str = ""
    planned_date: str | None = None


@dataclass(frozen=True, slots=True)
class Act:
    """One act as it will be done: its key (K3) and the words that are run. No lookup: nobody can ask."""

    kind: str
    target: str
    sha: str
    key: str
    argv: tuple[str, ...]
    lookup: tuple[str, ...] | None
    seconds: int
    branch: str = ""
    credentials: tuple[str, ...] = ()  # names, never values (Z5)

    @property
    def can_be_looked_up(self) -> bool:
        return self.lookup is not None or self.kind == PUSH


@dataclass(frozen=True, slots=True)
class Try:
    """One row of the ledger for a key. `by_person`: a person settled it."""

    number: int
    outcome: str
    settled_at: datetime | None = None
    reference: str = ""
    by_person: bool = False


@dataclass(frozen=True, slots=True)
class Do:
    """The act may be done, as try `number`."""

    number: int


@dataclass(frozen=True, slots=True)
class Reuse:
    """It happened already and is not repeated."""

    reference: str


@dataclass(frozen=True, slots=True)
class Ask:
    """Only a person can say how it goes on."""


def plan(tries: Iterable[Try], decided_at: datetime | None) -> Do | Reuse | Ask:
    """What may be done about a key, from all its tries and the time of the newest decision to do the work (X2).

    A try without a known outcome is never followed by another one. One that did not happen is, when a person
    decided so after it was settled: settling it as "did not happen" is such a decision.
    """
    newest = max(tries, key=lambda each: each.number, default=None)
    if newest is None:
        return Do(1)
    if newest.outcome == "confirmed":
        return Reuse(newest.reference)
    if newest.outcome != "absent" or newest.settled_at is None:
        return Ask()
    if newest.by_person or (decided_at is not None and decided_at >= newest.settled_at):
        return Do(newest.number + 1)
    return Ask()


def acts(templates: Sequence[Template], delivered: Delivered) -> list[Act]:
    """What these effects do for this result, in their order. What needs a branch or commit is left out when there is
    none: nothing changed, so there is nothing to send."""
    return [_act(each, delivered) for each in templates if delivered.commit or not needs_commit(each)]


def needs_commit(template: Template) -> bool:
    return template.kind == PUSH or bool({"branch", "commit"} & set(placeholders(template)))


def placeholders(template: Template) -> Iterator[str]:
    """The names of all placeholders in its words, known or not."""
    for word in (template.target, *template.argv, *(template.lookup or ())):
        yield from _PLACEHOLDER.findall(word)


def needs_person(kinds: Iterable[str], *, may_act: bool) -> bool:
    """Whether a person must confirm before these effects act. `may_act`: the repository's level lets effects act, and
    then pushing a result's own branch, which undoes nothing, may go without (X3, E3)."""
    return not (may_act and all(kind == PUSH for kind in kinds))


def result_branch(job_id: int, idempotency_key: str) -> str:
    """The branch that a result is delivered as; never a repository's default branch."""
    return f"agentq/{job_id}-{idempotency_key[:8]}"


def run_key(*, repo: str, target: str, idempotency_key: str) -> str:
    """The key of a whole run of an executor that acts outside."""
    return make_effect_key(kind=WHOLE_RUN, repo=repo, target=target, sha=idempotency_key)


def _act(template: Template, delivered: Delivered) -> Act:
    values = {"branch": delivered.branch, "commit": delivered.commit, "job": delivered.job, "repo": delivered.repo}
    target = _fill(template.target, values)
    # The key is made of the bytes that will be sent, so in them its own place stays open.
    sha = delivered.commit or sha256_hex(canonical_json([_fill(word, values) for word in template.argv]))
    key = make_effect_key(
        kind=template.kind, repo=delivered.repo, target=target, sha=sha, planned_date=delivered.planned_date
    )
    values["key"] = key
    return Act(
        kind=template.kind,
        target=target,
        sha=sha,
        key=key,
        argv=tuple(_fill(word, values) for word in template.argv),
        lookup=tuple(_fill(word, values) for word in template.lookup) if template.lookup else None,
        seconds=template.seconds,
        branch=delivered.branch,
        credentials=template.credentials,
    )


def _fill(word: str, values: Mapping[str, str]) -> str:
    """One pass: what a value holds is never read as a placeholder."""
    return _PLACEHOLDER.sub(lambda found: values.get(found[1], found[0]), word)
