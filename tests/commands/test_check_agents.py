"""`check_agents`: what is there, what is missing, and exit 1 when no agent can run (Z3, Z5)."""

import json

import pytest

from jobs.executors import clis, preflight

CODEX = """#!/bin/sh
case "$1" in
  --version) echo codex-cli 0.171.0;;
  sandbox) exit ${SANDBOX_EXIT:-0};;
esac
"""


@pytest.fixture
def codex(tmp_path, monkeypatch, settings):
    """A program in Codex's place, and nothing in Claude's."""
    path = tmp_path / "codex"
    path.write_text(CODEX)
    path.chmod(0o755)
    monkeypatch.setenv("AGENTQ_CODEX", str(path))
    monkeypatch.setenv("AGENTQ_CLAUDE", str(tmp_path / "nowhere"))
    settings.AGENTQ_CREDENTIALS = "OPENAI_API_KEY=env:TEAM_KEY"
    monkeypatch.setenv("TEAM_KEY", "canary-key")
    clis.version.cache_clear()
    return path


def test_a_usable_cli_is_told_with_version_sandbox_and_login(call, codex):
    said = call("check_agents").stdout
    assert "codex: usable\n" in said
    assert "version: 0.171.0" in said
    assert "sandbox: works" in said
    assert "claude: not usable" in said
    assert "set AGENTQ_CLAUDE to its path" in said
    assert "canary" not in said


def test_as_json_it_is_one_object_without_values(call, codex):
    found = json.loads(call("check_agents", "--json").stdout)
    first, second = found["agents"]
    assert (found["usable"], first["name"], first["usable"], first["version"]) == (True, "codex", True, "0.171.0")
    assert (first["login"], first["lacks"]) == ("key", [])
    assert (second["name"], second["lacks"]) == ("claude", ["program", "credential"])
    assert found["isolation"] in ("namespace", "process")
    assert "canary" not in json.dumps(found)


def test_without_any_usable_cli_it_ends_with_1(refusal, codex, monkeypatch):
    monkeypatch.delenv("TEAM_KEY")
    said = refusal("check_agents")
    assert said.code == 1
    assert "No agent CLI is usable" in said.stderr
    assert "set that variable or write that file" in said.stdout


def test_a_sandbox_that_does_not_work_is_a_lack(refusal, codex):
    codex.write_text(CODEX.replace("${SANDBOX_EXIT:-0}", "1"))
    said = refusal("check_agents")
    assert (said.code, "allow user namespaces" in said.stdout) == (1, True)


def test_claude_needs_two_programs_for_its_sandbox(monkeypatch):
    monkeypatch.setattr(preflight.clis, "find", lambda _: None)
    monkeypatch.setattr(preflight.shutil, "which", lambda *_, **__: None)
    assert preflight._claude_sandbox() == ["bwrap", "socat"]


def test_references_that_hold_a_value_are_refused_without_it(refusal, codex, settings):
    settings.AGENTQ_CREDENTIALS = "OPENAI_API_KEY=canary-key"
    said = refusal("check_agents")
    assert "OPENAI_API_KEY" in said.stderr
    assert "canary" not in said.stderr + said.stdout
