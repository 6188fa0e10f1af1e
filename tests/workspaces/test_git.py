"""The git wrapper: hostile configuration, limits and clear errors (issue step 1 item 5, K1)."""

import subprocess
import time
from pathlib import Path

import pytest

from jobs import errors
from jobs.workspaces.git import Git, clear_disk_errors, validate_branch

ODD_NAMES = ["with space", "new\nline", "ümläut", "-dash", 'quo"te', "tab\tname"]


def evil(path: Path, trace: Path, then: str = "exit 0") -> Path:
    """A program that leaves a trace when it runs."""
    path.write_text(f"#!/bin/sh\necho ran >> '{trace}'\n{then}\n")
    path.chmod(0o755)
    return path


@pytest.mark.parametrize(
    ("setting", "command"),
    [("core.fsmonitor", ["status", "--porcelain"]), ("diff.external", ["diff", "HEAD~1", "HEAD"])],
)
def test_a_program_named_in_the_repository_config_runs_with_plain_git_but_not_through_ours(
    source, tmp_path, naive, setting, command
):
    (source / "README.md").write_text("changed\n")
    naive(source, "commit", "-qam", "second")
    trace = tmp_path / "trace"
    naive(source, "config", setting, str(evil(tmp_path / "evil", trace)))

    naive(source, *command, check=False)
    assert trace.exists(), "the trick itself does not work any more"
    trace.unlink()
    Git(source / ".git", work_tree=source).run(*command)

    assert not trace.exists()


def test_a_program_that_lists_borrowed_refs_runs_with_a_plain_fetch_but_not_with_ours(source, tmp_path, naive):
    naive(tmp_path, "clone", "-q", "--bare", str(source), "lender.git")
    (source / ".git/objects/info/alternates").write_text(f"{tmp_path}/lender.git/objects\n")
    naive(tmp_path, "clone", "-q", str(source), "other")
    other = tmp_path / "other"
    trace = tmp_path / "trace"
    naive(source, "config", "core.alternateRefsCommand", str(evil(tmp_path / "evil", trace)))

    naive(other, "commit", "-q", "--allow-empty", "-m", "new")
    naive(source, "fetch", "-q", str(other), check=False)
    assert trace.exists()
    trace.unlink()
    naive(other, "commit", "-q", "--allow-empty", "-m", "newer")
    Git(source / ".git", transports=("file",)).run("fetch", "-q", str(other))

    assert not trace.exists()


def test_textconv_and_diff_drivers_run_with_plain_git_but_not_through_our_diff_call(source, tmp_path, naive):
    (source / "README.md").write_text("changed\n")
    naive(source, "commit", "-qam", "second")
    trace = tmp_path / "trace"
    program = evil(tmp_path / "evil", trace)
    (source / ".git/info/attributes").write_text("*.md diff=x\n")
    naive(source, "config", "diff.x.textconv", str(program))
    naive(source, "config", "diff.x.command", str(program))

    naive(source, "diff", "HEAD~1", "HEAD", check=False)
    assert trace.exists()
    trace.unlink()
    Git(source / ".git").run("diff-tree", "-p", "HEAD~1", "HEAD")

    assert not trace.exists()


def test_a_hook_runs_with_plain_git_but_not_through_ours(source, tmp_path, naive):
    trace = tmp_path / "trace"
    evil(source / ".git/hooks/reference-transaction", trace)

    naive(source, "update-ref", "refs/heads/a", "HEAD")
    assert trace.exists()
    trace.unlink()
    Git(source / ".git").run("update-ref", "refs/heads/b", "HEAD")

    assert not trace.exists()


def test_the_callers_git_environment_and_personal_configuration_do_not_reach_git(
    source, tmp_path, monkeypatch, make_source
):
    other = make_source("other")
    (tmp_path / ".gitconfig").write_text("[alias]\n\tpwned = !true\n[user]\n\tname = Someone Else\n")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("GIT_DIR", str(other / ".git"))
    monkeypatch.setenv("GIT_CONFIG_COUNT", "1")
    monkeypatch.setenv("GIT_CONFIG_KEY_0", "user.name")
    monkeypatch.setenv("GIT_CONFIG_VALUE_0", "Injected")
    monkeypatch.setenv("GIT_TRACE", str(tmp_path / "trace"))

    git = Git(source / ".git")

    assert git.text("rev-parse", "--absolute-git-dir") == str(source / ".git")
    assert git.text("config", "user.name", ok=(0, 1)) == ""
    assert not (tmp_path / "trace").exists()


def test_a_clean_filter_of_the_config_runs_with_plain_git_but_not_from_a_git_directory_of_ours(
    source, tmp_path, naive, mirror
):
    trace = tmp_path / "trace"
    naive(source, "config", "filter.x.clean", str(evil(tmp_path / "evil", trace, "cat")))
    (source / ".gitattributes").write_text("* filter=x\n")
    (source / "README.md").write_text("changed\n")

    naive(source, "add", "-A")
    assert trace.exists()
    trace.unlink()
    Git(mirror.path, work_tree=source, index=tmp_path / "index").run("add", "-A")

    assert not trace.exists()


@pytest.mark.parametrize("url", ["ext::sh -c touch% {trace}", "https://example.org/x.git", "ssh://example.org/x"])
def test_only_the_named_transports_are_allowed(source, tmp_path, url):
    trace = tmp_path / "trace"

    with pytest.raises(errors.GitFailed, match="not allowed"):
        Git(source / ".git", transports=("file",)).run("fetch", url.format(trace=trace))

    assert not trace.exists()


def test_without_a_named_transport_even_a_local_fetch_is_refused(source, make_source):
    other = make_source("other")

    with pytest.raises(errors.GitFailed, match="not allowed"):
        Git(source / ".git").run("fetch", str(other))


@pytest.mark.parametrize("name", ODD_NAMES)
def test_repositories_and_files_with_odd_names_work(make_source, naive, name):
    top = make_source(name)
    (top / name).write_text("x\n")
    git = Git(top / ".git", work_tree=top)

    listing = git.run("ls-files", "-z", "--others")

    assert listing.fields() == [name.encode()]


def test_a_failure_names_the_subcommand_the_exit_code_and_a_short_reason(source):
    with pytest.raises(errors.GitFailed) as caught:
        Git(source / ".git").run("rev-parse", "--verify", "nothing-like-this" * 100)

    assert caught.value.subcommand == "rev-parse"
    assert caught.value.exit_code == 128
    assert "single revision" in caught.value.tail
    assert len(caught.value.tail) <= 400


def test_a_git_that_does_not_end_is_stopped_with_all_its_children(source, tmp_path):
    (tmp_path / "bin").mkdir()
    pids = tmp_path / "pids"
    git = Git(source / ".git")

    with pytest.raises(errors.GitTimedOut):
        git.run("-c", f"alias.hang=!sleep 300 & echo $! > '{pids}'; wait", "hang", seconds=1)

    child = int(pids.read_text())
    deadline = time.monotonic() + 10
    while alive(child) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not alive(child)


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_output_over_the_cap_stops_git_and_says_so(source, naive):
    (source / "big.txt").write_bytes(b"x" * 3_000_000)
    naive(source, "add", "-A")
    git = Git(source / ".git")

    with pytest.raises(errors.GitOutputTooLarge):
        git.run("cat-file", "blob", ":big.txt", cap=1000)
    answer = git.run("cat-file", "blob", ":big.txt", cap=1000, partial=True)

    assert (len(answer.stdout), answer.truncated, answer.exit_code) == (1000, True, None)


def test_output_of_exactly_the_cap_is_whole(source, naive):
    (source / "big.txt").write_bytes(b"x" * 1000)
    naive(source, "add", "-A")

    answer = Git(source / ".git").run("cat-file", "blob", ":big.txt", cap=1000)

    assert (len(answer.stdout), answer.truncated) == (1000, False)


def test_large_input_and_output_do_not_block_each_other(source):
    data = b"".join(b"%040d\n" % number for number in range(50_000))

    answer = Git(source / ".git").run("cat-file", "--batch-check", stdin=data)

    assert answer.stdout.count(b" missing\n") == 50_000


def test_a_full_disk_gives_one_clear_error(source, tmp_path, monkeypatch):
    fake = evil(
        tmp_path / "git", tmp_path / "trace", "echo 'fatal: write error: No space left on device' >&2; exit 128"
    )
    monkeypatch.setenv("PATH", str(fake.parent))
    with pytest.raises(errors.DiskFull, match="full"):
        Git(source / ".git").run("write-tree")


def test_a_write_of_ours_to_a_full_disk_gives_the_same_error():
    with pytest.raises(errors.DiskFull), clear_disk_errors(), Path("/dev/full").open("wb", buffering=0) as full:
        full.write(b"x")


GOOD_BRANCHES = ["main", "agentq/12-0a1b2c3d", "feature/ümläut", "a.b", "v1_2-x", "a@b", "@a"]
BAD_BRANCHES = [
    "", "-x", "a b", "a..b", "a~1", "a^", "a:b", "a?", "a*", "a[b", "a\\b", "/a", "a/", "a//b", ".a", "a/.b", "a.",
    "a.lock", "a.lock/b", "a@{1}", "@", "HEAD", "a\x00b", "a\nb", "a\x7f", "\ud800", "refs/heads/x", "x" * 300,
]  # fmt: skip


@pytest.mark.parametrize("name", GOOD_BRANCHES)
def test_a_branch_name_that_git_takes_is_accepted(name):
    assert validate_branch(name) == name


@pytest.mark.parametrize("name", BAD_BRANCHES)
def test_a_branch_name_that_git_refuses_or_reads_otherwise_is_refused(name):
    with pytest.raises(errors.BranchInvalid):
        validate_branch(name)


@pytest.mark.parametrize("name", [*GOOD_BRANCHES, *BAD_BRANCHES])
def test_no_name_that_git_itself_refuses_is_accepted(name):
    if "\x00" in name or "\ud800" in name:
        return  # cannot even be passed to a program
    allowed = subprocess.run(["git", "check-ref-format", f"refs/heads/{name}"], check=False).returncode == 0
    try:
        validate_branch(name)
    except errors.BranchInvalid:
        return
    assert allowed
