"""K4: a workflow file is taken whole or refused with file, line and key; its digest is its content's."""

import json
import tomllib
from pathlib import Path

import pytest

from jobs.core.keys import canonical_json, sha256_hex
from jobs.errors import WorkflowRefused
from jobs.workflows.files import BUILT_IN, available, from_document, load_file

GOOD = """\
name = "tidy"
version = "2026-08-25-v1"
title = "Tidy up"
executor = "codex"
risk = "writes_files"
expects = "diff"
prompt = "Tidy {{ paths }} up."

[[fields]]
name = "paths"
kind = "paths"

[[checks]]
name = "unit"
argv = ["pytest"]
kind = "tests"
"""


@pytest.fixture
def write(tmp_path: Path):
    def write_file(text: str, name: str = "tidy.toml") -> Path:
        path = tmp_path / name
        path.write_bytes(text.encode("utf-8", "surrogateescape"))
        return path

    return write_file


def test_a_good_file_is_read_with_its_defaults(write):
    workflow = load_file(write(GOOD))
    assert workflow.stages == ["read", "plan", "modify", "test", "inspect", "deliver"]
    assert (workflow.seconds, workflow.max_attempts, workflow.short) == (1800, None, False)
    assert workflow.checks[0].argv == ["pytest"]
    assert workflow.fields[0].kind == "paths"


def test_the_stored_document_is_the_files_content_and_reads_back(write):
    workflow = load_file(write(GOOD))
    assert workflow.document_text == canonical_json(tomllib.loads(GOOD))
    assert workflow.digest == sha256_hex(workflow.document_text)
    again = from_document(workflow.document_text)
    assert again == workflow
    assert again.digest == workflow.digest


def test_comments_order_and_line_ends_are_not_content(write):
    lines = GOOD.split("\n")
    other = "\r\n".join(["# a comment", lines[2], lines[1], lines[0], *lines[3:]])
    assert load_file(write(other)).digest == load_file(write(GOOD, "b.toml")).digest


def test_any_other_value_is_other_content(write):
    changed = GOOD.replace("Tidy {{", "Clean {{")
    assert load_file(write(changed)).digest != load_file(write(GOOD, "b.toml")).digest


@pytest.mark.parametrize(
    ("old", "new", "line", "key", "words"),
    [
        ('title = "Tidy up"', 'title = "Tidy up', 3, "", "Illegal character"),
        ('kind = "tests"\n', 'kind = "tests"\n\nname = "again"\nname = "b"', 18, "", "overwrite"),
        ('title = "Tidy up"', 'title = "\udcff"', 3, "", "not UTF-8"),
        ('title = "Tidy up"', "", 1, "title", "is missing"),
        ('title = "Tidy up"', "title = 3", 3, "title", "valid string"),
        ('risk = "writes_files"', 'risks = "writes_files"', 5, "risks", "did you mean risk?"),
        ('risk = "writes_files"', 'risk = "harmless"', 5, "risk", "'read_only'"),
        ('risk = "writes_files"', 'risk = "read_only"', 6, "expects", "must be report"),
        ('executor = "codex"', 'executor = "cluade"', 4, "executor", "none of the executors: claude, codex"),
        ('version = "2026', 'version = " 2026', 2, "version", "match pattern"),
        ('name = "tidy"', 'name = "Tidy Up"', 1, "name", "match pattern"),
        ('expects = "diff"', 'expects = "diff"\nstages = ["modify"]', 7, "stages", "inspect and deliver"),
        (
            'expects = "diff"',
            'expects = "diff"\nstages = ["test", "modify", "inspect", "deliver"]',
            7,
            "stages",
            "this order",
        ),
        ('expects = "diff"', 'expects = "diff"\nstages = ["inspect", "deliver"]', 7, "stages", "must hold modify"),
        ('expects = "diff"', 'expects = "diff"\nidentity = ["hour"]', 7, "identity[0]", "'base_sha' or 'date'"),
        ('expects = "diff"', 'expects = "diff"\nidentity = ["date", "date"]', 7, "identity", "date twice"),
        ('expects = "diff"', 'expects = "diff"\nshort = true', 1, "seconds", "at most 10"),
        ('expects = "diff"', 'expects = "diff"\nmax_attempts = 0', 7, "max_attempts", "greater than or equal to 1"),
        ('expects = "diff"', 'expects = "diff"\nallowed_paths = ["../x"]', 7, "allowed_paths[0]", "path pattern"),
        ("{{ paths }}", "{{ secret }}", 7, "prompt", "must not use secret"),
        ('kind = "paths"', 'kind = "float"', 11, "fields[0].kind", "'paths'"),
        ('kind = "paths"', 'kind = "paths"\nexcludes = "other"', 9, "fields", "must hold other"),
        ('argv = ["pytest"]', "argv = []", 15, "checks[0].argv", "program first"),
        ('argv = ["pytest"]', 'argv = "pytest"', 15, "checks[0].argv", "valid list"),
        ('kind = "tests"', "", 13, "checks[0].kind", "is missing"),
        (
            'kind = "tests"',
            'kind = "tests"\n[[effects]]\nkind = "push"\nargv = ["x"]',
            5,
            "risk",
            "must be external_side_effect",
        ),
        ('kind = "tests"', 'kind = "tests"\n[parameters]\nday = 2026-08-25', 17, "parameters", "no dates"),
    ],
)
def test_a_wrong_file_is_refused_with_file_line_and_key(write, old: str, new: str, line: int, key: str, words: str):
    path = write(GOOD.replace(old, new, 1))
    with pytest.raises(WorkflowRefused) as caught:
        load_file(path)
    error = caught.value
    assert (error.file, error.line, error.key) == (str(path), line, key)
    assert words in str(error)
    assert str(error).startswith(f"{path}, line {line}: {key}")


def test_of_several_problems_the_first_in_the_file_is_named(write):
    with pytest.raises(WorkflowRefused) as caught:
        load_file(write(GOOD.replace('kind = "tests"', "kind = 1").replace('"diff"', '"dif"')))
    assert caught.value.line == 6


@pytest.mark.parametrize(
    "kind", ["payment", "pay-invoice", "top-up", "renew", "subscription-renewal", "buy-credits", "order"]
)
def test_an_effect_about_money_is_refused(write, kind: str):
    effect = f'\n[[effects]]\nkind = "{kind}"\nargv = ["x"]\n'
    with pytest.raises(WorkflowRefused, match="never performed") as caught:
        load_file(write(GOOD.replace("writes_files", "external_side_effect") + effect))
    assert caught.value.key == "effects[0].kind"


@pytest.mark.parametrize("kind", ["push", "pull-request", "issue", "release", "notify"])
def test_an_effect_about_code_is_taken(write, kind: str):
    effect = f'\n[[effects]]\nkind = "{kind}"\nargv = ["x"]\nlookup = ["y", "--find"]\n'
    workflow = load_file(write(GOOD.replace("writes_files", "external_side_effect") + effect))
    assert (workflow.effects[0].kind, workflow.effects[0].lookup) == (kind, ["y", "--find"])


def test_a_command_workflow_without_a_command_is_refused(write):
    with pytest.raises(WorkflowRefused, match="one field of kind argv"):
        load_file(write(GOOD.replace("codex", "command")))
    optional = GOOD.replace("codex", "command").replace('kind = "paths"', 'kind = "argv"')
    with pytest.raises(WorkflowRefused, match="paths required"):
        load_file(write(optional))


def test_a_file_that_is_gone_is_refused_by_name(tmp_path: Path):
    with pytest.raises(WorkflowRefused, match=r"gone\.toml: cannot be read: No such file"):
        load_file(tmp_path / "gone.toml")


def test_the_executors_may_be_given(write):
    path = write(GOOD.replace("codex", "probe-like"))
    assert load_file(path, executors={"probe-like"}).executor == "probe-like"


def test_every_built_in_file_loads_and_is_named_after_its_workflow():
    found = {workflow.name: workflow for workflow in available()}
    assert {"run-command", "format-code", "sample-agent"} <= set(found)
    assert {path.stem for path in BUILT_IN.glob("*.toml")} == set(found)


def test_an_owners_folder_is_added_and_a_new_version_stands_beside_the_old(write, tmp_path: Path):
    write(GOOD)
    write(GOOD.replace("25-v1", "25-v2"), "tidy-2.toml")
    write("not toml", "notes.txt")
    versions = [w.version for w in available(tmp_path) if w.name == "tidy"]
    assert versions == ["2026-08-25-v1", "2026-08-25-v2"]
    assert len(available(tmp_path)) == len(available()) + 2


def test_two_files_with_one_version_and_other_content_are_refused_and_both_are_named(write, tmp_path: Path):
    first, second = write(GOOD, "a.toml"), write(GOOD.replace("Tidy up", "Tidy"), "b.toml")
    with pytest.raises(WorkflowRefused, match="tidy version 2026-08-25-v1") as caught:
        available(tmp_path)
    assert str(first) in str(caught.value)
    assert str(second) in str(caught.value)


def test_a_copy_of_a_file_is_no_conflict(write, tmp_path: Path):
    write(GOOD, "a.toml")
    write("# the same\n" + GOOD, "b.toml")
    assert [w.name for w in available(tmp_path)].count("tidy") == 1


def test_an_owner_cannot_change_a_built_in_without_another_version(tmp_path: Path):
    text = (BUILT_IN / "run-command.toml").read_text().replace("seconds = 1800", "seconds = 60")
    (tmp_path / "mine.toml").write_text(text)
    with pytest.raises(WorkflowRefused, match="run-command version v1"):
        available(tmp_path)


def test_a_folder_that_is_missing_is_refused(tmp_path: Path):
    with pytest.raises(WorkflowRefused, match="not a folder"):
        available(tmp_path / "missing")


def test_the_stored_text_is_json_with_nothing_but_the_file(write):
    assert set(json.loads(load_file(write(GOOD)).document_text)) == set(tomllib.loads(GOOD))
