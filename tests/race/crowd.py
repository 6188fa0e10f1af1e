"""Many real processes on one database, for the tests beside it.

This process loads Django once and forks; the children hold at a barrier until all of them stand there.
"""

import json
import os
import sys
import traceback

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "agentq_site.settings")
django.setup()

from django.core.management import call_command  # noqa: E402
from django.db import connections  # noqa: E402

from jobs.core.states import Event  # noqa: E402
from jobs.errors import ClaimRefused, DecisionRefused, StaleJob  # noqa: E402
from jobs.models import ReviewCase  # noqa: E402
from jobs.services import (  # noqa: E402
    audit,
    cases,
    clock,
    enqueue,
    leases,
    policies,
    repositories,
    reviews,
    transitions,
)
from jobs.services.transitions import Change  # noqa: E402


def main() -> None:
    source, act, size, amount = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    call_command("migrate", verbosity=0)
    policies.active()  # read once here instead of once in each process
    repositories.register(
        name="demo/crowd", location=source, actor="user:owner", concurrency=3 if act == "limited" else 1000
    )
    if act in ("claim", "limited"):
        requests = [_request(f"line {number}") for number in range(amount)]
        list(enqueue.enqueue_many(requests, actor="user:ana"))
    if act in ("decide", "take"):
        _in_review("secret_found" if amount == 2 else "unknown")
    connections.close_all()
    acts = {"enqueue": one_key, "claim": claims, "append": appends, "limited": few, "decide": decides, "take": takes}
    for answer in crowd(acts[act], size, amount):
        sys.stdout.write(json.dumps(answer) + "\n")


def crowd(act, size: int, amount: int) -> list:
    """What each of the processes answered."""
    barrier, gate = os.pipe()
    answers = []
    for number in range(size):
        reading, writing = os.pipe()
        if (pid := os.fork()) == 0:
            os.close(gate)
            os.close(reading)
            _one_of_them(act, number, amount, barrier, writing)
        os.close(writing)
        answers.append((pid, reading))
    os.close(gate)
    found = []
    for pid, reading in answers:
        with os.fdopen(reading) as file:
            text = file.read()
        _, status = os.waitpid(pid, 0)
        assert status == 0, f"a process ended with {status}"
        found.append(json.loads(text))
    return found


def _one_of_them(act, number: int, amount: int, barrier: int, writing: int) -> None:
    """The life of one process; it never comes back from here."""
    status = 1
    try:
        connections["default"].ensure_connection()
        os.read(barrier, 1)  # returns for all at once, when the parent closes the gate
        with os.fdopen(writing, "w") as file:
            json.dump(act(number, amount), file)
        status = 0
    except Exception:  # noqa: BLE001  whatever it was, the parent is to read it and go no further
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(status)


def one_key(number: int, _amount: int) -> list:
    answer = enqueue.enqueue(_request("the same"), actor=f"user:{number}")
    return [answer.job_id, answer.created, answer.state]


def claims(number: int, _amount: int) -> list:
    """Reserve and claim until nothing is left; the jobs that this process got."""
    mine = []
    while (reserved := leases.reserve(f"cluster-{number % 2}", "agentq")) is not None or leases.ready_count("agentq"):
        if reserved is None:
            continue
        try:
            mine.append([reserved.job_id, leases.claim(reserved.job_id, worker=f"w-{number}").held.fence])
        except (ClaimRefused, StaleJob) as refusal:
            mine.append([reserved.job_id, str(refusal)])
    return mine


def few(number: int, amount: int) -> int:
    """How many of the jobs this process could claim, tried in one order by all of them at once."""
    got = 0
    for job_id in range(1, amount + 1):
        try:
            leases.claim(job_id, worker=f"w-{number}")
            got += 1
        except (ClaimRefused, StaleJob):
            continue
    return got


def appends(number: int, amount: int) -> list:
    return [audit.note("node", "seen", f"node:{number}") for _ in range(amount)]


def decides(number: int, _amount: int) -> str:
    """One person approves the only case, as everybody else does."""
    case = ReviewCase.objects.get()
    decision = reviews.Decision(Event.APPROVE, "looked at it", job_version=case.job_version)
    try:
        return str(reviews.decide(case.pk, decision, actor=f"user:{number}").state)
    except (DecisionRefused, StaleJob) as refusal:
        return type(refusal).__name__


def takes(number: int, _amount: int) -> bool:
    try:
        return bool(cases.claim(ReviewCase.objects.get().pk, actor=f"user:{number}"))
    except (DecisionRefused, StaleJob):
        return False


def _in_review(reason: str) -> None:
    """One job waits for people, with a result: two of them after a secret was found, else one."""
    answer = enqueue.enqueue(_request("reviewed"), actor="user:ana")
    leases.claim(answer.job_id, worker="w")
    held = transitions.load(answer.job_id, policy=1)
    change = Change(job={"result_digest": "a" * 64, "next_stage": "inspect"})
    transitions.transition(held, Event.HOLD, actor="worker:w", at=clock.now(), reason=reason, change=change)


def _request(text: str) -> enqueue.Request:
    return enqueue.Request("demo/crowd", "main", "sample-agent", {"paths": ["notes.md"], "text": text})


if __name__ == "__main__":
    main()
