"""Codex CLI's command line: sandboxed, without a repository's own settings, its retries turned down (Z3, B1)."""

from pathlib import Path
from typing import Any

import pytest

from jobs.executors.agents import Room, read_task
from jobs.executors.base import StageContext, StageLimits
from jobs.executors.codex import CodexExecutor

PLACE = Path("/nowhere")


def argv(stage: str = "modify", session: str = "", address: str = "", **inputs: Any) -> list[str]:
    context = StageContext(
        stage=stage,
        token="token",
        checkout=PLACE / "tree",
        home=PLACE / "home",
        tmp=PLACE / "tmp",
        output=PLACE / "output",
        inputs={},
        limits=StageLimits(seconds=1),
        environment={"OPENAI_API_KEY": "canary-key"} | ({"OPENAI_BASE_URL": address} if address else {}),
    )
    room = Room(PLACE / "codex", PLACE / "state", "", None)
    return list(CodexExecutor().argv(context, read_task({"prompt": "canary-prompt", **inputs}), room, session))


def settings(line: list[str]) -> dict[str, str]:
    pairs = [line[at + 1] for at, word in enumerate(line) if word == "-c"]
    return dict(pair.split("=", 1) for pair in pairs)


def test_the_sandbox_is_on_and_the_repositorys_settings_are_off():
    line = argv()
    assert line[line.index("-s") + 1] == "workspace-write"
    assert {"--ignore-user-config", "--ignore-rules", "--json"} <= set(line)
    assert not {"--trust", "--dangerously-bypass-approvals-and-sandbox", "--skip-git-repo-check"} & set(line)
    assert settings(line)["sandbox_workspace_write.exclude_slash_tmp"] == "true"
    assert settings(line)["web_search"] == '"disabled"'
    assert "sandbox_workspace_write.network_access" not in settings(line)


def test_the_models_shell_sees_no_key():
    seen = settings(argv())["shell_environment_policy.include_only"]
    assert "AGENTQ_TOKEN" in seen  # what it starts must be found when a worker dies
    assert "KEY" not in seen


def test_its_own_retries_are_few_and_it_does_not_wait_for_ever():
    provider = settings(argv())["model_providers.agentq"]
    assert "request_max_retries=1,stream_max_retries=2,stream_idle_timeout_ms=120000" in provider


def test_neither_prompt_nor_key_stands_on_the_command_line():
    assert "canary" not in " ".join(argv())
    assert argv()[-1] == "-"


@pytest.mark.parametrize(("stage", "tools"), [("plan", ["read", "edit", "shell"]), ("modify", ["read", "shell"])])
def test_who_may_not_edit_gets_a_read_only_sandbox(stage: str, tools: list[str]):
    line = argv(stage, tools=tools)
    assert line[line.index("-s") + 1] == "read-only"


def test_the_web_only_when_the_workflow_says_so():
    assert settings(argv(tools=["read", "edit", "web"]))["web_search"] == '"live"'


def test_an_address_is_quoted_and_cannot_add_settings():
    provider = settings(argv(address='http://x/",env_key="HOME'))["model_providers.agentq"]
    assert 'base_url="http://x/\\",env_key=\\"HOME"' in provider


def test_a_resumed_session_keeps_sandbox_and_settings():
    line = argv(session="thread-1")
    assert line[-3:] == ["resume", "thread-1", "-"]
    assert line.index("-s") < line.index("resume")
