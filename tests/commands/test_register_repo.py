"""`register_repo`: every kind of repository an owner may point at, and what is said about it (E3)."""

import json

import pytest

from jobs.models import AuditEvent, Job, Repository
from tests import factories

ODD_NAMES = ["with blank", "line\nbreak", "größe-代码", "-dash", "quote'\"$(x)", "tab\there", "\x1b[31mred"]


@pytest.mark.django_db
def test_what_was_found_is_shown_with_a_hint_for_each_thing_to_know(call, tmp_path):
    source = factories.source(tmp_path / "source")
    factories.git(source, "branch", "feature")
    (source / "README.md").write_text("changed\n")
    said = call("register_repo", "shop/backend", str(source))
    for words in ("work tree", "feature, main", "start from main", "last commit", "--command", "--test"):
        assert words in said.stdout
    assert AuditEvent.objects.filter(event="register", actor__startswith="command:").count() == 1


@pytest.mark.django_db
def test_commands_and_checks_are_stored_as_lists_of_words(call, tmp_path):
    source = factories.source(tmp_path / "source")
    options = ["--command", "fmt=black 'a b' .", "--command", 'lint=["ruff", "check"]']
    options += ["--test", "pytest -q", "--test", "make e2e", "--static", '["mypy", "."]', "--json"]
    (said,) = call("register_repo", "shop", str(source), *options).lines
    stored = Repository.objects.get()
    assert stored.commands == {"fmt": ["black", "a b", "."], "lint": ["ruff", "check"]} == said["commands"]
    assert [(check["name"], check["kind"], check["argv"]) for check in stored.checks] == [
        ("tests", "tests", ["pytest", "-q"]),
        ("tests-2", "tests", ["make", "e2e"]),
        ("static", "static", ["mypy", "."]),
    ]
    assert said | {"checks": [], "commands": {}} == {
        "repository_id": stored.pk,
        "name": "shop",
        "location": str(source),
        "kind": "work tree",
        "default_branch": "main",
        "branches": ["main"],
        "dirty": False,
        "has_submodules": False,
        "commands": {},
        "checks": [],
    }


@pytest.mark.django_db
def test_a_bare_repository_and_another_branch_are_fine(call, tmp_path):
    source = factories.source(tmp_path / "source")
    factories.git(source, "branch", "next")
    factories.git(tmp_path, "clone", "--quiet", "--bare", str(source), "bare.git")
    (said,) = call("register_repo", "bare", str(tmp_path / "bare.git"), "--branch", "next", "--json").lines
    assert (said["kind"], said["default_branch"], said["dirty"]) == ("bare", "next", False)


@pytest.mark.django_db
def test_submodules_are_told(call, tmp_path):
    source, inner = factories.source(tmp_path / "source"), factories.source(tmp_path / "inner")
    factories.git(source, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(inner), "inner")
    factories.git(source, "commit", "--quiet", "-m", "with a submodule")
    assert "submodules" in call("register_repo", "outer", str(source)).stdout


@pytest.mark.django_db
@pytest.mark.parametrize("name", ODD_NAMES)
def test_a_folder_with_an_odd_name_takes_jobs_like_any_other(call, tmp_path, monkeypatch, name):
    factories.source(tmp_path / name)
    monkeypatch.chdir(tmp_path)
    said = call("register_repo", "odd", "--", name)
    assert all(line.isprintable() for line in said.stdout.splitlines())
    assert Repository.objects.get().location == str(tmp_path / name)
    payload = json.dumps({"paths": ["a"], "text": "b"})
    call("enqueue_job", "--repo=odd", "--branch=main", "--action=sample-agent", "--payload", payload)
    call("enqueue_job", "--repo=odd", "--branch=main", "--action=format-code")
    assert Job.objects.count() == 2


def empty(path):
    path.mkdir()
    factories.git(path, "init", "--quiet")


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("make", "names"),
    [
        (lambda _path: None, "no directory"),
        (lambda path: path.mkdir(), "not the top of a git repository"),
        (lambda path: path.write_text("file"), "no directory"),
        (empty, "no commit"),
    ],
)
def test_a_place_without_a_usable_repository_is_refused_with_what_to_do(refusal, tmp_path, make, names):
    make(tmp_path / "place\x1b]0;x")
    said = refusal("register_repo", "shop", str(tmp_path / "place\x1b]0;x"))
    assert said.code == 2 and names in said.stderr and said.stderr.strip().isprintable()
    assert not Repository.objects.exists() and not AuditEvent.objects.exists()


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("name", "options", "code", "names"),
    [
        ("Shop/Backend", [], 1, "shop/backend"),
        (" ", [], 2, "name"),
        ("a\nb", [], 2, "name"),
        ("new", ["--branch", "gone"], 2, "gone"),
        ("new", ["--branch", "bad..name"], 2, "bad..name"),
        ("new", ["--command", "a=x", "--command", "a=y"], 2, "twice"),
        ("new", ["--as", "nobody"], 2, "nobody"),
    ],
)
def test_a_refused_registration_leaves_nothing(refusal, call, tmp_path, name, options, code, names):
    source = factories.source(tmp_path / "source")
    call("register_repo", "shop/backend", str(source))
    said = refusal("register_repo", name, str(source), *options)
    assert said.code == code and names in said.stderr
    assert Repository.objects.count() == 1


@pytest.mark.django_db
@pytest.mark.parametrize("given", ["fmt", "=x", "fmt=", "fmt='", 'fmt=["a"', "fmt=[1]", "fmt=[]"])
def test_a_command_that_is_no_list_of_words_is_bad_usage(refusal, tmp_path, given):
    said = refusal("register_repo", "shop", str(factories.source(tmp_path / "source")), "--command", given)
    assert "command" in said.stderr
    assert not Repository.objects.exists()
