"""A draft from a failure that no rule knew: the policy's text with a rule, its signal and its test case added (P3)."""

import json
import re
from collections.abc import Mapping
from typing import Any

_VERSION = re.compile(r"^version\s*=.*$", re.MULTILINE)


def with_rule(source: str, facts: Mapping[str, Any], *, version: str, mark: str) -> str:
    """The TOML text of the draft. `facts` are those of a stored failure (see `core.replays`); `mark` makes the new
    names unique. Class, action and why are the owner's to write: the draft sends it to a person, as until now."""
    text, changed = _VERSION.subn(f"version = {_quoted(version)}", source, count=1)
    parts = [text.rstrip() if changed else f"version = {_quoted(version)}\n{source.rstrip()}"]
    signal, rule = f"seen-{mark}", f"new-{mark}"
    parts.append(
        f"# Drafted from a failure that no rule knew. Say what it is, what to do, and why.\n{_signal(signal, facts)}"
    )
    parts.append(_rule(rule, signal, facts))
    parts.append(_case(f"case-{mark}", rule, facts))
    return "\n\n".join(parts) + "\n"


def _signal(name: str, facts: Mapping[str, Any]) -> str:
    lines = ["[[signals]]", f"name = {_quoted(name)}"]
    if facts["codes"]:
        lines.append(f"codes = {_list(facts['codes'])}")
    if facts["exception_types"]:
        patterns = [re.sub(r"[^a-z0-9]", ".", each.rpartition(".")[2].lower()) for each in facts["exception_types"]]
        lines.append(f"types = {_list(patterns)}")
    if facts["http_status"]:
        lines.append(f"statuses = [{facts['http_status']}]")
    if facts["exit_code"] and 0 < facts["exit_code"] < 256 and len(lines) == 2:
        lines.append(f"exit_codes = [{facts['exit_code']}]")
    return "\n".join(lines)


def _rule(name: str, signal: str, facts: Mapping[str, Any]) -> str:
    stage = f"\nstages = [{_quoted(facts['stage'])}]" if facts["stage"] else ""
    return (
        f'[[rules]]\nid = {_quoted(name)}\nclass = "unknown"\ncode = {_quoted(facts["named"] or name)}\n'
        f'action = "review"\nany = [{_quoted(signal)}]{stage}\nwhy = "Say why, in one sentence."'
    )


def _case(name: str, rule: str, facts: Mapping[str, Any]) -> str:
    lines = ["[[cases]]", f"id = {_quoted(name)}"]
    for key in ("program", "stage", "risk"):
        if facts[key]:
            lines.append(f"{key} = {_quoted(facts[key])}")
    if _code(facts):
        lines.append(f"code = {_quoted(_code(facts))}")
    for key in ("exit_code", "signal", "http_status"):
        if facts[key] is not None:
            lines.append(f"{key} = {facts[key]}")
    if facts["exception_types"]:
        lines.append(f"exception_type = {_quoted(facts['exception_types'][0])}")
    lines += ['expected_class = "unknown"', 'expected_action = "review"', f"expected_rule = {_quoted(rule)}"]
    return "\n".join(lines)


def _code(facts: Mapping[str, Any]) -> str:
    """What named the failure; "unknown" is no name."""
    return "" if facts["named"] == "unknown" else str(facts["named"])


def _list(values: list[str]) -> str:
    return f"[{', '.join(_quoted(value) for value in values)}]"


def _quoted(value: str) -> str:
    """A JSON text is a TOML basic string too."""
    return json.dumps(value, ensure_ascii=False)
