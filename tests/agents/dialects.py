"""The two wire formats that the stand-in speaks: OpenAI's Responses and Anthropic's Messages."""

import json
import time
from typing import Any, Protocol

Event = tuple[str, dict[str, Any]]
Headers = tuple[tuple[str, str], ...]
FINAL = "Done: README.md was changed and checked."
PATCH = "*** Begin Patch\n*** Update File: README.md\n@@\n-hello world\n+hello agent\n*** End Patch\n"
INPUT, CACHED, OUTPUT, REASONING = 1000, 200, 50, 10

# scenario: (status, OpenAI type, OpenAI code, Anthropic status, Anthropic type)
ERRORS: dict[str, tuple[int, str, str | None, int, str]] = {
    "http_400": (400, "invalid_request_error", "invalid_value", 400, "invalid_request_error"),
    "http_401": (401, "invalid_request_error", "invalid_api_key", 401, "authentication_error"),
    "http_402": (402, "billing_error", "payment_required", 402, "billing_error"),
    "http_403": (403, "permission_error", "insufficient_permissions", 403, "permission_error"),
    "http_404": (404, "invalid_request_error", "model_not_found", 404, "not_found_error"),
    "http_413": (413, "invalid_request_error", "request_too_large", 413, "request_too_large"),
    "http_429": (429, "rate_limit_exceeded", "rate_limit_exceeded", 429, "rate_limit_error"),
    "http_429_usage": (429, "usage_limit_reached", None, 429, "rate_limit_error"),
    "http_429_quota": (429, "insufficient_quota", "insufficient_quota", 400, "invalid_request_error"),
    "http_400_context": (400, "invalid_request_error", "context_length_exceeded", 400, "invalid_request_error"),
    "http_500": (500, "server_error", None, 500, "api_error"),
    "http_502": (502, "server_error", None, 502, "api_error"),
    "http_503": (503, "server_error", None, 503, "api_error"),
    "http_529": (529, "server_error", None, 529, "overloaded_error"),
    "http_503_overloaded": (503, "server_error", "server_is_overloaded", 529, "overloaded_error"),
}
WORDS = {
    "http_400": "messages: invalid value.",
    "http_401": "invalid key",
    "http_402": "Your account has a billing problem.",
    "http_403": "You have insufficient permissions for this operation.",
    "http_404": "model: does-not-exist",
    "http_413": "Request exceeds the maximum size",
    "http_429": "This request would exceed your rate limit. Please try again in 2s.",
    "http_429_usage": "This request would exceed your account's rate limit. Please try again later.",
    "http_429_quota": "Your credit balance is too low to access the API.",
    "http_400_context": "prompt is too long: 210000 tokens > 200000 maximum",
    "http_500": "The server had an error.",
    "http_502": "Bad gateway",
    "http_503": "Service unavailable",
    "http_529": "Overloaded",
    "http_503_overloaded": "The server is overloaded.",
}
# scenario: (OpenAI code, Anthropic type, Anthropic status when asked again without a stream, words)
STREAM_ERRORS = {
    "sse_context": ("context_length_exceeded", "invalid_request_error", 400, WORDS["http_400_context"]),
    "sse_rate_limit": ("rate_limit_exceeded", "rate_limit_error", 429, "This request would exceed your rate limit."),
    "sse_overloaded": ("server_is_overloaded", "overloaded_error", 529, "Overloaded"),
    "sse_quota": ("insufficient_quota", "invalid_request_error", 400, WORDS["http_429_quota"]),
    "sse_invalid": ("invalid_prompt", "invalid_request_error", 400, "Invalid prompt: refused."),
}


def shell(action: str, paths: dict[str, str]) -> str:
    """The command line of one scripted step."""
    call = f"('127.0.0.1', {paths['port']})"
    return {
        "read": "cat README.md",
        "edit": "sed -i 's/hello world/hello agent/' README.md",
        "diff": "git diff --stat && git diff --check",
        "bad": "echo failing >&2; exit 3",
        "sleep": "echo started; (sleep 301 & sleep 302); echo ended",
        "outside": f"echo leak > {paths['outside']}; echo rc=$?",
        "peek": f"cat {paths['peek']}; echo rc=$?",
        "network": f"python3 -c \"import socket; socket.create_connection({call}, 3); print('REACH' + 'ED')\"",
        "environment": "env | sort > environment.txt",
        "commit": "echo more >> README.md; git -c user.name=t -c user.email=t@example.org commit -qam x; echo rc=$?",
        "daemon": "(setsid sleep 303 >/dev/null 2>&1 &); echo left",
    }[action]


class Dialect(Protocol):
    """What the server needs of a wire format."""

    def step(self, body: dict[str, Any]) -> int: ...
    def streams(self, body: dict[str, Any]) -> bool: ...
    def error(self, name: str) -> tuple[int, dict[str, Any], Headers]: ...
    def plain_stream_error(self, name: str) -> tuple[int, dict[str, Any]]: ...
    def whole(self, action: str, step: int, body: dict[str, Any], paths: dict[str, str]) -> dict[str, Any]: ...
    def beginning(self, body: dict[str, Any]) -> list[Event]: ...
    def begun_text(self) -> list[Event]: ...
    def stream_error(self, name: str) -> list[Event]: ...
    def incomplete(self) -> list[Event]: ...
    def turn(self, action: str, step: int, body: dict[str, Any], paths: dict[str, str]) -> list[Event]: ...


class Responses:
    """OpenAI's Responses, as Codex asks for it: always a stream."""

    def step(self, body: dict[str, Any]) -> int:
        """How many tool results came since the user last spoke."""
        count = 0
        for item in reversed(body.get("input") or []):
            if item.get("role") == "user":
                break
            count += str(item.get("type", "")).endswith("_call_output")
        return count

    def streams(self, body: dict[str, Any]) -> bool:  # noqa: ARG002
        return True

    def error(self, name: str) -> tuple[int, dict[str, Any], Headers]:
        status, kind, code, _, _ = ERRORS[name]
        fault: dict[str, Any] = {"message": WORDS[name], "type": kind, "param": None, "code": code}
        headers: Headers = ()
        if name == "http_429":
            headers = (("retry-after", "2"),)
        if name == "http_429_usage":
            fault |= {"plan_type": "plus", "resets_at": int(time.time()) + 3600}
        return status, {"error": fault}, headers

    def plain_stream_error(self, name: str) -> tuple[int, dict[str, Any]]:
        raise NotImplementedError("this dialect always streams")

    def whole(self, action: str, step: int, body: dict[str, Any], paths: dict[str, str]) -> dict[str, Any]:
        raise NotImplementedError("this dialect always streams")

    def beginning(self, body: dict[str, Any]) -> list[Event]:  # noqa: ARG002
        return [("response.created", {"response": {"id": "resp_1"}})]

    def begun_text(self) -> list[Event]:
        message = {"type": "message", "id": "msg_1", "role": "assistant", "content": []}
        delta = {"item_id": "msg_1", "output_index": 0, "content_index": 0, "delta": "I will "}
        return [
            ("response.output_item.added", {"output_index": 0, "item": message}),
            ("response.output_text.delta", delta),
        ]

    def stream_error(self, name: str) -> list[Event]:
        code, _, _, words = STREAM_ERRORS[name]
        failed = {"id": "resp_1", "status": "failed", "error": {"code": code, "message": words}}
        return [("response.failed", {"response": failed})]

    def incomplete(self) -> list[Event]:
        why = {"reason": "max_output_tokens"}
        return [("response.incomplete", {"response": {"id": "resp_1", "incomplete_details": why}})]

    def turn(self, action: str, step: int, body: dict[str, Any], paths: dict[str, str]) -> list[Event]:
        tokens = INPUT + 100 * step
        usage = {
            "input_tokens": tokens,
            "input_tokens_details": {"cached_tokens": CACHED},
            "output_tokens": OUTPUT,
            "output_tokens_details": {"reasoning_tokens": REASONING},
            "total_tokens": tokens + OUTPUT,
        }
        return [
            ("response.output_item.done", {"output_index": 0, "item": self._item(action, step, body, paths)}),
            ("response.completed", {"response": {"id": "resp_1", "usage": usage}}),
        ]

    def _item(self, action: str, step: int, body: dict[str, Any], paths: dict[str, str]) -> dict[str, Any]:
        if action == "done":
            text = {"type": "output_text", "text": FINAL, "annotations": []}
            return {"type": "message", "id": f"msg_{step}", "role": "assistant", "content": [text]}
        tools = {tool.get("name") or tool.get("type"): tool for tool in body.get("tools", [])}
        call = f"call_{step}"
        if action == "edit" and "apply_patch" in tools:
            return {"type": "custom_tool_call", "call_id": call, "name": "apply_patch", "input": PATCH}
        line = shell(action, paths)
        name, arguments = next(
            (name, arguments)
            for name, arguments in (
                ("exec_command", {"cmd": line, "yield_time_ms": 10000}),
                ("shell_command", {"command": line}),
                ("shell", {"command": ["bash", "-lc", line]}),
            )
            if name in tools or name == "shell"
        )
        return {"type": "function_call", "call_id": call, "name": name, "arguments": json.dumps(arguments)}


class Messages:
    """Anthropic's Messages; Claude Code asks a second time without a stream when a stream breaks."""

    def step(self, body: dict[str, Any]) -> int:
        """How many tool results came since the user last spoke."""
        count = 0
        for message in reversed(body.get("messages") or []):
            if message.get("role") != "user":
                continue
            content = message.get("content")
            results = (
                [part for part in content if part.get("type") == "tool_result"] if isinstance(content, list) else []
            )
            if not results:
                break
            count += len(results)
        return count

    def streams(self, body: dict[str, Any]) -> bool:
        return bool(body.get("stream"))

    def error(self, name: str) -> tuple[int, dict[str, Any], Headers]:
        _, _, _, status, kind = ERRORS[name]
        headers: Headers = ()
        if name == "http_429":
            headers = (("retry-after", "2"),)
        if name == "http_429_usage":
            headers = (("retry-after", "3600"), ("anthropic-ratelimit-unified-status", "rejected"))
        return status, self._fault(kind, WORDS[name]), headers

    def plain_stream_error(self, name: str) -> tuple[int, dict[str, Any]]:
        _, kind, status, words = STREAM_ERRORS[name]
        return status, self._fault(kind, words)

    def whole(self, action: str, step: int, body: dict[str, Any], paths: dict[str, str]) -> dict[str, Any]:
        block = self._block(action, body, paths)
        return self._message(body) | {
            "content": [block],
            "stop_reason": "end_turn" if block["type"] == "text" else "tool_use",
            "usage": {"input_tokens": INPUT + 100 * step, "output_tokens": OUTPUT},
        }

    def beginning(self, body: dict[str, Any]) -> list[Event]:
        usage = {"input_tokens": INPUT, "cache_read_input_tokens": CACHED, "output_tokens": 1}
        usage["cache_creation_input_tokens"] = 0
        return [("message_start", {"message": self._message(body) | {"usage": usage}})]

    def begun_text(self) -> list[Event]:
        return [
            ("content_block_start", {"index": 0, "content_block": {"type": "text", "text": ""}}),
            ("content_block_delta", {"index": 0, "delta": {"type": "text_delta", "text": "I will "}}),
        ]

    def stream_error(self, name: str) -> list[Event]:
        _, kind, _, words = STREAM_ERRORS[name]
        return [("error", {"error": {"type": kind, "message": words}})]

    def incomplete(self) -> list[Event]:
        return [*self._blocks({"type": "text", "text": "I will "}), *self._end("max_tokens")]

    def turn(self, action: str, step: int, body: dict[str, Any], paths: dict[str, str]) -> list[Event]:  # noqa: ARG002
        block = self._block(action, body, paths)
        return [*self._blocks(block), *self._end("end_turn" if block["type"] == "text" else "tool_use")]

    def _blocks(self, block: dict[str, Any]) -> list[Event]:
        if block["type"] == "text":
            empty: dict[str, Any] = {"type": "text", "text": ""}
            delta: dict[str, Any] = {"type": "text_delta", "text": block["text"]}
        else:
            empty = block | {"input": {}}
            delta = {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
        return [
            ("content_block_start", {"index": 0, "content_block": empty}),
            ("content_block_delta", {"index": 0, "delta": delta}),
            ("content_block_stop", {"index": 0}),
        ]

    def _end(self, why: str) -> list[Event]:
        delta = {"stop_reason": why, "stop_sequence": None}
        return [("message_delta", {"delta": delta, "usage": {"output_tokens": OUTPUT}}), ("message_stop", {})]

    def _block(self, action: str, body: dict[str, Any], paths: dict[str, str]) -> dict[str, Any]:
        if action == "done":
            return {"type": "text", "text": FINAL}
        tools = [tool.get("name") for tool in body.get("tools", [])]
        name, given = "Bash", {"command": shell(action, paths), "description": "a scripted step"}
        file = f"{_directory(body)}/README.md"
        if action == "read" and "Read" in tools:
            name, given = "Read", {"file_path": file}
        if action == "edit" and "Edit" in tools:
            name, given = "Edit", {"file_path": file, "old_string": "hello world", "new_string": "hello agent"}
        return {"type": "tool_use", "id": f"toolu_{time.monotonic_ns()}", "name": name, "input": given}

    def _message(self, body: dict[str, Any]) -> dict[str, Any]:
        ident = f"msg_{time.monotonic_ns()}"
        message: dict[str, Any] = {
            "id": ident,
            "type": "message",
            "role": "assistant",
            "model": body.get("model"),
            "content": [],
        }
        return message | {"stop_reason": None, "stop_sequence": None}

    def _fault(self, kind: str, words: str) -> dict[str, Any]:
        return {"type": "error", "error": {"type": kind, "message": words}, "request_id": "req_1"}


def _directory(body: dict[str, Any]) -> str:
    text = json.dumps(body.get("system", "")) + json.dumps(body.get("messages", []))
    for mark in ("Primary working directory: ", "Working directory: ", "working directory: "):
        if mark in text:
            return text.split(mark, 1)[1].split("\\n", 1)[0].strip()
    return "."
