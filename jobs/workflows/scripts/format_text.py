"""Formats the tracked text files of a git work tree: no blanks at line ends, one line end at the end of a file.

Stands alone: it runs inside a job's checkout, by any Python, without AgentQ. Arguments are files, folders or
patterns (`*` within a name, `**` across folders); none means every file. Exit 1 when a pattern matches nothing.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

BINARY_SNIFF_BYTES = 8000  # as git does it


def main(arguments: list[str]) -> int:
    """Formats and lists what changed; the same tree always ends the same, and a second run changes nothing."""
    patterns = [argument for argument in arguments if argument != "--"]
    files = tracked_files()
    missing = [pattern for pattern in patterns if not any(matcher(pattern).match(name) for name in files)]
    if missing:
        sys.stderr.write("".join(f"no tracked file matches {pattern!a}\n" for pattern in missing))
        return 1
    matchers = [matcher(pattern) for pattern in patterns or ["**"]]
    chosen = [name for name in files if any(found.match(name) for found in matchers)]
    changed = [name for name in chosen if format_file(Path(name))]
    sys.stdout.write("".join(f"formatted {name!a}\n" for name in changed))
    sys.stdout.write(f"{len(changed)} of {len(chosen)} files changed\n")
    return 0


def tracked_files() -> list[str]:
    """The names of all tracked regular files: no symbolic links, no submodules."""
    command = ["git", "-c", "core.fsmonitor=false", "ls-files", "-z", "--stage"]
    listing = subprocess.run(command, check=True, capture_output=True, stdin=subprocess.DEVNULL).stdout
    entries = [entry.split(b"\t", 1) for entry in listing.split(b"\0") if entry]
    return sorted({os.fsdecode(name) for head, name in entries if head.startswith(b"100")})


def matcher(pattern: str) -> re.Pattern[str]:
    """The expression for a pattern; one that names a folder matches all below it."""
    expression = ""
    for token in re.findall(r"\*\*/|\*\*|\*|\?|[^*?]+", pattern):
        known = {"**/": "(?:[^/]+/)*", "**": ".*", "*": "[^/]*", "?": "[^/]"}
        expression += known.get(token) or re.escape(token)
    return re.compile(rf"{expression}(?:/.*)?\Z", re.DOTALL)


def format_file(path: Path) -> bool:
    """Whether the file changed; a binary, and a file that is gone or no regular file, is left alone."""
    if path.is_symlink() or not path.is_file():
        return False
    before = path.read_bytes()
    if b"\0" in before[:BINARY_SNIFF_BYTES]:
        return False
    after = format_bytes(before)
    if after == before:
        return False
    path.write_bytes(after)
    return True


def format_bytes(data: bytes) -> bytes:
    """The formatted content; each line keeps its own line end, LF or CRLF."""
    lines = data.split(b"\n")
    ends = [b"\r\n" if line.endswith(b"\r") else b"\n" for line in lines]
    if b"\r\n" in data:  # what follows the last line end takes the one of its file
        ends[-1] = b"\r\n"
    bodies = [line.rstrip(b" \t\r") for line in lines]
    while bodies and not bodies[-1]:
        bodies.pop()
    return b"".join(body + end for body, end in zip(bodies, ends, strict=False))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
