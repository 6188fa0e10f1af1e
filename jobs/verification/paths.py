"""Judges changed paths: what a workflow allows, and what always needs a person's eye (V1, V2)."""

import fnmatch
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from jobs.core.policy import PathRule
from jobs.workspaces.changes import Change

GITLINK, SYMLINK = "160000", "120000"
_REGULAR = frozenset({"100644", "100755"})

# Files that make other programs act: on the next agent run, commit, build or clone.
BUILT_IN = (
    PathRule(
        "agent_config",
        (
            "**/.claude/**", "**/.codex/**", "**/.gemini/**", "**/.cursor/**", "**/.aider*", "**/.windsurf/**",
            "**/.mcp.json", "**/.mcp/**", "**/mcp.json", "**/agents.md", "**/claude.md", "**/gemini.md",
            "**/claude.local.md", "**/.cursorrules", "**/.windsurfrules", ".github/copilot-instructions.md",
            ".github/instructions/**", "**/.vscode/**", "**/.idea/**", "**/.devcontainer/**",
        ),
    ),
    PathRule(
        "ci",
        (
            ".github/workflows/**", ".github/actions/**", "**/.gitlab-ci.yml", ".gitlab/ci/**", ".circleci/**",
            "**/jenkinsfile*", "azure-pipelines*.yml", ".azure-pipelines/**", ".travis.yml", ".buildkite/**",
            ".drone.yml", ".woodpecker/**", "bitbucket-pipelines.yml", "appveyor.yml", ".appveyor.yml", ".ci/**",
        ),
    ),
    PathRule("git_attributes", ("**/.gitattributes",)),
    PathRule("git_modules", ("**/.gitmodules",)),
    PathRule("hooks", ("**/.githooks/**", "**/.husky/**", "**/.git-hooks/**", "**/.pre-commit-config.yaml",
                       "**/.pre-commit-hooks.yaml", "**/lefthook.yml", "**/.lefthook/**", "**/hooks/pre-*",
                       "**/hooks/post-*", "**/hooks/commit-msg", "**/hooks/update")),
)  # fmt: skip

TEST_FILES = (
    "**/test/**", "**/tests/**", "**/testing/**", "**/spec/**", "**/__tests__/**", "**/test_*.*", "**/*_test.*",
    "**/*_spec.*", "**/*.test.*", "**/*.spec.*", "**/*test.java", "**/*tests.cs", "**/conftest.py",
)  # fmt: skip


@dataclass(frozen=True)
class Hit:
    """A path that a rule caught; `reviewers` is how many people must look."""

    path: str
    rule: str
    reviewers: int = 1


def judge(
    changes: Iterable[Change],
    *,
    allowed: Sequence[str] | None,
    rules: Sequence[PathRule],
    links: Mapping[str, bytes],
) -> tuple[Hit, ...]:
    """Every rule that every change hits, the built-in rules first; empty when all is fine.

    `allowed` are globs, None allows every path. `links` has the target of each symlink by object id; a link that is
    not in it counts as one that leaves the tree.
    """
    hits = []
    for change in changes:
        if allowed is not None and not any(matches(glob, change.path) for glob in allowed):
            hits.append(Hit(change.path, "outside_allowed"))
        hits += [Hit(change.path, rule) for rule in _kind_rules(change, links)]
        for rule in (*BUILT_IN, *rules):
            if any(matches(glob, change.path, fold=True) for glob in rule.globs):
                hits.append(Hit(change.path, rule.name, rule.reviewers))
    return tuple(hits)


def changed_tests(changes: Iterable[Change], globs: Sequence[str] = TEST_FILES) -> tuple[Change, ...]:
    """The changes to test files: added, changed and deleted ones."""
    return tuple(c for c in changes if any(matches(glob, c.path, fold=True) for glob in globs))


def matches(glob: str, path: str, *, fold: bool = False) -> bool:
    """True when the glob fits the whole path from the repository's top.

    `**` stands for any number of folders, `*`, `?` and `[…]` stay within one name, and a glob without any of these
    also covers everything below it. `fold` compares without case and look-alike forms of letters.
    """
    if fold:
        glob, path = _folded(glob), _folded(path)
    pattern = [part for part in glob.split("/") if part]
    if not any(sign in glob for sign in "*?["):
        pattern.append("**")
    reached = _skipping(pattern, {0})
    for part in path.split("/"):
        after = set()
        for place in reached:
            if place < len(pattern) and pattern[place] == "**":
                after.add(place)
            elif place < len(pattern) and _name(pattern[place]).match(part):
                after.add(place + 1)
        reached = _skipping(pattern, after)
    return len(pattern) in reached


def leaves_tree(path: str, target: bytes) -> bool:
    """True unless a symlink at `path` with this target certainly stays inside the tree, outside any .git."""
    parts = target.split(b"/")
    if target.startswith(b"/") or not target:
        return True
    ups = 0
    while ups < len(parts) and parts[ups] in {b"..", b"."}:
        ups += 1
    climbs = parts[:ups].count(b"..")
    # `name/..` is not where it looks when `name` is a link itself, so that it counts as leaving.
    return climbs > path.count("/") or b".." in parts[ups:] or any(part.lower() == b".git" for part in parts)


def _kind_rules(change: Change, links: Mapping[str, bytes]) -> list[str]:
    rules = []
    if GITLINK in {change.old_mode, change.new_mode}:
        rules.append("gitlink")
    if change.new_mode == SYMLINK and leaves_tree(change.path, links.get(change.new_id, b"")):
        rules.append("symlink_leaves_tree")
    if change.status == "T":
        rules.append("type_change")
    elif change.old_mode != change.new_mode and {change.old_mode, change.new_mode} <= _REGULAR:
        rules.append("mode_change")
    return rules


def _skipping(pattern: list[str], places: set[int]) -> set[int]:
    """`places` and those behind a `**` that stands for nothing."""
    found = set()
    for place in places:
        found.add(place)
        while place < len(pattern) and pattern[place] == "**":
            place += 1
            found.add(place)
    return found


@lru_cache(maxsize=4096)
def _name(pattern: str) -> re.Pattern[str]:
    return re.compile(fnmatch.translate(pattern))


def _folded(text: str) -> str:
    return unicodedata.normalize("NFKC", text).casefold()
