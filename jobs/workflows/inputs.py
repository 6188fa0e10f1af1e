"""What an executor is given: from a workflow and a payload to the inputs of a stage, nothing that was not declared."""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from django.utils.translation import gettext as _

from jobs.core.keys import sha256_hex
from jobs.errors import WorkflowRefused
from jobs.workflows.definition import AGENTS, WorkflowDefinition
from jobs.workflows.prompts import render

SCRIPTS = Path(__file__).parent / "scripts"


def stage_inputs(
    workflow: WorkflowDefinition,
    payload: Mapping[str, Any],
    registered: Mapping[str, Sequence[str]],
    notes: Sequence[str] = (),
) -> dict[str, Any]:
    """The `inputs` of an executor's StageContext; `registered` are the repository's commands by name, `notes` what
    people added for an agent.

    Raises WorkflowRefused where `command_argv` does, and for an executor that takes no inputs from here.
    """
    if workflow.executor == "command":
        return {"argv": list(command_argv(workflow, payload, registered))}
    if workflow.executor == "sample":
        return {"params": sample_params(payload)}
    if workflow.executor in AGENTS:
        return agent_task(workflow, payload, notes)
    raise WorkflowRefused(_("The executor %(name)s cannot run here yet.") % {"name": workflow.executor}, key="executor")


def command_argv(
    workflow: WorkflowDefinition, payload: Mapping[str, Any], registered: Mapping[str, Sequence[str]]
) -> tuple[str, ...]:
    """The argument list of a job whose executor is `command`.

    The payload's field of kind argv names a command that is `registered` with the repository. Without it the
    workflow's own script runs: parameters `script` (a file here in scripts/), `script_sha256`, and
    `arguments` (the payload's list field that is handed on). Raises WorkflowRefused when the command is no
    longer registered, or the script is no longer the one that this version was written for.
    """
    named = next((field.name for field in workflow.fields if field.kind == "argv"), "")
    if named in payload:
        name = payload[named]
        if name not in registered:
            raise WorkflowRefused(
                _("The command %(name)s is no longer registered with this repository.") % {"name": name}, key=named
            )
        return tuple(registered[name])
    arguments = payload.get(workflow.parameters.get("arguments", ""), [])
    return (sys.executable, "-I", str(_script(workflow)), "--", *arguments)


def agent_task(workflow: WorkflowDefinition, payload: Mapping[str, Any], notes: Sequence[str] = ()) -> dict[str, Any]:
    """What an agent is asked, with the tools it may use and the workflow's own limits (see executors.agents.Task)."""
    task = {**workflow.parameters, "prompt": render(workflow.prompt, payload, notes)}
    if workflow.tools:
        task["tools"] = list(workflow.tools)
    return task


def sample_params(payload: Mapping[str, Any]) -> dict[str, Any]:
    """The stand-in agent's script: the payload's one edit for each of its paths, and how it shall fail."""
    edit = {"do": payload.get("do", "append")} | {name: payload[name] for name in ("text", "old") if name in payload}
    params: dict[str, Any] = {"edits": [{**edit, "path": path} for path in payload.get("paths", [])]}
    fail = {name.removeprefix("fail_"): value for name, value in payload.items() if name.startswith("fail_")}
    if fail:
        error = {name: fail.pop(name) for name in ("code", "http_status", "retry_after") if name in fail}
        params["fail"] = {
            "stage": fail.pop("at", "modify"),
            "how": fail.pop("how", "error" if error else "exit"),
            **fail,
            **({"error": error} if error else {}),
        }
    return params


def _script(workflow: WorkflowDefinition) -> Path:
    path = SCRIPTS / Path(workflow.parameters["script"]).name
    if not path.is_file() or sha256_hex(path.read_bytes()) != workflow.parameters.get("script_sha256"):
        names = {"script": path.name, "name": workflow.name, "version": workflow.version}
        raise WorkflowRefused(
            _(
                "The script %(script)s is not the one that %(name)s version %(version)s was written for. "
                "Enqueue with the newest version."
            )
            % names,
            key="parameters.script",
        )
    return path
