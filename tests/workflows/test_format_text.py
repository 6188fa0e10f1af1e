"""Step 1, format-code: the built-in formatter gives one result for one content."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.workflows.scripts.format_text import format_bytes

contents = st.lists(st.sampled_from([b"a", b" ", b"\t", b"\n", b"\r\n", b"\r", "é".encode()]), max_size=25).map(
    b"".join
)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"", b""),
        (b" \n\t\n", b""),
        (b"a", b"a\n"),
        (b"a\n\n\n", b"a\n"),
        (b"a \t\nb\n", b"a\nb\n"),
        (b"  a\n", b"  a\n"),
        (b"a\n\nb\n", b"a\n\nb\n"),
        (b"a \r\nb", b"a\r\nb\r\n"),
        (b"a\r\n\r\n", b"a\r\n"),
    ],
)
def test_blanks_at_line_ends_and_surplus_ends_go(before: bytes, after: bytes):
    assert format_bytes(before) == after


@given(content=contents)
def test_formatting_twice_is_formatting_once(content: bytes):
    once = format_bytes(content)
    assert format_bytes(once) == once


@given(content=contents)
def test_nothing_but_blanks_and_line_ends_is_touched(content: bytes):
    assert format_bytes(content).translate(None, b" \t\r\n") == content.translate(None, b" \t\r\n")
