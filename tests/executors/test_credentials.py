"""Credentials are named by reference and read when they are needed (Z5)."""

from pathlib import Path

import pytest

from jobs.errors import CredentialMissing, CredentialsInvalid
from jobs.executors import credentials


def test_references_are_read_from_one_text():
    text = "OPENAI_API_KEY=env:TEAM_KEY, ANTHROPIC_API_KEY=file:/run/keys/claude\nHTTPS_PROXY=env:HTTPS_PROXY"
    assert credentials.parse(text) == {
        "OPENAI_API_KEY": "env:TEAM_KEY",
        "ANTHROPIC_API_KEY": "file:/run/keys/claude",
        "HTTPS_PROXY": "env:HTTPS_PROXY",
    }
    assert credentials.parse("  ") == {}


@pytest.mark.parametrize(
    "text",
    ["OPENAI_API_KEY=canary-value", "OPENAI_API_KEY", "K=env:", "K=url:x", "K=env:A K=env:B", "1K=env:A"],
)
def test_anything_but_a_reference_is_refused_and_its_value_not_repeated(text: str):
    with pytest.raises(CredentialsInvalid) as refusal:
        credentials.parse(text)
    assert "canary" not in str(refusal.value)


@pytest.mark.parametrize("name", ["DATABASE_URL", "DJANGO_SECRET_KEY", "AGENTQ_TOKEN", "PGPASSWORD"])
def test_agentqs_own_settings_are_no_credentials(name: str):
    with pytest.raises(CredentialsInvalid, match=name):
        credentials.parse(f"{name}=env:ANY")


def test_only_what_is_wanted_is_read(tmp_path: Path):
    (tmp_path / "key").write_text("from-file\n")
    references = {"A": "env:SOURCE", "B": f"file:{tmp_path}/key", "C": "env:NOT_THERE"}
    found = credentials.resolve(references, {"A", "B", "D"}, environment={"SOURCE": "from-env"})
    assert found == {"A": "from-env", "B": "from-file"}


@pytest.mark.parametrize("reference", ["env:NOT_THERE", "env:EMPTY", "file:/nonexistent/key", "file:/"])
def test_a_reference_that_leads_nowhere_says_which(reference: str):
    with pytest.raises(CredentialMissing, match="KEY is not there") as missing:
        credentials.resolve({"KEY": reference}, {"KEY"}, environment={"EMPTY": ""})
    assert missing.value.name == "KEY"
