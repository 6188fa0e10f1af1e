"""Decides on evidence whether a result holds: the agent's "done" is not done (V1, S4)."""

import hashlib
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from jobs import errors
from jobs.core.policy import PathRule
from jobs.verification.added import AddedLine, added_lines, added_patch
from jobs.verification.checks import Check, Runner, Verdict
from jobs.verification.digest import result_digest
from jobs.verification.paths import SYMLINK, TEST_FILES, Hit, changed_tests, judge
from jobs.verification.programs import Program, Rooms, base_verdict, run_program
from jobs.workspaces.changes import Change, changed_paths
from jobs.workspaces.git import clear_disk_errors
from jobs.workspaces.mirror import Base, Mirror
from jobs.workspaces.snapshot import Snapshot

Expects = Literal["diff", "diff_or_none", "report"]
Scan = Callable[[Iterable[AddedLine]], Sequence[Any]]
OWN_CHECKS = frozenset({"diff", "paths", "whitespace", "secrets"})
_WHITESPACE_CAP = 256 * 1024  # bytes of complaints that are kept
_LINKS_CAP = 16 * 1024 * 1024  # bytes of symlink targets
_WORDS = {"A": "tests_added", "D": "tests_deleted"}


@dataclass(frozen=True)
class GateRequest:
    """One result to judge. `work` and `output` are directories outside what the agent can write.

    `allowed` are globs (None: every path), `path_rules` the policy's; `required` names kinds of programs without
    which nothing passes. `base_cache` is a directory for answers about base trees, None compares nothing with the
    base. `scan` gets every added line and name and returns its findings; None: no secret check is configured.
    """

    mirror: Mirror
    base: Base
    snapshot: Snapshot
    run: Runner
    work: Path
    output: Path
    workflow_digest: str
    policy_version: str
    expects: Expects = "diff"
    allowed: Sequence[str] | None = None
    path_rules: Sequence[PathRule] = ()
    programs: Sequence[Program] = ()
    required: frozenset[str] = frozenset()
    env: Mapping[str, str] = field(default_factory=dict)
    label: str = "verify"
    test_files: Sequence[str] = TEST_FILES
    base_cache: Path | None = None
    scan: Scan | None = None


@dataclass(frozen=True)
class GateResult:
    """The verdict and all of its evidence. `stopped`: the worker's reason for ending it early, then nothing passed.

    `already_red` names the failed programs that fail on the base as well.
    """

    passed: bool
    checks: tuple[Check, ...]
    failed: tuple[Check, ...]
    digest: str
    changes: tuple[Change, ...]
    hits: tuple[Hit, ...]
    test_changes: tuple[Change, ...]
    already_red: tuple[str, ...]
    findings: tuple[Any, ...]
    stopped: str | None = None


def verify(request: GateRequest) -> GateResult:
    """Run every check in order (diff, paths, whitespace, secrets, tests, static) and bind them in one digest.

    A failed check does not end it: a person sees all of them at once. Raises DiskFull and GitFailed when the
    machine, not the result, is at fault.
    """
    gate = _Gate(request)
    gate.inspect()
    gate.run_programs()
    return gate.result()


def inspect(request: GateRequest) -> GateResult:
    """The part of `verify` that runs no program: diff, paths, whitespace, secrets (the names in OWN_CHECKS)."""
    gate = _Gate(request)
    gate.inspect()
    return gate.result()


def run_programs(request: GateRequest) -> GateResult:
    """The part of `verify` that runs the registered programs: tests, then static checks."""
    gate = _Gate(request)
    gate.note_test_changes()
    gate.run_programs()
    return gate.result()


class _Gate:
    def __init__(self, request: GateRequest) -> None:
        self.request = request
        self.checks: list[Check] = []
        self.changes: tuple[Change, ...] = ()
        self.hits: tuple[Hit, ...] = ()
        self.tests: tuple[Change, ...] = ()
        self.already_red: list[str] = []
        self.findings: tuple[Any, ...] = ()
        self.stopped: str | None = None

    def inspect(self) -> None:
        request = self.request
        started = time.monotonic()
        try:
            self.changes = changed_paths(request.mirror, request.base.commit, request.snapshot.commit)
        except errors.GitOutputTooLarge:
            self.checks.append(Check("paths", None, None, Verdict.ERROR, details=("too_many_changes",)))
            return
        self.checks.append(_expectation(request.expects, bool(self.changes)))
        self.hits = (*_not_stored(request.snapshot), *self._judge_paths())
        self.tests = changed_tests(self.changes, request.test_files)
        self.checks.append(_own("paths", not self.hits, {hit.rule for hit in self.hits}, started))
        self.checks.append(_whitespace(request))
        if request.scan is not None:
            self._secrets(request.scan)

    def note_test_changes(self) -> None:
        request = self.request
        try:
            changes = changed_paths(request.mirror, request.base.commit, request.snapshot.commit)
        except errors.GitOutputTooLarge:
            return  # inspect says so
        self.tests = changed_tests(changes, request.test_files)

    def run_programs(self) -> None:
        request = self.request
        rooms = Rooms(request.mirror, request.work, request.output, request.env, request.run, request.label)
        for kind in ("tests", "static"):
            chosen = [program for program in request.programs if program.kind == kind]
            if not chosen:
                self.checks.append(Check(kind, None, None, Verdict.MISSING, details=("not_configured",)))
            for program in chosen:
                if self.stopped is None:
                    self._run(rooms, program)

    def result(self) -> GateResult:
        request = self.request
        failed = tuple(check for check in self.checks if not self._holds(check))
        return GateResult(
            passed=self.stopped is None and not failed,
            checks=tuple(self.checks),
            failed=failed,
            digest=result_digest(
                base_tree=request.base.tree,
                snapshot_tree=request.snapshot.tree,
                workflow_digest=request.workflow_digest,
                policy_version=request.policy_version,
                checks=self.checks,
            ),
            changes=self.changes,
            hits=self.hits,
            test_changes=self.tests,
            already_red=tuple(self.already_red),
            findings=self.findings,
            stopped=self.stopped,
        )

    def _judge_paths(self) -> tuple[Hit, ...]:
        request = self.request
        links = _link_targets(request.mirror, [c.new_id for c in self.changes if c.new_mode == SYMLINK])
        return judge(self.changes, allowed=request.allowed, rules=request.path_rules, links=links)

    def _secrets(self, scan: Scan) -> None:
        request, started = self.request, time.monotonic()
        patch = added_patch(request.mirror, request.base.commit, request.snapshot.commit)
        self.findings = tuple(scan(added_lines(patch.stdout, self.changes)))
        codes = {"secrets_found"} if self.findings else set()
        if patch.truncated and not self.findings:
            # What was cut off has not been read, so that this is no pass.
            self.checks.append(Check("secrets", None, None, Verdict.ERROR, details=("diff_cut",)))
        else:
            self.checks.append(_own("secrets", not self.findings, codes, started))

    def _run(self, rooms: Rooms, program: Program) -> None:
        request = self.request
        ran = run_program(rooms, program, request.snapshot.commit)
        self.stopped = ran.stopped
        details = set(ran.check.details)
        if program.kind == "tests":
            details |= {_WORDS.get(change.status, "tests_changed") for change in self.tests}
        if ran.check.verdict is Verdict.FAIL and self.request.base_cache is not None:
            on_base = base_verdict(rooms, program, request.base, request.base_cache)
            details.add(f"base_{on_base}")
            if on_base is Verdict.FAIL:
                self.already_red.append(program.name)
        self.checks.append(_with_details(ran.check, details))

    def _holds(self, check: Check) -> bool:
        if check.verdict is Verdict.MISSING and check.details == ("not_configured",):
            return check.name not in self.request.required
        return check.verdict is Verdict.PASS


def _expectation(expects: Expects, changed: bool) -> Check:
    codes = set()
    if expects == "diff" and not changed:
        codes.add("diff_expected")
    if expects == "report" and changed:
        codes.add("no_diff_expected")
    return _own("diff", not codes, codes, time.monotonic())


def _not_stored(snapshot: Snapshot) -> list[Hit]:
    """What the snapshot could not hold is not verified either."""
    return [Hit(note.path, note.kind) for note in snapshot.notes if note.kind != "ignored"]


def _whitespace(request: GateRequest) -> Check:
    """`git diff --check` from base to snapshot, in the mirror: no attribute of the repository switches it off."""
    started = time.monotonic()
    answer = request.mirror.git.run(
        "diff", "--check", "--no-renames", "--no-color", "--end-of-options",
        request.base.commit, request.snapshot.commit,
        ok=(0, 2, 3), cap=_WHITESPACE_CAP, partial=True,
    )  # fmt: skip
    codes = {"whitespace_errors"} if answer.stdout else set()
    if b"leftover conflict marker" in answer.stdout:
        codes.add("conflict_markers")
    if answer.truncated:
        codes.add("output_cut")
    output = request.output / "whitespace.log"
    with clear_disk_errors():
        request.output.mkdir(parents=True, exist_ok=True)
        output.write_bytes(answer.stdout)
    return Check(
        name="whitespace",
        argv_digest=None,
        exit_code=2 if codes else answer.exit_code,
        verdict=Verdict.FAIL if codes or answer.exit_code != 0 else Verdict.PASS,
        seconds=time.monotonic() - started,
        output_digest=hashlib.sha256(answer.stdout).hexdigest(),
        output_path=output,
        details=tuple(sorted(codes)),
    )


def _link_targets(mirror: Mirror, ids: list[str]) -> dict[str, bytes]:
    if not ids:
        return {}
    asked = "".join(f"{one}\n" for one in ids).encode()
    answer = mirror.git.run("cat-file", "--batch", stdin=asked, cap=_LINKS_CAP, partial=True).stdout
    targets, start = {}, 0
    while (end := answer.find(b"\n", start)) >= 0:
        one, _, size = answer[start:end].decode("ascii").split(" ")
        stop = end + 1 + int(size)
        if stop >= len(answer):
            break  # cut off: unread links count as leaving the tree
        targets[one] = answer[end + 1 : stop]
        start = stop + 1
    return targets


def _own(name: str, passed: bool, codes: set[str], started: float) -> Check:
    verdict = Verdict.PASS if passed else Verdict.FAIL
    return Check(name, None, None, verdict, time.monotonic() - started, details=tuple(sorted(codes)))


def _with_details(check: Check, details: set[str]) -> Check:
    return replace(check, details=tuple(sorted(details)))
