"""Private work trees: isolation, clean verification trees, removal and quarantine (C1, issue step 1 item 5)."""

import os
import stat
import zlib

import pytest

from jobs import errors
from jobs.workspaces import checkout as checkouts
from jobs.workspaces import snapshot
from jobs.workspaces.git import Git
from jobs.workspaces.mirror import Mirror


@pytest.fixture
def rooms(tmp_path):
    return tmp_path / "attempts"


@pytest.fixture
def checkout(mirror, rooms):
    return checkouts.create(mirror, mirror.resolve("main"), rooms, job=12, fence=3)


def test_the_work_tree_has_the_files_of_the_base_and_is_clean_for_the_agent(checkout, source, naive):
    assert (checkout.tree / "src/billing.py").read_text() == (source / "src/billing.py").read_text()
    assert naive(checkout.tree, "rev-parse", "HEAD") == checkout.base.commit
    assert naive(checkout.tree, "status", "--porcelain") == ""
    assert naive(checkout.tree, "symbolic-ref", "-q", "HEAD", check=False) == ""
    assert naive(checkout.tree, "fsck", "--full", "--strict") == ""


def test_the_clone_knows_no_remote_and_no_hook(checkout, naive):
    assert naive(checkout.tree, "remote") == ""
    assert not (checkout.tree / ".git/hooks").exists()


def test_the_directory_name_has_job_fence_and_a_random_part(mirror, rooms, checkout):
    other = checkouts.create(mirror, mirror.resolve("main"), rooms, job=12, fence=3)

    assert checkout.name.startswith("12-3-")
    assert other.name.startswith("12-3-")
    assert other.name != checkout.name


def test_the_agent_gets_a_home_and_a_temporary_directory_of_its_own(checkout):
    for room in (checkout.home, checkout.tmp):
        assert list(room.iterdir()) == []
        assert stat.S_IMODE(room.stat().st_mode) == 0o700
    assert checkout.home.parent == checkout.tree.parent


def test_commits_of_the_agent_stay_in_its_clone(checkout, mirror, source, naive):
    (checkout.tree / "README.md").write_text("agent\n")
    naive(checkout.tree, "commit", "-qam", "agent's own commit")
    naive(checkout.tree, "branch", "-f", "main")

    assert mirror.commit_at("refs/heads/main") == checkout.base.commit
    assert naive(source, "status", "--porcelain") == ""


def test_the_agent_can_start_from_the_files_of_an_earlier_snapshot(mirror, rooms, checkout, take, naive):
    (checkout.tree / "README.md").write_text("half done\n")
    earlier = take(checkout)

    again = checkouts.create(mirror, checkout.base, rooms, job=12, fence=4, content=earlier.commit)

    assert (again.tree / "README.md").read_text() == "half done\n"
    assert naive(again.tree, "rev-parse", "HEAD") == checkout.base.commit
    assert naive(again.tree, "diff", "HEAD", "--name-only") == "README.md"


def test_no_filter_and_no_line_ending_rule_of_the_repository_changes_a_file(source, tmp_path, naive, rooms):
    trace = tmp_path / "trace"
    (source / ".gitattributes").write_text("*.txt filter=x text eol=crlf ident\n")
    (source / "a.txt").write_bytes(b"one\n$Id$\n")
    naive(source, "add", "-A")
    naive(source, "commit", "-qm", "attributes")
    naive(source, "config", "filter.x.smudge", f"tee '{trace}'")
    (source / "a.txt").unlink()
    naive(source, "checkout", "a.txt")
    assert trace.exists()
    assert b"\r\n" in (source / "a.txt").read_bytes()
    trace.unlink()
    mirror = Mirror(tmp_path / "m.git", str(source))
    mirror.fetch()
    checkout = checkouts.create(mirror, mirror.resolve("main"), rooms, job=1, fence=1)

    assert not trace.exists()
    assert (checkout.tree / "a.txt").read_bytes() == b"one\n$Id$\n"
    assert naive(checkout.tree, "status", "--porcelain") == ""


def test_attributes_of_the_tree_decide_nothing(checkout, mirror, naive):
    (checkout.tree / ".gitattributes").write_text("* -whitespace -diff merge=x filter=x text eol=crlf ident\n")
    attributes = ("whitespace", "diff", "merge", "filter", "eol")
    ours = Git(mirror.path, work_tree=checkout.tree).text("check-attr", *attributes, "--", "a.py")

    assert ours.splitlines() == [f"a.py: {name}: unspecified" for name in attributes]
    assert naive(checkout.tree, "check-attr", "text", "ident", "--", "a.py") == "a.py: text: unset\na.py: ident: unset"


def test_hooks_in_the_mirror_would_not_run_on_checkout(mirror, rooms, tmp_path, naive):
    trace = tmp_path / "trace"
    (mirror.path / "hooks").mkdir()
    for name in ("post-checkout", "post-index-change", "reference-transaction"):
        (mirror.path / "hooks" / name).write_text(f"#!/bin/sh\necho {name} >> '{trace}'\n")
        (mirror.path / "hooks" / name).chmod(0o755)
    naive(mirror.path, "update-ref", "refs/agentq/x", "main")
    assert trace.exists()
    trace.unlink()
    checkouts.create(mirror, mirror.resolve("main"), rooms, job=1, fence=1)

    assert not trace.exists()


def test_submodules_are_never_initialised(source, make_source, naive, tmp_path, rooms):
    library = make_source("library")
    naive(source, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(library), "vendor/library")
    naive(source, "commit", "-qm", "submodule")
    mirror = Mirror(tmp_path / "m.git", str(source))
    mirror.fetch()
    checkout = checkouts.create(mirror, mirror.resolve("main"), rooms, job=1, fence=1)

    assert list((checkout.tree / "vendor/library").iterdir()) == []


@pytest.mark.parametrize("name", ["with space", "new\nline", "ümläut", 'quo"te', "back\\slash", "#hash"])
def test_artefact_directories_may_have_odd_names(source, tmp_path, naive, name):
    mirror = Mirror(tmp_path / name / "m.git", str(source))
    mirror.fetch()
    checkout = checkouts.create(mirror, mirror.resolve("main"), tmp_path / name / "attempts", job=1, fence=1)

    assert naive(checkout.tree, "log", "--format=%H") == checkout.base.commit


@pytest.mark.parametrize(
    "name", ["with space.txt", "new\nline.txt", "ümläut.txt", "-dash.txt", 'quo"te', ":(exclude)x"]
)
def test_files_with_odd_names_arrive_and_are_stored(source, tmp_path, naive, rooms, name, identity):
    (source / name).write_text("x\n")
    naive(source, "add", "-A")
    naive(source, "commit", "-qm", "odd")
    mirror = Mirror(tmp_path / "m.git", str(source))
    mirror.fetch()
    checkout = checkouts.create(mirror, mirror.resolve("main"), rooms, job=1, fence=1)
    (checkout.tree / name).write_text("changed\n")
    stored = snapshot.take(checkout, mirror, "refs/agentq/1/1/x", identity=identity, timestamp=1, message="m")

    assert naive(mirror.path, "show", f"{stored.commit}:{name}") == "changed"


def test_a_clean_tree_of_a_snapshot_has_no_git_directory_and_is_gone_afterwards(mirror, rooms, checkout, take):
    (checkout.tree / "new.py").write_text("x = 1\n")
    (checkout.tree / "debug.log").write_text("ignored\n")
    stored = take(checkout)

    with checkouts.clean(mirror, stored.commit, rooms, label="12-3-verify") as room:
        root = room.root
        assert sorted(path.name for path in room.tree.iterdir()) == [".gitignore", "README.md", "new.py", "src"]
        assert room.tree != checkout.tree

    assert not root.exists()
    assert not room.index.exists()


def test_a_clean_tree_is_gone_when_the_check_fails(mirror, rooms):
    base = mirror.resolve("main")
    with pytest.raises(RuntimeError), checkouts.clean(mirror, base.commit, rooms, label="x") as room:
        raise RuntimeError
    assert not room.root.exists()


def test_removal_after_a_stored_snapshot_leaves_nothing(mirror, checkout, take):
    stored = take(checkout)
    checkouts.remove(checkout, mirror, ref=stored.ref, commit=stored.commit)

    assert not checkout.root.exists()
    assert not checkout.index.exists()


def test_nothing_is_removed_when_the_snapshot_has_another_commit(mirror, checkout, take):
    stored = take(checkout)
    with pytest.raises(errors.SnapshotNotVerified):
        checkouts.remove(checkout, mirror, ref=stored.ref, commit=checkout.base.commit)
    with pytest.raises(errors.SnapshotNotVerified):
        checkouts.remove(checkout, mirror, ref="refs/agentq/12/3/other", commit=stored.commit)

    assert (checkout.tree / "README.md").exists()


def test_nothing_is_removed_when_an_object_of_the_snapshot_is_lost(mirror, checkout, take):
    (checkout.tree / "new.py").write_text("x = 1\n")
    stored = take(checkout)
    blob = Git(mirror.path).text("rev-parse", f"{stored.commit}:new.py")
    (mirror.path / "objects" / blob[:2] / blob[2:]).unlink()

    with pytest.raises(errors.SnapshotNotVerified):
        checkouts.remove(checkout, mirror, ref=stored.ref, commit=stored.commit)
    assert (checkout.tree / "new.py").exists()


def test_nothing_is_removed_when_an_object_of_the_snapshot_is_damaged(mirror, checkout, take):
    (checkout.tree / "new.py").write_text("x = 1\n")
    stored = take(checkout)
    blob = Git(mirror.path).text("rev-parse", f"{stored.commit}:new.py")
    loose = mirror.path / "objects" / blob[:2] / blob[2:]
    loose.chmod(0o600)
    loose.write_bytes(zlib.compress(b"blob 6\0y = 1\n"))

    with pytest.raises(errors.SnapshotNotVerified):
        checkouts.remove(checkout, mirror, ref=stored.ref, commit=stored.commit)


def test_directories_without_rights_are_removed_too_and_links_are_not_followed(mirror, checkout, take, tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir(mode=0o500)
    (checkout.tree / "locked" / "inner").mkdir(parents=True)
    (checkout.tree / "locked" / "inner" / "file").write_text("x")
    (checkout.tree / "link").symlink_to(outside)
    stored = take(checkout)
    (checkout.tree / "locked" / "inner").chmod(0)
    (checkout.tree / "locked").chmod(0)
    checkouts.remove(checkout, mirror, ref=stored.ref, commit=stored.commit)

    assert not checkout.root.exists()
    assert stat.S_IMODE(outside.stat().st_mode) == 0o500


def test_a_failed_creation_leaves_nothing_behind(mirror, rooms):
    base = mirror.resolve("main")
    broken = Git(mirror.path).text("rev-parse", "main:src/billing.py")
    (mirror.path / "objects" / broken[:2] / broken[2:]).unlink(missing_ok=True)
    for pack in (mirror.path / "objects/pack").glob("*"):
        pack.unlink()

    with pytest.raises(errors.GitFailed):
        checkouts.create(mirror, base, rooms, job=12, fence=3)
    assert not rooms.exists() or list(rooms.iterdir()) == []


def test_stray_directories_are_moved_aside_and_live_ones_stay(mirror, rooms, checkout):
    stray = checkouts.create(mirror, mirror.resolve("main"), rooms, job=9, fence=1)
    (stray.tree / "work.txt").write_text("not lost\n")

    moved = checkouts.quarantine(rooms, lambda: {checkout.name})

    assert [path.parent for path in moved] == [rooms / "quarantine"]
    assert (moved[0] / "tree/work.txt").read_text() == "not lost\n"
    assert checkout.tree.is_dir()
    assert not stray.root.exists()


def test_a_live_attempt_may_be_named_by_job_and_fence_alone(rooms, checkout):
    assert checkouts.quarantine(rooms, lambda: {"12-3"}) == ()
    assert checkouts.quarantine(rooms, lambda: {"12-4", "1-3"}) != ()


def test_an_attempt_that_starts_during_the_quarantine_is_not_stray(mirror, rooms, checkout):
    def live():
        checkouts.create(mirror, mirror.resolve("main"), rooms, job=20, fence=1)
        return {checkout.name}

    assert checkouts.quarantine(rooms, live) == ()


def test_the_same_name_can_be_quarantined_twice(rooms):
    for _ in range(2):
        (rooms / "9-1-x").mkdir(parents=True)
        checkouts.quarantine(rooms, lambda: ())
    assert len(list((rooms / "quarantine").iterdir())) == 2


def test_a_lock_left_by_a_killed_git_is_cleared(checkout, naive):
    (checkout.tree / ".git/index.lock").touch()
    (checkout.tree / "README.md").write_text("x\n")
    assert naive(checkout.tree, "commit", "-qam", "x", check=False) == ""
    assert naive(checkout.tree, "rev-parse", "HEAD") == checkout.base.commit

    assert checkouts.clear_stale_locks(checkout) == ("index.lock",)

    naive(checkout.tree, "commit", "-qam", "x")
    assert naive(checkout.tree, "rev-parse", "HEAD") != checkout.base.commit


def test_clearing_locks_does_not_follow_a_link_that_replaced_the_git_directory(checkout, tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "index.lock").touch()
    os.rename(checkout.tree / ".git", tmp_path / "moved")
    (checkout.tree / ".git").symlink_to(outside)

    assert checkouts.clear_stale_locks(checkout) == ()
    assert (outside / "index.lock").exists()
