"""The one way to call git: fixed settings, a clean environment, limits, and errors a person can read."""

import errno
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from jobs import errors
from jobs.workspaces.capture import capture

DEFAULT_SECONDS = 120.0
DEFAULT_CAP = 8 * 1024 * 1024  # bytes of output
LOCAL_TRANSPORT = ("file",)

# Byte-exact in and out, whatever .gitattributes a repository or an agent brings: no filter runs, no line ending
# changes, and `diff --check` and `diff` look at every file. Written to info/attributes, which wins over all others.
ATTRIBUTES = "* -text -ident -working-tree-encoding !eol !filter !diff !merge !whitespace !export-subst\n"

# The second layer; the first is that our git directories lie where an agent cannot write.
_SETTINGS = {
    "core.hooksPath": "/dev/null",
    "core.fsmonitor": "false",
    "core.untrackedCache": "false",
    "core.attributesFile": "/dev/null",
    "core.excludesFile": "/dev/null",
    "core.askPass": "",
    "core.sshCommand": "false",
    "core.gitProxy": "",
    "core.pager": "cat",
    "core.editor": "false",
    "core.alternateRefsCommand": "true",
    "core.protectNTFS": "true",
    "core.protectHFS": "true",
    "core.autocrlf": "false",
    "core.fileMode": "true",
    "core.symlinks": "true",
    "core.ignoreCase": "false",
    "core.sparseCheckout": "false",
    "core.splitIndex": "false",
    "core.bigFileThreshold": "32m",
    # A snapshot that was reported as stored survives a power loss.
    "core.fsync": "committed,reference",
    "core.fsyncMethod": "batch",
    "advice.addEmbeddedRepo": "false",
    "commit.gpgSign": "false",
    "credential.helper": "",
    "fetch.writeCommitGraph": "false",
    "gc.auto": "0",
    "gpg.program": "false",
    "i18n.commitEncoding": "utf-8",
    "maintenance.auto": "false",
    "protocol.allow": "never",
    "safe.bareRepository": "explicit",
    # Every path here was registered by an owner or made by us; it may well belong to another user of the machine.
    "safe.directory": "*",
    "submodule.recurse": "false",
    "tag.gpgSign": "false",
}
# git starts the other side of a local fetch without our settings, so that they are named again here.
UPLOAD_PACK = (
    "git -c core.hooksPath=/dev/null -c core.alternateRefsCommand=true -c safe.directory=* "
    "-c uploadpack.allowAnySHA1InWant=true upload-pack"
)

# No setting turns these off: an empty diff.external is taken for a program.
_SAFE_DIFF = dict.fromkeys(
    ("diff", "diff-files", "diff-index", "diff-tree", "log", "show"), ("--no-ext-diff", "--no-textconv")
)
# The last is all git says when a file of a work tree cannot be written out; what it may not create reads otherwise.
_NO_SPACE = ("no space left on device", "disk quota exceeded", "unable to write file")
_BRANCH_FORBIDDEN = re.compile(r"[\x00-\x20\x7f~^:?*\[\\]|\.\.|@\{|//|\.lock(/|$)|(^|/)\.|\.$|/$|^[-/]")


@dataclass(frozen=True)
class Output:
    """What git printed; `truncated` only when the caller allowed a partial answer. `complaints`: end of its stderr."""

    stdout: bytes
    exit_code: int | None
    truncated: bool = False
    complaints: str = ""

    def fields(self) -> list[bytes]:
        """The NUL-terminated records of a `-z` answer; a cut last record is left out."""
        return self.stdout.split(b"\0")[:-1]


@dataclass(frozen=True)
class Git:
    """git on one git directory, optionally with a work tree and an index of its own.

    No transport is allowed unless named in `transports`; `keep` are descriptors that git inherits (locks).
    """

    git_dir: Path | None
    work_tree: Path | None = None
    index: Path | None = None
    transports: Sequence[str] = ()
    keep: Sequence[int] = ()

    def run(
        self,
        *args: str | bytes,
        stdin: bytes = b"",
        ok: Sequence[int] = (0,),
        seconds: float = DEFAULT_SECONDS,
        cap: int = DEFAULT_CAP,
        partial: bool = False,
        env: Mapping[str, str] | None = None,
    ) -> Output:
        """Run `git ARGS` and return its output, at most `cap` bytes and after at most `seconds`.

        Raises GitFailed for an exit code outside `ok`, GitTimedOut, GitOutputTooLarge (unless `partial`) and DiskFull.
        """
        subcommand = os.fsdecode(args[0])
        with clear_disk_errors():
            done = capture(
                [*self._prefix(), args[0], *_SAFE_DIFF.get(subcommand, ()), *args[1:]],
                cwd=self.work_tree or self.git_dir or Path("/"),
                env={**self._environment(), **(env or {})},
                stdin=stdin,
                seconds=seconds,
                cap=cap,
                keep=self.keep,
            )
        tail = _readable(done.stderr_tail)
        if done.timed_out:
            raise errors.GitTimedOut(subcommand, None, f"no end after {seconds:g} seconds; it was stopped")
        if done.truncated and not partial:
            raise errors.GitOutputTooLarge(subcommand, None, f"it printed more than {cap} bytes")
        if done.exit_code is not None and done.exit_code not in ok:
            if any(sign in tail.lower() for sign in _NO_SPACE):
                raise errors.DiskFull
            raise errors.GitFailed(subcommand, done.exit_code, tail)
        return Output(done.stdout, done.exit_code, done.truncated, tail)

    def text(self, *args: str | bytes, ok: Sequence[int] = (0,), seconds: float = DEFAULT_SECONDS) -> str:
        """The answer as text without its last line break; empty when git says no with a code in `ok`."""
        answer = self.run(*args, ok=ok, seconds=seconds).stdout
        return os.fsdecode(answer.removesuffix(b"\n"))

    def _prefix(self) -> list[str]:
        argv = ["git", "--no-pager", "--no-replace-objects"]
        for name, value in _SETTINGS.items():
            argv += ["-c", f"{name}={value}"]
        if self.git_dir is not None:
            argv.append(f"--git-dir={self.git_dir}")
        if self.work_tree is not None:
            argv.append(f"--work-tree={self.work_tree}")
        return argv

    def _environment(self) -> dict[str, str]:
        env = {
            "PATH": os.environ.get("PATH", os.defpath),
            "HOME": "/nonexistent",
            "LC_ALL": "C",
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_SYSTEM": os.devnull,
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_ATTR_NOSYSTEM": "1",
            "GIT_ALLOW_PROTOCOL": ":".join(self.transports),
            "GIT_PROTOCOL_FROM_USER": "0",
            "GIT_TERMINAL_PROMPT": "0",
            "GIT_ASKPASS": "false",
            "SSH_ASKPASS": "false",
            "GIT_OPTIONAL_LOCKS": "0",
            "GIT_AUTHOR_NAME": "AgentQ",
            "GIT_AUTHOR_EMAIL": "agentq@localhost",
            "GIT_COMMITTER_NAME": "AgentQ",
            "GIT_COMMITTER_EMAIL": "agentq@localhost",
        }
        if self.index is not None:
            env["GIT_INDEX_FILE"] = str(self.index)
        return env


def validate_branch(name: str) -> str:
    """Return `name` when git allows it for a branch (without `refs/heads/`); raises BranchInvalid otherwise."""
    # A part of one ref name becomes a file name, so 200 bytes leave room for `.lock`.
    encoded = name.encode("utf-8", errors="replace")
    if not name or len(encoded) > 200 or name in {"@", "HEAD"} or name.startswith("refs/"):
        raise errors.BranchInvalid(name)
    if _BRANCH_FORBIDDEN.search(name) or any("\ud800" <= character <= "\udfff" for character in name):
        raise errors.BranchInvalid(name)
    return name


def printable(path: bytes) -> str:
    """A path as text that every database and page can hold: bytes that are not UTF-8 become \\xNN."""
    return path.decode("utf-8", errors="backslashreplace")


@contextmanager
def clear_disk_errors() -> Iterator[None]:
    """Turn the operating system's "no space left" into DiskFull."""
    try:
        yield
    except OSError as error:
        if error.errno in {errno.ENOSPC, errno.EDQUOT}:
            raise errors.DiskFull from error
        raise


def _readable(stderr: bytes) -> str:
    text = " ".join(stderr.decode("utf-8", errors="replace").split())
    return "".join(character if character.isprintable() else "?" for character in text)[-400:]
