"""How the console shows states, times, spans, sizes and ids: the same words and shapes on every page."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import NamedTuple
from unicodedata import category

from django import template
from django.utils import timezone
from django.utils.formats import date_format
from django.utils.functional import Promise
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, pgettext

from reviews.decisions import action_text

register = template.Library()

MINUTE, HOUR, DAY = 60, 3600, 86400
# Unicode categories of characters that are not seen or move others: control, format, surrogate, private, separators.
HIDDEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})


class Chip(NamedTuple):
    """A state as people see it: a word, a shape of the sprite, and the class that gives the tone."""

    word: str | Promise
    shape: str
    look: str


CHIPS = {
    # the nine states of a job (S1)
    "queued": Chip(gettext_lazy("queued"), "s-queued", "queued"),
    "running": Chip(gettext_lazy("running"), "s-running", "running"),
    "verifying": Chip(gettext_lazy("verifying"), "s-verifying", "verifying"),
    "accepted": Chip(gettext_lazy("accepted"), "s-accepted", "accepted"),
    "failed_retryable": Chip(gettext_lazy("retry later"), "s-failed_retryable", "failed_retryable"),
    "failed_terminal": Chip(gettext_lazy("failed"), "s-failed_terminal", "failed_terminal"),
    "review": Chip(gettext_lazy("review"), "s-review", "review"),
    "paused": Chip(gettext_lazy("paused"), "s-paused", "paused"),
    "cancelled": Chip(gettext_lazy("cancelled"), "s-cancelled", "cancelled"),
    # whether a live worker still holds it
    "fresh": Chip(gettext_lazy("fresh"), "s-fresh", "fresh"),
    "late": Chip(gettext_lazy("late"), "s-late", "late"),
    "expired": Chip(gettext_lazy("expired"), "s-expired", "expired"),
    "none": Chip(gettext_lazy("none"), "s-none", "none"),
    # what a check said
    "pass": Chip(gettext_lazy("pass"), "c-yes", "accepted"),
    "fail": Chip(gettext_lazy("fail"), "c-no", "expired"),
    "error": Chip(gettext_lazy("could not run"), "i-warn", "expired"),
    "missing": Chip(gettext_lazy("missing"), "c-gap", "late"),
    "waiting": Chip(gettext_lazy("not yet"), "c-wait", "none"),
}

STAGES = {
    "read": gettext_lazy("read"),
    "plan": gettext_lazy("plan"),
    "modify": gettext_lazy("modify"),
    "test": gettext_lazy("test"),
    "inspect": gettext_lazy("review stage"),
    "deliver": gettext_lazy("deliver"),
}


@register.simple_tag
def icon(shape: str) -> SafeString:
    """One shape of the sprite, silent to screen readers: a word always stands beside it."""
    return format_html('<svg class="ic" viewBox="0 0 16 16" aria-hidden="true"><use href="#{}"/></svg>', shape)


@register.simple_tag
def status(code: str, big: bool = False) -> SafeString:
    """A state as shape, word and tone. `code` must be a key of CHIPS."""
    chip = CHIPS[code]
    size = " big" if big else ""
    return format_html('<span class="st st-{}{}">{}{}</span>', chip.look, size, icon(chip.shape), chip.word)


@register.simple_tag
def chip(code: str) -> SafeString:
    """Shape and word of a state, where the element around them gives the tone."""
    return format_html("{}{}", icon(CHIPS[code].shape), CHIPS[code].word)


@register.simple_tag
def shape(code: str) -> SafeString:
    """The shape of a state alone; its word must stand beside it."""
    return icon(CHIPS[code].shape)


@register.simple_tag
def word(code: str) -> str:
    """The word of a state alone."""
    return str(CHIPS[code].word)


@register.simple_tag
def stage_name(stage: str) -> str:
    """A stage as people read it."""
    return str(STAGES[stage])


@register.simple_tag
def tag(text: object, tone: str = "idle", shape: str = "") -> SafeString:
    """A small label; `tone` is idle, good, warn, bad, live or acc."""
    mark = icon(shape) if shape else ""
    return format_html('<span class="tag t-{}">{}{}</span>', tone, mark, text)


@register.simple_tag
def when(value: datetime | None) -> str:
    """A moment in the viewer's zone with UTC in the title (Z2): the time alone when it is today."""
    if value is None:
        return ""
    local, today = timezone.localtime(value), timezone.localtime()
    if local.date() == today.date():
        text = date_format(local, "H:i:s")
    elif local.year == today.year:
        text = date_format(local, pgettext("date format, this year", "j M H:i"))
    else:
        text = date_format(local, pgettext("date format, other year", "j M Y H:i"))
    return _time(value, text)


@register.simple_tag
def ago(value: datetime | None) -> str:
    """How far a moment is from now, without direction ("31 min"); the script keeps it moving."""
    if value is None:
        return ""
    return _time(value, age(abs((timezone.now() - value).total_seconds())), "data-ago")


@register.simple_tag
def as_of() -> str:
    """The moment this page was made, in the viewer's zone; the script moves it with each refresh."""
    now = timezone.now()
    return _time(now, date_format(timezone.localtime(now), "H:i:s"), "data-as-of")


@register.filter
def age(seconds: float) -> str:
    """Seconds in words, coarse: "42 s", "31 min", "1 h 12 min", "8 d"."""
    whole = int(seconds)
    if whole < MINUTE:
        return _unit(whole, "s")
    if whole < HOUR:
        return _unit(whole // MINUTE, "min")
    if whole < DAY:
        return _pair(whole // HOUR, "h", whole % HOUR // MINUTE, "min")
    return _unit(whole // DAY, "d")


@register.filter
def duration(seconds: float | None) -> str:
    """Seconds in words, to two units: "0.4 s", "14 min 10 s", "1 h 12 min", "8 d 3 h"; nothing for None."""
    if seconds is None:
        return ""
    if seconds < 10:
        return _unit(f"{seconds:.1f}", "s")
    whole = int(seconds)
    if MINUTE <= whole < HOUR:
        return _pair(whole // MINUTE, "min", whole % MINUTE, "s")
    if whole >= DAY:
        return _pair(whole // DAY, "d", whole % DAY // HOUR, "h")
    return age(whole)


@register.filter(name="bytes")
def binary_size(count: int) -> str:
    """A number of bytes with a binary unit: "512 B", "2.1 KiB", "3.0 MiB"."""
    if count < 1024:
        return f"{count} B"
    if count < 1024**2:
        return f"{count / 1024:.1f} KiB"
    return f"{count / 1024**2:.1f} MiB"


@register.filter
def short_id(value: str, length: int = 12) -> str:
    """The first characters of a long id, marked as cut."""
    return value if len(value) <= length else f"{value[:length]}…"


@register.simple_tag
def unit_words() -> str:
    """The unit words in the order the script expects them."""
    return "|".join(_units()[unit] for unit in ("s", "min", "h", "d"))


@register.inclusion_tag("components/_stages.html")
def stage_dots(stages: Sequence[str], done: int, current: str, state: str) -> dict[str, object]:
    """A dot for each of a workflow's stages: `done` verified ones, then `current` ("" before and after them all)."""
    dots = []
    for place, stage in enumerate(stages):
        paint = "c-fill" if place < done else "c-line" if stage == current else "c-none"
        dots.append((5 + 11 * place, paint, 2 if paint == "c-none" else 3.5))
    word = str(STAGES[current]) if current else _("done") if done == len(stages) else _("not started")
    title = _("%(done)s of %(total)s stages verified, now: %(word)s") % {
        "done": done,
        "total": len(stages),
        "word": word,
    }
    tone = {"accepted": "good", "failed_terminal": "bad", "cancelled": "idle"}.get(state, "live")
    return {"dots": dots, "word": word, "title": title, "tone": tone, "width": 11 * len(stages)}


@register.inclusion_tag("components/_meter.html")
def meter(label: str, value: float, most: float) -> dict[str, object]:
    """How much of a limit is used, as a bar and in numbers."""
    share = min(100, round(100 * value / most)) if most else 0
    tone = "bad" if share >= 100 else "warn" if share >= 80 else "live"
    return {"label": label, "value": round(value), "most": most, "share": share, "tone": tone}


@register.simple_tag
def action_word(action: str) -> str:
    """What was decided about a failure, as people read it."""
    return action_text(action)


@register.simple_tag
def change_of_time(seconds: float) -> str:
    """An estimated change of time in words: less, more, the same."""
    if round(seconds) == 0:
        return _("the same")
    spent = duration(abs(seconds))
    return _("%(time)s more") % {"time": spent} if seconds > 0 else _("%(time)s less") % {"time": spent}


@register.filter
def plus(value: float, more: float) -> str:
    """A coordinate of a drawing, moved; never in a language's own number format."""
    return f"{value + more:g}"


@register.filter
def visible(text: object) -> SafeString:
    """Text from outside, escaped, with each control, format and bidirectional character as a visible mark."""
    return format_html_join("", "{}{}", ((plain, _mark(odd)) for plain, odd in _pieces(str(text))))


@register.filter
def visible_line(text: str) -> SafeString:
    """`visible`, with blanks at the line's end as dots: a diff may be about nothing else."""
    kept = text.rstrip(" \t")
    dots = "".join("→" if blank == "\t" else "·" for blank in text[len(kept) :])
    return format_html("{}{}", visible(kept), format_html('<mark class="odd">{}</mark>', dots) if dots else "")


@register.filter
def person(actor: str) -> str:
    """Who acted, without the kind: "user:li" is li, "worker:host:7" is worker host:7, "engine:lease" is engine."""
    kind, _colon, name = actor.partition(":")
    return {"user": name, "worker": f"worker {name}", "engine": "engine"}.get(kind, actor)


def _pieces(text: str) -> Iterator[tuple[str, str]]:
    plain = 0
    for place, character in enumerate(text):
        if character not in "\n\t" and category(character) in HIDDEN:
            yield text[plain:place], character
            plain = place + 1
    yield text[plain:], ""


def _mark(character: str) -> SafeString | str:
    if not character:
        return ""
    return format_html('<mark class="odd">U+{}</mark>', f"{ord(character):04X}")


def _time(value: datetime, text: str, mark: str = "") -> SafeString:
    utc = value.astimezone(UTC)
    return format_html(
        '<time datetime="{}" title="{}"{}>{}</time>',
        f"{utc:%Y-%m-%dT%H:%M:%SZ}",
        f"{utc:%Y-%m-%d %H:%M:%S} UTC",
        f" {mark}" if mark else "",
        text,
    )


def _pair(first: int, unit: str, second: int, smaller: str) -> str:
    return f"{_unit(first, unit)} {_unit(second, smaller)}" if second else _unit(first, unit)


def _unit(count: int | str, unit: str) -> str:
    return f"{count} {_units()[unit]}"


def _units() -> dict[str, str]:
    return {
        "s": pgettext("seconds, short", "s"),
        "min": pgettext("minutes, short", "min"),
        "h": pgettext("hours, short", "h"),
        "d": pgettext("days, short", "d"),
    }
