"""Every error that a person may read. The docstring is the message: what was refused and what to do next."""


class AgentQError(Exception):
    """AgentQ refused the request."""

    def __init__(self, message: str = "") -> None:
        super().__init__(message or " ".join((self.__doc__ or "").split()))


class IllegalTransition(AgentQError):
    """The job is not in a state from which this is possible. Reload it and look at its history."""


class StaleJob(AgentQError):
    """The job changed in the meantime. Reload it and decide again."""


class LeaseLost(StaleJob):
    """The lease on this job ended and another worker may hold it. Nothing more is written for this attempt."""


class ClaimRefused(AgentQError):
    """The job cannot be claimed now."""

    def __init__(self, code: str) -> None:
        self.code = code
        super().__init__(f"The job cannot be claimed now: {code}.")


class EnqueueRefused(AgentQError):
    """The job was not enqueued and nothing was stored."""

    def __init__(self, message: str = "", field: str = "") -> None:
        self.field = field
        super().__init__(message)


class WorkflowConflict(EnqueueRefused):
    """A workflow version with the same name and version but other content is stored already."""


class DecisionRefused(AgentQError):
    """This decision is not possible on this review case."""


class TriggersMissing(AgentQError):
    """The database lacks AgentQ's triggers. Run `python manage.py migrate` and start again."""


class PayloadRefused(EnqueueRefused):
    """The payload does not fit what this action accepts. Correct it and enqueue again."""


class WorkflowRefused(AgentQError):
    """A workflow file cannot be used. Correct the file and load it again."""

    def __init__(self, message: str = "", *, file: str = "", line: int = 0, key: str = "") -> None:
        super().__init__(message)
        self.file = file
        self.line = line  # counted from 1; 0 when no single line is at fault
        self.key = key


class UnknownExecutor(AgentQError):
    """There is no executor of this name. Correct the workflow's `executor`."""

    def __init__(self, name: str = "", known: str = "") -> None:
        super().__init__(f"There is no executor {name!r}. The workflow's `executor` must be one of: {known}.")


class BadStageInputs(AgentQError):
    """The workflow's input does not fit its executor. Correct the workflow or the payload and enqueue again."""


class WorkspaceError(AgentQError):
    """The work on the repository's files failed. The job and its last snapshot are kept."""


class GitFailed(WorkspaceError):
    """A git command failed."""

    def __init__(self, subcommand: str, exit_code: int | None, tail: str) -> None:
        super().__init__(f"git {subcommand} failed (exit code {exit_code}): {tail or 'it printed no reason'}")
        self.subcommand = subcommand
        self.exit_code = exit_code  # None: ended by us
        self.tail = tail  # the end of what git printed, at most a few hundred characters


class GitTimedOut(GitFailed):
    """A git command took longer than its time limit and was ended."""


class GitOutputTooLarge(GitFailed):
    """A git command printed more than its byte limit and was ended."""


class DiskFull(WorkspaceError):
    """The disk that holds AgentQ's artefacts is full. Free some space; the job can then run again."""


class WorkspaceBusy(WorkspaceError):
    """Another process works on this repository and did not finish in time. Try again later."""


class RepositoryUnusable(WorkspaceError):
    """AgentQ cannot work with this repository."""

    reason = "AgentQ cannot work with it"

    def __init__(self, location: str) -> None:
        super().__init__(f"{location}: {self.reason}.")
        self.location = location


class RepositoryMissing(RepositoryUnusable):
    """The repository's path does not exist."""

    reason = "there is no directory at this path; check the path and that this machine can read it"


class RepositoryNotGit(RepositoryUnusable):
    """The path is not the top of a git repository."""

    reason = "this directory is not the top of a git repository; name the directory that holds .git, or a bare one"


class RepositoryEmpty(RepositoryUnusable):
    """The repository has no commit yet."""

    reason = "the repository has no commit yet; make a first commit, then try again"


class BranchRefused(WorkspaceError):
    """This branch cannot be used."""

    reason = "it cannot be used"

    def __init__(self, branch: str) -> None:
        super().__init__(f"Branch {branch!r}: {self.reason}.")
        self.branch = branch


class BranchInvalid(BranchRefused):
    """The text is not a name that git allows for a branch."""

    reason = "git does not allow this name; use letters, digits, '-', '_', '.' and '/'"


class BranchUnknown(BranchRefused):
    """The repository has no branch of this name, or no longer."""

    reason = "the repository has no such branch (any more); choose one that exists"


class SnapshotNotVerified(WorkspaceError):
    """The snapshot could not be read back from the mirror. Nothing was removed."""


class DeliveryRefused(WorkspaceError):
    """The branch was not delivered and the repository is unchanged."""


class CredentialsInvalid(AgentQError):
    """AGENTQ_CREDENTIALS cannot be read. Write NAME=env:VARIABLE or NAME=file:/path, with blanks between."""

    def __init__(self, name: str = "") -> None:
        hint = f" The entry for {name} is wrong, given twice or one of AgentQ's own settings." if name else ""
        super().__init__(" ".join((self.__doc__ or "").split()) + hint)


class CredentialMissing(AgentQError):
    """A credential that AGENTQ_CREDENTIALS names is not there."""

    def __init__(self, name: str, reference: str) -> None:
        super().__init__(
            f"The credential {name} is not there: {reference} leads to nothing. Set the variable or write the file "
            "that it names, readable by the worker, then start the job again."
        )
        self.name = name


class PolicyRefused(AgentQError):
    """The policy version was not published or activated."""


class SampleRefused(AgentQError):
    """The judgement was not stored."""


class SecretRefused(PayloadRefused):
    """The request holds what may be stored nowhere. Nothing was stored; take it out and enqueue again."""

    def __init__(self, where: str = "", kind: str = "", *, sure: bool = True, field: str = "") -> None:
        self.kind = kind
        what = kind.replace("_", " ")
        way_on = (
            "Take it out and enqueue again; name a credential by reference (AGENTQ_CREDENTIALS) instead."
            if sure
            else "Take it out, or if it is none, say it in other words without a value behind it."
        )
        message = f"The {where} looks like it holds a secret ({what}). Nothing was stored. {way_on}" if where else ""
        super().__init__(message, field=field)


class EffectTaken(AgentQError):
    """Another job is doing the same act at this moment. It is not done twice."""
