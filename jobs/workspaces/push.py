"""Pushes a result's branch to a remote, or looks whether it is there; the program behind the effect `push-branch`.

Run as `python -I -S push.py push|lookup PROTOCOLS MIRROR REMOTE BRANCH COMMIT`, in a shim. Exit 0: it is there, and the
first line names it. Exit 1, by lookup only: it is not there. Anything else: nobody can tell.
"""

import sys
import traceback
from pathlib import Path

if __name__ == "__main__":
    sys.path.append(str(Path(__file__).resolve().parents[2]))

from jobs.workspaces.git import Git, validate_branch

SECONDS = 3600.0  # the shim's own limits are shorter
NOT_THERE, CANNOT_TELL = 1, 3


def push(git: Git, remote: str, branch: str, commit: str) -> int:
    """The remote has the branch at the commit. Only ever creates: a branch that is there with another commit stays."""
    ref = f"refs/heads/{validate_branch(branch)}"
    git.run(
        "push", "--porcelain", "--no-verify", "--no-follow-tags", "--no-signed", "--recurse-submodules=no",
        f"--force-with-lease={ref}:", "--", remote, f"{commit}:{ref}", seconds=SECONDS, env=_transport(git),
    )  # fmt: skip
    return _there(remote, ref, commit)


def look_up(git: Git, remote: str, branch: str, commit: str) -> int:
    """Whether the remote has the branch at the commit. Another commit there is no answer: somebody must look."""
    ref = f"refs/heads/{validate_branch(branch)}"
    listing = git.run("ls-remote", "--", remote, ref, seconds=SECONDS, env=_transport(git)).stdout.decode()
    found = dict(line.split("\t", 1)[::-1] for line in listing.splitlines() if "\t" in line)
    if ref not in found:
        return NOT_THERE
    if found[ref] != commit:
        sys.stderr.write(f"{ref} is there with another commit ({found[ref][:12]}).\n")
        return CANNOT_TELL
    return _there(remote, ref, commit)


def _there(remote: str, ref: str, commit: str) -> int:
    sys.stdout.write(f"{remote} {ref} {commit}\n")
    return 0


def _transport(git: Git) -> dict[str, str]:
    """Our own settings forbid every program for a transport; ssh is let through where the operator allowed it."""
    return {"GIT_SSH_COMMAND": "ssh -o BatchMode=yes"} if "ssh" in git.transports else {}


def main() -> int:
    verb, protocols, mirror, remote, branch, commit = sys.argv[1:]
    git = Git(Path(mirror), transports=tuple(protocols.split(",")))
    try:
        return {"push": push, "lookup": look_up}[verb](git, remote, branch, commit)
    except Exception:  # noqa: BLE001  (Python's own exit code for a traceback is 1, which here means "not there")
        sys.stderr.write(traceback.format_exc(limit=1))
        return CANNOT_TELL


if __name__ == "__main__":
    sys.exit(main())
