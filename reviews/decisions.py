"""A job's decisions and budgets as its page shows them: by which rule and version, and on what (P1, B1)."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from jobs.core.policy import Rule
from jobs.errors import PolicyRefused
from jobs.models import FailureRecord, Job
from jobs.services import policies

ACTIONS = {
    "retry_with_backoff": gettext_lazy("retry"),
    "wait": gettext_lazy("wait"),
    "pause": gettext_lazy("pause"),
    "human_check": gettext_lazy("review"),
    "open_circuit": gettext_lazy("budget used up"),
    "stop": gettext_lazy("stop"),
}
TONES = {"retry_with_backoff": "live", "wait": "live", "pause": "warn", "stop": "bad", "open_circuit": "bad"}


@dataclass(frozen=True, slots=True)
class Decided:
    """One decision. `why` is the sentence that its rule carries in the version that decided, not in today's."""

    record: FailureRecord
    action: str
    tone: str
    why: str
    seen: list[tuple[str, str]]
    looked_at: list[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Budget:
    """One budget of a job: used and allowed. `used` None: nobody knows; `most` None: no limit."""

    label: str
    used: float | None
    most: float | None

    @property
    def known(self) -> bool:
        return self.used is not None and bool(self.most)


def decisions(job: Job) -> list[Decided]:
    """Every decision about a failed attempt of the job, newest first."""
    return [_decided(record) for record in FailureRecord.objects.filter(job=job).order_by("-fence")]


def budgets(job: Job) -> list[Budget]:
    """What the job may use in all its attempts; unknown use stays unknown and is never shown as 0 (B1)."""
    tokens = job.tokens_spent if job.fence else 0
    return [
        Budget(_("Attempts"), job.charged, job.max_attempts),
        Budget(_("Seconds, all attempts"), job.seconds_spent, job.max_seconds),
        Budget(_("Context tokens"), tokens, job.max_tokens),
    ]


def action_text(action: str) -> str:
    """A decision's action as people read it."""
    return str(ACTIONS.get(action, action))


def _decided(record: FailureRecord) -> Decided:
    return Decided(
        record=record,
        action=action_text(record.action),
        tone=TONES.get(record.action, "acc"),
        why=_why(record),
        seen=_seen(record.facts),
        looked_at=_looked_at(record),
    )


def _why(record: FailureRecord) -> str:
    if record.rule.startswith("budget:"):
        return _("A used-up budget stops the job before its next step.")
    if record.rule.startswith("code:"):
        return _("AgentQ itself found this; its policy says what the code means.")
    rule = _rule(record)
    return rule.why if rule else _("No rule knows this failure, so a person looks at it.")


def _rule(record: FailureRecord) -> Rule | None:
    try:
        rules = policies.rules(record.policy_number).rules
    except PolicyRefused:
        return None
    return next((rule for rule in rules if rule.id == record.rule), None)


def _seen(facts: dict[str, Any]) -> list[tuple[str, str]]:
    """The facts of the failure that say something."""
    shown = {name: facts.get(name) for name in _FACTS}
    shown["signals"] = sorted(facts.get("said", {}))
    return [
        (str(_FACTS.get(name, name)), ", ".join(map(str, value)) if isinstance(value, list) else str(value))
        for name, value in shown.items()
        if value not in (None, "", [], False)
    ]


def _looked_at(record: FailureRecord) -> list[tuple[str, str]]:
    found = record.inputs
    shown = [
        (_("attempts"), _of(found["attempts"], found["max_attempts"])),
        (_("seconds"), _of(round(found["seconds"]), found["max_seconds"])),
        (_("tokens"), _of(_("unknown") if found["tokens"] is None else found["tokens"], found["max_tokens"])),
        (_("same cause in a row"), str(found["same_cause"])),
        (_("retries among starts"), _of(found["retries"], found["starts"])),
        (_("risk"), str(found["risk"])),
    ]
    if found["deadline"]:
        shown.append((_("deadline"), f"{datetime.fromisoformat(found['deadline']):%Y-%m-%d %H:%M} UTC"))
    if found["tools_used"]:
        shown.append((_("tools used"), ", ".join(found["tools_used"])))
    return shown


def _of(part: object, whole: object) -> str:
    return str(part) if whole is None else _("%(part)s of %(whole)s") % {"part": part, "whole": whole}


_FACTS = {
    "program": gettext_lazy("program"),
    "stage": gettext_lazy("stage"),
    "exit_code": gettext_lazy("exit code"),
    "signal": gettext_lazy("signal"),
    "http_status": gettext_lazy("HTTP status"),
    "exception_types": gettext_lazy("exceptions"),
    "codes": gettext_lazy("codes"),
    "named": gettext_lazy("named as"),
    "marks": gettext_lazy("marks"),
    "retry_after": gettext_lazy("retry after (s)"),
    "retry_forbidden": gettext_lazy("retry forbidden"),
}
