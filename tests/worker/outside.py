"""What lies outside AgentQ in a test: a file in which each act leaves a line, and people who decide about acts."""

from typing import Any

from jobs.core.states import Event, State
from jobs.models import Job, Repository, ReviewCase, SideEffect
from jobs.services import resolutions, reviews
from tests.worker.engine import Engine, ended

PEOPLE = ("user:rea", "user:sol")
WORKFLOW = """\
name = "{name}"
version = "v1"
title = "Publish"
executor = "sample"
risk = "external_side_effect"
expects = "diff"
seconds = 300

[[fields]]
name = "paths"
kind = "paths"
required = true

[[fields]]
name = "text"
kind = "string"
required = true

[[fields]]
name = "fail_how"
kind = "enum"
choices = ["hang"]

[[fields]]
name = "fail_attempts"
kind = "integer"
"""


class Outside:
    """What lies outside AgentQ in a test: a file in which each act leaves a line."""

    def __init__(self, engine: Engine, name: str) -> None:
        self.engine, self.name = engine, name
        self.log = engine.room / f"{name}.acts"
        self.log.touch()

    def effect(self, then: str = "echo done $1", kind: str = "notify", lookup: bool = False) -> str:
        script = f'echo "$1" >> {self.log}; {then}'
        lines = ["[[effects]]", f'kind = "{kind}"', f"argv = {toml('sh', '-c', script, 'act', '{{ key }}')}"]
        if lookup:
            find = f'grep "$1" {self.log}'
            lines.append(f"lookup = {toml('sh', '-c', find, 'look', '{{ key }}')}")
        return "\n".join(lines)

    def job(self, *effects: str, autonomy: str = "effects", **payload: Any) -> Job:
        """A job that changes a file and then does these effects."""
        text = WORKFLOW.format(name=self.name) + "".join(f"\n{effect}\n" for effect in effects)
        (self.engine.room / "workflows" / f"{self.name}.toml").write_text(text)
        repository = self.engine.repository(f"demo/{self.name}")
        Repository.objects.filter(pk=repository.pk).update(autonomy=autonomy)
        return self.engine.job(repository, self.name, **payload)

    def acts(self) -> int:
        return len(self.log.read_text().splitlines())


def toml(*words: str) -> str:
    return "[" + ", ".join(f"'{word}'" for word in words) + "]"


def decide(job: Job, event: Event, **values: Any) -> None:
    """As many people decide as the case takes."""
    case = ReviewCase.objects.get(job=job, closed_at=None)
    for person in PEOPLE:
        if ReviewCase.objects.filter(pk=case.pk, closed_at=None).exists():
            decision = reviews.Decision(event=event, reason="I looked at it", job_version=case.job_version, **values)
            reviews.decide(case.pk, decision, actor=person)


def answer(job: Job, said: Any, reference: str = "seen outside") -> None:
    """As many people as it takes say what came of the job's open act."""
    effect = SideEffect.objects.filter(job=job, outcome__in=("", "unknown")).latest("pk")
    for person in PEOPLE:
        if SideEffect.objects.filter(pk=effect.pk, outcome="unknown").exists():
            resolutions.resolve(effect.pk, said, reference=reference, reason="I looked", actor=person)


def approved(job: Job) -> Job:
    """The job was held for its confirmation, and a person gave it."""
    ended(job, State.REVIEW)
    assert job.stop_reason == "confirm_effects"
    decide(job, Event.APPROVE)
    return job


def ledger(job: Job) -> list[tuple[int, str]]:
    return list(SideEffect.objects.filter(job=job).order_by("pk").values_list("number", "outcome"))
