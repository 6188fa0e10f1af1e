"""Executors by name. Light on purpose: the shim imports this package."""

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jobs.executors.base import Executor

_CLASSES = {
    "claude": ("jobs.executors.claude", "ClaudeExecutor"),
    "codex": ("jobs.executors.codex", "CodexExecutor"),
    "command": ("jobs.executors.command", "CommandExecutor"),
    "sample": ("jobs.executors.sample", "SampleExecutor"),
}


def get(name: str) -> "Executor":
    """The executor that a workflow names. Raises UnknownExecutor with the names there are."""
    if name not in _CLASSES:
        from jobs.errors import UnknownExecutor

        raise UnknownExecutor(name=name, known=", ".join(names()))
    module, attribute = _CLASSES[name]
    executor: Executor = getattr(importlib.import_module(module), attribute)()
    return executor


def names() -> tuple[str, ...]:
    """Every name that a workflow may give."""
    return tuple(sorted(_CLASSES))
