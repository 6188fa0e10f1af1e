"""Mirrors and the facts of a source: bad repositories, branches that go away, locks (issue step 1, Bad input)."""

import fcntl
import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from jobs import errors
from jobs.workspaces.mirror import Mirror
from jobs.workspaces.source import inspect_source


def test_fetch_and_resolve_give_the_commit_and_tree_of_the_branch(mirror, source, naive):
    base = mirror.resolve("main")

    assert base.commit == naive(source, "rev-parse", "main")
    assert base.tree == naive(source, "rev-parse", "main^{tree}")


def test_a_new_commit_arrives_with_the_next_fetch(mirror, source, naive):
    before = mirror.resolve("main")
    naive(source, "commit", "-q", "--allow-empty", "-m", "second")
    mirror.fetch()

    assert mirror.resolve("main").commit == naive(source, "rev-parse", "main") != before.commit


def test_a_rewritten_branch_is_followed_and_the_old_base_stays_readable(mirror, source, naive):
    old = mirror.resolve("main")
    naive(source, "commit", "-q", "--amend", "-m", "rewritten")
    mirror.fetch()

    assert mirror.resolve("main").commit != old.commit
    assert mirror.base_of(old.commit) == old


def test_a_branch_deleted_since_the_last_fetch_is_unknown(mirror, source, naive):
    naive(source, "branch", "topic")
    mirror.fetch()
    mirror.resolve("topic")
    naive(source, "branch", "-D", "topic")
    mirror.fetch()

    with pytest.raises(errors.BranchUnknown, match="topic"):
        mirror.resolve("topic")


def test_a_branch_that_takes_the_place_of_a_folder_of_branches_is_fetched(mirror, source, naive):
    naive(source, "branch", "topic/one")
    mirror.fetch()
    naive(source, "branch", "-D", "topic/one")
    naive(source, "branch", "topic")
    mirror.fetch()

    mirror.resolve("topic")


@pytest.mark.parametrize("name", ["main~1", "--help", "HEAD", "../x", "refs/heads/main"])
def test_a_revision_expression_is_no_branch(mirror, name):
    with pytest.raises(errors.BranchRefused):
        mirror.resolve(name)


def test_a_missing_path_is_refused_with_its_name(tmp_path):
    with pytest.raises(errors.RepositoryMissing, match="nowhere"):
        Mirror(tmp_path / "m.git", str(tmp_path / "nowhere")).fetch()


def test_a_file_is_not_a_repository(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(errors.RepositoryMissing):
        inspect_source(tmp_path / "file")


def test_a_plain_directory_is_not_a_repository(tmp_path):
    (tmp_path / "plain").mkdir()
    with pytest.raises(errors.RepositoryNotGit):
        inspect_source(tmp_path / "plain")
    with pytest.raises(errors.RepositoryNotGit):
        Mirror(tmp_path / "m.git", str(tmp_path / "plain")).fetch()


def test_a_folder_inside_a_repository_is_not_its_top(source):
    with pytest.raises(errors.RepositoryNotGit):
        inspect_source(source / "src")


def test_a_broken_git_folder_is_not_a_repository(tmp_path):
    (tmp_path / "broken" / ".git").mkdir(parents=True)
    with pytest.raises(errors.RepositoryNotGit):
        inspect_source(tmp_path / "broken")


def test_a_repository_without_a_commit_is_refused(tmp_path, naive):
    naive(tmp_path, "init", "-q", "fresh")
    with pytest.raises(errors.RepositoryEmpty):
        inspect_source(tmp_path / "fresh")
    with pytest.raises(errors.RepositoryEmpty):
        Mirror(tmp_path / "m.git", str(tmp_path / "fresh")).fetch()


def test_a_bare_source_is_fine(source, tmp_path, naive):
    naive(tmp_path, "clone", "-q", "--bare", str(source), "bare.git")
    bare = tmp_path / "bare.git"
    mirror = Mirror(tmp_path / "m.git", str(bare))
    mirror.fetch()

    assert mirror.resolve("main").commit == naive(source, "rev-parse", "main")
    facts = inspect_source(bare)
    assert (facts.kind, facts.default_branch, facts.dirty) == ("bare", "main", False)


def test_facts_of_a_clean_source(source, naive):
    naive(source, "branch", "topic")

    facts = inspect_source(source)

    assert (facts.kind, facts.default_branch, facts.branches) == ("work tree", "main", ("main", "topic"))
    assert not facts.dirty
    assert not facts.has_submodules


@pytest.mark.parametrize("how", ["changed", "staged", "untracked", "deleted"])
def test_a_dirty_source_is_seen_but_its_commit_is_the_base(source, mirror, naive, how):
    if how == "untracked":
        (source / "new.txt").write_text("x")
    elif how == "deleted":
        (source / "README.md").unlink()
    else:
        (source / "README.md").write_text("half done\n")
    if how == "staged":
        naive(source, "add", "-A")
    before = (source / ".git/index").read_bytes()
    mirror.fetch()

    assert inspect_source(source).dirty
    assert mirror.resolve("main").commit == naive(source, "rev-parse", "main")
    assert (source / ".git/index").read_bytes() == before


def test_looking_at_a_source_runs_none_of_its_programs(source, tmp_path, naive):
    trace = tmp_path / "trace"
    program = tmp_path / "evil"
    program.write_text(f"#!/bin/sh\necho ran >> '{trace}'\ncat\n")
    program.chmod(0o755)
    naive(source, "config", "core.fsmonitor", str(program))
    naive(source, "config", "filter.x.clean", str(program))
    (source / ".gitattributes").write_text("* filter=x\n")
    (source / "README.md").write_text("changed\n")
    naive(source, "status")
    assert trace.exists()
    trace.unlink()

    assert inspect_source(source).dirty
    assert not trace.exists()


def test_a_detached_head_has_no_default_branch(source, naive):
    naive(source, "checkout", "-q", "--detach")
    assert inspect_source(source).default_branch is None


def test_a_linked_worktree_can_be_registered(source, tmp_path, naive):
    naive(source, "worktree", "add", "-q", "-b", "side", str(tmp_path / "linked"))

    facts = inspect_source(tmp_path / "linked")
    mirror = Mirror(tmp_path / "m.git", str(tmp_path / "linked"))
    mirror.fetch()

    assert (facts.kind, facts.default_branch, facts.dirty) == ("work tree", "side", False)
    mirror.resolve("side")


def test_submodules_are_seen(source, make_source, naive):
    library = make_source("library")
    naive(source, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(library), "vendor/library")
    naive(source, "commit", "-qm", "submodule")

    assert inspect_source(source).has_submodules


@pytest.mark.parametrize("name", ["with space", "new\nline", "ümläut", "-dash", 'quo"te', "a:b", "%41"])
def test_a_source_with_an_odd_name_can_be_registered_and_mirrored(make_source, tmp_path, naive, name):
    top = make_source(name)
    mirror = Mirror(tmp_path / "m.git", str(top))
    mirror.fetch()

    assert mirror.resolve("main").commit == naive(top, "rev-parse", "main")
    assert inspect_source(top).default_branch == "main"


def test_a_shallow_source_can_be_mirrored(source, tmp_path, naive):
    naive(source, "commit", "-q", "--allow-empty", "-m", "second")
    naive(tmp_path, "clone", "-q", "--depth=1", f"file://{source}", "shallow")
    mirror = Mirror(tmp_path / "m.git", str(tmp_path / "shallow"))
    mirror.fetch()

    assert mirror.resolve("main").commit == naive(source, "rev-parse", "main")


def test_a_source_with_sha256_names_can_be_mirrored(tmp_path, naive):
    naive(tmp_path, "init", "-q", "-b", "main", "--object-format=sha256", "modern")
    naive(tmp_path / "modern", "commit", "-q", "--allow-empty", "-m", "first")
    mirror = Mirror(tmp_path / "m.git", str(tmp_path / "modern"))
    mirror.fetch()

    assert len(mirror.resolve("main").commit) == 64


def test_a_lock_file_left_by_a_killed_git_does_not_stop_the_next_fetch(mirror, source, naive):
    naive(source, "commit", "-q", "--allow-empty", "-m", "second")
    (mirror.path / "refs/heads/main.lock").touch()
    mirror.fetch()

    assert mirror.resolve("main").commit == naive(source, "rev-parse", "main")


def test_a_mirror_that_someone_else_holds_is_busy_after_the_wait(mirror):
    impatient = replace(mirror, lock_seconds=0.0)
    with mirror.locked(), pytest.raises(errors.WorkspaceBusy):
        impatient.fetch()


def test_the_lock_lasts_until_gits_end_when_its_worker_is_killed(mirror, tmp_path):
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    worker = subprocess.Popen([sys.executable, "-c", _WORKER, str(mirror.path), mirror.source, str(fifo)])
    with fifo.open() as started:
        assert started.readline() == "git runs\n"  # written by the child of the worker
    worker.send_signal(signal.SIGKILL)
    worker.wait()
    impatient = replace(mirror, lock_seconds=0.0)

    with pytest.raises(errors.WorkspaceBusy), impatient.locked():
        pass
    with fifo.open("w") as end:
        end.write("end\n")
    with mirror.locked():
        pass


_WORKER = """
import sys
from dataclasses import replace
from pathlib import Path
from jobs.workspaces.mirror import Mirror
mirror = Mirror(Path(sys.argv[1]), sys.argv[2])
with mirror.locked() as lock:
    git = replace(mirror.git, keep=(lock,))
    git.run("-c", f"alias.wait=!echo git runs > '{sys.argv[3]}'; read x < '{sys.argv[3]}'", "wait")
"""


def test_several_fetches_at_once_make_one_mirror(source, tmp_path):
    mirror = Mirror(tmp_path / "m.git", str(source))
    with ThreadPoolExecutor(6) as pool:
        for result in [pool.submit(mirror.fetch) for _ in range(6)]:
            result.result()

    mirror.resolve("main")
    assert not list(tmp_path.glob("*.new"))


def test_the_lock_is_a_lock_between_processes(mirror):
    with mirror.locked() as lock:
        path = Path(f"/proc/self/fd/{lock}").resolve()
        with path.open() as other, pytest.raises(BlockingIOError):
            fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
