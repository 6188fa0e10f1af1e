"""Snapshots keep everything an attempt did, whatever it did to its own git directory (C1, V3)."""

import os

import pytest

from jobs import errors
from jobs.workspaces import checkout as checkouts
from jobs.workspaces.changes import changed_paths, diff, numstat
from jobs.workspaces.mirror import Mirror
from jobs.workspaces.snapshot import Note, commit_result, load, ref_for
from jobs.workspaces.snapshot import take as take_snapshot


@pytest.fixture
def checkout(mirror, tmp_path):
    return checkouts.create(mirror, mirror.resolve("main"), tmp_path / "attempts", job=12, fence=3)


def status(mirror, stored, base):
    return {change.path: change.status for change in changed_paths(mirror, base.commit, stored.commit)}


def test_new_changed_deleted_and_moved_files_are_stored(checkout, mirror, take):
    (checkout.tree / "README.md").write_text("changed\n")
    (checkout.tree / "src/new.py").write_text("x = 1\n")
    (checkout.tree / "data.bin").write_bytes(bytes(range(256)))
    os.rename(checkout.tree / "src/billing.py", checkout.tree / "innocent.py")
    stored = take(checkout)

    assert status(mirror, stored, checkout.base) == {
        "README.md": "M", "data.bin": "A", "innocent.py": "A", "src/billing.py": "D", "src/new.py": "A",
    }  # fmt: skip
    assert stored.notes == ()
    assert stored.complete
    assert mirror.commit_at("refs/agentq/12/3/modify") == stored.commit


def test_no_change_gives_the_tree_of_the_base(checkout, take):
    assert take(checkout).tree == checkout.base.tree


def test_the_same_work_gives_the_same_commit(mirror, tmp_path, take):
    commits = set()
    for _ in range(2):
        checkout = checkouts.create(mirror, mirror.resolve("main"), tmp_path / "attempts", job=12, fence=3)
        (checkout.tree / "new.py").write_text("x = 1\n")
        commits.add(take(checkout).commit)
    assert len(commits) == 1


def test_a_change_of_the_same_length_right_after_checkout_is_seen(mirror, tmp_path, take):
    for fence in range(10):
        checkout = checkouts.create(mirror, mirror.resolve("main"), tmp_path / "attempts", job=12, fence=fence)
        (checkout.tree / "README.md").write_text("# Shut\n")
        assert take(checkout).tree != checkout.base.tree


def test_a_change_hidden_in_the_agents_index_is_seen(checkout, mirror, take, naive):
    (checkout.tree / "README.md").write_text("changed\n")
    naive(checkout.tree, "update-index", "--assume-unchanged", "README.md")
    assert naive(checkout.tree, "status", "--porcelain") == ""

    assert status(mirror, take(checkout), checkout.base) == {"README.md": "M"}


def test_work_that_the_agent_committed_staged_or_stashed_away_with_its_git_directory_is_seen(
    checkout, mirror, take, naive
):
    (checkout.tree / "one.py").write_text("1\n")
    naive(checkout.tree, "add", "-A")
    naive(checkout.tree, "commit", "-qm", "agent")
    (checkout.tree / "two.py").write_text("2\n")
    naive(checkout.tree, "add", "-A")
    os.rename(checkout.tree / ".git", checkout.root / "moved")
    (checkout.tree / "three.py").write_text("3\n")

    assert status(mirror, take(checkout), checkout.base) == {"one.py": "A", "two.py": "A", "three.py": "A"}


def test_programs_in_the_agents_git_config_run_with_plain_git_but_not_for_the_snapshot(checkout, tmp_path, take, naive):
    trace = tmp_path / "trace"
    program = tmp_path / "evil"
    program.write_text(f"#!/bin/sh\necho ran >> '{trace}'\ncat\n")
    program.chmod(0o755)
    for setting in ("core.fsmonitor", "filter.x.clean", "filter.x.process"):
        naive(checkout.tree, "config", setting, str(program))
    (checkout.tree / ".git/info/attributes").write_text("* filter=x\n")
    (checkout.tree / ".git/hooks").mkdir()
    (checkout.tree / ".git/hooks/pre-commit").symlink_to(program)
    (checkout.tree / ".gitattributes").write_text("* filter=x\n")
    (checkout.tree / "README.md").write_text("changed\n")

    naive(checkout.tree, "add", "-A", check=False)
    assert trace.exists()
    trace.unlink()
    take(checkout)

    assert not trace.exists()


def test_attributes_of_the_agent_do_not_change_what_is_stored(checkout, mirror, take, naive):
    (checkout.tree / ".gitattributes").write_text("*.txt text working-tree-encoding=UTF-16 ident\n")
    (checkout.tree / "a.txt").write_bytes(b"one\r\n$Id: x $\r\n")

    blob = naive(mirror.path, "rev-parse", f"{take(checkout).commit}:a.txt")

    assert naive(mirror.path, "cat-file", "-s", blob) == str(len(b"one\r\n$Id: x $\r\n"))


def test_symlinks_and_the_executable_bit_are_kept(checkout, mirror, take):
    (checkout.tree / "link").symlink_to("/etc/passwd")
    (checkout.tree / "README.md").chmod(0o755)

    changes = {change.path: change for change in changed_paths(mirror, checkout.base.commit, take(checkout).commit)}

    assert changes["link"].new_mode == "120000"
    assert (changes["README.md"].old_mode, changes["README.md"].new_mode) == ("100644", "100755")


def test_a_file_over_the_cap_is_noted_and_not_stored(checkout, mirror, take):
    (checkout.tree / "huge.bin").write_bytes(b"x" * 2001)
    (checkout.tree / "fits.bin").write_bytes(b"x" * 2000)
    (checkout.tree / "README.md").write_text("y" * 5000)
    stored = take(checkout, max_file_bytes=2000)

    assert stored.notes == (Note("oversized", "README.md", 5000), Note("oversized", "huge.bin", 2001))
    assert not stored.complete
    assert status(mirror, stored, checkout.base) == {"fits.bin": "A"}


@pytest.mark.parametrize("name", ["*", ":(exclude)x", "with space", "new\nline", "[a]", "-x"])
def test_leaving_out_an_oversized_file_with_an_odd_name_leaves_out_nothing_else(checkout, mirror, take, name):
    (checkout.tree / name).write_bytes(b"x" * 3000)
    (checkout.tree / "a").write_text("kept\n")

    assert status(mirror, take(checkout, max_file_bytes=2000), checkout.base) == {"a": "A"}


def test_a_nested_repository_is_noted(checkout, mirror, take, naive):
    naive(checkout.tree, "init", "-q", "nested")
    (checkout.tree / "nested/f").write_text("x\n")
    naive(checkout.tree / "nested", "add", "-A")
    naive(checkout.tree / "nested", "commit", "-qm", "inner")
    stored = take(checkout)

    assert stored.notes == (Note("nested_repository", "nested"),)
    [change] = changed_paths(mirror, checkout.base.commit, stored.commit)
    assert (change.path, change.new_mode) == ("nested", "160000")


def test_a_nested_repository_without_a_commit_does_not_lose_the_rest(checkout, mirror, take, naive):
    naive(checkout.tree, "init", "-q", "nested")
    (checkout.tree / "new.py").write_text("x\n")
    naive(checkout.tree, "add", "-A", check=False)
    assert naive(checkout.tree, "diff", "--cached", "--name-only") == ""  # plain git stores nothing at all
    stored = take(checkout)

    assert status(mirror, stored, checkout.base) == {"new.py": "A"}
    assert stored.notes == (Note("nested_repository", "nested/"),)


@pytest.mark.parametrize("name", [".GIT", "git~1", ".git\u200c"])
def test_a_look_alike_of_a_git_directory_is_noted_and_the_rest_is_stored(checkout, mirror, take, name):
    (checkout.tree / name).mkdir()
    (checkout.tree / name / "config").write_text("[core]\n")
    (checkout.tree / "new.py").write_text("x\n")
    stored = take(checkout)

    assert status(mirror, stored, checkout.base) == {"new.py": "A"}
    assert [note.kind for note in stored.notes] == ["not_stored"]


def test_files_inside_a_submodules_folder_are_noted(source, make_source, naive, tmp_path, identity):
    library = make_source("library")
    naive(source, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(library), "vendor")
    naive(source, "commit", "-qm", "submodule")
    mirror = Mirror(tmp_path / "m.git", str(source))
    mirror.fetch()
    checkout = checkouts.create(mirror, mirror.resolve("main"), tmp_path / "attempts", job=1, fence=1)
    settings = {"identity": identity, "timestamp": 1, "message": "m"}
    untouched = take_snapshot(checkout, mirror, ref_for(1, 1, "plan"), **settings)
    (checkout.tree / "vendor/lost.py").write_text("x\n")
    touched = take_snapshot(checkout, mirror, ref_for(1, 1, "modify"), **settings)

    assert (untouched.notes, untouched.tree) == ((), checkout.base.tree)
    assert touched.notes == (Note("inside_submodule", "vendor"),)


def test_ignored_files_are_noted_and_do_not_make_the_snapshot_incomplete(checkout, take):
    (checkout.tree / "debug.log").write_text("x\n")
    stored = take(checkout)

    assert stored.notes == (Note("ignored", "debug.log"),)
    assert stored.complete


def test_files_whose_rights_a_program_took_away_are_stored_all_the_same(checkout, mirror, take):
    (checkout.tree / "locked/inner").mkdir(parents=True)
    (checkout.tree / "locked/inner/file").write_text("x\n")
    (checkout.tree / "new.py").write_text("x\n")
    (checkout.tree / "README.md").write_text("changed\n")
    for path in ("new.py", "README.md", "locked/inner/file", "locked/inner", "locked", "src"):
        (checkout.tree / path).chmod(0)
    stored = take(checkout)

    assert stored.notes == ()
    assert status(mirror, stored, checkout.base) == {"README.md": "M", "locked/inner/file": "A", "new.py": "A"}


def test_opening_up_gives_reading_rights_and_follows_no_link(tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir(mode=0o500)
    root = tmp_path / "root"
    (root / "inner").mkdir(parents=True)
    (root / "inner/run.sh").write_text("x")
    (root / "link").symlink_to(outside)
    (root / "inner/run.sh").chmod(0o100)
    (root / "inner").chmod(0)
    checkouts.open_up(root)

    assert (root / "inner/run.sh").stat().st_mode & 0o777 == 0o500
    assert (root / "inner").stat().st_mode & 0o777 == 0o700
    assert outside.stat().st_mode & 0o777 == 0o500


def test_a_work_tree_replaced_by_a_link_is_refused(checkout, take, tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret").write_text("x")
    os.rename(checkout.tree, checkout.root / "moved")
    checkout.tree.symlink_to(outside)

    with pytest.raises(errors.WorkspaceError, match="link"):
        take(checkout)


def test_a_lock_left_in_the_agents_clone_does_not_stop_the_snapshot(checkout, mirror, take):
    (checkout.tree / ".git/index.lock").touch()
    (checkout.tree / "new.py").write_text("x\n")

    assert status(mirror, take(checkout), checkout.base) == {"new.py": "A"}


def test_the_snapshot_outlives_the_checkout_and_a_clean_up_of_the_mirror(checkout, mirror, take, naive):
    (checkout.tree / "new.py").write_text("x = 1\n")
    stored = take(checkout)
    checkouts.remove(checkout, mirror, ref=stored.ref, commit=stored.commit)
    naive(mirror.path, "gc", "-q", "--prune=now")

    assert load(mirror, stored.ref) == stored
    assert naive(mirror.path, "show", f"{stored.commit}:new.py") == "x = 1"


def test_a_missing_snapshot_loads_as_none(mirror):
    assert load(mirror, "refs/agentq/1/1/modify") is None


def test_the_patch_applies_to_the_base_and_gives_the_same_tree(checkout, mirror, source, take, naive):
    (checkout.tree / "data.bin").write_bytes(bytes(range(256)) * 9)
    (checkout.tree / "new\nname.py").write_text("x = 1\n")
    (checkout.tree / "README.md").unlink()
    stored = take(checkout)
    patch = diff(mirror, checkout.base.commit, stored.commit)
    (source / "p").write_bytes(patch.stdout)
    naive(source, "apply", "--index", "p")

    assert not patch.truncated
    assert naive(source, "write-tree") == stored.tree


def test_a_patch_over_the_cap_is_cut_and_says_so(checkout, mirror, take):
    (checkout.tree / "line.txt").write_bytes(b"x" * 5_000_000)
    stored = take(checkout)

    patch = diff(mirror, checkout.base.commit, stored.commit, cap=10_000)

    assert (len(patch.stdout), patch.truncated) == (10_000, True)


def test_line_counts(checkout, mirror, take):
    (checkout.tree / "README.md").write_text("# Shop\nmore\n")
    (checkout.tree / "data.bin").write_bytes(bytes(range(256)))

    counts = {c.path: (c.added, c.deleted) for c in numstat(mirror, checkout.base.commit, take(checkout).commit)}

    assert counts == {"README.md": (1, 0), "data.bin": (None, None)}


def test_a_path_that_is_not_utf8_becomes_text_that_can_be_stored(checkout, mirror, take):
    with open(os.fsencode(checkout.tree) + b"/bad\xff.txt", "w") as file:
        file.write("x")

    [change] = changed_paths(mirror, checkout.base.commit, take(checkout).commit)

    assert change.path == "bad\\xff.txt"


def test_a_commit_of_a_tree_is_the_same_for_the_same_arguments(mirror, identity):
    base = mirror.resolve("main")
    first = commit_result(mirror, base.tree, base.commit, "Done\n", identity, 1_790_000_000)
    second = commit_result(mirror, base.tree, base.commit, "Done\n", identity, 1_790_000_000)
    later = commit_result(mirror, base.tree, base.commit, "Done\n", identity, 1_790_000_001)

    assert first == second != later


@pytest.mark.parametrize("stage", ["", "a b", "../x", "a/b", "a\n"])
def test_a_stage_name_that_is_no_word_is_refused(stage):
    with pytest.raises(ValueError, match="stage"):
        ref_for(1, 1, stage)
