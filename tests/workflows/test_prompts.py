"""Prompts from templates, and the built-in workflows for agents (K1, K4, Z1)."""

import pytest

from jobs.core.keys import make_idempotency_key
from jobs.errors import WorkflowRefused
from jobs.executors.agents import read_task
from jobs.payloads import validate
from jobs.workflows.definition import AGENTS, WorkflowDefinition
from jobs.workflows.files import available, load_file
from jobs.workflows.inputs import stage_inputs
from jobs.workflows.prompts import render

FOR_AGENTS = [workflow for workflow in available() if workflow.executor in AGENTS]


def built_in(name: str) -> WorkflowDefinition:
    return next(workflow for workflow in available() if workflow.name == name)


def test_values_take_the_places_of_their_fields():
    template = "Ticket {{ ticket }}.\n{{paths}}\nDeep: {{ deep }}, left out: {{ note }}"
    payload = {"ticket": "DEV-1", "paths": ["a.py", "b c.py"], "deep": True}
    assert render(template, payload) == "Ticket DEV-1.\n- a.py\n- b c.py\nDeep: yes, left out: (not given)\n"


def test_a_value_that_looks_like_a_placeholder_is_not_filled_in():
    assert render("{{ a }}{{ b }}", {"a": "{{ b }}", "b": "secret"}) == "{{ b }}secret\n"


def test_what_people_added_stands_at_the_end():
    assert render("Do it.", {}, ["Use the old name.", "Skip b.py."]).endswith(
        "A person who looked at this job added:\n- Use the old name.\n- Skip b.py.\n"
    )


@pytest.mark.parametrize("workflow", FOR_AGENTS, ids=lambda workflow: workflow.name)
def test_each_built_in_workflow_gives_its_agent_a_task(workflow: WorkflowDefinition):
    payload = {field.name: ["src/a.py"] if field.kind == "paths" else "words" for field in workflow.fields}
    task = read_task(stage_inputs(workflow, validate(payload, workflow.fields), {}))
    assert "- src/a.py" in task.prompt
    assert "{{" not in task.prompt
    assert task.tools == ("read", "edit", "shell")
    assert "Do not commit, push" in task.prompt


def test_both_agents_offer_the_same_work():
    names = {workflow.name.removesuffix("-claude") for workflow in FOR_AGENTS}
    assert {(workflow.name, workflow.executor) for workflow in FOR_AGENTS} == {
        *((name, "codex") for name in names),
        *((f"{name}-claude", "claude") for name in names),
    }


def test_generate_tests_has_the_key_of_the_specification():
    workflow = built_in("generate-tests")
    payload = {"ticket": "DEV-1024", "paths": ["src/billing.py"]}
    key = make_idempotency_key(
        repo="demo/payment-service",
        branch="main",
        action=workflow.name,
        payload=validate(payload, workflow.fields),
        workflow_version=workflow.version,
    )
    assert key == "245f159804469d525a65acef2d225664626a260192035c96602705a5e679237d"


@pytest.mark.parametrize(
    ("change", "key"),
    [
        ('prompt = " "', "prompt"),
        ('prompt = "x"\ntools = ["everything"]', "tools"),
        ('prompt = "x"\n[parameters]\nspeed = "fast"', "parameters"),
        ('prompt = "x"\n[parameters]\nmax_turns = "many"', "parameters"),
    ],
)
def test_a_workflow_that_its_agent_could_not_run_is_refused_when_loaded(tmp_path, change: str, key: str):
    path = tmp_path / "own.toml"
    path.write_text(
        'name = "own"\nversion = "v1"\ntitle = "Own"\nexecutor = "claude"\nrisk = "writes_files"\nexpects = "diff"\n'
        + change
    )
    with pytest.raises(WorkflowRefused) as refusal:
        load_file(path)
    assert refusal.value.key == key
