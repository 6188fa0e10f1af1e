"""P1, P2, P3, H3: the `publish_policy` command checks, replays, stores and activates, and says no in one sentence."""

import json

import pytest
from django.contrib.auth.models import Group, User

from jobs.core.failures import FailureFacts
from jobs.models import PolicyActivation, PolicyVersion
from jobs.policies.loading import BUILTIN_PATH
from jobs.services import policies
from tests import factories
from tests.services import situations

pytestmark = pytest.mark.django_db
TEXT = BUILTIN_PATH.read_text(encoding="utf-8")
TIGHT = TEXT.replace("attempts = 3\nseconds = 5400", "attempts = 1\nseconds = 5400")


@pytest.fixture
def file(tmp_path):
    policies.rules.cache_clear()

    def write(text: str = TIGHT) -> str:
        path = tmp_path / "draft.toml"
        path.write_text(text, encoding="utf-8")
        return str(path)

    return write


@pytest.fixture
def retried(repository):
    job = situations.new(repository)
    situations.claim(job)
    facts = FailureFacts(program="sample", stage="modify", exit_code=1, http_status=503)
    return factories.failure(situations.attempt(job), facts=facts)


def test_it_stores_the_next_version_and_leaves_the_active_one(file, call):
    said = call("publish_policy", file(), "--note", "tighter")
    assert "Version 2 is stored, not yet active." in said.stdout
    version = PolicyVersion.objects.get(number=2)
    assert (version.note, version.source, version.parent.number) == ("tighter", TIGHT, 1)
    assert policies.active().number == 1


def test_it_activates_with_a_reason_also_what_is_stored_already(file, call):
    call("publish_policy", file())
    said = call("publish_policy", file(), "--activate", "--reason", "after the incident")
    assert "Version 2 is stored and active." in said.stdout
    assert PolicyActivation.objects.latest("pk").reason == "after the incident"
    assert PolicyVersion.objects.count() == 2


def test_a_simulation_stores_nothing_and_names_what_would_change(file, call, retried):
    said = call("publish_policy", file(), "--simulate")
    assert "Replayed on 1 past decisions: 1 change." in said.stdout
    assert "About -1 attempts" in said.stdout
    assert f"J-{retried.job_id} #1: temporary_unavailable retry_with_backoff (51-server-error)" in said.stdout
    assert "-> open_circuit (51-server-error), tighter" in said.stdout
    assert PolicyVersion.objects.count() == 1


def test_json_is_one_line_with_the_matrix(file, call, retried):
    (found,) = call("publish_policy", file(), "--simulate", "--json").lines
    assert (found["valid"], found["number"], found["active"]) == (True, None, False)
    matrix = found["simulation"]["matrix"]
    assert matrix == [{"old": "retry_with_backoff", "new": "open_circuit", "count": 1}]
    assert found["simulation"]["changed"][0]["job_id"] == retried.job_id
    assert found["simulation"]["attempts"] == -1


def test_a_mistake_is_named_with_file_and_line_and_nothing_is_stored(file, refusal):
    bad = TEXT.replace('risk = "external_side_effect"\nattempts = 1', 'risk = "external_side_effect"\nattempts = 2')
    said = refusal("publish_policy", file(bad))
    line = next(number for number, text in enumerate(bad.splitlines(), 1) if "external_side_effect" in text)
    assert said.code == 2
    assert f"draft.toml:{line - 1}:" in said.stderr or f"draft.toml:{line}:" in said.stderr
    assert "exactly 1 attempt" in said.stderr
    assert PolicyVersion.objects.count() == 0


def test_a_failing_case_of_its_own_is_refused(file, refusal):
    case = '\n[[cases]]\nid = "c"\nexit_code = 9\nexpected_class = "transient"\nexpected_action = "retry"\n'
    said = refusal("publish_policy", file(TEXT + case))
    assert (said.code, "case c gives unknown, review" in said.stderr) == (1, True)
    assert PolicyVersion.objects.count() == 0


def test_activation_needs_a_reason_and_nothing_is_stored_without(file, refusal):
    assert refusal("publish_policy", file(), "--activate").code == 2
    assert PolicyVersion.objects.filter(number=2).count() == 0


def test_only_an_owner_may_be_named_as_who_does_it(file, call, refusal):
    User.objects.create_user("olga")
    assert "no owner" in refusal("publish_policy", file(), "--as", "olga").stderr
    User.objects.get().groups.add(Group.objects.get_or_create(name="owners")[0])
    call("publish_policy", file(), "--as", "olga")
    assert PolicyVersion.objects.get(number=2).author == "user:olga"


def test_classify_failures_takes_the_number_of_a_version(file, call, refusal, tmp_path):
    cases = tmp_path / "cases.jsonl"
    cases.write_text(json.dumps({"id": "a", "program": "tool", "exit_code": 1, "http_status": 503}) + "\n")
    looser = 'code = "temporary_unavailable"\naction = "retry"'
    assert TEXT.count(looser) == 1
    call("publish_policy", file(TEXT.replace(looser, looser.replace("retry", "review"))))
    answers = [
        call("classify_failures", "--jsonl", str(cases), "--policy", number).lines[0]["action"] for number in ("1", "2")
    ]
    assert answers == ["retry", "review"]
    assert "no policy version 7" in refusal("classify_failures", "--jsonl", str(cases), "--policy", "7").stderr
