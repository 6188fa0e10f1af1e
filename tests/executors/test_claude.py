"""Claude Code's command line: bare, sandboxed or refused, its retries turned down (Z3, B1)."""

import json
from pathlib import Path
from typing import Any

import pytest

from jobs.executors import claude
from jobs.executors.agents import Room, read_task
from jobs.executors.base import StageContext, StageLimits
from jobs.executors.claude import ClaudeExecutor, ClaudeStory

PLACE = Path("/nowhere")
BWRAP = PLACE / "bin" / "bwrap"


def room(method: str = "unshare", bwrap: Path | None = BWRAP) -> Room:
    return Room(PLACE / "claude", PLACE / "state", method, bwrap)


def argv(stage: str = "modify", session: str = "", where: Room | None = None, **inputs: Any) -> list[str]:
    context = StageContext(
        stage=stage,
        token="token",
        checkout=PLACE / "tree",
        home=PLACE / "home",
        tmp=PLACE / "tmp",
        output=PLACE / "output",
        inputs={},
        limits=StageLimits(seconds=1),
        environment={"ANTHROPIC_API_KEY": "canary-key"},
    )
    task = read_task({"prompt": "canary-prompt", **inputs})
    return list(ClaudeExecutor().argv(context, task, where or room(), session))


def after(line: list[str], option: str) -> str:
    return line[line.index(option) + 1]


def test_hooks_servers_and_settings_of_a_repository_are_off():
    line = argv()
    assert {"--bare", "--strict-mcp-config"} <= set(line)
    assert after(line, "--setting-sources") == "user"
    assert not {"--dangerously-skip-permissions", "--continue"} & set(line)


def test_the_sandbox_fails_closed_and_gives_no_network():
    sandbox = json.loads(after(argv(), "--settings"))["sandbox"]
    assert sandbox["enabled"] is True
    assert sandbox["failIfUnavailable"] is True
    assert sandbox["allowUnsandboxedCommands"] is False
    assert sandbox["network"] == {"allowedDomains": []}
    assert "enableWeakerNestedSandbox" not in sandbox


def test_in_namespaces_the_key_is_in_a_file_that_the_agents_commands_cannot_read():
    """Otherwise every command of the agent would have it in its environment."""
    for method in ("unshare", "bwrap"):
        line = argv(where=room(method))
        settings = json.loads(after(line, "--settings"))
        assert line[:2] == ["sh", "-c"]
        assert "unset ANTHROPIC_API_KEY" in line[2]
        assert settings["apiKeyHelper"] == "cat /run/agentq-key"
        assert settings["sandbox"]["filesystem"]["denyRead"] == ["/run/agentq-key"]
        assert settings["permissions"]["deny"] == ["Read(//run/agentq-key)", "Read(//proc/**)"]
    alone = argv(where=room(""))
    assert alone[0] == "/nowhere/claude"
    assert "apiKeyHelper" not in after(alone, "--settings")


def test_its_weak_sandbox_is_never_chosen_for_it():
    """With the scrub variable commands run in another sandbox, in which they can write anywhere."""
    assert not any("SCRUB" in name for name in ClaudeExecutor().environment(room()))
    nested = json.loads(after(argv(where=room("bwrap")), "--settings"))["sandbox"]
    assert nested["enableWeakerNestedSandbox"] is True


def test_tools_are_those_of_the_workflow():
    assert after(argv(tools=["read", "edit"]), "--tools") == "Read,Edit,Write"
    assert after(argv(tools=["read", "edit", "shell"]), "--allowedTools") == "Read,Edit,Write,Bash"
    assert after(argv("plan"), "--tools") == "Read"


def test_limits_are_handed_on():
    line = argv(max_turns=7, max_budget_usd=0.5)
    assert (after(line, "--max-turns"), after(line, "--max-budget-usd")) == ("7", "0.5")
    assert ClaudeExecutor().environment(room())["CLAUDE_CODE_MAX_RETRIES"] == "2"
    assert "--max-budget-usd" not in argv()


def test_neither_prompt_nor_key_stands_on_the_command_line():
    assert "canary" not in " ".join(argv())


@pytest.mark.parametrize("socat", [None, "/usr/bin/socat"])
def test_a_shell_without_a_sandbox_is_refused_with_what_to_install(monkeypatch: pytest.MonkeyPatch, socat: str | None):
    monkeypatch.setattr(claude.shutil, "which", lambda *_, **__: socat)
    task = read_task({"prompt": "x"})
    code, words = ClaudeExecutor().refusal(task, room("", None))
    assert code == "environment_broken"
    assert "bubblewrap" in words
    assert ("socat" in words) is (socat is None)
    without = read_task({"prompt": "x", "tools": ["read", "edit"]})
    assert ClaudeExecutor().refusal(without, room("", None)) == ("", "")


def test_a_429_without_a_retry_of_its_own_is_taken_for_a_used_up_plan():
    """Told to wait for long, the CLI gives up at once; a short wait it would sit out (U1)."""
    executor, story = ClaudeExecutor(), ClaudeStory()
    failed = {"type": "result", "subtype": "success", "is_error": True, "api_error_status": 429}
    story.take(failed)
    executor.settle(story, None, None)
    assert story.kept[-1]["rate_limit_info"] == {"status": "rejected"}
    waited = ClaudeStory()
    waited.take({"type": "system", "subtype": "api_retry", "attempt": 1, "max_retries": 2})
    waited.take(failed)
    executor.settle(waited, None, None)
    assert not waited.kept


def test_a_resumed_run_counts_its_own_tokens_only(tmp_path: Path):
    story = ClaudeStory()
    usage = {"input_tokens": 10, "output_tokens": 1, "cache_read_input_tokens": 5}
    models = {"any": {"inputTokens": 110, "outputTokens": 11, "cacheReadInputTokens": 55}}
    story.take({"type": "result", "subtype": "success", "is_error": False, "usage": usage, "modelUsage": models})
    ClaudeExecutor().settle(story, None, tmp_path)
    assert story.tokens is not None
    assert story.tokens.as_facts() == {"input": 15, "cached": 5, "output": 1, "total": 16}
    ClaudeExecutor().settle(story, None, None)
    assert story.tokens.total == 176
