"""Stores what an attempt has done so far as a commit in the mirror, so that no diff is ever lost (C1, V3)."""

import os
import shutil
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from jobs import errors
from jobs.workspaces.checkout import Checkout, open_up, verify_stored
from jobs.workspaces.git import Git, clear_disk_errors, printable
from jobs.workspaces.mirror import Mirror

DEFAULT_FILE_CAP = 10 * 1024 * 1024  # bytes
_ADD_SECONDS = 600.0
_LIST_CAP = 64 * 1024 * 1024  # bytes of path listing, about 500,000 paths
_MAX_NOTES = 200
_MAX_IGNORED = 50


@dataclass(frozen=True)
class Identity:
    """Who a commit names."""

    name: str
    email: str


@dataclass(frozen=True)
class Note:
    """Something the snapshot could not hold. Kinds: oversized, nested_repository, inside_submodule, not_stored
    (unreadable, or a name git refuses), ignored (left out by .gitignore), more (`size` further notes left out)."""

    kind: str
    path: str
    size: int = 0


@dataclass(frozen=True)
class Snapshot:
    """A stored state: commit and tree can be read from the mirror under `ref`."""

    ref: str
    commit: str
    tree: str
    notes: tuple[Note, ...] = ()

    @property
    def complete(self) -> bool:
        """True when nothing but ignored files was left out."""
        return all(note.kind == "ignored" for note in self.notes)


def ref_for(job: int, fence: int, stage: str) -> str:
    """The mirror's ref of one stage of one attempt."""
    if not (stage.isascii() and stage.replace("_", "").isalnum()):
        raise ValueError(f"not a stage name: {stage!r}")
    return f"refs/agentq/{job}/{fence}/{stage}"


def take(
    checkout: Checkout,
    mirror: Mirror,
    ref: str,
    *,
    identity: Identity,
    timestamp: int,
    message: str,
    max_file_bytes: int = DEFAULT_FILE_CAP,
) -> Snapshot:
    """Store the work tree's files under `ref` and read them back. The agent's own index and `.git` are not used.

    The same files, base, identity, timestamp (seconds, UTC) and message give the same commit. Ignored files are not
    stored; what else is left out is in the notes. Raises SnapshotNotVerified, DiskFull, GitFailed.
    """
    if checkout.tree.is_symlink() or not checkout.tree.is_dir():
        raise errors.WorkspaceError("The job's work tree is gone or was replaced by a link. Run the job again.")
    with clear_disk_errors(), tempfile.TemporaryDirectory(dir=checkout.index.parent, prefix="snapshot-") as room:
        index = Path(room) / "index"
        git = Git(mirror.path, work_tree=checkout.tree, index=index)
        if checkout.index.is_file():
            shutil.copy2(checkout.index, index)  # with its times, see _add_private_git
        else:
            git.run("read-tree", checkout.base.commit)
        oversized = _oversized(git, max_file_bytes)
        if not _add(git, oversized):
            open_up(checkout.tree)
            oversized = _oversized(git, max_file_bytes)
            _add(git, oversized)
        tree = git.text("write-tree")
        notes = _notes(git, oversized)
    commit = commit_result(mirror, tree, checkout.base.commit, message, identity, timestamp)
    mirror.write_ref(ref, commit)
    verify_stored(mirror, ref, commit, checkout.base.commit)
    return Snapshot(ref, commit, tree, notes)


def commit_result(mirror: Mirror, tree: str, parent: str, message: str, identity: Identity, timestamp: int) -> str:
    """Store a commit of `tree` on `parent`; the same arguments give the same id. `timestamp` in seconds, UTC."""
    date = f"@{timestamp} +0000"
    env = {
        "GIT_AUTHOR_NAME": identity.name,
        "GIT_AUTHOR_EMAIL": identity.email,
        "GIT_AUTHOR_DATE": date,
        "GIT_COMMITTER_NAME": identity.name,
        "GIT_COMMITTER_EMAIL": identity.email,
        "GIT_COMMITTER_DATE": date,
    }
    stored = mirror.git.run("commit-tree", tree, "-p", parent, stdin=message.encode(), env=env)
    return stored.stdout.decode().strip()


def load(mirror: Mirror, ref: str) -> Snapshot | None:
    """A snapshot taken earlier, without its notes; None when the mirror has no such ref."""
    commit = mirror.commit_at(ref)
    return None if commit is None else Snapshot(ref, commit, mirror.base_of(commit).tree)


def _oversized(git: Git, max_file_bytes: int) -> list[tuple[bytes, int]]:
    found = []
    for path in _pending(git):
        try:
            size = _on_disk(git, path).lstat().st_size
        except OSError:
            continue  # deleted, or below a directory that cannot be read
        if size > max_file_bytes and not path.endswith(b"/"):
            found.append((path, size))
    return sorted(found)


def _pending(git: Git) -> Iterable[bytes]:
    listing = git.run(
        "ls-files", "-z", "--others", "--modified", "--exclude-standard", "--deduplicate",
        cap=_LIST_CAP, partial=True, seconds=_ADD_SECONDS,
    )  # fmt: skip
    return listing.fields()


def _add(git: Git, left_out: list[tuple[bytes, int]]) -> bool:
    """Bring the index up to the work tree; False when git complained of a path it could not read or store."""
    pathspecs = [b".", *(b":(top,exclude,literal)" + path for path, _ in left_out)]
    args = ("--all", "--ignore-errors", "--pathspec-from-file=-", "--pathspec-file-nul")
    # Exit code 1: some paths could not be added; they show up as pending afterwards.
    added = git.run("add", *args, stdin=b"\0".join(pathspecs) + b"\0", ok=(0, 1), seconds=_ADD_SECONDS)
    return added.exit_code == 0 and not added.complaints


def _notes(git: Git, oversized: list[tuple[bytes, int]]) -> tuple[Note, ...]:
    notes = [Note("oversized", printable(path), size) for path, size in oversized]
    known = {path for path, _ in oversized}
    for path in _pending(git):
        if path not in known:
            notes.append(Note("nested_repository" if path.endswith(b"/") else "not_stored", printable(path)))
    notes += _gitlink_notes(git)
    if len(notes) > _MAX_NOTES:
        notes = [*notes[:_MAX_NOTES], Note("more", "", len(notes) - _MAX_NOTES)]
    # Ignored files lose nothing that was meant to be kept; a few names are enough.
    return (*notes, *(Note("ignored", printable(path)) for path in _ignored(git)[:_MAX_IGNORED]))


def _gitlink_notes(git: Git) -> list[Note]:
    """Folders that git stores as a pointer only, although files lie in them."""
    notes = []
    listing = git.run("ls-files", "-z", "--stage", cap=_LIST_CAP, partial=True)
    for entry in listing.fields():
        if not entry.startswith(b"160000 "):
            continue
        path = entry.partition(b"\t")[2]
        folder = _on_disk(git, path)
        if os.path.lexists(folder / ".git"):
            notes.append(Note("nested_repository", printable(path)))
        elif folder.is_dir() and any(folder.iterdir()):
            notes.append(Note("inside_submodule", printable(path)))
    return notes


def _on_disk(git: Git, path: bytes) -> Path:
    assert git.work_tree is not None
    return git.work_tree / os.fsdecode(path)


def _ignored(git: Git) -> list[bytes]:
    listing = git.run(
        "ls-files", "-z", "--others", "--ignored", "--exclude-standard", "--directory",
        cap=_LIST_CAP, partial=True, seconds=_ADD_SECONDS,
    )  # fmt: skip
    return listing.fields()
