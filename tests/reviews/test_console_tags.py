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


SIX = [stage.value for stage in Stage]


def test_stage_dots_say_in_words_what_they_draw():
    html = shown("{% stage_dots stages 3 'test' 'failed_retryable' %}", stages=SIX)
    assert "3 of 6 stages verified, now: test" in html
    assert [html.count(paint) for paint in ("c-fill", "c-line", "c-none")] == [3, 1, 2]


def test_stage_dots_before_the_first_and_after_the_last_stage():
    assert "not started" in shown("{% stage_dots stages 0 '' 'queued' %}", stages=SIX)
    done = shown("{% stage_dots stages 6 '' 'accepted' %}", stages=SIX)
    assert "done" in done
    assert "t-good" in done


def test_a_workflow_without_reading_and_planning_has_four_dots():
    html = shown("{% stage_dots stages 1 'test' 'running' %}", stages=SIX[2:])
    assert "1 of 4 stages verified" in html
    assert html.count("<circle") == 4


@pytest.mark.parametrize(
    ("text", "mark"),
    [
        ("a\u202eb", "U+202E"),
        ("a\x1b[31m", "U+001B"),
        ("a\u200bb", "U+200B"),
        ("a\rb", "U+000D"),
        ("a\u2028b", "U+2028"),
    ],
)
def test_a_character_that_hides_or_turns_text_becomes_a_mark(text, mark):
    html = shown("{{ text|visible }}", text=text)
    assert f'<mark class="odd">{mark}</mark>' in html
    assert not set(text) & set("\u202e\x1b\u200b\r\u2028") & set(html)


def test_text_from_outside_is_escaped_around_its_marks():
    assert shown("{{ text|visible }}", text="<b>\u200b</b>\n\tx") == (
        '&lt;b&gt;<mark class="odd">U+200B</mark>&lt;/b&gt;\n\tx'
    )


def test_blanks_at_a_lines_end_are_seen():
    assert shown("{{ text|visible_line }}", text="a b \t") == 'a b<mark class="odd">·→</mark>'
    assert shown("{{ text|visible_line }}", text="a b") == "a b"


@pytest.mark.parametrize(
    ("actor", "name"),
    [("user:li", "li"), ("worker:host:7/8", "worker host:7/8"), ("engine:lease", "engine"), ("ana", "ana")],
)
def test_an_actor_is_named_without_its_kind(actor, name):
    assert shown("{{ actor|person }}", actor=actor) == name


def test_a_meter_says_value_and_limit_and_warns_before_the_end():
    assert "2 / 3" in shown("{% meter 'Attempts' 2 3 %}")
    assert "t-warn" in shown("{% meter 'Attempts' 8 10 %}")
    assert "t-bad" in shown("{% meter 'Attempts' 3 3 %}")
