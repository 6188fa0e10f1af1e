"""Step 1, workflows: an error in a workflow file names its line."""

import tomllib

import pytest

from jobs.workflows.toml_lines import key_lines, line_of

TEXT = '''\
name = "x" # [not] = a header
prompt = """
[fake]
name = 1
"""
list = [
  "a = 1", # ]
  "]",
]
"quoted key" = { inner = 1 }
a.b = 2

[[checks]]
name = "one"
argv = [
  "x",
]
  [[checks]]
  name = 'two'
[checks.more]
deep = 1

[parameters]
text = \'\'\'
[[checks]]
\'\'\'
last = true
'''


def test_the_text_above_is_toml():
    assert tomllib.loads(TEXT)["parameters"]["last"] is True


@pytest.mark.parametrize(
    ("path", "line"),
    [
        (("name",), 1),
        (("prompt",), 2),
        (("list",), 6),
        (("list", 1), 6),
        (("quoted key",), 10),
        (("quoted key", "inner"), 10),
        (("a", "b"), 11),
        (("checks",), 13),
        (("checks", 0), 13),
        (("checks", 0, "name"), 14),
        (("checks", 0, "argv", 0), 15),
        (("checks", 1), 18),
        (("checks", 1, "name"), 19),
        (("checks", 1, "argv"), 18),
        (("checks", 1, "more", "deep"), 21),
        (("parameters", "text"), 24),
        (("parameters", "last"), 27),
        (("missing",), 1),
    ],
)
def test_a_key_is_found_or_the_nearest_around_it(path: tuple[str | int, ...], line: int):
    assert line_of(TEXT, path) == line


def test_nothing_inside_strings_and_comments_is_taken_for_a_key():
    assert ("fake",) not in key_lines(TEXT)
    assert ("checks", 2) not in key_lines(TEXT)
