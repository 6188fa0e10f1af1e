"""Creates the result's branch in the registered repository without touching anything else in it."""

import hashlib
import os
from dataclasses import dataclass, replace
from pathlib import Path

from jobs import errors
from jobs.workspaces import source as sources
from jobs.workspaces.git import LOCAL_TRANSPORT, UPLOAD_PACK, Git, validate_branch
from jobs.workspaces.mirror import Mirror

_FETCH_SECONDS = 600.0


@dataclass(frozen=True)
class Delivered:
    """The branch is in the repository at `commit`; `already` when it was there before this call."""

    branch: str
    commit: str
    already: bool


def deliver_branch(
    source: str | Path, mirror: Mirror, commit: str, branch: str, default_branch: str | None
) -> Delivered:
    """Make `branch` point to `commit` (of the mirror) in the repository at `source`.

    Work tree, index, HEAD and all other refs stay as they are, and none of its hooks run. Calling it again changes
    nothing. Raises DeliveryRefused for the default branch, a branch that is checked out somewhere, a branch that
    exists with another commit and a name that another branch blocks; RepositoryMissing, WorkspaceBusy, DiskFull.
    """
    validate_branch(branch)
    git = Git(sources.locate(source))
    lock_name = "deliver-" + hashlib.sha256(branch.encode()).hexdigest()[:32]
    with mirror.locked(lock_name) as lock:
        git = replace(git, keep=(lock,))
        _refuse_taken_branch(git, branch, default_branch)
        ref = f"refs/heads/{branch}"
        if _answer(git, ref, branch, commit):
            return Delivered(branch, commit, already=True)
        _bring_objects(git, mirror, commit)
        try:
            # All zeros as the old value: only ever create.
            git.run("update-ref", "--no-deref", "-m", "agentq: deliver", ref, commit, "0" * len(commit))
        except errors.GitFailed as error:
            if _answer(git, ref, branch, commit):
                return Delivered(branch, commit, already=True)
            raise errors.DeliveryRefused(f"Branch {branch!r} could not be created: {error.tail}") from error
    return Delivered(branch, commit, already=False)


def _refuse_taken_branch(git: Git, branch: str, default_branch: str | None) -> None:
    head = git.text("symbolic-ref", "--quiet", "HEAD", ok=(0, 1)).removeprefix("refs/heads/")
    if branch == default_branch:
        raise errors.DeliveryRefused(f"Branch {branch!r} is the default branch. AgentQ never writes to it.")
    listing = git.run("worktree", "list", "--porcelain", "-z").fields()
    if branch == head or b"branch refs/heads/" + os.fsencode(branch) in listing:
        raise errors.DeliveryRefused(f"Branch {branch!r} is checked out in the repository. Switch to another one.")


def _answer(git: Git, ref: str, branch: str, commit: str) -> bool:
    """True when the branch is at `commit`, False when there is none; another commit is refused."""
    found = git.text("rev-parse", "--quiet", "--verify", "--end-of-options", ref, ok=(0, 1))
    if found and found != commit:
        raise errors.DeliveryRefused(
            f"Branch {branch!r} exists already with another commit ({found[:12]}). Delete or rename it, then try again."
        )
    return bool(found)


def _bring_objects(git: Git, mirror: Mirror, commit: str) -> None:
    """Fetch from the mirror instead of pushing to the source: a push would run the source's receive hooks."""
    fetching = replace(git, transports=LOCAL_TRANSPORT)
    fetching.run(
        "fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--no-auto-maintenance", "--no-recurse-submodules",
        f"--upload-pack={UPLOAD_PACK}", "--refmap=", str(mirror.path), commit, seconds=_FETCH_SECONDS,
    )  # fmt: skip
    git.run("cat-file", "-e", f"{commit}^{{tree}}")
