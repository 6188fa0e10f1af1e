"""Where a key stands in a TOML text: tomllib forgets the lines, and an error without a line is hard to mend."""

import re

Path = tuple[str | int, ...]

_SPAN = re.compile(
    r"""
    \"{3} (?:\\.|[^\\])*? \"{3,5} | '{3} .*? '{3,5}    # texts over several lines
    | \"(?:\\.|[^\"\\\n])*\" | '[^'\n]*'               # texts on one line, and quoted keys
    | \#[^\n]*                                         # comments
    """,
    re.DOTALL | re.VERBOSE,
)
_KEY = r'(?:[A-Za-z0-9_-]+|"[^"\n]*"|\'[^\'\n]*\')'
_DOTTED = rf"{_KEY}(?:\s*\.\s*{_KEY})*"
_HEADER = re.compile(rf"\s*(\[\[?)\s*({_DOTTED})\s*\]\]?\s*$")
_PAIR = re.compile(rf"\s*({_DOTTED})\s*=")


def line_of(text: str, path: Path) -> int:
    """The line (from 1) of the key at `path` in a valid TOML text, such as ("checks", 1, "argv").

    A key that is missing, or lies inside a list or an inline table, is answered with the nearest key around it;
    without one, line 1.
    """
    lines = key_lines(text)
    for length in range(len(path), 0, -1):
        if path[:length] in lines:
            return lines[path[:length]]
    return 1


def key_lines(text: str) -> dict[Path, int]:
    """The line of every key and table header in a valid TOML text."""
    found: dict[Path, int] = {}
    counts: dict[Path, int] = {}
    table: Path = ()
    depth = 0
    for number, line in enumerate(_SPAN.sub(_quiet, text).split("\n"), 1):
        if depth == 0 and (header := _HEADER.match(line)):
            table = _resolve(_parts(header[2]), counts, is_list=header[1] == "[[")
            for length in range(1, len(table) + 1):
                found.setdefault(table[:length], number)
            continue
        if depth == 0 and (pair := _PAIR.match(line)):
            path = table
            for part in _parts(pair[1]):
                path = (*path, part)
                found.setdefault(path, number)
            line = line[pair.end() :]
        depth += sum(line.count(opening) for opening in "[{") - sum(line.count(closing) for closing in "]}")
    return found


def _resolve(parts: list[str], counts: dict[Path, int], *, is_list: bool) -> Path:
    """The full path of a header: a name that stands for a list of tables means its newest element."""
    path: Path = ()
    for position, part in enumerate(parts):
        path = (*path, part)
        if is_list and position == len(parts) - 1:
            counts[path] = counts.get(path, -1) + 1
        if path in counts:
            path = (*path, counts[path])
    return path


def _quiet(span: re.Match[str]) -> str:
    """Strings and comments with nothing in them that looks like structure; the number of lines is kept."""
    content = span[0]
    if content.startswith(("#", '"""', "'''")):
        return "\n" * content.count("\n")
    return re.sub(r"[\[\]{}=]", "_", content)


def _parts(dotted: str) -> list[str]:
    return [part.strip("\"'") for part in re.findall(_KEY, dotted)]
