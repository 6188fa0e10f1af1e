"""Readings of a text: as it stands, and with its escapes undone, each with the way back to the text's own places."""

import re
from bisect import bisect_right
from collections.abc import Iterator
from typing import Final

# One character for one character, so that places stay: full-width forms, typographic quotes, odd blanks.
_SIGNS_AS: Final = {
    "'": "‘’", '"': "“”「」『』", "(": "【", ")": "】", " ": "\u3000\xa0\u2007\u2009\u202f",
    "-": "\u2010\u2011\u2012\u2013", ".": "。", ",": "、",
}  # fmt: skip
_PLAIN: Final = {odd: plain for plain, odds in _SIGNS_AS.items() for odd in odds} | {
    chr(0xFF01 + code): chr(0x21 + code) for code in range(94)
}
_ODD: Final = re.compile(f"[{''.join(_PLAIN)}]")
_ESCAPE: Final = re.compile(
    r"\\{1,8}(?:u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2})|([\"'/nrtbf`]))"
    r"|%(?:25){0,3}([0-9a-fA-F]{2})"
    r"|&(?:#x([0-9a-fA-F]{1,5})|#([0-9]{1,6})|(quot|amp|apos|lt|gt));"
    r"|\x1b\[[0-9;?]{0,20}[A-Za-z]|[\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2064\u2066-\u2069\ufeff]"
)
_SIGNS: Final = {"n": "\n", "r": "\r", "t": "\t", "b": " ", "f": " "}
_ENTITIES: Final = {"quot": '"', "amp": "&", "apos": "'", "lt": "<", "gt": ">"}
_NEIGHBOURS: Final = 3  # lines before and after one with an escape that are read with it
_MARKS: Final = ("\\", "%", "&", "\x1b", "\xad", "\ufeff")


class View:
    """A reading of a text. `lower` has the same places as `text`; `origin` leads back to the text itself."""

    def __init__(self, text: str, places: tuple[list[int], list[int], list[bool]] | None = None) -> None:
        self.text = text
        lower = text.lower()
        # A few letters grow when lowered; then only ASCII is, so that places stay.
        self.lower = lower if len(lower) == len(text) else text.translate(_ASCII_LOWER)
        self._places = places

    def origin(self, start: int, end: int) -> tuple[int, int]:
        """The place in the text itself of characters `start` to `end` of this reading."""
        if self._places is None:
            return start, end
        return self._of(start)[0], self._of(end - 1)[1]

    def _of(self, at: int) -> tuple[int, int]:
        assert self._places is not None
        begins, sources, literal = self._places
        index = bisect_right(begins, at) - 1
        if literal[index]:
            where = sources[index] + at - begins[index]
            return where, where + 1
        return sources[index], sources[index + 1]


_ASCII_LOWER: Final = {code: code + 32 for code in range(ord("A"), ord("Z") + 1)}


def views(text: str) -> Iterator[View]:
    """The text as it stands; then, where that differs, with JSON, repr, URL and HTML escapes undone once."""
    plain = _plain(text)
    yield View(plain)
    if not plain.isascii() or any(mark in plain for mark in _MARKS):
        decoded = _decoded(plain)
        if decoded is not None:
            yield decoded


def _plain(text: str) -> str:
    return text if text.isascii() else _ODD.sub(lambda odd: _PLAIN.get(odd[0], odd[0]), text)


def _decoded(text: str) -> View | None:
    """Only the lines that hold an escape, each with its neighbours: the others read as in the text itself."""
    out: list[str] = []
    begins: list[int] = []
    sources: list[int] = []
    literal: list[bool] = []
    length, done, stop, line = 0, 0, -1, -1

    def add(shown: str, source: int, *, as_is: bool) -> None:
        nonlocal length
        begins.append(length)
        sources.append(source)
        literal.append(as_is)
        out.append(shown)
        length += len(shown)

    for run in _runs(text):
        start, end = run[0].start(), run[-1].end()
        if start > stop:
            if stop >= 0:
                add(text[done:stop] + "\n", done, as_is=True)
            done = max(_lines_back(text, start), stop, 0)
        add(text[done:start], done, as_is=True)
        for shown, source in _characters(run):
            add(shown, source, as_is=False)
        done = end
        if end > line:
            line, stop = _lines_on(text, end)
    if not begins:
        return None
    add(text[done:stop], done, as_is=True)
    return View(_plain("".join(out)), (begins, sources, literal))


def _lines_back(text: str, at: int) -> int:
    for _ in range(_NEIGHBOURS + 1):
        at = text.rfind("\n", 0, at)
        if at < 0:
            return 0
    return at + 1


def _lines_on(text: str, at: int) -> tuple[int, int]:
    """The end of this line, and of the last neighbour."""
    line = at = text.find("\n", at)
    for _ in range(_NEIGHBOURS):
        if at < 0:
            break
        at = text.find("\n", at + 1)
    return (line if line >= 0 else len(text)), (at + 1 if at >= 0 else len(text))


def _runs(text: str) -> Iterator[list[re.Match[str]]]:
    """Escapes that touch each other belong together: bytes of one UTF-8 character may be written one by one."""
    run: list[re.Match[str]] = []
    for found in _ESCAPE.finditer(text):
        if run and found.start() != run[-1].end():
            yield run
            run = []
        run.append(found)
    if run:
        yield run


def _characters(run: list[re.Match[str]]) -> Iterator[tuple[str, int]]:
    """Each undone character with the place where its escape began; nothing for what is invisible anyway."""
    pending: list[tuple[int, int]] = []
    for found in run:
        point, byte, sign, percent, hexadecimal, decimal, entity = found.groups()
        if byte or percent:
            pending.append((int(byte or percent, 16), found.start()))
            continue
        yield from _from_bytes(pending)
        pending = []
        if point or hexadecimal or decimal:
            code = int(point or hexadecimal or decimal, 10 if decimal else 16)
            shown = chr(code) if code <= 0x10FFFF and not 0xD800 <= code < 0xE000 else "\ufffd"
        else:
            shown = _SIGNS.get(sign, sign) if sign else _ENTITIES.get(entity, "")
        yield shown, found.start()
    yield from _from_bytes(pending)


def _from_bytes(pending: list[tuple[int, int]]) -> Iterator[tuple[str, int]]:
    data = bytes(value for value, _ in pending)
    try:
        text = data.decode()
    except UnicodeDecodeError:
        text = data.decode("latin-1")
        yield from zip(text, (where for _, where in pending), strict=True)
        return
    at = 0
    for character in text:
        yield character, pending[at][1]
        at += len(character.encode())
