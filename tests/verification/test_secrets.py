"""V1, Z1: secrets in what a result adds are found by place and kind, and their values go nowhere."""

import json
from collections.abc import Callable
from pathlib import Path

from jobs.verification.added import AddedLine
from jobs.verification.checks import Verdict
from jobs.verification.gate import GateResult
from jobs.verification.secrets import Scanner, SecretFinding, kinds, write
from jobs.workspaces.checkout import Checkout
from tests.secret_cases import load, whole

KEY = b"k" * 32
TOKEN = whole("ghp_¦VTwJBlqY7aAWYDilRDZq¦byN5muNwNr0xveoC")
PEM = next(case.span for case in load("secret_cases.jsonl") if case.kind == "pem_yaml")


def added(path: str, *texts: str, first: int = 1) -> list[AddedLine]:
    return [AddedLine(path, 0, path), *(AddedLine(path, first + at, text) for at, text in enumerate(texts))]


def test_each_finding_names_file_and_line() -> None:
    lines = added("app/db.py", "import os", "", f'TOKEN = "{TOKEN}"', first=40)
    [finding] = Scanner(KEY)(lines)
    assert (finding.kind, finding.path, finding.line) == ("github_token", "app/db.py", 42)
    assert TOKEN not in repr(finding)


def test_a_key_over_many_lines_is_one_finding_at_its_first_line() -> None:
    [finding] = Scanner(KEY)(added("deploy.yml", "key: |", *PEM.split("\n"), "host: x"))
    assert (finding.kind, finding.line) == ("private_key", 2)


def test_a_file_name_can_be_the_secret_or_say_that_its_file_is_one() -> None:
    [named] = Scanner(KEY)(added(f"notes/{TOKEN}.txt", "hello"))
    assert (named.kind, named.line, named.path) == ("github_token", 0, "notes/[redacted:github_token].txt")
    assert kinds(Scanner(KEY)(added("deploy/id_ed25519", "x"))) == ["credential_file"]
    assert Scanner(KEY)(added("deploy/id_ed25519.pub", "x")) == []


def test_a_fingerprint_tells_equal_values_and_only_under_its_key() -> None:
    one, two = Scanner(KEY)([*added("a.py", f"a = '{TOKEN}'"), *added("b.py", "", f"b = '{TOKEN}'")])
    [other] = Scanner(b"o" * 32)(added("a.py", f"a = '{TOKEN}'"))
    assert one.fingerprint == two.fingerprint != other.fingerprint


def test_what_agentq_handed_out_is_found_also_without_a_form_of_its_own() -> None:
    scanner = Scanner(KEY, injected=["plain words here"])
    assert kinds(scanner(added("a.py", "x = 'cGxhaW4gd29yZHMgaGVyZQ=='"))) == ["injected"]


def test_the_file_for_the_diff_page_is_private_and_holds_no_value(tmp_path: Path) -> None:
    path = tmp_path / "output" / "secrets.json"
    write(Scanner(KEY)(added("a.py", f"a = '{TOKEN}'")), path)
    assert path.stat().st_mode & 0o077 == 0
    listed = json.loads(path.read_text())
    assert listed["findings"][0]["line"] == 1
    assert TOKEN not in path.read_text()


def test_a_result_with_a_secret_in_a_new_file_does_not_pass_the_gate(
    gate: Callable[..., GateResult], checkout: Checkout
) -> None:
    (checkout.tree / "src/keys.py").write_text(f"# keys\nTOKEN = '{TOKEN}'\n")
    answer = gate(scan=Scanner(KEY))
    [check] = [check for check in answer.checks if check.name == "secrets"]
    assert check.verdict is Verdict.FAIL
    assert not answer.passed
    [finding] = answer.findings
    assert isinstance(finding, SecretFinding)
    assert (finding.path, finding.line) == ("src/keys.py", 2)


def test_a_result_without_secrets_passes_the_check(gate: Callable[..., GateResult], checkout: Checkout) -> None:
    (checkout.tree / "src/keys.py").write_text("import os\n\nTOKEN = os.environ['TOKEN']\n")
    answer = gate(scan=Scanner(KEY))
    assert [check.verdict for check in answer.checks if check.name == "secrets"] == [Verdict.PASS]
