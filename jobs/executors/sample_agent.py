"""The sample executor's child: reads its task on stdin, edits files, tells events as JSON lines, may misbehave.

Run as `python -I -S sample_agent.py` in the checkout. Standard library only.
"""

import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

FAULTS = (
    "exit",  # leaves with `exit_code` (default 3) after the edits, saying that it failed
    "error",  # ends with an `error` of codes: {"code", "http_status", "exception", "request_sent", "retry_after"}
    "no_terminal_event",  # exit code 0 after the edits, but no terminal event
    "hang",  # edits, then never ends
    "ignore_term",  # hangs and is deaf to TERM
    "daemonise",  # ends well, but leaves a process in a session of its own that holds stdout
    "endless_output",  # edits, then prints for ever
    "break_tests",  # adds a test that fails (`path`, default tests/test_sample_broken.py), then ends well
    "outside_paths",  # writes `path` (default deploy/sample.env), then ends well
)
BROKEN_TEST = """import unittest


class SampleBroken(unittest.TestCase):
    def test_that_fails(self):
        self.fail("the sample agent was told to break the tests")
"""


def main() -> int:
    """Do the task of one stage; the exit code."""
    task = json.load(sys.stdin)
    tell(type="start", stage=task["stage"])
    if task["stage"] == "modify":
        for edit in task.get("edits", []):
            apply(edit)
    fail = task.get("fail", {})
    if fail and fail.get("stage", "modify") == task["stage"] and claim_number() <= fail.get("attempts", 10**9):
        code = misbehave(fail)
        if code is not None:
            return code
    tell(type="end", ok=True, claim=f"{task['stage']}: {len(task.get('edits', []))} edits made as told.")
    return 0


def apply(edit: dict[str, Any]) -> None:
    """One edit inside the checkout; the same edit on the same file gives the same file."""
    path = Path(edit["path"])
    if path.is_absolute() or ".." in path.parts:
        raise SystemExit(f"refused: {path} is not inside the checkout")
    path.parent.mkdir(parents=True, exist_ok=True)
    before = path.read_text() if path.exists() else ""
    if edit["do"] == "replace" and edit["old"] not in before:
        raise SystemExit(f"refused: the text to replace is not in {path}")
    after = {
        "write": lambda: edit["text"],
        "append": lambda: before + edit["text"],
        "replace": lambda: before.replace(edit["old"], edit["text"], 1),
    }[edit["do"]]()
    path.write_text(after)
    tell(type="tool", tool="edit", path=str(path))


def misbehave(fail: dict[str, Any]) -> int | None:
    """Fail as told: an exit code to leave with at once, or None to go on to the terminal event."""
    how = fail["how"]
    if how == "exit":
        tell(type="end", ok=False, claim="Told to fail.")
        return int(fail.get("exit_code", 3))
    if how == "error":
        tell(type="end", ok=False, error=fail.get("error", {"code": "unknown"}), claim="Told to fail.")
        return int(fail.get("exit_code", 1))
    if how == "no_terminal_event":
        return 0
    if how in ("hang", "ignore_term"):
        hang(deaf=how == "ignore_term")
    if how == "daemonise" and os.fork() == 0:
        os.setsid()
        hang(deaf=True)
    if how == "endless_output":
        while True:
            tell(type="noise", text="x" * 1000)
    if how == "break_tests":
        apply({"do": "write", "path": fail.get("path", "tests/test_sample_broken.py"), "text": BROKEN_TEST})
    if how == "outside_paths":
        apply({"do": "write", "path": fail.get("path", "deploy/sample.env"), "text": "MODE=sample\n"})
    return None


def hang(deaf: bool) -> None:
    if deaf:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    tell(type="hang")
    while True:
        time.sleep(3600)


def claim_number() -> int:
    """Which claim of the job this is: the fence, the last part of the token that every child carries."""
    return int(os.environ.get("AGENTQ_TOKEN", "").rpartition(":")[2] or 1)


def tell(**event: object) -> None:
    """One event of the stream, in one write."""
    sys.stdout.write(json.dumps(event) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
