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
