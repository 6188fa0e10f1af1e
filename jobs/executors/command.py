"""Runs one command in the checkout: the executor behind `run-command` and `format-code`."""

from jobs.errors import BadStageInputs
from jobs.executors.base import Control, StageContext, StageResult, record_inputs, run_process


class CommandExecutor:
    """The argument list comes from the owner's closed list; no shell reads it. Only modify starts a process."""

    name = "command"
    acts_outside = False
    takes: frozenset[str] = frozenset()

    def run_stage(self, context: StageContext, control: Control) -> StageResult:
        """`inputs["argv"]` runs in modify, read and plan record what was asked. Raises BadStageInputs."""
        argv = context.inputs.get("argv")
        if not isinstance(argv, list | tuple) or not argv or not all(_is_argument(word) for word in argv):
            raise BadStageInputs
        if context.stage != "modify":
            return record_inputs(context)
        return run_process(context, control, tuple(argv))


def _is_argument(word: object) -> bool:
    return isinstance(word, str) and "\0" not in word
