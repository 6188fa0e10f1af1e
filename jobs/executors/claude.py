"""Claude Code: its command line and its stream of events."""

import json
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jobs.executors.agents import AgentExecutor, Room, Task
from jobs.executors.base import StageContext
from jobs.executors.process import PATH
from jobs.executors.story import Story, Tokens, count, mapping, text

MODEL = "claude-sonnet-4-5"
RETRIES = 2
API_MILLISECONDS = 120_000
# In namespaces /run is this run's own and gone with it. CLAUDE_CODE_SUBPROCESS_ENV_SCRUB would also keep the key from
# the agent's commands, but it gives them another sandbox, in which they can write anywhere (measured with 2.1.332).
KEY_FILE = "/run/agentq-key"
_HIDE_KEY = f'umask 077; printf %s "$ANTHROPIC_API_KEY" >{KEY_FILE}; unset ANTHROPIC_API_KEY; exec "$@"'
_NAMES = {"read": ("Read",), "edit": ("Edit", "Write"), "shell": ("Bash",), "web": ("WebFetch", "WebSearch")}
_TOOLS = {name: tool for tool, names in _NAMES.items() for name in names}
_TOOLS |= {"Glob": "read", "Grep": "read", "MultiEdit": "edit", "NotebookEdit": "edit", "TodoWrite": "plan"}
_RESET = re.compile(r"\b(?:try again|resets?) (?:at|in|on) [^.\n]{1,60}", re.IGNORECASE)


class ClaudeExecutor(AgentExecutor):
    """`claude -p` in bare mode: no hooks, plug-ins, MCP servers or settings of a repository. With the shell tool it
    runs only when its sandbox is there, so that its commands have no network and write only in the checkout."""

    name = "claude"
    credentials = frozenset({"ANTHROPIC_API_KEY"})
    takes = credentials | {"ANTHROPIC_BASE_URL", "HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY", "NODE_EXTRA_CA_CERTS"}

    def refusal(self, task: Task, room: Room) -> tuple[str, str]:
        """A shell without a sandbox is refused here, before the CLI would say so in words of its own."""
        lacks = [] if room.bwrap is not None else ["bubblewrap (bwrap)"]
        if shutil.which("socat", path=PATH) is None:
            lacks.append("socat")
        if "shell" not in task.tools or not lacks:
            return "", ""
        words = (
            f"Claude Code's sandbox needs {' and '.join(lacks)} on this host, and its shell tool does not run without "
            "it. Install them, or take `shell` out of the workflow's tools."
        )
        return "environment_broken", words

    def argv(self, context: StageContext, task: Task, room: Room, session: str) -> tuple[str, ...]:
        """The command line; the working directory is the process's own, there is no option for it."""
        tools = task.tools if context.stage == "modify" else tuple({"read"} & set(task.tools))
        names = ",".join(name for tool in tools for name in _NAMES[tool])
        options = ["-p", "--output-format", "stream-json", "--verbose", "--model", task.model or MODEL, "--bare"]
        options += ["--setting-sources", "user", "--strict-mcp-config"]
        options += ["--settings", json.dumps(_settings(context, room))]
        options += ["--tools", names, "--allowedTools", names, "--permission-mode", "default"]
        options += ["--permission-prompts", "none", "--max-turns", str(task.max_turns)]
        if task.max_budget_usd:
            options += ["--max-budget-usd", str(task.max_budget_usd)]
        line = (str(room.program), *options, *(("--resume", session) if session else ()))
        return ("sh", "-c", _HIDE_KEY, "sh", *line) if room.method else line

    def environment(self, room: Room) -> dict[str, str]:
        return {
            "CLAUDE_CONFIG_DIR": str(room.state),
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "CLAUDE_CODE_MAX_RETRIES": str(RETRIES),
            "API_TIMEOUT_MS": str(API_MILLISECONDS),
            "PATH": f"{PATH}:{room.bwrap.parent}" if room.bwrap else PATH,
        }

    def story(self) -> "ClaudeStory":
        return ClaudeStory()

    def transcript(self, state: Path, session: str) -> Path | None:
        found = [path for path in (state / "projects").glob("*/*.jsonl") if path.stem == session]
        return found[0] if found else None

    def place(self, transcript: Path, state: Path) -> None:
        folder = state / "projects" / "earlier"
        folder.mkdir(mode=0o700, parents=True)
        (folder / transcript.name).write_bytes(transcript.read_bytes())

    def settle(self, story: Story, transcript: Path | None, earlier: Path | None) -> dict[str, Any]:  # noqa: ARG002
        """The counts by model run on over resumes but hold the last call of a run that a budget ended."""
        assert isinstance(story, ClaudeStory)
        story.tokens = story.of_run if earlier is not None or story.by_model is None else story.by_model
        facts: dict[str, Any] = {}
        if story.refused_at_once:
            # 429 without a retry of its own: the CLI was told to wait for long. Weak, but a pause is the careful way.
            story.kept.append({"type": "rate_limit_event", "rate_limit_info": {"status": "rejected"}})
        if not story.succeeded and (reset := _RESET.search(story.claim)):
            facts["reset_text"] = reset[0]
        return facts


class ClaudeStory(Story):
    """stream-json. `subtype: success` alone is no success: API failures have it as well."""

    def __init__(self) -> None:
        super().__init__()
        self.of_run: Tokens | None = None
        self.by_model: Tokens | None = None
        self.refused_at_once = False
        self._waited = False

    def take(self, event: Mapping[str, Any]) -> None:
        kind = event.get("type")
        if kind == "system":
            self._system(event)
        elif kind == "assistant":
            self.asked = True
            for block in _blocks(event):
                self._said(block)
        elif kind == "user":
            for block in _blocks(event):
                if block.get("type") == "tool_result":
                    self.end_call(text(block.get("tool_use_id"), 128), failed=block.get("is_error") is True)
        elif kind == "result":
            self._result(event)

    def _system(self, event: Mapping[str, Any]) -> None:
        if event.get("subtype") == "init":
            self.asked = True
            self.session = text(event.get("session_id"), 64)
            self.model = text(event.get("model"), 64)
            self.version = text(event.get("claude_code_version"), 64)
        elif event.get("subtype") == "api_retry":
            self._waited = True

    def _said(self, block: Mapping[str, Any]) -> None:
        if block.get("type") == "text":
            self.claim = text(block.get("text"), 8192) or self.claim
        elif block.get("type") == "tool_use":
            name = text(block.get("name"), 128)
            tool = "mcp" if name.startswith("mcp__") else _TOOLS.get(name, "other")
            self.begin_call(text(block.get("id"), 128), tool, [name, block.get("input")])

    def _result(self, event: Mapping[str, Any]) -> None:
        self.terminal = True
        self.succeeded = event.get("subtype") == "success" and event.get("is_error") is False
        self.claim = text(event.get("result"), 8192) or self.claim
        self.of_run = _usage(mapping(event.get("usage")))
        self.by_model = _sum(mapping(event.get("modelUsage")))
        self.refused_at_once = event.get("api_error_status") == 429 and not self._waited and not self.succeeded


def _settings(context: StageContext, room: Room) -> dict[str, Any]:
    sandbox: dict[str, Any] = {
        "enabled": room.bwrap is not None,
        "failIfUnavailable": True,
        "autoAllowBashIfSandboxed": True,
        "allowUnsandboxedCommands": False,
        "network": {"allowedDomains": []},
        "filesystem": {"allowWrite": [str(context.tmp)], "denyRead": [KEY_FILE]},
    }
    if room.method == "bwrap":
        sandbox["enableWeakerNestedSandbox"] = True  # /proc cannot be mounted again; the outer one is private already
    settings = {"sandbox": sandbox, "permissions": {"deny": [f"Read(/{place})" for place in (KEY_FILE, "/proc/**")]}}
    return settings | ({"apiKeyHelper": f"cat {KEY_FILE}"} if room.method else {})


def _blocks(event: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    content = mapping(event.get("message")).get("content")
    return [mapping(block) for block in content] if isinstance(content, list) else []


def _usage(usage: Mapping[str, Any]) -> Tokens | None:
    """Unknown stays unknown: a block without counts is none, and zeros after a failed call are no count."""
    if not count(usage.get("input_tokens")) and not count(usage.get("output_tokens")):
        return None
    cached = count(usage.get("cache_read_input_tokens"))
    made = count(usage.get("cache_creation_input_tokens"))
    return Tokens(count(usage.get("input_tokens")) + cached + made, cached, count(usage.get("output_tokens")))


def _sum(models: Mapping[str, Any]) -> Tokens | None:
    parts = [mapping(model) for model in models.values()]
    if not parts:
        return None
    cached = sum(count(part.get("cacheReadInputTokens")) for part in parts)
    made = sum(count(part.get("cacheCreationInputTokens")) for part in parts)
    given = sum(count(part.get("inputTokens")) for part in parts)
    return Tokens(given + cached + made, cached, sum(count(part.get("outputTokens")) for part in parts))
