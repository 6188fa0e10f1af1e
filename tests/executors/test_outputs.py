"""Reading the end of what a child printed (F4, V3)."""

import os
from pathlib import Path

from jobs.executors.outputs import tail


def test_the_last_bytes_come_back_as_text(tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(b"first\n" + b"x" * 100 + b"\nlast \xff\n")
    assert tail(tmp_path / "log", 7) == "last \ufffd\n"


def test_a_short_file_comes_back_whole(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("all")
    assert tail(tmp_path / "log", 1000) == "all"


def test_what_is_no_regular_file_is_empty(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("secret")
    (tmp_path / "link").symlink_to(tmp_path / "log")
    os.mkfifo(tmp_path / "pipe")
    assert [tail(tmp_path / name, 10) for name in ("missing", "link", "pipe", ".")] == ["", "", "", ""]
