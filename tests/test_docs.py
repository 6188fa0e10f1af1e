"""The READMEs say what is true: the state diagram, every command, every setting, the two first blocks."""

import re
from pathlib import Path

from django.conf import settings
from django.core.management import get_commands

from jobs.core.states import mermaid

ROOT = Path(settings.BASE_DIR)
README = (ROOT / "README.md").read_text()


def test_the_state_diagram_is_the_table():
    text = (ROOT / "jobs/README.md").read_text()
    assert re.search(r"```mermaid\n(.*?)\n```", text, re.DOTALL)[1] == mermaid()


def test_every_command_is_in_the_readme():
    ours = [name for name, app in get_commands().items() if app in ("jobs", "reviews")]
    assert ours
    assert [name for name in ours if f"`{name}" not in README] == []


def test_every_setting_from_the_environment_is_in_the_readme():
    source = (ROOT / "agentq_site/settings.py").read_text()
    names = set(re.findall(r'env(?:\.\w+)?\(\s*"([A-Z_]+)"', source))
    assert len(names) > 10
    assert sorted(name for name in names if f"`{name}`" not in README) == []


def test_the_first_two_shell_blocks_are_run_and_test():
    first, second, *_ = re.findall(r"^```sh\n(.*?)^```", README, re.DOTALL | re.MULTILINE)
    assert "quickstart" in first and "pytest" not in first
    assert "pytest" in second and "quickstart" not in second
