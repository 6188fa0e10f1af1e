"""Looks at a registered repository without running its code or touching its files."""

import os
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from jobs import errors
from jobs.workspaces.git import ATTRIBUTES, Git, clear_disk_errors

_TREE_CAP = 32 * 1024 * 1024  # bytes of tree listing that are searched for submodules


@dataclass(frozen=True)
class SourceFacts:
    """What registering a repository shows its owner. `kind` is "work tree" or "bare".

    `default_branch` is the branch HEAD names, None when HEAD is detached or names a branch without commits.
    `dirty`: files differ from the last commit; jobs never see that, they start from commits.
    """

    kind: str
    default_branch: str | None
    branches: tuple[str, ...]
    has_submodules: bool
    dirty: bool


def inspect_source(location: str | Path) -> SourceFacts:
    """Read the facts of the repository at `location` (the directory that holds `.git`, or a bare repository).

    Raises RepositoryMissing, RepositoryNotGit or RepositoryEmpty.
    """
    git_dir = locate(location)
    git = Git(git_dir)
    branches = _branches(git)
    if not branches:
        raise errors.RepositoryEmpty(str(location))
    head = git.text("symbolic-ref", "--quiet", "--short", "HEAD", ok=(0, 1))
    default = head if head in branches else None
    bare = git_dir == Path(location).resolve()
    return SourceFacts(
        kind="bare" if bare else "work tree",
        default_branch=default,
        branches=branches,
        has_submodules=_has_submodules(git, f"refs/heads/{default or branches[0]}"),
        dirty=not bare and _is_dirty(git_dir, Path(location).resolve()),
    )


def locate(location: str | Path) -> Path:
    """The git directory of the repository whose top is `location`. Raises RepositoryMissing or RepositoryNotGit."""
    top = Path(location).absolute()
    if not top.is_dir():
        raise errors.RepositoryMissing(str(location))
    top = top.resolve()
    inner = top / ".git"
    candidate = inner if inner.exists() else top
    try:
        found = Git(candidate).text("rev-parse", "--absolute-git-dir")
    except (errors.GitFailed, NotADirectoryError):
        # `.git` may be a file that points elsewhere (linked worktree, submodule); git needs a directory to start in.
        found = _follow(top, candidate)
    return Path(found)


def _follow(top: Path, candidate: Path) -> str:
    if candidate == top:
        raise errors.RepositoryNotGit(str(top))
    try:
        return Git(None).text("-C", os.fspath(top), f"--git-dir={candidate}", "rev-parse", "--absolute-git-dir")
    except errors.GitFailed:
        raise errors.RepositoryNotGit(str(top)) from None


def _branches(git: Git) -> tuple[str, ...]:
    listing = git.run("for-each-ref", "--format=%(refname:lstrip=2)", "refs/heads/", cap=_TREE_CAP).stdout
    names = []
    for line in listing.splitlines():
        try:
            names.append(line.decode("utf-8"))
        except UnicodeDecodeError:
            continue  # a job cannot name such a branch
    return tuple(names)


def _has_submodules(git: Git, revision: str) -> bool:
    listing = git.run("ls-tree", "-r", "-z", "--full-tree", revision, cap=_TREE_CAP, partial=True)
    return any(entry.startswith(b"160000 ") for entry in listing.fields())


def _is_dirty(git_dir: Path, work_tree: Path) -> bool:
    """Compare work tree, index and HEAD through a git directory of ours: the source's own may name programs."""
    source = Git(git_dir)
    head = source.text("rev-parse", "--quiet", "--verify", "HEAD^{commit}", ok=(0, 1))
    common = git_dir / source.text("rev-parse", "--git-common-dir")
    with clear_disk_errors(), tempfile.TemporaryDirectory(prefix="agentq-look-") as room:
        private = Path(room) / "git"
        init_bare(private, object_format(source))
        borrow_objects(private, common / "objects")
        index = Path(room) / "index"
        if (git_dir / "index").is_file():
            shutil.copy2(git_dir / "index", index)
        if head:
            (private / "HEAD").write_text(head + "\n")
        looking = Git(private, work_tree=work_tree, index=index)
        status = looking.run("status", "--porcelain", "-z", "--ignore-submodules=all", cap=4096, partial=True)
    return bool(status.stdout)


def object_format(git: Git) -> str:
    """The hash a repository uses: "sha1" or "sha256"."""
    return git.text("rev-parse", "--show-object-format")


def init_bare(path: Path, hash_name: str) -> None:
    """Make an empty bare repository without hooks, with attributes that keep every file byte for byte."""
    Git(None).run("init", "--quiet", "--bare", "--template=", f"--object-format={hash_name}", str(path))
    write_attributes(path)


def write_attributes(git_dir: Path) -> None:
    """Override all .gitattributes for this git directory (see ATTRIBUTES)."""
    (git_dir / "info").mkdir(exist_ok=True)
    (git_dir / "info" / "attributes").write_text(ATTRIBUTES)


def borrow_objects(git_dir: Path, objects: Path) -> None:
    """Let `git_dir` read the objects of another repository (what `git clone --shared` does)."""
    raw = os.fsencode(objects).replace(b"\\", b"\\\\").replace(b'"', b'\\"').replace(b"\n", b"\\n")
    (git_dir / "objects" / "info").mkdir(exist_ok=True)
    (git_dir / "objects" / "info" / "alternates").write_bytes(b'"' + raw + b'"\n')
