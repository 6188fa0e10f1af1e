"""The drawn way of a job: what was visited, what was walked, where it is (S1)."""

from datetime import UTC, datetime, timedelta

import pytest

from jobs.core.states import PAIRS, State
from reviews.statepath import state_path
from reviews.timeline import Happening

START = datetime(2026, 11, 29, 14, 0, tzinfo=UTC)


def walked(*states: str) -> list[Happening]:
    sources = ("", *states)
    return [
        Happening(n, START + timedelta(minutes=n), "worker", "worker:w", "", sources[n], state, "", None, {})
        for n, state in enumerate(states)
    ]


def kinds(path) -> dict[str, str]:
    return {box.state: box.kind for box in path.boxes}


def test_visited_states_are_told_from_the_present_one_and_the_others():
    path = state_path(walked("queued", "running", "failed_retryable", "running"), START + timedelta(minutes=9))
    assert kinds(path)["queued"] == kinds(path)["failed_retryable"] == "was"
    assert kinds(path)["running"] == "now"
    assert kinds(path)["accepted"] == "can"
    assert next(box.note for box in path.boxes if box.state == "running") == "now, for 7 min"
    assert "queued → running → failed_retryable → running" in path.title


def test_a_way_walked_twice_says_so():
    path = state_path(walked("queued", "running", "failed_retryable", "running", "failed_retryable"), START)
    assert [arrow.note for arrow in path.arrows if arrow.kind == "was" and arrow.note] == ["2 times"]


def test_a_cancelled_job_ends_in_a_box_of_its_own():
    assert "failed_terminal" not in kinds(state_path(walked("queued", "cancelled"), START))
    assert "cancelled" not in kinds(state_path(walked("queued"), START))


@pytest.mark.parametrize(("source", "target"), PAIRS)
def test_every_legal_step_can_be_drawn_inside_the_picture(source, target):
    path = state_path(walked(source, target), START)
    numbers = [
        float(number) for arrow in path.arrows for point in arrow.line[1:].split("L") for number in point.split()
    ]
    assert all(-1 <= x <= 977 for x in numbers[::2])
    assert all(0 <= y <= 176 for y in numbers[1::2])
    assert any(arrow.kind == "was" for arrow in path.arrows)


def test_nothing_that_happened_draws_nothing():
    assert state_path([], START).boxes == []
    assert State.QUEUED in kinds(state_path(walked("queued"), START))
