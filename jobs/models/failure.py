"""What was decided about each failed attempt, on what, and the failures that people judge (P1, P2, M4)."""

from django.db import models
from django.db.models import Q

from jobs.core.decisions import Action
from jobs.core.policy import CLASSES
from jobs.models.job import Job


class FailureRecord(models.Model):
    """One decision about one ended attempt, written with its transition and never changed.

    `facts` is what the classifier saw, without any text of a tool (Z1); `inputs` is what else the decision looked at.
    `failure_class` is empty where no failure was judged: a used-up budget stopped the job before its next step.
    """

    job = models.ForeignKey(Job, on_delete=models.PROTECT, related_name="failures", db_constraint=False, db_index=False)
    fence = models.PositiveIntegerField()
    at = models.DateTimeField()
    stage = models.CharField(max_length=10)
    risk = models.CharField(max_length=24)
    program = models.CharField(max_length=64)
    policy_number = models.PositiveIntegerField()
    failure_class = models.CharField(max_length=24)
    code = models.CharField(max_length=64)
    rule = models.CharField(max_length=80)
    rules = models.JSONField()
    confidence = models.CharField(max_length=8)
    fingerprint = models.CharField(max_length=64)
    action = models.CharField(max_length=24)
    reason = models.CharField(max_length=64)
    trip = models.CharField(max_length=16)
    delay_seconds = models.FloatField()
    seconds = models.FloatField()
    facts = models.JSONField()
    facts_digest = models.CharField(max_length=64)
    inputs = models.JSONField()

    class Meta:
        indexes = [
            models.Index(fields=["fingerprint", "-id"], name="failure_fingerprint"),
            models.Index(fields=["program", "-id"], name="failure_program"),
            models.Index(fields=["-id"], name="failure_unknown", condition=Q(failure_class="unknown")),
            models.Index(fields=["policy_number"], name="failure_policy"),
        ]
        constraints = [
            models.UniqueConstraint(fields=["job", "fence"], name="failure_one_per_attempt"),
            models.CheckConstraint(condition=Q(failure_class__in=("", *CLASSES)), name="failure_class_known"),
            models.CheckConstraint(
                condition=Q(action__in=[action.value for action in Action]), name="failure_action_known"
            ),
            models.CheckConstraint(
                condition=Q(confidence__in=("high", "low", "none")), name="failure_confidence_known"
            ),
            models.CheckConstraint(condition=Q(facts_digest__length=64), name="failure_facts_digest_is_sha256"),
            models.CheckConstraint(
                condition=~Q(risk="external_side_effect") | ~Q(action__in=(Action.RETRY.value, Action.WAIT.value)),
                name="failure_outward_never_repeated",
            ),
        ]

    def __str__(self) -> str:
        return f"J-{self.job_id} attempt {self.fence}: {self.code}, {self.action}"


class Kind(models.TextChoices):
    """Why a failure is in the sample."""

    NOT_RETRIED = "not_retried", "not retried"
    UNKNOWN = "unknown", "no rule knew it"


class Judgement(models.TextChoices):
    """What a person says of it; empty until then."""

    OPEN = "", "not judged yet"
    RIGHT = "rightly_stopped", "rightly stopped"
    RETRY = "should_retry", "should have been retried"
    RULE = "new_rule", "needs a new rule"


class FailureSample(models.Model):
    """A failure drawn for a week's sample. `week` is its Monday (UTC)."""

    record = models.OneToOneField(FailureRecord, on_delete=models.PROTECT, related_name="sample")
    kind = models.CharField(max_length=12, choices=Kind.choices)
    week = models.DateField()
    drawn_at = models.DateTimeField()
    judgement = models.CharField(max_length=16, choices=Judgement.choices, default="")
    judged_by = models.CharField(max_length=150, default="")
    judged_at = models.DateTimeField(null=True)
    note = models.CharField(max_length=500, default="")

    class Meta:
        indexes = [models.Index(fields=["-week", "id"], name="sample_week")]
        constraints = [
            models.CheckConstraint(condition=Q(kind__in=Kind.values), name="sample_kind_known"),
            models.CheckConstraint(condition=Q(judgement__in=Judgement.values), name="sample_judgement_known"),
            models.CheckConstraint(
                condition=Q(judgement="", judged_by="", judged_at__isnull=True)
                | ~Q(judgement="") & ~Q(judged_by="") & Q(judged_at__isnull=False),
                name="sample_judged_whole",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.week:%G-W%V} J-{self.record.job_id}: {self.judgement or 'open'}"
