"""A loopback stand-in for both vendors' model services, so that the real CLIs run without a network or an account.

The scenario is in the address (`/<scenario>/<run>/…`), so one server serves every test at once; model calls are counted
by run. Scenarios: the names in SCRIPTS (tool steps by turn), ERRORS, STREAM_ERRORS and SILENT, `garbage`, `cut`,
`cut_after_edit`, `incomplete`, and `flaky-<n>-<scenario>`: the first n model calls fail, later ones are `ok_edit`.
"""

import contextlib
import json
import socket
import threading
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.agents.dialects import ERRORS, STREAM_ERRORS, Dialect, Messages, Responses

SCRIPTS = {
    "ok_edit": ["read", "edit", "diff", "done"],
    "cut_after_edit": ["read", "edit", "cut"],
    "usage_after_edit": ["read", "edit", "http_429_usage"],
    "ok_text": ["done"],
    "bad_command": ["bad", "done"],
    "loop_failing": ["bad"],
    "sleep": ["sleep", "done"],
    "write_outside": ["outside", "done"],
    "read_outside": ["peek", "done"],
    "call_network": ["network", "done"],
    "show_environment": ["environment", "done"],
    "commit": ["commit", "done"],
    "leave_behind": ["daemon", "done"],
}
SILENT = ("hang", "hang_headers", "hang_mid")


class ModelServer(ThreadingHTTPServer):
    """Answers on 127.0.0.1 until the `with` block ends. `paths` are what its scripts reach for."""

    daemon_threads = True
    allow_reuse_address = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.calls: Counter[str] = Counter()
        self.bodies: dict[str, list[dict[str, Any]]] = {}
        self.paths = {"outside": "/nonexistent", "peek": "/nonexistent", "port": "9"}
        self.ended = threading.Event()
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self.serve_forever, daemon=True)

    def __enter__(self) -> "ModelServer":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.ended.set()
        self.shutdown()
        self.server_close()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that was killed is no error of the server."""

    def address(self, scenario: str, run: str) -> str:
        return f"http://127.0.0.1:{self.server_port}/{scenario}/{run}"

    def count(self, run: str, body: dict[str, Any]) -> int:
        with self._lock:
            self.calls[run] += 1
            self.bodies.setdefault(run, []).append(body)
            return self.calls[run]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: ModelServer

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Quiet: a request holds the prompt."""

    def do_HEAD(self) -> None:
        self.answer(404, {})

    def do_GET(self) -> None:
        self.answer(200 if "/models" in self.path else 404, {"object": "list", "data": [], "models": []})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or b"{}")
        _, scenario, run, *rest = self.path.split("?")[0].split("/")
        dialects: dict[str, Dialect] = {"responses": Responses(), "messages": Messages()}
        dialect = dialects.get(rest[-1])
        if dialect is None:
            self.answer(404, {"error": {"message": "not found", "type": "not_found_error"}})
            return
        number = self.server.count(run, body)
        if scenario.startswith("flaky-"):
            _, fails, scenario = scenario.split("-", 2)
            scenario = scenario if number <= int(fails) else "ok_edit"
        with contextlib.suppress(ConnectionError):
            self.play(scenario, dialect, body)

    def play(self, scenario: str, dialect: Dialect, body: dict[str, Any]) -> None:
        step = dialect.step(body)
        if scenario in SCRIPTS:
            script = SCRIPTS[scenario]
            action = script[min(step, len(script) - 1)]
        else:
            action = scenario
        if action in ERRORS:
            status, fault, headers = dialect.error(action)
            self.answer(status, fault, headers)
        elif action == "hang":
            self.wait()
        elif action in STREAM_ERRORS and not dialect.streams(body):
            self.answer(*dialect.plain_stream_error(action))
        elif not dialect.streams(body):
            self.plain(action, step, dialect, body)
        else:
            self.stream(action, step, dialect, body)

    def plain(self, action: str, step: int, dialect: Dialect, body: dict[str, Any]) -> None:
        if action in SILENT:
            self.wait()
        elif action == "cut":
            self.cut()
        else:
            self.answer(200, dialect.whole(action, step, body, self.server.paths))

    def stream(self, action: str, step: int, dialect: Dialect, body: dict[str, Any]) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        self.close_connection = True
        if action == "garbage":
            self.wfile.write(b"<html>sign in to the network first</html>")
            return
        if action == "hang_headers":
            self.wait()
            return
        events = dialect.beginning(body)
        if action in ("cut", "hang_mid"):
            events += dialect.begun_text()
        elif action in STREAM_ERRORS:
            events += dialect.stream_error(action)
        elif action == "incomplete":
            events += dialect.incomplete()
        else:
            events += dialect.turn(action, step, body, self.server.paths)
        for name, data in events:
            self.wfile.write(f"event: {name}\ndata: {json.dumps({**data, 'type': name})}\n\n".encode())
        self.wfile.flush()
        if action == "cut":
            self.cut()
        if action == "hang_mid":
            self.wait()

    def answer(self, status: int, document: dict[str, Any], headers: tuple[tuple[str, str], ...] = ()) -> None:
        data = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        for name, value in headers:
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def cut(self) -> None:
        self.wfile.flush()
        self.connection.shutdown(socket.SHUT_RDWR)
        self.close_connection = True

    def wait(self) -> None:
        """Say nothing until the client goes away or the server ends."""
        self.close_connection = True
        self.connection.settimeout(0.2)
        while not self.server.ended.is_set():
            try:
                if not self.connection.recv(1):
                    return
            except TimeoutError:
                continue
