"""Token-shaped strings for tests. They are made up; the files hold them broken up, so that no scanner of a public
host takes them for real ones."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FIXTURES = Path(__file__).parent / "fixtures"
BREAK = "¦"


@dataclass(frozen=True)
class Case:
    """A text, whether it holds a secret, and which characters are the secret."""

    id: str
    text: str
    is_secret: bool
    kind: str
    context: Any
    span: str


def load(name: str) -> list[Case]:
    """The cases of one fixture file, whole again."""
    cases = []
    for line in (FIXTURES / name).read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        context = row["context"] if row["context"] in ("payload", "diff") else "tail"
        span = whole(row["span"] or "")
        cases.append(Case(row["id"], whole(row["text"]), row["is_secret"], row["kind"], context, span))
    return cases


def whole(text: str) -> str:
    """The text without its breaks."""
    return text.replace(BREAK, "")
