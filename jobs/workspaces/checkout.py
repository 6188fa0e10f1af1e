"""Private work trees: one for each attempt, and clean ones for verification."""

import os
import secrets
import shutil
import stat
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from jobs import errors
from jobs.workspaces import source as sources
from jobs.workspaces.git import Git, clear_disk_errors
from jobs.workspaces.mirror import Base, Mirror

QUARANTINE = "quarantine"
_LAY_DOWN_SECONDS = 600.0
_CONFIG = "[user]\n\tname = AgentQ\n\temail = agentq@localhost\n[gc]\n\tauto = 0\n"
_STALE_LOCKS = ("index.lock", "HEAD.lock", "config.lock", "packed-refs.lock")


@dataclass(frozen=True)
class Checkout:
    """One attempt's directory. `tree` is the agent's work tree, `home` and `tmp` its HOME and TMPDIR.

    `index` is ours, outside the directory: what the snapshot compares with.
    """

    root: Path
    base: Base
    job: int
    fence: int
    index: Path

    @property
    def name(self) -> str:
        """The directory's name: job, fence and a random part."""
        return self.root.name

    @property
    def tree(self) -> Path:
        return self.root / "tree"

    @property
    def home(self) -> Path:
        return self.root / "home"

    @property
    def tmp(self) -> Path:
        return self.root / "tmp"


def create(mirror: Mirror, base: Base, parent: Path, *, job: int, fence: int, content: str | None = None) -> Checkout:
    """Make a private clone under `parent`, detached at `base`, with the files of `content` (default: the base).

    The clone borrows the mirror's objects and has no remote, no hooks and no filters. Raises DiskFull, GitFailed;
    then nothing is left behind.
    """
    root = parent.resolve() / f"{job}-{fence}-{secrets.token_hex(6)}"
    checkout = Checkout(root, base, job, fence, mirror.path / "agentq-indexes" / root.name)
    mirror.write_ref(f"refs/agentq/{job}/{fence}/base", base.commit)
    try:
        with clear_disk_errors():
            checkout.index.parent.mkdir(exist_ok=True)
            _make_rooms(root)
            _lay_down(mirror, content or base.commit, checkout.tree, checkout.index)
            _add_private_git(mirror, checkout)
    except BaseException:
        _discard(checkout)
        raise
    return checkout


def remove(checkout: Checkout, mirror: Mirror, *, ref: str, commit: str) -> None:
    """Delete the attempt's directory. Raises SnapshotNotVerified, and deletes nothing, unless `ref` in the mirror
    is `commit` and every object of it can be read."""
    verify_stored(mirror, ref, commit, checkout.base.commit)
    _discard(checkout)


def verify_stored(mirror: Mirror, ref: str, commit: str, base: str) -> None:
    """Raise SnapshotNotVerified unless `ref` is `commit` and all that it adds to `base` reads back whole."""
    if mirror.commit_at(ref) != commit:
        raise errors.SnapshotNotVerified
    arguments = ("rev-list", "--verify-objects", "--quiet", commit, f"^{base}")
    try:
        reading = mirror.git.run(*arguments, seconds=_LAY_DOWN_SECONDS)
    except errors.GitFailed as error:
        raise errors.SnapshotNotVerified from error
    if reading.complaints:  # a damaged object is told here, with exit code 0
        raise errors.SnapshotNotVerified


def clear_stale_locks(checkout: Checkout) -> tuple[str, ...]:
    """Remove lock files that a killed git left in the agent's clone; returns their names.

    Only call this when every process of the attempt is proven dead.
    """
    git_dir = checkout.tree / ".git"
    if not _is_real_directory(git_dir):
        return ()
    found = tuple(name for name in _STALE_LOCKS if (git_dir / name).is_file())
    for name in found:
        (git_dir / name).unlink(missing_ok=True)
    return found


def open_up(root: Path) -> None:
    """Give the owner back the rights to read `root` and all below it, and to change its directories.

    A program may take them off its own files; they would be neither stored nor removed then. Links stay as they are.
    """
    root.chmod(stat.S_IRWXU)
    for folder, names, files in os.walk(root):  # top down: a directory is opened before it is entered
        for inner in (Path(folder) / name for name in (*names, *files)):
            mode = inner.lstat().st_mode
            wanted = stat.S_IRWXU if stat.S_ISDIR(mode) else stat.S_IRUSR
            if (stat.S_ISDIR(mode) or stat.S_ISREG(mode)) and mode & wanted != wanted:
                inner.chmod(stat.S_IMODE(mode) | wanted)


@contextmanager
def clean(mirror: Mirror, commit: str, parent: Path, *, label: str) -> Iterator[Checkout]:
    """A fresh work tree of `commit` without any `.git`, gone afterwards. Raises DiskFull, GitFailed.

    The git directory and the index are the mirror's, outside the tree: nothing that runs in it can change them.
    """
    root = parent.resolve() / f"{label}-{secrets.token_hex(6)}"
    room = Checkout(root, mirror.base_of(commit), 0, 0, mirror.path / "agentq-indexes" / root.name)
    try:
        with clear_disk_errors():
            room.index.parent.mkdir(exist_ok=True)
            _make_rooms(root)
            _lay_down(mirror, commit, room.tree, room.index)
        yield room
    finally:
        _discard(room)


def quarantine(parent: Path, live_names: Callable[[], Collection[str]]) -> tuple[Path, ...]:
    """Move directories that no live attempt owns to `parent`/quarantine, never deleting; returns their new places.

    `live_names` is called after the listing: a directory made in between cannot be taken for a stray one. A name
    there is a directory's name, or its `job-fence` part alone.
    """
    if not parent.is_dir():
        return ()
    present = [entry for entry in sorted(parent.iterdir()) if entry.name != QUARANTINE]
    live = frozenset(live_names())
    moved = []
    for entry in present:
        if entry.name in live or entry.name.rpartition("-")[0] in live:
            continue
        place = parent / QUARANTINE / f"{entry.name}.{secrets.token_hex(4)}"
        with clear_disk_errors():
            place.parent.mkdir(exist_ok=True)
            entry.rename(place)
        moved.append(place)
    return tuple(moved)


def _make_rooms(root: Path) -> None:
    root.mkdir(mode=0o700, parents=True)
    for name in ("tree", "home", "tmp"):
        (root / name).mkdir(mode=0o700)


def _lay_down(mirror: Mirror, commit: str, tree: Path, index: Path) -> None:
    git = Git(mirror.path, work_tree=tree, index=index)
    git.run("read-tree", "--reset", "-u", commit, seconds=_LAY_DOWN_SECONDS)


def _add_private_git(mirror: Mirror, checkout: Checkout) -> None:
    """What `git clone --shared` and `remote remove` would leave, without ever having a remote."""
    git_dir = checkout.tree / ".git"
    hash_name = sources.object_format(mirror.git)
    Git(None).run("init", "--quiet", "--template=", f"--object-format={hash_name}", str(checkout.tree))
    sources.write_attributes(git_dir)
    sources.borrow_objects(git_dir, mirror.path / "objects")
    with (git_dir / "config").open("a") as config:
        config.write(_CONFIG)
    # Files first, index after: a copy with its times kept lets git notice a change within the same tick.
    shutil.copy2(checkout.index, git_dir / "index")
    if (mirror.path / "shallow").is_file():
        shutil.copy2(mirror.path / "shallow", git_dir / "shallow")
    Git(git_dir).run("update-ref", "--no-deref", "HEAD", checkout.base.commit)


def _discard(checkout: Checkout) -> None:
    checkout.index.unlink(missing_ok=True)
    if not checkout.root.exists():
        return
    try:
        shutil.rmtree(checkout.root)
    except PermissionError:
        open_up(checkout.root)
        shutil.rmtree(checkout.root)


def _is_real_directory(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink()
