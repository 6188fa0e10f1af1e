"""The bare mirror of one registered repository: where bases come from and where snapshots live."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from jobs import errors
from jobs.workspaces import source as sources
from jobs.workspaces.git import LOCAL_TRANSPORT, UPLOAD_PACK, Git, clear_disk_errors, validate_branch
from jobs.workspaces.locks import held

LOCK_SECONDS = 600.0  # longer than a first fetch of a large repository


@dataclass(frozen=True)
class Base:
    """A commit to start from, with its tree; full ids."""

    commit: str
    tree: str


@dataclass(frozen=True)
class Mirror:
    """A bare copy of `source` at `path`, owned by the worker (C1, facts on isolation).

    Branches of the source are at refs/heads/, ours at refs/agentq/. Objects are never pruned: clones borrow them.
    """

    path: Path
    source: str
    lock_seconds: float = LOCK_SECONDS

    @property
    def git(self) -> Git:
        """git on the mirror, without any transport."""
        return Git(self.path)

    def ensure(self) -> None:
        """Create the mirror when it is not there. Raises RepositoryMissing or RepositoryNotGit."""
        if self.path.is_dir():
            return
        hash_name = sources.object_format(Git(sources.locate(self.source)))
        with self.locked(), clear_disk_errors():
            if self.path.is_dir():
                return
            # Made beside its place and renamed: a killed worker leaves no half mirror.
            fresh = self.path.with_name(f"{self.path.name}.{os.getpid()}.new")
            sources.init_bare(fresh, hash_name)
            fresh.rename(self.path)

    def fetch(self, seconds: float = LOCK_SECONDS) -> None:
        """Bring all branches of the source up to date; a branch deleted there is gone here too.

        Raises RepositoryMissing, RepositoryNotGit, RepositoryEmpty, WorkspaceBusy, DiskFull, GitFailed.
        """
        git_dir = sources.locate(self.source)
        self.ensure()
        with self.locked() as lock:
            git = replace(self.git, transports=LOCAL_TRANSPORT, keep=(lock,))
            args = ("--prune", "--no-tags", "--force", "--quiet", "--update-shallow", "--no-recurse-submodules")
            self._retry_stale_lock(
                git, "fetch", *args, f"--upload-pack={UPLOAD_PACK}", "--no-write-fetch-head", "--no-auto-maintenance",
                str(git_dir), "+refs/heads/*:refs/heads/*", seconds=seconds,
            )  # fmt: skip
        if not self.git.run("for-each-ref", "--count=1", "refs/heads/").stdout:
            raise errors.RepositoryEmpty(self.source)

    def resolve(self, branch: str) -> Base:
        """The commit and tree a branch has in the mirror. Raises BranchInvalid or BranchUnknown."""
        commit = self.commit_at(f"refs/heads/{validate_branch(branch)}")
        if commit is None:
            raise errors.BranchUnknown(branch)
        return self.base_of(commit)

    def base_of(self, commit: str) -> Base:
        """A stored commit with its tree. Raises GitFailed when the mirror does not have it."""
        tree = self.git.text("rev-parse", "--verify", "--end-of-options", f"{commit}^{{tree}}")
        return Base(commit, tree)

    def commit_at(self, ref: str) -> str | None:
        """The commit a full ref name points to, or None."""
        found = self.git.text("rev-parse", "--quiet", "--verify", "--end-of-options", f"{ref}^{{commit}}", ok=(0, 1))
        return found or None

    def write_ref(self, ref: str, commit: str) -> None:
        """Point one of our refs (refs/agentq/…) at `commit`, whatever it pointed to before."""
        with self.locked() as lock:
            self._retry_stale_lock(replace(self.git, keep=(lock,)), "update-ref", "--no-deref", ref, commit)

    @contextmanager
    def locked(self, name: str = "mirror") -> Iterator[int]:
        """Hold this repository's lock `name`; yields the descriptor for `Git.keep`. Raises WorkspaceBusy."""
        with held(self.path.with_name(f"{self.path.name}.locks") / name, self.lock_seconds) as lock:
            yield lock

    def _retry_stale_lock(self, git: Git, *args: str, seconds: float = LOCK_SECONDS) -> None:
        """Run under our lock; a `.lock` file in the way is from a killed git then, and is removed once."""
        try:
            git.run(*args, seconds=seconds)
        except errors.GitFailed as error:
            if ".lock': File exists" not in error.tail:
                raise
            for stale in [*self.path.glob("*.lock"), *(self.path / "refs").rglob("*.lock")]:
                stale.unlink(missing_ok=True)
            git.run(*args, seconds=seconds)
