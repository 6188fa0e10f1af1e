"""K4, K5: an executor is given what was registered or declared, and nothing else."""

import subprocess
from pathlib import Path

import pytest

from jobs.errors import PayloadRefused, WorkflowRefused
from jobs.executors.sample_agent import FAULTS
from jobs.payloads import validate
from jobs.workflows.definition import WorkflowDefinition
from jobs.workflows.files import available
from jobs.workflows.inputs import command_argv, sample_params, stage_inputs

REGISTERED = {"tests": ["python", "-m", "pytest"], "black": ["black", "."]}


def _built_in(name: str) -> WorkflowDefinition:
    return next(workflow for workflow in available() if workflow.name == name)


def _git(folder: Path, *arguments: str) -> str:
    command = ["git", "-c", "user.name=t", "-c", "user.email=t@example.org", *arguments]
    return subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    _git(tmp_path, "init", "-q")
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "a b.py").write_bytes(b"x = 1  \r\ny = 2\t\r\n\r\n")
    (tmp_path / "notes.txt").write_bytes(b"one \n\n\n  \n")
    (tmp_path / "-dash.txt").write_bytes(b"no end")
    (tmp_path / "image.bin").write_bytes(b"\0 \n \n")
    (tmp_path / "link").symlink_to("/etc/hostname")
    _git(tmp_path, "add", "-A")
    _git(tmp_path, "commit", "-q", "-m", "base")
    (tmp_path / "untracked.txt").write_bytes(b"left alone  \n")
    return tmp_path


def _run(tree: Path, payload: dict[str, object]) -> subprocess.CompletedProcess[str]:
    argv = command_argv(_built_in("format-code"), payload, {})
    return subprocess.run(argv, cwd=tree, capture_output=True, text=True, check=False)


def test_a_registered_command_is_run_as_registered():
    assert command_argv(_built_in("run-command"), {"command": "tests"}, REGISTERED) == (
        "python",
        "-m",
        "pytest",
    )
    assert command_argv(_built_in("format-code"), {"formatter": "black"}, REGISTERED) == ("black", ".")


def test_a_command_that_is_no_longer_registered_is_refused():
    with pytest.raises(WorkflowRefused, match="tests is no longer registered"):
        command_argv(_built_in("run-command"), {"command": "tests"}, {})


def test_an_enqueue_without_or_with_an_unregistered_command_is_refused():
    fields = _built_in("run-command").fields
    with pytest.raises(PayloadRefused, match="command is missing"):
        validate({}, fields, argv_names=REGISTERED)
    with pytest.raises(PayloadRefused, match="names no command"):
        validate({"command": "rm"}, fields, argv_names=REGISTERED)


def test_paths_are_for_the_built_in_formatter_only():
    fields = _built_in("format-code").fields
    assert validate({"paths": ["src"]}, fields) == {"paths": ["src"]}
    with pytest.raises(PayloadRefused, match="cannot be given together with formatter"):
        validate({"paths": ["src"], "formatter": "black"}, fields, argv_names=REGISTERED)


def test_a_script_that_changed_under_its_version_is_refused():
    workflow = _built_in("format-code")
    older = workflow.model_copy(update={"parameters": workflow.parameters | {"script_sha256": "0" * 64}})
    with pytest.raises(WorkflowRefused, match="newest version"):
        command_argv(older, {}, {})


def test_the_built_in_formatter_formats_tracked_text_and_leaves_the_rest(tree: Path):
    done = _run(tree, {})
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "3 of 4 files changed")
    assert (tree / "src" / "a b.py").read_bytes() == b"x = 1\r\ny = 2\r\n"
    assert (tree / "notes.txt").read_bytes() == b"one\n"
    assert (tree / "-dash.txt").read_bytes() == b"no end\n"
    assert (tree / "image.bin").read_bytes() == b"\0 \n \n"
    assert (tree / "untracked.txt").read_bytes() == b"left alone  \n"
    assert _git(tree, "status", "--porcelain").count(" M ") == 3


def test_a_second_run_changes_nothing(tree: Path):
    _run(tree, {})
    first = _git(tree, "diff")
    assert _run(tree, {}).stdout == "0 of 4 files changed\n"
    assert _git(tree, "diff") == first


@pytest.mark.parametrize(
    ("paths", "changed"),
    [
        (["src"], ["src/a b.py"]),
        (["**/*.py"], ["src/a b.py"]),
        (["src/a ?.py"], ["src/a b.py"]),
        (["*.py", "*.txt"], None),
        (["*.txt"], ["-dash.txt", "notes.txt"]),
        (["-dash.txt"], ["-dash.txt"]),
        (["**"], ["-dash.txt", "notes.txt", "src/a b.py"]),
        (["untracked.txt"], None),
    ],
)
def test_paths_choose_files_and_one_that_matches_nothing_fails(tree: Path, paths: list[str], changed: list[str] | None):
    done = _run(tree, {"paths": paths})
    if changed is None:
        assert done.returncode == 1
        assert "no tracked file matches" in done.stderr
    assert sorted(_git(tree, "diff", "-z", "--name-only").split("\0")[:-1]) == (changed or [])


def test_the_stand_in_agent_makes_its_edit_in_each_path_and_fails_as_told():
    payload = {
        "task": "words only",
        "paths": ["a.py", "b.py"],
        "do": "replace",
        "text": "new",
        "old": "old",
        "fail_attempts": 1,
        "fail_code": "rate_limit_exceeded",
        "fail_http_status": 429,
    }
    workflow = _built_in("sample-agent")
    validate(payload, workflow.fields)
    assert stage_inputs(workflow, payload, {}) == {
        "params": {
            "edits": [
                {"do": "replace", "path": "a.py", "text": "new", "old": "old"},
                {"do": "replace", "path": "b.py", "text": "new", "old": "old"},
            ],
            "fail": {
                "stage": "modify",
                "how": "error",
                "attempts": 1,
                "error": {"code": "rate_limit_exceeded", "http_status": 429},
            },
        }
    }


def test_the_stand_in_agent_succeeds_unless_told_and_exits_when_told_no_more():
    assert sample_params({"task": "look"}) == {"edits": []}
    assert sample_params({"fail_at": "plan"})["fail"] == {"stage": "plan", "how": "exit"}
    assert sample_params({"fail_how": "hang"})["fail"] == {"stage": "modify", "how": "hang"}


@pytest.mark.parametrize("name", ["sample-agent", "sample-report"])
def test_the_stand_in_agent_offers_every_fault_it_knows(name: str):
    field = next(field for field in _built_in(name).fields if field.name == "fail_how")
    assert tuple(field.choices) == FAULTS


def test_a_command_job_is_given_its_argument_list():
    workflow = _built_in("run-command")
    assert stage_inputs(workflow, {"command": "black"}, REGISTERED) == {"argv": ["black", "."]}


def test_an_executor_without_inputs_here_is_refused():
    other = _built_in("run-command").model_copy(update={"executor": "elsewhere"})
    with pytest.raises(WorkflowRefused, match="elsewhere cannot run here yet"):
        stage_inputs(other, {}, {})
