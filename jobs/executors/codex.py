"""Codex CLI: its command line, its events and its session file."""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from jobs.executors.agents import AgentExecutor, Room, Task
from jobs.executors.base import StageContext
from jobs.executors.processes import MARK_NAME
from jobs.executors.story import Story, Tokens, count, mapping, text

MODEL = "gpt-5.5"
BASE_URL = "https://api.openai.com/v1"
IDLE_MILLISECONDS = 120_000
SESSION_BYTES = 256 * 1024 * 1024
_SHELL_VARIABLES = ("PATH", "HOME", "LANG", "TMPDIR", MARK_NAME)
_OFF = ("multi_agent", "goals", "apps")
_ROLLOUT = re.compile(r"rollout-(\d{4})-(\d\d)-(\d\d)T")
_TOOLS = {"command_execution": "shell", "file_change": "edit", "web_search": "web", "mcp_tool_call": "mcp"}
_RESET = re.compile(r"\b(?:try again|resets?) (?:at|in|on) [^.\n]{1,60}", re.IGNORECASE)


class CodexExecutor(AgentExecutor):
    """`codex exec` in its own sandbox: writes only in the checkout and TMPDIR, no network for its commands."""

    name = "codex"
    credentials = frozenset({"OPENAI_API_KEY"})
    takes = credentials | {"OPENAI_BASE_URL", "HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY", "SSL_CERT_FILE"}

    def refusal(self, task: Task, room: Room) -> tuple[str, str]:  # noqa: ARG002  (one form for all)
        """Nothing to refuse: without its sandbox Codex itself runs no command."""
        return "", ""

    def argv(self, context: StageContext, task: Task, room: Room, session: str) -> tuple[str, ...]:
        """The command line. The provider is always named here: that is where the CLI's own retries are turned down."""
        writes = context.stage == "modify" and "edit" in task.tools
        address = context.environment.get("OPENAI_BASE_URL") or BASE_URL
        provider = (
            f'{{name="agentq",base_url={json.dumps(address)},wire_api="responses",env_key="OPENAI_API_KEY",'
            f"request_max_retries=1,stream_max_retries=2,stream_idle_timeout_ms={IDLE_MILLISECONDS}}}"
        )
        web = "web" in task.tools and context.stage == "modify"
        settings = (
            'model_provider="agentq"',
            f"model_providers.agentq={provider}",
            "sandbox_workspace_write.exclude_slash_tmp=true",
            f"shell_environment_policy.include_only={json.dumps(_SHELL_VARIABLES)}",
            f'web_search="{"live" if web else "disabled"}"',
        )
        options = ["exec", "--json", "--ignore-user-config", "--ignore-rules"]
        options += ["-s", "workspace-write" if writes else "read-only", "-C", str(context.checkout)]
        options += ["-m", task.model or MODEL]
        for setting in settings:
            options += ["-c", setting]
        for feature in _OFF:
            options += ["--disable", feature]
        return (str(room.program), *options, *(("resume", session) if session else ()), "-")

    def environment(self, room: Room) -> dict[str, str]:
        return {"CODEX_HOME": str(room.state)}

    def story(self) -> "CodexStory":
        return CodexStory()

    def transcript(self, state: Path, session: str) -> Path | None:
        found = [path for path in (state / "sessions").glob("*/*/*/rollout-*.jsonl") if path.stem.endswith(session)]
        return found[0] if found else None

    def place(self, transcript: Path, state: Path) -> None:
        day = _ROLLOUT.match(transcript.name)
        folder = state.joinpath("sessions", *(day.groups() if day else ("1970", "01", "01")))
        folder.mkdir(mode=0o700, parents=True)
        (folder / transcript.name).write_bytes(transcript.read_bytes())

    def settle(self, story: Story, transcript: Path | None, earlier: Path | None) -> dict[str, Any]:
        """The session file has what stdout lacks: the error's code, the tokens of failed turns, the version."""
        after = _Session(transcript)
        before = _Session(earlier).tokens if earlier is not None else None
        total = after.tokens or story.tokens
        story.tokens = total.minus(before or Tokens()) if total is not None else None
        story.version, story.model = after.version or story.version, after.model or story.model
        facts: dict[str, Any] = {}
        if after.status is not None:
            facts["http_status"] = after.status
        if not story.succeeded and after.code:
            story.kept.append({"type": "turn.failed", "error": {"codex_error_info": after.code}})
        if not story.succeeded and (reset := _RESET.search(after.message)):
            facts["reset_text"] = reset[0]
        return facts


class CodexStory(Story):
    """`codex exec --json`. Its `error` events are not terminal: they come in runs that end well, too."""

    def take(self, event: Mapping[str, Any]) -> None:
        kind = event.get("type")
        if kind != "error":
            self.retries.clear()
        if kind == "thread.started":
            self.session = text(event.get("thread_id"), 64)
        elif kind == "turn.started":
            self.asked = True
            self.terminal = self.succeeded = False
        elif kind in ("turn.completed", "turn.failed"):
            self.terminal, self.succeeded = True, kind == "turn.completed"
            usage = mapping(event.get("usage"))
            self.tokens = _tokens(usage) or self.tokens
        elif kind == "error" and "waiting for network" in text(event.get("message"), 200):
            self.retries.append(text(event.get("message"), 200))
        elif kind in ("item.started", "item.updated", "item.completed"):
            self._item(str(kind), mapping(event.get("item")))

    def _item(self, kind: str, item: Mapping[str, Any]) -> None:
        what, ident = text(item.get("type"), 64), text(item.get("id"), 64)
        if what == "agent_message" and kind == "item.completed":
            self.claim = text(item.get("text"), 8192) or self.claim
        if what not in _TOOLS:
            return
        if ident not in self.running:
            wanted = {name: item.get(name) for name in ("command", "changes", "server", "tool", "arguments", "query")}
            self.begin_call(ident, _TOOLS[what], wanted)
        if kind == "item.completed":
            failed = item.get("status") in ("failed", "declined") or item.get("exit_code") not in (None, 0)
            self.end_call(ident, failed=failed)


class _Session:
    """What a session (rollout) file says. Its rate-limit block is left alone: usage signals are typed by people."""

    def __init__(self, path: Path | None) -> None:
        self.tokens: Tokens | None = None
        self.version = self.model = self.code = self.message = ""
        self.status: int | None = None
        for line in _lines(path):
            self._take(text(line.get("type"), 64), mapping(line.get("payload")))

    def _take(self, kind: str, payload: Mapping[str, Any]) -> None:
        if kind == "session_meta":
            self.version = text(payload.get("cli_version"), 64)
        elif kind == "turn_context":
            self.model = text(payload.get("model"), 64) or self.model
        elif payload.get("type") == "token_count":
            self.tokens = _tokens(mapping(mapping(payload.get("info")).get("total_token_usage"))) or self.tokens
        elif payload.get("type") in ("task_started", "task_complete"):
            self._error(mapping(payload.get("error")))

    def _error(self, error: Mapping[str, Any]) -> None:
        info = error.get("codex_error_info")
        details: Mapping[str, Any] = {}
        if isinstance(info, dict) and len(info) == 1:
            (info, inner), *_ = info.items()
            details = mapping(inner)
        self.message = text(error.get("message"), 2000)
        self.code = "" if info == "other" else text(info, 64)
        status = details.get("http_status_code")
        self.status = status if isinstance(status, int) and 100 <= status <= 599 else None


def _lines(path: Path | None) -> Iterator[Mapping[str, Any]]:
    if path is None or path.is_symlink() or not path.is_file() or path.stat().st_size > SESSION_BYTES:
        return
    with path.open("rb") as file:
        for line in file:
            try:
                found = json.loads(line)
            except (ValueError, RecursionError):
                continue
            if isinstance(found, dict):
                yield found


def _tokens(usage: Mapping[str, Any]) -> Tokens | None:
    """Unknown stays unknown: a block without counts is none, and zeros after a failed call are no count."""
    if not count(usage.get("input_tokens")) and not count(usage.get("output_tokens")):
        return None
    given, cached, said = (count(usage.get(f"{part}_tokens")) for part in ("input", "cached_input", "output"))
    return Tokens(given, cached, said)
