"""States, times, spans and sizes read alike everywhere: shape and word, viewer's zone, UTC in the title (S1, Z2)."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
import time_machine
from django.template import Context, Template
from django.utils import timezone

from jobs.core.stages import Stage
from jobs.core.states import State
from jobs.models.evidence import Verdict
from reviews.templatetags import console

NOW = datetime(2026, 11, 29, 14, 20, 10, tzinfo=UTC)


@pytest.fixture
def frozen():
    with time_machine.travel(NOW, tick=False):
        yield


def shown(source: str, **values: object) -> str:
    return Template("{% load console %}" + source).render(Context(values))


@pytest.mark.parametrize("state", list(State))
def test_every_job_state_has_a_word_and_its_own_shape(state):
    html = shown("{% status state %}", state=state.value)
    assert f"#s-{state.value}" in html
    assert str(console.CHIPS[state].word) in html


def test_no_two_job_states_share_word_or_shape():
    chips = [console.CHIPS[state] for state in State]
    assert len({str(chip.word) for chip in chips}) == len({chip.shape for chip in chips}) == len(State)


@pytest.mark.parametrize("verdict", list(Verdict))
def test_every_verdict_of_a_check_has_a_chip(verdict):
    assert str(console.CHIPS[verdict].word) in shown("{% status verdict %}", verdict=verdict.value)


def test_the_stages_shown_are_the_stages_of_the_engine():
    assert list(console.STAGES) == [stage.value for stage in Stage]


def test_a_tag_escapes_what_it_is_given():
    assert "&lt;b&gt;" in shown("{% tag text %}", text="<b>")


def test_a_moment_today_shows_its_time_and_has_utc_in_the_title(frozen):
    with timezone.override(ZoneInfo("Asia/Shanghai")):
        html = shown("{% when t %}", t=NOW - timedelta(hours=3))
    assert html == '<time datetime="2026-11-29T11:20:10Z" title="2026-11-29 11:20:10 UTC">19:20:10</time>'


def test_today_is_the_viewers_day_not_the_servers(frozen):
    moment = datetime(2026, 11, 28, 20, 0, tzinfo=UTC)
    with timezone.override(ZoneInfo("Asia/Shanghai")):
        assert ">04:00:00<" in shown("{% when t %}", t=moment)
    assert ">28 Nov 20:00<" in shown("{% when t %}", t=moment)


def test_another_year_is_written_out(frozen):
    assert ">2 Mar 2025 09:00<" in shown("{% when t %}", t=datetime(2025, 3, 2, 9, 0, tzinfo=UTC))


@pytest.mark.parametrize("tag", ["when", "ago"])
def test_a_moment_that_never_came_shows_nothing(tag):
    assert shown("{% " + tag + " t %}", t=None) == ""


def test_an_age_is_marked_for_the_script_and_knows_no_direction(frozen):
    past = shown("{% ago t %}", t=NOW - timedelta(minutes=31))
    assert " data-ago>31 min</time>" in past
    assert ">31 min<" in shown("{% ago t %}", t=NOW + timedelta(minutes=31))


@pytest.mark.parametrize(
    ("seconds", "age", "duration"),
    [
        (0.44, "0 s", "0.4 s"),
        (42, "42 s", "42 s"),
        (60, "1 min", "1 min"),
        (850, "14 min", "14 min 10 s"),
        (3600, "1 h", "1 h"),
        (4320, "1 h 12 min", "1 h 12 min"),
        (8 * 86400 + 3 * 3600, "8 d", "8 d 3 h"),
    ],
)
def test_spans_are_worded_coarse_for_ages_and_to_two_units_for_durations(seconds, age, duration):
    assert console.age(seconds) == age
    assert console.duration(seconds) == duration


def test_a_duration_that_is_not_known_shows_nothing():
    assert shown("{{ d|duration }}", d=None) == ""


@pytest.mark.parametrize(("count", "text"), [(512, "512 B"), (2150, "2.1 KiB"), (3 * 1024**2, "3.0 MiB")])
def test_sizes_have_binary_units(count, text):
    assert shown("{{ n|bytes }}", n=count) == text


def test_a_long_id_is_cut_visibly_and_a_short_one_is_not():
    assert shown("{{ v|short_id }}", v="245f159804469d525a65") == "245f15980446…"
    assert shown("{{ v|short_id }}", v="ab12cd9") == "ab12cd9"


def test_stage_dots_say_in_words_what_they_draw():
    html = shown("{% stage_dots 3 'test' 'failed_retryable' %}")
    assert "3 of 6 stages verified, now: test" in html
    assert [html.count(paint) for paint in ("c-fill", "c-line", "c-none")] == [3, 1, 2]


def test_stage_dots_before_the_first_and_after_the_last_stage():
    assert "not started" in shown("{% stage_dots 0 '' 'queued' %}")
    done = shown("{% stage_dots 6 '' 'accepted' %}")
    assert "done" in done
    assert "t-good" in done
