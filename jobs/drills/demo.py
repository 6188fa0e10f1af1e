"""The quick start's made-up world: two small repositories with real tests, and jobs that end in every way (D5)."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jobs.workspaces.git import Git

TESTS = ({"name": "unit-tests", "argv": ["python3", "-m", "unittest", "-q"], "kind": "tests", "seconds": 60},)
SERVICE = "demo/parcel-service"
SHOP = "demo/web-shop"

SERVICE_FILES = {
    "README.md": "# Parcel service\n\nA made-up service for AgentQ's quick start.\n",
    "CHANGES.md": "# Changes\n",
    "parcels/__init__.py": "",
    "parcels/rates.py": (
        '"""What a parcel costs, in cents."""\n\n\n'
        "def rate(grams):\n"
        '    """Two cents for ten grams, rounded down, at least 10 cents."""\n'
        "    return max(10, grams * 2 // 10)\n"
    ),
    "parcels/auth/__init__.py": "",
    "parcels/auth/login.py": 'def may_send(role):\n    return role == "clerk"\n',
    "tests/__init__.py": "",
    "tests/test_rates.py": (
        "import unittest\n\nfrom parcels.rates import rate\n\n\n"
        "class RateTest(unittest.TestCase):\n"
        "    def test_light_parcels_cost_the_minimum(self):\n"
        "        self.assertEqual(rate(20), 10)\n\n"
        "    def test_two_cents_for_ten_grams(self):\n"
        "        self.assertEqual(rate(1_000), 200)\n"
    ),
}
SHOP_FILES = {
    "README.md": "# Web shop   \n\nA made-up shop for AgentQ's quick start.\t\n\n\n",
    "shop/__init__.py": "",
    "shop/cart.py": (
        '"""A cart of (name, price, count)."""   \n\n\n'
        "def total(lines):\n"
        "    return sum(price * count for _name, price, count in lines)\n"
    ),
    "scripts/bump_docs.py": (
        "from pathlib import Path\n\n"
        'path = Path("docs/version.txt")\n'
        "path.parent.mkdir(exist_ok=True)\n"
        'number = int(path.read_text()) if path.exists() else 0\npath.write_text(f"{number + 1}\\n")\n'
    ),
    "tests/__init__.py": "",
    "tests/test_cart.py": (
        "import unittest\n\nfrom shop.cart import total\n\n\n"
        "class CartTest(unittest.TestCase):\n"
        "    def test_total(self):\n"
        '        self.assertEqual(total([("pen", 120, 2), ("ink", 300, 1)]), 540)\n'
    ),
}
SHOP_COMMANDS = {"bump-docs": ["python3", "scripts/bump_docs.py"]}


@dataclass(frozen=True)
class DemoJob:
    """One job of the quick start and how it has to end; `cancel` cancels it before a worker can take it."""

    repo: str
    action: str
    payload: Mapping[str, Any]
    state: str
    why: str
    cancel: bool = False


def make_repository(path: Path, files: Mapping[str, str]) -> None:
    """A git repository with one commit on main at `path`; left as it is when it is there."""
    if path.exists():
        return
    for name, text in files.items():
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_text(text)
    Git(None).run("init", "--quiet", "--initial-branch=main", "--template=", str(path))
    git = Git(path / ".git", work_tree=path)
    git.run("add", "--all")
    git.run("commit", "--quiet", "-m", "First version")


def _edit(repo: str, state: str, why: str, paths: list[str], text: str, **more: Any) -> DemoJob:
    return DemoJob(repo, "sample-agent", {"paths": paths, "text": text, **more}, state, why)


JOBS = (
    _edit(SERVICE, "accepted", "a documentation change, checked and delivered", ["docs/rates.md"], "By weight.\n"),
    _edit(
        SERVICE, "accepted", "a code change whose tests pass", ["parcels/rates.py"],
        "return max(10, grams // 5)", do="replace", old="return max(10, grams * 2 // 10)",
    ),
    DemoJob(SHOP, "format-code", {"paths": ["**"]}, "accepted", "trailing blanks removed by the built-in formatter"),
    DemoJob(SHOP, "run-command", {"command": "bump-docs"}, "accepted", "a command from the owner's closed list"),
    DemoJob(SHOP, "sample-report", {"task": "Say what the cart does."}, "accepted", "a report: no file changed"),
    _edit(
        SHOP, "accepted", "the connection broke once: one controlled retry", ["docs/retry.md"], "Second try.\n",
        fail_code="network_reset", fail_attempts=1,
    ),
    _edit(
        SHOP, "accepted", "asked to slow down: waited as told, not charged", ["docs/rate.md"], "After the wait.\n",
        fail_code="rate_limited", fail_http_status=429, fail_retry_after=2, fail_attempts=1,
    ),
    _edit(SERVICE, "review", "tests fail: never retried unchanged", ["docs/x.md"], "x\n", fail_how="break_tests"),
    _edit(
        SERVICE, "review", "touches the login: a person always looks", ["parcels/auth/login.py"],
        "# Reviewed by nobody yet.\n",
    ),
    _edit(SHOP, "review", "ended with an exit code nobody explained", ["docs/y.md"], "y\n", fail_how="exit"),
    _edit(
        SHOP, "paused", "the allowance is used up: the diff is kept", ["docs/z.md"], "z\n", fail_code="usage_limit"
    ),
    DemoJob(
        SERVICE, "sample-report", {"task": "Read the plan.", "fail_at": "plan", "fail_code": "bad_input"},
        "failed_terminal", "input that can never work: stopped at once",
    ),
    DemoJob(
        SERVICE, "sample-agent", {"paths": ["docs/never.md"], "text": "never\n"}, "cancelled",
        "cancelled by the operator before it started", cancel=True,
    ),
)  # fmt: skip
