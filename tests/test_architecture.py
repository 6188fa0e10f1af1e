"""The house's own rules, read from the tree: who writes what, how long a file is, what lies at the top."""

import ast
import re
import subprocess
from pathlib import Path

import pytest
from django.apps import apps
from django.db.models import CheckConstraint

from jobs.core.states import State

ROOT = Path(__file__).resolve().parents[1]
TOP = {"manage.py", "pyproject.toml", "README.md", "LICENSE", "agentq_site", "jobs", "reviews", "templates", "tests"}
LONGEST = {"agentq_site": 300, "jobs": 300, "reviews": 300, "tests": 400}
MAKES_STATES = {"jobs/services/transitions.py", "jobs/services/job_rows.py"}
WRITES = {"save", "delete", "bulk_create", "bulk_update", "get_or_create", "update_or_create", "executemany"}
SQL_THAT_WRITES = re.compile(r"\b(INSERT\s+INTO|REPLACE\s+INTO|UPDATE\s+\w+\s+SET|DELETE\s+FROM|TRUNCATE|DROP\s)\b")


def tracked(*patterns: str) -> list[str]:
    listed = subprocess.run(["git", "ls-files", "-z", *patterns], cwd=ROOT, capture_output=True, text=True, check=True)
    return [name for name in listed.stdout.split("\0") if name and (ROOT / name).exists()]


def python(*folders: str) -> list[str]:
    return [name for folder in folders for name in tracked(f"{folder}/**.py") if "/migrations/" not in name]


def text_of(name: str) -> str:
    return (ROOT / name).read_text()


def test_only_the_agreed_entries_lie_at_the_top():
    entries = {name.split("/")[0] for name in tracked()}
    assert {entry for entry in entries if not entry.startswith(".")} <= TOP


@pytest.mark.parametrize("folder", LONGEST)
def test_no_file_grows_beyond_what_one_reads_at_once(folder):
    lines = {name: len(text_of(name).splitlines()) for name in python(folder)}
    assert {name: count for name, count in lines.items() if count > LONGEST[folder]} == {}


def test_every_module_says_first_what_it_is_for():
    modules = [name for name in python("agentq_site", "jobs", "reviews") if text_of(name).strip()]
    assert [name for name in modules if not ast.get_docstring(ast.parse(text_of(name)))] == []


@pytest.mark.parametrize("name", python("reviews"))
def test_the_console_writes_no_row_of_the_engine_itself(name):
    assert [ast.unparse(node) for node in ast.walk(ast.parse(text_of(name))) if writes(node)] == []


def writes(node: ast.AST) -> bool:
    """A call that stores rows, by a model, a query set or SQL. (The update of a dictionary names no fields.)"""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return bool(SQL_THAT_WRITES.search(node.value))
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return False
    called = node.func
    if called.attr == "update":
        return bool(node.keywords)
    if called.attr == "create":
        return isinstance(called.value, ast.Attribute) and called.value.attr == "objects"
    return called.attr in WRITES


def test_only_the_door_and_enqueue_set_the_state_of_a_job():
    """By keyword, by dictionary key, by attribute or in SQL text."""
    setters = {name for name in python("jobs", "reviews") for node in ast.walk(ast.parse(text_of(name))) if sets(node)}
    assert setters == MAKES_STATES


def sets(node: ast.AST) -> bool:
    if isinstance(node, ast.Assign):
        return any(
            isinstance(each, ast.Attribute) and each.attr == "state" and not is_self(each) for each in node.targets
        )
    if isinstance(node, ast.Dict):
        keys = zip(node.keys, node.values, strict=True)
        return any(isinstance(key, ast.Constant) and key.value == "state" and is_state(value) for key, value in keys)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in ("update", "create"):
        return any(keyword.arg == "state" for keyword in node.keywords)
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return bool(re.search(r"UPDATE jobs_job\b.*\bSET\b.*\bstate\s*=", node.value, re.DOTALL))
    return False


def is_self(node: ast.Attribute) -> bool:
    return isinstance(node.value, ast.Name) and node.value.id == "self"


def is_state(node: ast.AST) -> bool:
    """`State.QUEUED`, or the name under which the door keeps the target."""
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        return node.value.id == "State"
    return isinstance(node, ast.Name) and node.id == "target"


def test_every_choice_field_has_a_check_of_its_name():
    missing = []
    for model in apps.get_app_config("jobs").get_models():
        checked = {
            name
            for constraint in model._meta.constraints
            if isinstance(constraint, CheckConstraint)
            for name in re.findall(r"'(\w+)__in'", str(constraint.condition))
        }
        missing += [
            f"{model.__name__}.{field.name}"
            for field in model._meta.fields
            if field.choices and field.name not in checked
        ]
    assert missing == []


def test_the_core_reads_no_clock_and_rolls_no_dice():
    for name in python("jobs/core"):
        imported = {
            alias.name.split(".")[0]
            for node in ast.walk(ast.parse(text_of(name)))
            if isinstance(node, ast.Import | ast.ImportFrom)
            for alias in ([ast.alias(node.module or "")] if isinstance(node, ast.ImportFrom) else node.names)
        }
        forbidden = {"os", "time", "random", "logging", "pathlib", "django", "subprocess", "socket", "threading"}
        assert not imported & forbidden, name
        assert "datetime.now" not in text_of(name), name


def test_the_states_have_the_names_of_the_spec_wherever_sql_is_written():
    for name in python("jobs"):
        for words in re.findall(r"state IN \(([^)]*)\)", text_of(name)):
            assert set(re.findall(r"'(\w+)'", words)) <= {str(state) for state in State}, name
