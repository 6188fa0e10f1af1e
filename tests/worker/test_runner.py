"""A message is a hint: one that comes twice, late or for nothing changes nothing (L1)."""

import subprocess
import sys

import pytest

from jobs.models import Attempt
from tests.worker.engine import ROOT, Engine, assert_whole, attempts, ended, until

pytestmark = [pytest.mark.engine, pytest.mark.xdist_group("engine")]
# A worker that takes the same messages as its rival, at the same moment.
RIVAL = """
import sys, time
from pathlib import Path
from jobs.worker.runner import run_message

room, name, ids = Path(sys.argv[1]), sys.argv[2], sys.argv[3:]
(room / f"ready-{name}").touch()
while not (room / "go").exists():
    time.sleep(0.001)
print(*[run_message(int(job_id)) for job_id in ids], sep=",")
"""


def test_two_workers_with_the_same_messages_at_once_claim_each_job_once(engine: Engine) -> None:
    repository = engine.repository()
    jobs = [engine.job(repository) for _ in range(4)]
    command = [sys.executable, "-c", f"import django; django.setup(){RIVAL}", str(engine.room)]
    environment = engine.environment(DJANGO_SETTINGS_MODULE="agentq_site.settings")
    rivals = [
        subprocess.Popen(
            [*command, name, *(str(job.pk) for job in jobs)],
            cwd=ROOT,
            env=environment,
            stdout=subprocess.PIPE,
            text=True,
        )
        for name in ("a", "b")
    ]
    until(lambda: len(list(engine.room.glob("ready-*"))) == 2)
    (engine.room / "go").touch()
    answers = [rival.communicate()[0].strip().split(",") for rival in rivals]
    assert sorted(sorted(pair) for pair in zip(*answers, strict=True)) == [["not claimed", "ran"]] * len(jobs)
    for job in jobs:
        ended(job)
        assert attempts(job) == [(1, "accepted")]
    assert_whole(*jobs)


def test_a_message_for_a_finished_or_unknown_job_runs_nothing(engine: Engine) -> None:
    job = engine.job(engine.repository())
    script = "import django; django.setup(); from jobs.worker.runner import run_message as run"
    calls = f"print(run({job.pk}), run({job.pk}), run({job.pk + 1}), sep=',')"
    done = subprocess.run(
        [sys.executable, "-c", f"{script}; {calls}"],
        cwd=ROOT,
        env=engine.environment(DJANGO_SETTINGS_MODULE="agentq_site.settings"),
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == "ran,not claimed,not claimed"
    assert Attempt.objects.count() == 1
