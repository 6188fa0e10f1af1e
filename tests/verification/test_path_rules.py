"""Path rules: allowed paths, files that need a person, links that leave the tree (V1, V2)."""

import pytest

from jobs.core.policy import PathRule
from jobs.verification.paths import changed_tests, judge, leaves_tree, matches
from jobs.workspaces.changes import Change


def change(path, status="M", old_mode="100644", new_mode="100644", new_id="1" * 40):
    return Change(status, path, old_mode, new_mode, new_id)


def rules_hit(*changes, allowed=None, rules=(), links=None):
    return [hit.rule for hit in judge(changes, allowed=allowed, rules=rules, links=links or {})]


@pytest.mark.parametrize(
    ("glob", "path", "fits"),
    [
        ("src/**", "src/a.py", True),
        ("src/**", "src/deep/er/a.py", True),
        ("src/**", "srcs/a.py", False),
        ("src/**", "other/src/a.py", False),
        ("src/*.py", "src/a.py", True),
        ("src/*.py", "src/deep/a.py", False),
        ("**/*.py", "a.py", True),
        ("**/*.py", "x/y/a.py", True),
        ("**/auth/**", "auth/login.py", True),
        ("**/auth/**", "x/auth/y/login.py", True),
        ("**/auth*.*", "x/authentication.py", True),
        ("*", "a.py", True),
        ("*", "x/a.py", False),
        ("**", "x/a.py", True),
        ("src/billing.py", "src/billing.py", True),
        ("src", "src/deep/a.py", True),
        ("src/", "src/a.py", True),
        ("docs/[a-c].md", "docs/b.md", True),
        ("docs/[a-c].md", "docs/d.md", False),
        ("a?c", "abc", True),
        ("a?c", "a/c", False),
        ("src/**", "src/new\nline.py", True),
        ("*.py", "evil.py\n", False),
        ("src/*.py", "SRC/a.py", False),
    ],
)
def test_a_glob_fits_whole_paths_from_the_top(glob, path, fits):
    assert matches(glob, path) is fits


def test_a_glob_with_many_stars_ends_quickly_on_a_hostile_path():
    assert not matches("/".join(["**", "*a*a*a*a*a*a*b"] * 6), "/".join(["a" * 200] * 40))


def test_a_path_outside_the_allowed_ones_is_a_hit_and_one_inside_is_not():
    assert rules_hit(change("src/a.py"), allowed=["src/**"]) == []
    assert rules_hit(change("setup.py"), allowed=["src/**"]) == ["outside_allowed"]
    assert rules_hit(change("setup.py"), allowed=[]) == ["outside_allowed"]
    assert rules_hit(change("setup.py"), allowed=None) == []


@pytest.mark.parametrize(
    ("path", "rule"),
    [
        (".claude/settings.json", "agent_config"),
        ("pkg/.claude/hooks.json", "agent_config"),
        (".mcp.json", "agent_config"),
        ("AGENTS.md", "agent_config"),
        ("docs/CLAUDE.md", "agent_config"),
        (".codex/config.toml", "agent_config"),
        (".vscode/tasks.json", "agent_config"),
        (".github/workflows/test.yml", "ci"),
        (".GitHub/Workflows/test.yml", "ci"),
        (".gitlab-ci.yml", "ci"),
        ("Jenkinsfile", "ci"),
        (".gitattributes", "git_attributes"),
        ("sub/.gitattributes", "git_attributes"),
        (".GITATTRIBUTES", "git_attributes"),
        (".gitmodules", "git_modules"),
        (".githooks/pre-push", "hooks"),
        (".husky/pre-commit", "hooks"),
        (".pre-commit-config.yaml", "hooks"),
        ("tools/hooks/post-checkout", "hooks"),
    ],
)
def test_files_that_make_programs_act_are_hits(path, rule):
    assert rules_hit(change(path)) == [rule]


@pytest.mark.parametrize("path", ["src/hooks/useUser.ts", "src/agents.py", "ci.py", "docs/git.md", "README.md"])
def test_ordinary_files_with_similar_names_are_no_hits(path):
    assert rules_hit(change(path)) == []


def test_deleting_a_guarded_file_is_a_hit_too():
    assert rules_hit(change(".github/workflows/test.yml", "D", new_mode="000000")) == ["ci"]


def test_rules_of_the_policy_are_applied_and_carry_their_reviewers():
    rule = PathRule("billing", ("**/billing*.*",), reviewers=2)
    [hit] = judge([change("src/Billing.py")], allowed=None, rules=[rule], links={})
    assert (hit.path, hit.rule, hit.reviewers) == ("src/Billing.py", "billing", 2)


def test_a_full_width_letter_does_not_hide_a_path_from_a_rule():
    assert rules_hit(change(".github/workﬂows/x.yml")) == ["ci"]


def test_mode_type_and_repository_pointer_changes_are_hits():
    assert rules_hit(change("run.sh", new_mode="100755")) == ["mode_change"]
    assert rules_hit(change("lib", "A", "000000", "160000")) == ["gitlink"]
    assert rules_hit(change("lib", "D", "160000", "000000")) == ["gitlink"]
    assert rules_hit(change("a", "T", "120000", "100644")) == ["type_change"]
    assert rules_hit(change("new.sh", "A", "000000", "100755")) == []


@pytest.mark.parametrize(
    ("path", "target", "leaves"),
    [
        ("a", b"b", False),
        ("a", b"dir/b", False),
        ("x/a", b"../b", False),
        ("x/a", b"./../b", False),
        ("x/y/a", b"../../b", False),
        ("a", b"../b", True),
        ("x/a", b"../../b", True),
        ("a", b"/etc/passwd", True),
        ("a", b"dir/../../b", True),
        ("a", b"dir/..", True),
        ("a", b".git/config", True),
        ("x/a", b"../.GIT/hooks", True),
        ("a", b"", True),
    ],
)
def test_a_link_stays_in_the_tree_only_when_that_is_certain(path, target, leaves):
    assert leaves_tree(path, target) is leaves


def test_a_link_is_judged_by_its_target_and_an_unread_one_counts_as_leaving():
    link = change("a", "A", "000000", "120000", "2" * 40)
    assert rules_hit(link, links={"2" * 40: b"README.md"}) == []
    assert rules_hit(link, links={"2" * 40: b"/etc/passwd"}) == ["symlink_leaves_tree"]
    assert rules_hit(link, links={}) == ["symlink_leaves_tree"]


def test_test_files_are_recognised():
    names = ["tests/x.py", "src/test_a.py", "pkg/a_test.go", "web/a.spec.ts", "conftest.py", "src/latest.py", "a.py"]
    found = [c.path for c in changed_tests([change(name) for name in names])]
    assert found == ["tests/x.py", "src/test_a.py", "pkg/a_test.go", "web/a.spec.ts", "conftest.py"]
