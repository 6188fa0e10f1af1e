"""`enqueue_job`: one way in like the form's, thousands at once, and one clear sentence for bad input (E1, K1, K2)."""

import json
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group

from jobs.models import AuditEvent, Job
from jobs.services import control
from tests import factories
from tests.commands.conftest import ended, manage

PAYLOAD = '{"paths": ["notes.md"], "text": "hello"}'


def words(repository, *more, **changed):
    values = {"repo": repository.name, "branch": "main", "action": "sample-agent", "payload": PAYLOAD} | changed
    return ["enqueue_job", *(f"--{name}={value}" for name, value in values.items()), *more]


def nested(levels):
    return '{"text": ' + "[" * (levels - 1) + "]" * (levels - 1) + "}"


@pytest.mark.django_db
def test_the_answer_is_one_json_line_and_the_second_asker_gets_the_same_job_and_the_way_on(call, repository):
    first = call(*words(repository)).lines
    job = Job.objects.get()
    key = job.idempotency_key
    assert first == [{"job_id": job.pk, "created": True, "idempotency_key": key, "state": "queued"}]
    (second,) = call(*words(repository, "--json")).lines
    assert second.pop("way_on")
    assert second == {"job_id": job.pk, "created": False, "idempotency_key": key, "state": "queued"}
    assert Job.objects.count() == 1


@pytest.mark.django_db
def test_every_option_reaches_the_job(call, repository):
    ana = get_user_model().objects.create_user("ana")
    ana.groups.add(Group.objects.get_or_create(name="operators")[0])
    get_user_model().objects.create_user("bob")
    options = ["--workflow-version=v1", "--priority=-3", "--batch=night", "--takeover=bob", "--as=ana"]
    call(*words(repository, *options, "--deadline=2199-01-01T08:00:00+08:00"))
    job = Job.objects.get()
    assert (job.workflow.version, job.priority, job.batch.name) == ("v1", -3, "night")
    assert (job.takeover_person, job.requested_by) == ("bob", "user:ana")
    assert job.deadline.isoformat() == "2199-01-01T00:00:00+00:00"


@pytest.mark.django_db
def test_without_a_named_user_the_account_at_the_terminal_is_the_actor(call, repository, monkeypatch):
    monkeypatch.setenv("LOGNAME", "somebody-else")
    call(*words(repository))
    requested_by = Job.objects.get().requested_by
    assert requested_by.startswith("command:") and "somebody-else" not in requested_by


@pytest.mark.django_db
def test_an_unknown_or_inactive_user_cannot_act(refusal, repository):
    get_user_model().objects.create_user("gone", is_active=False)
    for name in ("nobody", "gone"):
        said = refusal(*words(repository, f"--as={name}"))
        assert (said.code, name in said.stderr) == (2, True)
    assert not Job.objects.exists()


@pytest.mark.django_db
def test_a_user_whose_role_does_not_allow_it_is_refused_on_record(refusal, repository):
    get_user_model().objects.create_user("vera")
    said = refusal(*words(repository, "--as=vera"))
    assert (said.code, "vera may not do this" in said.stderr) == (1, True)
    assert not Job.objects.exists()
    assert AuditEvent.objects.get(stream="auth").actor == "user:vera"


@pytest.mark.django_db
def test_a_payload_may_come_from_a_file(call, repository, tmp_path):
    (tmp_path / "payload.json").write_text(PAYLOAD)
    (first,) = call(*words(repository, payload=f"@{tmp_path / 'payload.json'}")).lines
    (second,) = call(*words(repository)).lines
    assert first["created"] and second["job_id"] == first["job_id"]


@pytest.mark.django_db
def test_again_makes_a_new_job_of_one_that_ended_and_needs_a_reason(call, refusal, repository):
    (first,) = call(*words(repository)).lines
    control.cancel(first["job_id"], actor="user:ana", reason="not yet")
    said = refusal("enqueue_job", f"--again={first['job_id']}")
    assert said.code == 2 and "why" in said.stderr
    (second,) = call("enqueue_job", f"--again=J-{first['job_id']}", "--reason=needed after all").lines
    assert second["created"] and second["job_id"] != first["job_id"]
    said = refusal("enqueue_job", "--again=987654", "--reason=x")
    assert said.code == 2 and "J-987654" in said.stderr


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("changed", "names"),
    [
        ({"repo": "nowhere"}, "nowhere"),
        ({"branch": "gone"}, "gone"),
        ({"branch": "bad..name"}, "bad..name"),
        ({"branch": "x\x1b[31mred"}, "\\x1b[31mred"),
        ({"action": "sample-agnt"}, "sample-agent"),
        ({"workflow-version": "v9"}, "v9"),
        ({"payload": "{"}, "not JSON"),
        ({"payload": "[1]"}, "JSON object"),
        ({"payload": nested(21)}, "20 levels"),
        ({"payload": nested(100_000)}, "20 levels"),
        ({"payload": '{"text": "' + "x" * 65_536 + '"}'}, "64 KiB"),
        ({"payload": '{"text": "a", "text": "b"}'}, "twice"),
        ({"payload": '{"text": NaN}'}, "NaN"),
        ({"payload": '{"text": "\\ud800"}'}, "surrogate"),
        ({"payload": '{"text": "\\u0000"}'}, "NUL"),
        ({"payload": "@missing.json"}, "missing.json"),
        ({"payload": "@/"}, "directory"),
        ({"action": "run-command", "payload": '{"command": "rm"}'}, "touch"),
        ({"priority": "101"}, "100"),
        ({"batch": "b" * 121}, "120"),
        ({"date": "20261129"}, "2026-11-29"),
        ({"deadline": "2020-01-01T00:00:00Z"}, "passed"),
        ({"takeover": "nobody"}, "nobody"),
    ],
)
def test_bad_input_gets_one_sentence_and_exit_code_2_and_stores_nothing(refusal, repository, changed, names):
    said = refusal(*words(repository, **changed))
    assert (said.code, said.stdout) == (2, "")
    assert names in said.stderr
    assert said.stderr.strip().isprintable() and said.stderr.count("\n") == 1
    assert not Job.objects.exists()


@pytest.mark.django_db
def test_a_payload_of_twenty_levels_is_not_too_deep(refusal, repository):
    # Its field is still no list, which is what the action then says.
    said = refusal(*words(repository, action="sample-report", payload=nested(20).replace("text", "task")))
    assert "must be text" in said.stderr


@pytest.mark.django_db
@pytest.mark.parametrize(
    "argv",
    [
        ["--repo=r", "--branch=main"],
        ["--reason=because"],
        ["--jsonl=x", "--again=1", "--reason=y"],
        ["--jsonl=x", "--payload={}"],
        ["--again=1", "--reason=y", "--repo=r"],
        ["--again=0"],
        ["--again=many"],
        ["--deadline=2199-01-01T00:00:00"],
        ["--deadline=tomorrow"],
        ["--deadline=9999-12-31T23:59:59-23:00"],
        ["--priority=high"],
    ],
)
def test_options_that_do_not_go_together_are_bad_usage(refusal, argv):
    # Django's parser raises without an exit code of its own when it is called in a process; its own is 2.
    assert refusal("enqueue_job", *argv).code in (1, 2)


@pytest.mark.django_db
def test_a_branch_that_was_deleted_meanwhile_is_named(refusal, call, repository, tmp_path):
    source = tmp_path / "source"
    factories.git(source, "branch", "feature")
    call(*words(repository, branch="feature"))
    factories.git(source, "branch", "-D", "feature")
    said = refusal(*words(repository, branch="feature", payload='{"paths": ["b"], "text": "b"}'))
    assert said.code == 2 and "'feature'" in said.stderr
    assert Job.objects.count() == 1


@pytest.mark.django_db
def test_a_repository_that_vanished_is_named(refusal, repository, tmp_path):
    (tmp_path / "source").rename(tmp_path / "elsewhere")
    said = refusal(*words(repository))
    assert said.code == 2 and str(tmp_path / "source") in said.stderr


@pytest.mark.django_db
def test_two_hundred_jobs_over_ten_repositories_are_made_once(call, tmp_path):
    names = [factories.repository(tmp_path / f"source-{number}").name for number in range(10)]
    file = tmp_path / "jobs.jsonl"
    with file.open("w") as out:
        for number in range(200):
            line = {"repo": names[number % 10], "branch": "main", "action": "sample-agent"}
            out.write(json.dumps(line | {"payload": {"paths": ["a.md"], "text": f"line {number}"}}) + "\n")
    first = call("enqueue_job", "--jsonl", str(file))
    assert [line["created"] for line in first.lines] == [True] * 200
    assert first.stderr == ""
    second = call("enqueue_job", "--jsonl", str(file))
    assert [line["created"] for line in second.lines] == [False] * 200
    assert all(line["way_on"] for line in second.lines)
    assert [line["job_id"] for line in second.lines] == [line["job_id"] for line in first.lines]
    assert Job.objects.count() == 200


@pytest.mark.django_db
def test_options_fill_in_what_a_line_leaves_out(call, repository, tmp_path):
    lines = [{"payload": {"paths": ["a"], "text": "1"}}, {"payload": {"paths": ["a"], "text": "2"}, "batch": "other"}]
    (tmp_path / "jobs.jsonl").write_text("\n\n".join(json.dumps(line) for line in lines))
    options = [f"--repo={repository.name}", "--branch=main", "--action=sample-agent", "--batch=night"]
    call("enqueue_job", f"--jsonl={tmp_path / 'jobs.jsonl'}", *options)
    assert list(Job.objects.order_by("pk").values_list("batch__name", flat=True)) == ["night", "other"]


GOOD = b'{"repo": "%s", "branch": "main", "action": "sample-agent", "payload": {"paths": ["a"], "text": "b"}}'


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("bad", "field", "names"),
    [
        (b"{", "", "not JSON"),
        (b"[]", "", "JSON object"),
        (b"\xff", "", "UTF-8"),
        (b"[" * 100_000, "payload", "deep"),
        (b'{"repo": 1}', "branch", "missing"),
        (b'{"repo": 1, "branch": "main", "action": "a"}', "repo", "text"),
        (b'{"repo": "a\\u0000", "branch": "main", "action": "sample-agent"}', "repo", "NUL"),
        (b'{"repo": "\\ud800", "branch": "main", "action": "sample-agent"}', "repo", "surrogate"),
        (b'{"repo": "no", "branch": "main", "action": "sample-agent"}', "repo", "no repository no"),
        (b'{"repo": "a", "repo": "b"}', "repo", "twice"),
        (b'{"colour": "red"}', "colour", "no key"),
        (GOOD.replace(b'"main"', b'"main", "priority": true'), "priority", "whole number"),
        (GOOD.replace(b'"main"', b'"main", "priority": 1e400'), "priority", "whole number"),
        (GOOD.replace(b'"main"', b'"main", "priority": ' + b"9" * 5000), "", "too long"),
        (GOOD.replace(b'"main"', b'"main", "deadline": "soon"'), "deadline", "time"),
        (GOOD.replace(b'"b"', b"NaN"), "text", "NaN"),
        (GOOD.replace(b'"b"', b'"\\u0000"'), "text", "NUL"),
        (GOOD.replace(b'"b"', b"[" * 19 + b"]" * 19), "text", "must be text"),
        (GOOD.replace(b'"b"', b"[" * 20 + b"]" * 20), "", "20 levels"),
        (GOOD.replace(b'"b"', b'"' + b"x" * 600_000 + b'"'), "", "KiB"),
        (GOOD.replace(b"sample-agent", b"sample-agnt"), "action", "sample-agent"),
    ],
)
def test_a_bad_line_is_named_with_its_number_and_field_and_the_others_are_enqueued(
    refusal, repository, tmp_path, bad, field, names
):
    good = GOOD % repository.name.encode()
    if bad.startswith(b'{"repo": "%s"'):
        bad = bad % repository.name.encode()
    (tmp_path / "jobs.jsonl").write_bytes(b"\n".join([good, b"", bad, good.replace(b'"b"', b'"c"')]) + b"\n")
    said = refusal("enqueue_job", "--jsonl", str(tmp_path / "jobs.jsonl"))
    assert said.code == 1
    assert [line["created"] for line in said.lines] == [True, True]
    refused, sentence = said.stderr.splitlines()
    assert json.loads(refused)["line"] == 3
    assert json.loads(refused)["field"] == field and names in json.loads(refused)["error"]
    assert "1 of 3" in sentence
    assert Job.objects.count() == 2


@pytest.mark.django_db(transaction=True)
def test_two_processes_with_the_same_lines_in_opposite_order_make_each_job_once(database, tmp_path):
    """On PostgreSQL the two used to lock each other out again and again."""
    source = factories.source(tmp_path / "source")
    name = f"race/{tmp_path.name}"
    assert ended(manage("register_repo", name, str(source), **database)).code == 0
    argv = ["enqueue_job", "--jsonl=-", f"--repo={name}", "--branch=main", "--action=sample-agent"]
    processes = [manage(*argv, **database) for _ in range(2)]
    for own, process in enumerate(processes):  # a chunk of its own, so that both are known to be at work
        process.stdin.write("".join(job_line(f"own {own} {number}") for number in range(200)).encode())
        process.stdin.flush()
    answers = [process.stdout.readline() for process in processes]
    shared = [job_line(str(number), batch=f"batch {number % 3}") for number in range(150)]
    for number, ordered in enumerate((shared, shared[::-1])):
        processes[number].stdin.write("".join(ordered).encode())
        processes[number].stdin.close()
    with ThreadPoolExecutor() as readers:
        for rest in readers.map(lambda process: process.stdout.readlines(), processes):
            answers += rest
    for process in processes:
        with process:
            assert (process.stderr.read(), process.wait(timeout=120)) == (b"", 0)
    answers = [json.loads(answer) for answer in answers]
    assert sorted(line["created"] for line in answers) == [False] * 150 + [True] * 550
    assert len({line["job_id"] for line in answers}) == 550


def job_line(text, **more):
    return json.dumps({"payload": {"paths": ["a"], "text": text}} | more) + "\n"


def test_a_reader_that_stops_early_gets_no_traceback(installation, tmp_path):
    lines = "".join(json.dumps({"payload": {"paths": ["p"], "text": f"early {n}"}}) + "\n" for n in range(1000))
    (tmp_path / "jobs.jsonl").write_text(lines)
    argv = [f"--jsonl={tmp_path / 'jobs.jsonl'}", "--repo=demo/one", "--branch=main", "--action=sample-agent"]
    with manage("enqueue_job", *argv, data=installation) as process:
        process.stdout.readline()
        process.stdout.close()
        assert process.wait(timeout=120) == 1
        assert process.stderr.read() == b""


def test_a_branch_that_looks_like_an_option_is_never_one(installation):
    said = ended(
        manage("enqueue_job", "--repo=demo/one", "--branch=--upload-pack=x", "--action=sample-agent", data=installation)
    )
    assert (said.code, said.stdout) == (2, "")
    assert said.stderr.startswith("Error: ") and "Traceback" not in said.stderr
