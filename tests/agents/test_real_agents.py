"""The real Codex CLI and Claude Code against a stand-in model service: good ends, failures and their classes, stalls,
resumes, and what their commands may reach (F2, B1, Z1, Z3). Each test is skipped where the CLI is not installed."""

import json
import subprocess
from pathlib import Path

import pytest

from jobs.executors import isolation
from tests import needs
from tests.agents.conftest import Stage

pytestmark = pytest.mark.engine

# scenario: class by Codex, class by Claude Code, most calls to the model. Where the two differ, so do their errors.
# Claude Code asks its key helper again after 401 and 403, and tries with what it says.
FAILURES = {
    "http_400": ("deterministic", "deterministic", 8),
    "http_401": ("permission", "permission", 5),
    "http_402": ("billing_unknown", "billing_unknown", 3),
    "http_403": ("permission", "permission", 5),
    "http_404": ("missing_input", "missing_input", 3),
    "http_413": ("deterministic", "deterministic", 3),
    "http_429": ("rate_limited", "rate_limited", 3),
    "http_429_usage": ("usage_limit", "usage_limit", 1),
    "http_429_quota": ("usage_limit", "billing_unknown", 1),
    "http_400_context": ("deterministic", "deterministic", 2),
    "http_500": ("upstream_unavailable", "upstream_unavailable", 6),
    "http_503": ("upstream_unavailable", "upstream_unavailable", 6),
    "http_529": ("upstream_unavailable", "upstream_unavailable", 6),
    "http_503_overloaded": ("upstream_unavailable", "upstream_unavailable", 6),
    "sse_context": ("deterministic", "deterministic", 4),
    "sse_rate_limit": ("rate_limited", "rate_limited", 6),
    "sse_overloaded": ("upstream_unavailable", "transient", 6),
    "sse_quota": ("usage_limit", "billing_unknown", 2),
    "sse_invalid": ("deterministic", "deterministic", 8),
    "incomplete": ("deterministic", "deterministic", 6),
    "cut": ("transient", "transient", 6),
    "garbage": ("transient", "transient", 6),
}


def test_a_good_run_edits_the_file_and_says_what_it_used(stage: Stage):
    ran = stage.run("ok_edit")
    assert ran.result.ok
    assert ran.seen is not None
    assert ran.seen.action == "accept"
    assert stage.edited
    assert ran.calls == 4
    facts = ran.result.facts
    assert (facts["terminal_event"], facts["tokens"]["output"], facts["session_lost"]) == (True, 200, False)
    assert facts["session"]
    assert facts["model"]
    assert facts["cli_version"]
    assert {"edit", "shell"} <= set(ran.result.tool_types)


@pytest.mark.parametrize("scenario", sorted(FAILURES))
def test_a_failure_gets_its_class_after_few_calls(stage: Stage, scenario: str):
    codex, claude, calls = FAILURES[scenario]
    ran = stage.run(scenario)
    assert not ran.result.ok
    assert ran.seen is not None
    assert ran.seen.class_ == (codex if stage.name == "codex" else claude)
    assert 1 <= ran.calls <= calls
    assert not stage.edited


@pytest.mark.parametrize("scenario", ["cut_after_edit", "usage_after_edit"])
def test_a_failure_in_the_middle_of_an_edit_leaves_the_edit(stage: Stage, scenario: str):
    ran = stage.run(scenario)
    assert not ran.result.ok
    assert stage.edited
    assert ran.seen is not None
    assert ran.seen.class_ == ("transient" if scenario == "cut_after_edit" else "usage_limit")


def test_a_short_trouble_is_sat_out_by_the_cli(stage: Stage):
    ran = stage.run("flaky-1-http_503")
    assert ran.result.ok
    assert ran.calls == 5


def test_a_command_that_fails_is_no_failure_of_the_agent(stage: Stage):
    """The model says done: that is its claim, and our own checks find out."""
    ran = stage.run("bad_command")
    assert ran.result.ok
    assert ran.result.claim_path is not None


@pytest.mark.parametrize("scenario", ["hang", "hang_mid"])
def test_a_model_that_says_nothing_is_not_waited_for(stage: Stage, scenario: str):
    ran = stage.run(scenario, silence=4)
    assert (ran.result.ok, ran.result.facts["ended_by"], ran.result.survivors) == (False, "agent_silent", 0)
    assert ran.seen is not None
    assert (ran.seen.class_, ran.seen.action) == ("transient", "retry")


def test_a_command_that_says_nothing_may_do_so_longer_and_dies_with_its_children(stage: Stage):
    ran = stage.run("sleep", silence=2, command=5)
    assert (ran.result.timed_out, ran.result.facts["ended_by"]) == (True, "agent_command_silent")
    assert ran.result.survivors == 0
    assert ran.seen is not None
    assert (ran.seen.class_, ran.seen.action) == ("unknown", "review")


def test_an_agent_that_goes_round_in_circles_is_stopped(stage: Stage):
    ran = stage.run("loop_failing", repeats=3)
    assert ran.result.facts["ended_by"] == "agent_repeats"
    assert ran.seen is not None
    assert (ran.seen.class_, ran.seen.action) == ("deterministic", "stop")


def test_a_service_that_cannot_be_reached_is_an_outage(stage: Stage):
    ran = stage.run("ok_edit", service="http://127.0.0.1:9", offline=5)
    assert not ran.result.ok
    assert ran.calls == 0
    assert ran.seen is not None
    assert ran.seen.class_ == "upstream_unavailable"


def test_a_stop_by_the_worker_ends_everything(stage: Stage):
    stage.worker.reason = "cancel"
    ran = stage.run("sleep")
    assert (ran.result.ok, ran.result.stopped, ran.result.survivors) == (False, "cancel", 0)


def test_a_plan_changes_nothing_and_its_session_goes_on(stage: Stage):
    plan = stage.run("ok_text", "plan", plan=True)
    assert plan.result.ok
    modify = stage.run("ok_edit", fence=2, session=plan.result.facts["session"])
    assert modify.result.ok
    facts = modify.result.facts
    assert (facts["resumed"], facts["session_lost"]) == (True, False)
    assert facts["session"] == plan.result.facts["session"]
    assert facts["tokens"]["output"] == 200  # of this stage, although the session has 250 by now
    assert stage.edited


def test_an_edit_in_the_plan_stage_does_not_happen(stage: Stage):
    stage.run("ok_edit", "plan", plan=True)
    assert not stage.edited


@pytest.mark.parametrize("how", ["broken", "gone"])
def test_a_lost_session_is_replaced_by_a_fresh_one(stage: Stage, how: str):
    plan = stage.run("ok_text", "plan", plan=True)
    for path in (stage.root / "jobs").glob("*/transcripts/*"):
        path.write_text("garbage\n") if how == "broken" else path.unlink()
    ran = stage.run("ok_edit", fence=2, session=plan.result.facts["session"])
    assert ran.result.ok
    assert (ran.result.facts["resumed"], ran.result.facts["session_lost"]) == (False, True)
    assert stage.edited


def test_commands_see_neither_the_key_nor_our_settings(stage: Stage, monkeypatch: pytest.MonkeyPatch):
    for name in ("DATABASE_URL", "DJANGO_SETTINGS_MODULE", "SECRET_KEY"):
        monkeypatch.setenv(name, "canary-setting")
    stage.run("show_environment")
    seen = (stage.tree / "environment.txt").read_text()
    assert "AGENTQ_TOKEN=" in seen  # by which a sweep finds what a killed worker left
    assert "canary-setting" not in seen
    if stage.name == "codex" or isolation.level() == "namespace":
        assert "canary-key" not in seen


def test_commands_find_no_key_in_files_or_processes(stage: Stage, monkeypatch: pytest.MonkeyPatch):
    needs.isolation("unshare")
    monkeypatch.setattr(isolation, "method", lambda: "unshare")
    stage.server.paths["peek"] = "/run/agentq-key /proc/*/environ"
    assert stage.run("read_outside").result.exit_code == 0
    assert "canary-key" not in _everything(stage.root / "jobs")


def test_commands_neither_write_nor_read_outside(stage: Stage):
    secret, outside = stage.root / "secret.txt", stage.root / "outside.txt"
    secret.write_text("canary-file")
    stage.server.paths |= {"outside": str(outside), "peek": str(secret)}
    stage.run("write_outside")
    assert not outside.exists()
    stage.run("read_outside", fence=2)
    if isolation.level() == "namespace":
        assert "canary-file" not in _everything(stage.root / "jobs")


def test_commands_reach_no_network(stage: Stage):
    stage.server.paths["port"] = str(stage.server.server_port)
    assert stage.run("call_network").result.exit_code == 0
    assert "REACHED" not in _everything(stage.root / "jobs")


def test_a_process_that_the_agent_left_behind_is_gone(stage: Stage):
    assert stage.run("leave_behind").result.survivors == 0
    assert "sleep\x00303" not in _command_lines()


def test_a_repositorys_own_hooks_servers_and_settings_do_nothing(stage: Stage):
    mark = stage.root / "work" / "tmp" / "bait-taken"
    hook = {"hooks": {"SessionStart": [{"hooks": [{"type": "command", "command": f"touch {mark}"}]}]}}
    _write_json(stage.tree / ".claude" / "settings.json", hook)
    _write_json(stage.tree / ".mcp.json", {"mcpServers": {"bait": {"command": "touch", "args": [str(mark)]}}})
    _write_json(stage.tree / ".codex" / "hooks.json", hook)
    (stage.tree / ".codex" / "config.toml").write_text(f'[mcp_servers.bait]\ncommand = "touch"\nargs = ["{mark}"]\n')
    if stage.name == "claude":  # Codex does not take it even when it is called without care
        _call_claude_carelessly(stage)
        assert mark.exists()
        mark.unlink()
    assert stage.run("ok_edit").result.ok
    assert not mark.exists()


def _call_claude_carelessly(stage: Stage) -> None:
    environment = {
        "PATH": "/usr/bin:/bin",
        "HOME": str(stage.root / "work" / "home"),
        "CLAUDE_CONFIG_DIR": str(stage.root / "careless"),
        "ANTHROPIC_API_KEY": "canary-key",
        "ANTHROPIC_BASE_URL": stage.server.address("ok_text", "careless"),
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    }
    program = needs.agent_cli("claude")
    subprocess.run(
        [program, "-p", "--model", "claude-sonnet-4-5"],
        input=b"Say hello.",
        cwd=stage.tree,
        env=environment,
        check=True,
        timeout=60,
        capture_output=True,
    )


def _everything(folder: Path) -> str:
    return "".join(path.read_text(errors="replace") for path in folder.rglob("*") if path.is_file())


def _command_lines() -> str:
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            found.append(path.read_text())
        except OSError:
            continue
    return "\n".join(found)


def _write_json(path: Path, value: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value))
