"""Delivery creates one branch and changes nothing else in the registered repository (issue step 1 item 5)."""

import os
import subprocess
import threading
from pathlib import Path

import pytest

from jobs import errors
from jobs.workspaces.delivery import deliver_branch
from jobs.workspaces.mirror import Mirror
from jobs.workspaces.snapshot import commit_result

BRANCH = "agentq/12-0a1b2c3d"
HOOKS = ("pre-receive", "update", "post-receive", "post-update", "reference-transaction", "proc-receive", "post-merge")


@pytest.fixture
def commit(mirror, identity, tmp_path):
    """A result in the mirror: one file more than the base."""
    base = mirror.resolve("main")
    blob = mirror.git.run("hash-object", "-w", "--stdin", stdin=b"x = 1\n").stdout.decode().strip()
    listing = mirror.git.run("ls-tree", "-z", base.tree).stdout
    tree = mirror.git.run("mktree", "-z", stdin=listing + f"100644 blob {blob}\tnew.py".encode() + b"\0")
    return commit_result(mirror, tree.stdout.decode().strip(), base.commit, "Add new.py\n", identity, 1_790_000_000)


def state_of(source: Path) -> dict[str, bytes]:
    """Every file of a repository but its objects, our branch and its log."""
    found = {}
    for folder, _, names in os.walk(source):
        for name in names:
            path = Path(folder) / name
            if "objects" not in path.parts and "agentq" not in path.parts:
                found[str(path)] = path.read_bytes()
    return found


def test_the_branch_has_the_commit_and_nothing_else_changed(source, mirror, commit, naive):
    (source / "README.md").write_text("someone is at work\n")
    (source / "staged.txt").write_text("staged\n")
    naive(source, "add", "staged.txt")
    before = state_of(source)

    delivered = deliver_branch(source, mirror, commit, BRANCH, "main")

    assert (delivered.branch, delivered.commit, delivered.already) == (BRANCH, commit, False)
    assert naive(source, "rev-parse", BRANCH) == commit
    assert naive(source, "diff", "--name-status", "main", BRANCH) == "A\tnew.py"
    assert state_of(source) == before
    naive(source, "fsck", "--full", "--strict")


def test_delivering_again_changes_nothing(source, mirror, commit):
    deliver_branch(source, mirror, commit, BRANCH, "main")
    assert deliver_branch(source, mirror, commit, BRANCH, "main").already


def test_a_bare_repository_gets_the_branch_too(source, tmp_path, naive, commit, mirror):
    naive(tmp_path, "clone", "-q", "--bare", str(source), "bare.git")

    deliver_branch(tmp_path / "bare.git", mirror, commit, BRANCH, "main")

    assert naive(tmp_path / "bare.git", "rev-parse", BRANCH) == commit


def test_hooks_of_the_repository_run_on_a_push_but_not_on_our_delivery(source, mirror, commit, tmp_path, naive):
    trace = tmp_path / "trace"
    for name in HOOKS:
        (source / ".git/hooks" / name).write_text(f"#!/bin/sh\necho {name} >> '{trace}'\n")
        (source / ".git/hooks" / name).chmod(0o755)
    naive(mirror.path, "push", "-q", str(source), f"{commit}:refs/heads/naive")
    assert {"pre-receive", "update", "post-receive", "post-update"} <= set(trace.read_text().split())
    trace.unlink()

    deliver_branch(source, mirror, commit, BRANCH, "main")

    assert not trace.exists()
    assert naive(source, "rev-parse", BRANCH) == commit


def test_the_default_branch_is_refused(source, mirror, commit, naive):
    naive(source, "checkout", "-q", "-b", "topic")
    with pytest.raises(errors.DeliveryRefused, match="default branch"):
        deliver_branch(source, mirror, commit, "main", "main")
    assert naive(source, "rev-parse", "main") != commit


def test_the_branch_that_is_checked_out_is_refused(source, mirror, commit, naive):
    naive(source, "checkout", "-q", "-b", BRANCH)
    with pytest.raises(errors.DeliveryRefused, match="checked out"):
        deliver_branch(source, mirror, commit, BRANCH, "main")


def test_a_branch_checked_out_in_a_linked_worktree_is_refused(source, mirror, commit, naive, tmp_path):
    naive(source, "worktree", "add", "-q", "-b", BRANCH, str(tmp_path / "linked"))
    with pytest.raises(errors.DeliveryRefused, match="checked out"):
        deliver_branch(source, mirror, commit, BRANCH, "main")


def test_an_unborn_branch_that_head_names_is_refused(source, mirror, commit, naive):
    naive(source, "symbolic-ref", "HEAD", f"refs/heads/{BRANCH}")
    with pytest.raises(errors.DeliveryRefused, match="checked out"):
        deliver_branch(source, mirror, commit, BRANCH, "main")


def test_a_branch_with_another_commit_is_refused_and_kept(source, mirror, commit, naive):
    naive(source, "branch", BRANCH)
    with pytest.raises(errors.DeliveryRefused, match="another commit"):
        deliver_branch(source, mirror, commit, BRANCH, "main")
    assert naive(source, "rev-parse", BRANCH) == naive(source, "rev-parse", "main")


def test_a_branch_whose_name_blocks_ours_is_named(source, mirror, commit, naive):
    naive(source, "branch", "agentq")
    with pytest.raises(errors.DeliveryRefused, match="agentq"):
        deliver_branch(source, mirror, commit, BRANCH, "main")


def test_a_name_that_git_does_not_allow_is_refused(source, mirror, commit):
    with pytest.raises(errors.BranchInvalid):
        deliver_branch(source, mirror, commit, "agentq/../x", "main")


def test_a_repository_that_went_away_is_refused(tmp_path, mirror, commit):
    with pytest.raises(errors.RepositoryMissing):
        deliver_branch(tmp_path / "gone", mirror, commit, BRANCH, "main")


def test_a_branch_that_appears_during_the_delivery_is_not_overwritten(source, mirror, commit, naive, monkeypatch):
    from jobs.workspaces import delivery

    bring = delivery._bring_objects

    def bring_late(*args):
        bring(*args)
        naive(source, "branch", BRANCH, "main")

    monkeypatch.setattr(delivery, "_bring_objects", bring_late)

    with pytest.raises(errors.DeliveryRefused):
        deliver_branch(source, mirror, commit, BRANCH, "main")
    assert naive(source, "rev-parse", BRANCH) == naive(source, "rev-parse", "main")


def test_many_at_once_create_the_branch_once(source, mirror, commit):
    results = []
    threads = [
        threading.Thread(target=lambda: results.append(deliver_branch(source, mirror, commit, BRANCH, "main").already))
        for _ in range(5)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted(results) == [False, True, True, True, True]


def test_a_shallow_repository_gets_the_branch(source, tmp_path, naive, identity):
    naive(source, "commit", "-q", "--allow-empty", "-m", "second")
    naive(tmp_path, "clone", "-q", "--depth=1", f"file://{source}", "shallow")
    shallow = tmp_path / "shallow"
    mirror = Mirror(tmp_path / "m.git", str(shallow))
    mirror.fetch()
    base = mirror.resolve("main")
    commit = commit_result(mirror, base.tree, base.commit, "Empty\n", identity, 1)

    deliver_branch(shallow, mirror, commit, BRANCH, "main")

    assert naive(shallow, "rev-parse", BRANCH) == commit
    naive(shallow, "fsck", "--full")


def test_a_rewriting_address_rule_in_the_repository_cannot_bring_other_objects(
    source, mirror, commit, make_source, naive
):
    other = make_source("other")
    naive(source, "config", f"url.{other}.insteadOf", str(mirror.path))

    with pytest.raises(errors.GitFailed):
        deliver_branch(source, mirror, commit, BRANCH, "main")
    assert subprocess.run(["git", "rev-parse", "-q", "--verify", BRANCH], cwd=source, check=False).returncode == 1
