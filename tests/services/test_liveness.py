"""No row is ever stuck: from each one that real services can make, a listed event leads on (S3, L3, H1, design 2).

The graph is walked breadth first: a row is what decides about its future, an edge is one call of a worker, of
reconcile or of a person. Time itself (a deadline, the last second of a budget) is an edge too.
"""

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial

import pytest
from django.db import transaction
from django.db.models import F

from jobs.core.claims import blockers
from jobs.core.stages import VERIFY_STAGES
from jobs.core.states import ACTIVE, FINAL, READY, Event, State
from jobs.errors import AgentQError, ClaimRefused, DecisionRefused
from jobs.models import Batch, Job, ReviewCase
from jobs.services import candidates, clock, control, reconcile
from jobs.services.leases import facts
from tests import factories
from tests.services import situations
from tests.services.situations import DIGEST, act

# Not inside one transaction: SQLite's journal of thousands of undone steps would grow without end.
pytestmark = pytest.mark.django_db(transaction=True)

Action = Callable[[Job], object]
GRANTS = {"attempts": 1, "seconds": 100_000}
ENDS = ("cancel", "reject", "stop")


@dataclass(frozen=True)
class Row:
    """All of a job that decides which events it takes."""

    state: State
    cancel_requested: bool = False
    pause_requested: str = ""
    pause_reason: str = ""
    open_intent: bool = False
    used_up: bool = False
    free_claim: bool = False
    crashed: bool = False
    deadline_passed: bool = False
    seconds_used_up: bool = False
    batch_paused: bool = False
    checks_next: bool = False
    has_digest: bool = False
    allowed: tuple[str, ...] = ()

    @property
    def hazards(self) -> int:
        return self.deadline_passed + self.seconds_used_up + self.batch_paused


def row_of(job_id: int) -> Row:
    job = candidates.candidate(job_id)
    pause_reason = Job.objects.values_list("pause_reason", flat=True).get(pk=job_id)
    case = ReviewCase.objects.filter(job_id=job_id, closed_at=None).values_list("allowed", flat=True).first()
    if job.state in FINAL:
        return Row(job.state)
    return Row(
        state=job.state,
        cancel_requested=job.cancel_requested,
        pause_requested=job.pause_requested,
        pause_reason=pause_reason,
        open_intent=job.open_intent,
        used_up=job.charged >= job.max_attempts,
        free_claim=job.free_claim,
        crashed=job.crashes > 0,
        deadline_passed=job.deadline is not None and job.deadline <= job.now,
        seconds_used_up=job.seconds_spent >= job.max_seconds,
        batch_paused=job.batch_paused,
        checks_next=job.next_stage in VERIFY_STAGES,
        has_digest=bool(job.result_digest),
        allowed=tuple(case or ()),
    )


def actions(row: Row) -> dict[str, Action]:
    """What may be tried on such a row: by a worker, reconcile, a person, and by time."""
    found: dict[str, Action] = {
        "sweep": lambda _job: reconcile.sweep(),
        "cancel": lambda job: control.cancel(job.pk, actor="user:ana", reason="no"),
        "pause": lambda job: control.pause(job.pk, actor="user:ana"),
        "resume batch": lambda _job: control.resume_batch(Batch.objects.get(), actor="user:ana"),
    }
    if row.state in READY:
        found["claim"] = lambda job: situations.claim(job)
    if row.state in ACTIVE:
        found |= _by_the_worker(row)
    if row.state is State.PAUSED:
        found["recover"] = lambda job: control.recover(job.pk, actor="user:ana", condition=row.pause_reason)
    for name in row.allowed:
        event = Event(name)
        outcomes = ("confirmed", "absent") if event is Event.RESOLVE else ("",)
        for outcome in outcomes:
            found[f"{name} {outcome}".strip()] = partial(_decide, event=event, outcome=outcome)
            found[f"{name} {outcome} with grants".replace("  ", " ")] = partial(
                _decide, event=event, outcome=outcome, grants=GRANTS, deadline=clock.now() + timedelta(days=2)
            )
    if row.hazards == 0 and row.state not in FINAL:
        found["time: deadline"] = lambda job: _set(job, deadline=clock.now())
        found["time: seconds"] = lambda job: _set(job, seconds_spent=F("max_seconds"))
        found["pause batch"] = lambda _job: control.pause_batch(Batch.objects.get(), actor="user:ana")
    return found


def _by_the_worker(row: Row) -> dict[str, Action]:
    found: dict[str, Action] = {
        "expire": situations.expire,
        "release": partial(act, event=Event.RELEASE),
        "retry": partial(act, event=Event.RETRY),
        "hold": partial(act, event=Event.HOLD),
        "stop": partial(act, event=Event.STOP),
    }
    if not row.open_intent:
        found["intent"] = situations.intend
    if row.state is State.RUNNING:
        found["verify"] = partial(act, event=Event.VERIFY, next_stage="deliver", result_digest=DIGEST, crashes=0)
    elif row.has_digest:
        found["accept"] = partial(act, event=Event.ACCEPT)
    return found


def _decide(job: Job, **values) -> None:
    needs = {Event.RESOLVE: {"reference": "seen at the other end"}, Event.SUPPLY: {"note": "what was missing"}}
    event = values.pop("event")
    situations.decide(job, event, **values, **needs.get(event, {}))


def _set(job: Job, **values) -> None:
    Job.objects.filter(pk=job.pk).update(**values)


@dataclass
class Graph:
    """`edges`: row → action → where it led. `refused`: what was refused on a row, and in which words."""

    job: Job
    paths: dict[Row, list[Action]] = field(default_factory=dict)
    edges: dict[Row, dict[str, Row]] = field(default_factory=dict)
    refused: dict[Row, dict[str, AgentQError]] = field(default_factory=dict)
    unclaimable: list[tuple[Row, str, set[str]]] = field(default_factory=list)

    def walk(self) -> None:
        start = row_of(self.job.pk)
        self.paths[start] = []
        waiting = deque([start])
        while waiting:
            row = waiting.popleft()
            with undone():
                for step in self.paths[row]:
                    step(self.job)
                waiting.extend(self._look_around(row))

    def _look_around(self, row: Row) -> list[Row]:
        new = []
        self.edges[row], self.refused[row] = {}, {}
        for name, action in actions(row).items():
            with undone():
                try:
                    action(self.job)
                except AgentQError as refusal:
                    self.refused[row][name] = refusal
                after = row_of(self.job.pk)
                if row.state is State.REVIEW and after.state is State.QUEUED:
                    job = candidates.candidate(self.job.pk)
                    codes = {blocker.code for blocker in blockers(facts(job), clock.now())}
                    if codes - {"batch_paused"}:
                        self.unclaimable.append((row, name, codes))
            if after == row:
                continue
            self.edges[row][name] = after
            if after not in self.paths:
                self.paths[after] = [*self.paths[row], action]
                new.append(after)
        return new

    def leading_to(self, good: set[Row], *, without: tuple[str, ...]) -> set[Row]:
        """Rows from which some path leads to a good one, none of its edges named in `without`."""
        found = set(good)
        while True:
            more = {
                row
                for row, edges in self.edges.items()
                if row not in found
                and any(after in found for name, after in edges.items() if not name.startswith(without))
            }
            if not more:
                return found
            found |= more


@contextmanager
def undone() -> Iterator[None]:
    """What happens inside has not happened afterwards."""
    with transaction.atomic():
        yield
        transaction.set_rollback(True)


@pytest.fixture
def graph(registered) -> Graph:
    factories.batch("b")
    job = situations.new(registered, batch="b", deadline=clock.now() + timedelta(days=1))
    _set(job, max_attempts=1)
    found = Graph(job)
    found.walk()
    return found


def test_no_reachable_row_is_stuck(graph):
    rows = set(graph.edges)
    assert {row.state for row in rows} == set(State)
    assert {row.crashed for row in rows} == {row.free_claim for row in rows} == {False, True}
    for row in rows:
        _CHECKS[row.state](graph, row)
    at_work = {row for row in rows if row.state in (*ACTIVE, *FINAL)}
    assert not rows - graph.leading_to(at_work, without=ENDS)  # without giving the job up
    assert not graph.unclaimable


def _final_stays_final(graph: Graph, row: Row) -> None:
    assert not graph.edges[row]


def _a_dead_worker_lets_go(graph: Graph, row: Row) -> None:
    assert graph.edges[row]["expire"].state not in ACTIVE, row


def _waiting_is_claimed_or_handed_to_a_person(graph: Graph, row: Row) -> None:
    after = {name: edge.state for name, edge in graph.edges[row].items()}
    assert after.get("claim") in ACTIVE or after.get("sweep") is State.REVIEW or row.batch_paused, row
    refusal = graph.refused[row].get("claim")
    if isinstance(refusal, ClaimRefused) and "claim" not in after:
        # What stays at the head of the queue is only what the batch's own switch lets go.
        assert refusal.code == "batch_paused", row


def _paused_is_recovered_by_the_condition_it_names(graph: Graph, row: Row) -> None:
    assert graph.edges[row]["recover"].state is State.QUEUED or row.deadline_passed, row


def _every_decision_of_a_case_acts_or_is_refused_in_words(graph: Graph, row: Row) -> None:
    assert row.allowed
    for decision in row.allowed:
        acted = [name for name in graph.edges[row] if name.split()[0] == decision]
        assert decision in ENDS or any("with grants" in name for name in acted), (row, decision)
    for name, refusal in graph.refused[row].items():
        if name.split()[0] in row.allowed and "with grants" not in name:
            assert isinstance(refusal, DecisionRefused) and str(refusal), (row, name)


_CHECKS = {
    **dict.fromkeys(FINAL, _final_stays_final),
    **dict.fromkeys(ACTIVE, _a_dead_worker_lets_go),
    **dict.fromkeys(READY, _waiting_is_claimed_or_handed_to_a_person),
    State.PAUSED: _paused_is_recovered_by_the_condition_it_names,
    State.REVIEW: _every_decision_of_a_case_acts_or_is_refused_in_words,
}
