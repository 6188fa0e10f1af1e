"""The gate on real repositories: tricks against each check, programs, base comparison (V1, S4)."""

import hashlib
import os
import resource
import subprocess
import sys

import pytest

from jobs.core.policy import PathRule
from jobs.verification.checks import Verdict
from jobs.verification.digest import argv_digest
from jobs.verification.programs import Program

SUITE = Program("suite", ("sh", "check.sh"))


def row(result, name):
    [check] = [check for check in result.checks if check.name == name]
    return check


def test_a_good_change_passes_with_all_rows_in_order(checkout, gate):
    (checkout.tree / "src/billing.py").write_text("def total():\n    return 2\n")
    static = Program("lint", ("true",), "static")

    result = gate(programs=[static, SUITE], allowed=["src/**"], required=frozenset({"tests", "static"}))

    assert result.passed
    assert [check.name for check in result.checks] == ["diff", "paths", "whitespace", "suite", "lint"]
    assert {check.verdict for check in result.checks} == {Verdict.PASS}
    assert [change.path for change in result.changes] == ["src/billing.py"]
    assert (result.hits, result.stopped, result.already_red) == ((), None, ())


def test_the_same_result_has_the_same_digest_and_another_one_has_not(checkout, gate):
    (checkout.tree / "src/billing.py").write_text("def total():\n    return 2\n")
    first, second = gate(programs=[SUITE]), gate(programs=[SUITE])
    (checkout.tree / "src/billing.py").write_text("def total():\n    return 3\n")

    assert first.digest == second.digest != gate(programs=[SUITE]).digest


@pytest.mark.parametrize(
    ("expects", "changed", "passes"),
    [
        ("diff", True, True), ("diff", False, False), ("diff_or_none", True, True), ("diff_or_none", False, True),
        ("report", True, False), ("report", False, True),
    ],
)  # fmt: skip
def test_a_workflow_gets_the_diff_it_expects(checkout, gate, expects, changed, passes):
    if changed:
        (checkout.tree / "src/new.py").write_text("x = 1\n")
    assert gate(expects=expects).passed is passes


# ---- paths


def test_a_rename_out_of_a_guarded_folder_is_still_a_hit(checkout, gate, naive):
    os.rename(checkout.tree / "src/billing.py", checkout.tree / "innocent.py")
    naive(checkout.tree, "add", "-A")
    naive(checkout.tree, "commit", "-qm", "move")
    pairs = naive(checkout.tree, "diff", "-M", "--name-status", "HEAD~1", "HEAD")
    assert pairs == "R100\tsrc/billing.py\tinnocent.py"  # plain git shows one line, a rule on new names misses it

    result = gate(path_rules=[PathRule("billing", ("**/billing*.*",), reviewers=2)])

    assert [(hit.path, hit.rule, hit.reviewers) for hit in result.hits] == [("src/billing.py", "billing", 2)]
    assert (row(result, "paths").verdict, row(result, "paths").details) == (Verdict.FAIL, ("billing",))
    assert not result.passed


def test_a_change_outside_the_allowed_paths_fails(checkout, gate):
    (checkout.tree / "setup.py").write_text("x = 1\n")
    result = gate(allowed=["src/**"])
    assert (result.passed, row(result, "paths").details) == (False, ("outside_allowed",))


def test_a_link_that_leaves_the_tree_fails_and_one_inside_passes(checkout, gate):
    (checkout.tree / "inside").symlink_to("src/billing.py")
    assert gate().passed
    (checkout.tree / "src/outside").symlink_to("../../../../etc/passwd")
    (checkout.tree / "absolute").symlink_to("/etc/passwd")
    result = gate()
    assert {(hit.path, hit.rule) for hit in result.hits} == {
        ("absolute", "symlink_leaves_tree"), ("src/outside", "symlink_leaves_tree"),
    }  # fmt: skip


def test_a_nested_repository_and_an_oversized_file_fail(checkout, gate, naive, stored):
    naive(checkout.tree, "init", "-q", "nested")
    naive(checkout.tree / "nested", "commit", "-q", "--allow-empty", "-m", "inner")
    (checkout.tree / "huge.bin").write_bytes(b"x" * 5000)
    result = gate(snapshot=stored(max_file_bytes=1000))
    assert {(hit.path, hit.rule) for hit in result.hits} == {
        ("huge.bin", "oversized"), ("nested", "nested_repository"), ("nested", "gitlink"),
    }  # fmt: skip


# ---- whitespace


@pytest.mark.parametrize("trick", ["plain", "staged", "committed", "attributes", "binary", "nested attributes"])
def test_whitespace_errors_are_found_whatever_the_agent_does_to_hide_them(checkout, gate, naive, trick):
    (checkout.tree / "src/new.py").write_text("x = 1   \n")
    if trick in {"attributes", "binary"}:
        rule = "* -whitespace\n" if trick == "attributes" else "* binary\n"
        (checkout.tree / ".gitattributes").write_text(rule)
        (checkout.tree / ".git/info/attributes").unlink()
    if trick == "nested attributes":
        (checkout.tree / "src/.gitattributes").write_text("*.py -whitespace -diff\n")
        (checkout.tree / ".git/info/attributes").unlink()
    if trick != "plain":
        naive(checkout.tree, "add", "-A")
    if trick not in {"plain", "staged"}:
        naive(checkout.tree, "commit", "-qm", "hide")
    naive(checkout.tree, "diff", "--check")  # plain git in the agent's clone finds nothing and says 0
    if "attributes" in trick or trick == "binary":
        naive(checkout.tree, "diff", "--check", checkout.base.commit, "HEAD")

    check = row(gate(), "whitespace")

    assert (check.verdict, check.exit_code, check.details) == (Verdict.FAIL, 2, ("whitespace_errors",))
    assert b"src/new.py:1: trailing whitespace." in check.output_path.read_bytes()
    assert check.output_digest == hashlib.sha256(check.output_path.read_bytes()).hexdigest()


def test_whitespace_errors_of_the_base_are_not_the_results(source, mirror, gate, naive, tmp_path, checkout):
    (checkout.tree / "src/new.py").write_text("x = 1\n")
    assert row(gate(), "whitespace").verdict is Verdict.PASS


def test_a_left_conflict_marker_is_found(checkout, gate):
    (checkout.tree / "src/new.py").write_text("<<<<<<< HEAD\nx = 1\n=======\nx = 2\n>>>>>>> other\n")
    assert "conflict_markers" in row(gate(), "whitespace").details


def test_programs_that_attributes_name_do_not_run_in_the_checks(checkout, gate, mirror, tmp_path, naive):
    trace = tmp_path / "trace"
    program = tmp_path / "evil"
    program.write_text(f"#!/bin/sh\necho ran >> '{trace}'\ncat\n")
    program.chmod(0o755)
    for setting in ("filter.x.clean", "filter.x.smudge", "diff.x.textconv", "core.fsmonitor"):
        naive(checkout.tree, "config", setting, str(program))
    (checkout.tree / ".git/info/attributes").unlink()
    (checkout.tree / ".gitattributes").write_text("* filter=x diff=x\n")
    (checkout.tree / "src/billing.py").write_text("changed = 1   \n")
    naive(checkout.tree, "diff", "--check", check=False)
    assert trace.exists()
    trace.unlink()

    assert row(gate(), "whitespace").verdict is Verdict.FAIL
    assert not trace.exists()


def test_one_very_long_line_does_not_flood_memory(checkout, gate, stored):
    with (checkout.tree / "line.txt").open("wb") as file:
        for _ in range(100):
            file.write(b"x" * 1_000_000)
        file.write(b"   \n")
    snapshot = stored(max_file_bytes=200_000_000)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    gate(snapshot=snapshot, scan=lambda lines: [line for line in lines if "secret" in line.text])

    grown_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown_kib < 60_000


def test_complaints_over_the_cap_still_fail(checkout, gate):
    (checkout.tree / "many.txt").write_text("x   \n" * 200_000)
    check = row(gate(), "whitespace")
    assert (check.verdict, check.details) == (Verdict.FAIL, ("output_cut", "whitespace_errors"))
    assert check.output_path.stat().st_size == 256 * 1024


# ---- programs


def test_a_failing_suite_fails_and_its_output_is_kept(checkout, gate):
    (checkout.tree / "broken").write_text("x\n")
    program = Program("suite", ("sh", "-c", "echo it broke; sh check.sh"))
    result = gate(programs=[program])
    check = row(result, "suite")

    assert (result.passed, check.verdict, check.exit_code) == (False, Verdict.FAIL, 1)
    assert check.output_path.read_text() == "it broke\n"
    assert check.output_digest == hashlib.sha256(b"it broke\n").hexdigest()
    assert check.argv_digest == argv_digest(program.argv)


def test_programs_run_in_a_clean_tree_and_not_where_the_agent_worked(checkout, gate, naive, tmp_path):
    naive(tmp_path, "init", "-q", "verify")  # a repository above the clean tree must not be found either
    (checkout.tree / "left.log").write_text("ignored by git\n")
    (checkout.tree / "src/new.py").write_text("x\n")
    script = "test ! -e left.log && test ! -e .git && test -e src/new.py && ! git rev-parse"
    assert gate(programs=[Program("suite", ("sh", "-c", script))]).passed


def test_programs_have_a_home_and_a_temporary_directory_of_their_own(checkout, gate, tmp_path):
    (checkout.tree / "src/new.py").write_text("x\n")
    script = 'test -z "$(ls -A "$HOME")" && test -z "$(ls -A "$TMPDIR")" && echo "$HOME" && test "$EXTRA" = 1'
    result = gate(programs=[Program("suite", ("sh", "-c", script))], env={"EXTRA": "1"})

    home = row(result, "suite").output_path.read_text().strip()
    assert result.passed
    assert home.startswith(str(tmp_path / "verify"))
    assert not os.path.exists(home)


def test_a_suite_cannot_change_what_the_static_check_sees(checkout, gate):
    (checkout.tree / "src/new.py").write_text("bad\n")
    cleaner = Program("suite", ("sh", "-c", "echo good > src/new.py"))
    result = gate(programs=[cleaner, Program("lint", ("grep", "-q", "good", "src/new.py"), "static")])
    assert row(result, "lint").verdict is Verdict.FAIL


@pytest.mark.parametrize(
    ("argv", "seconds", "verdict", "details"),
    [
        (("no-such-program-here",), 60, Verdict.MISSING, ("program_not_found",)),
        (("sleep", "60"), 0.2, Verdict.ERROR, ("timed_out",)),
        (("sh", "-c", "kill -SEGV $$"), 60, Verdict.FAIL, ("killed_by_signal",)),
        (("sh", "-c", "exit 7"), 60, Verdict.FAIL, ("exit_code",)),
    ],
)
def test_a_program_without_a_good_end_never_passes(checkout, gate, argv, seconds, verdict, details):
    (checkout.tree / "src/new.py").write_text("x\n")
    result = gate(programs=[Program("suite", argv, seconds=seconds)])
    assert (result.passed, row(result, "suite").verdict, row(result, "suite").details) == (False, verdict, details)


def test_surviving_processes_are_no_pass(checkout, gate, ended):
    (checkout.tree / "src/new.py").write_text("x\n")
    result = gate(programs=[SUITE], run=lambda *_: ended(exit_code=0, survivors=1))
    assert row(result, "suite").details == ("survivors",)
    assert not result.passed


def test_a_stop_by_the_worker_ends_the_verification(checkout, gate, ended):
    (checkout.tree / "src/new.py").write_text("x\n")
    started = []

    def stopping(argv, *_):
        started.append(argv)
        return ended(stopped="cancel")

    result = gate(programs=[SUITE, Program("lint", ("true",), "static")], run=stopping)

    assert (result.passed, result.stopped) == (False, "cancel")
    assert started == [SUITE.argv]


def test_missing_programs_are_shown_and_only_stop_a_workflow_that_requires_them(checkout, gate):
    (checkout.tree / "src/new.py").write_text("x\n")
    free, strict = gate(), gate(required=frozenset({"tests"}))

    assert (row(free, "tests").verdict, row(free, "tests").details) == (Verdict.MISSING, ("not_configured",))
    assert (free.passed, strict.passed) == (True, False)


def test_changed_added_and_deleted_test_files_are_flagged(checkout, gate):
    (checkout.tree / "tests/test_billing.py").unlink()
    (checkout.tree / "tests/test_new.py").write_text("x = 1\n")
    (checkout.tree / "src/billing.py").write_text("x = 1\n")
    result = gate(programs=[SUITE])

    assert {(change.status, change.path) for change in result.test_changes} == {
        ("D", "tests/test_billing.py"), ("A", "tests/test_new.py"),
    }  # fmt: skip
    assert row(result, "suite").details == ("tests_added", "tests_deleted")


# ---- base against head


def test_a_suite_that_was_red_before_is_told_apart(source, checkout, gate, tmp_path):
    (checkout.tree / "src/new.py").write_text("x\n")
    always_red = Program("suite", ("false",))
    (checkout.tree / "broken").write_text("x\n")
    result = gate(programs=[always_red], base_cache=tmp_path / "cache")
    broken = gate(programs=[SUITE], base_cache=tmp_path / "cache")

    assert (result.already_red, row(result, "suite").details) == (("suite",), ("base_fail", "exit_code"))
    assert (broken.already_red, row(broken, "suite").details) == ((), ("base_pass", "exit_code"))
    assert not result.passed


def test_the_base_is_run_once_for_each_tree_and_command(checkout, gate, runner, tmp_path):
    (checkout.tree / "broken").write_text("x\n")
    started = []

    def counting(argv, cwd, *rest):
        started.append((cwd / "broken").exists())
        return runner(argv, cwd, *rest)

    for _ in range(2):
        assert (
            row(gate(programs=[SUITE], run=counting, base_cache=tmp_path / "cache"), "suite").details[0] == "base_pass"
        )
    assert started == [True, False, True]
    [entry] = (tmp_path / "cache").iterdir()
    entry.write_text("{damaged")
    gate(programs=[SUITE], run=counting, base_cache=tmp_path / "cache")
    assert started == [True, False, True, True, False]


def test_an_unfinished_base_run_is_not_remembered(checkout, gate, tmp_path):
    (checkout.tree / "broken").write_text("x\n")
    slow_on_base = Program("suite", ("sh", "-c", "test -e broken && exit 1; sleep 60"), seconds=0.5)
    result = gate(programs=[slow_on_base], base_cache=tmp_path / "cache")

    assert row(result, "suite").details == ("base_error", "exit_code")
    assert not (tmp_path / "cache").exists()


# ---- secrets


def secrets_in(lines):
    return [(line.path, line.number) for line in lines if "hunter2" in line.text]


def test_without_a_scanner_there_is_no_secrets_row(checkout, gate):
    (checkout.tree / "src/new.py").write_text("x\n")
    assert "secrets" not in [check.name for check in gate().checks]


def test_added_lines_and_names_are_scanned_and_removed_or_kept_ones_are_not(source, naive, checkout, gate):
    (checkout.tree / "src/billing.py").write_text("def total():\n    key = 'hunter2'\n    return 1\n")
    (checkout.tree / "hunter2.txt").write_text("x\n")
    (checkout.tree / "src/bin.dat").write_bytes(b"\0\0\nhunter2\n")
    (checkout.tree / "no-end.txt").write_text("a\nhunter2")
    (checkout.tree / "fake.txt").write_text("++ b/other\n@@ -1 +1 @@\ndiff --git a/x b/x\nhunter2\n")
    result = gate(scan=secrets_in)

    assert set(result.findings) == {
        ("src/billing.py", 2), ("hunter2.txt", 0), ("src/bin.dat", 2), ("no-end.txt", 2), ("fake.txt", 4),
    }  # fmt: skip
    assert (row(result, "secrets").verdict, row(result, "secrets").details) == (Verdict.FAIL, ("secrets_found",))


def test_a_file_that_becomes_a_link_keeps_names_and_lines_together(checkout, gate):
    (checkout.tree / "check.sh").unlink()
    (checkout.tree / "check.sh").symlink_to("hunter2")
    (checkout.tree / "src/new.py").write_text("one\nhunter2\n")

    assert set(gate(scan=secrets_in).findings) == {("check.sh", 1), ("src/new.py", 2)}


def test_a_diff_too_long_to_scan_is_no_pass(checkout, gate, stored):
    (checkout.tree / "long.txt").write_text("x" * 17_000_000 + "\nhunter2\n")
    result = gate(snapshot=stored(max_file_bytes=30_000_000), scan=secrets_in)

    assert (row(result, "secrets").verdict, row(result, "secrets").details) == (Verdict.ERROR, ("diff_cut",))
    assert not result.passed


def test_the_engine_can_import_it_all_without_django():
    script = "import sys, jobs.verification.gate, jobs.workspaces.delivery; sys.exit('django' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0
