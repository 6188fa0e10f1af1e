"""Review cases, what people decided on them, and what one owner decided alone (H1, H2)."""

from django.db import models
from django.db.models import F, Q

from jobs.core.cases import TWO_PEOPLE
from jobs.models.job import Job


class ReviewRisk(models.TextChoices):
    """How much harm a wrong decision does; it sets the target and how many people decide."""

    LOW = "low", "low"
    MEDIUM = "medium", "medium"
    HIGH = "high", "high"


class ReviewCase(models.Model):
    """Opened inside the transition to review, closed inside the one that leaves it. `allowed` lists the decisions.

    `requested_by` is a copy of the job's. A claim counts until `claimed_until`; `due_at` is a target, nothing
    happens by itself when it passes but that the takeover person is told.
    """

    job = models.ForeignKey(Job, on_delete=models.PROTECT, related_name="cases")
    reason = models.CharField(max_length=64)
    allowed = models.JSONField()
    policy_number = models.PositiveIntegerField()
    job_version = models.PositiveIntegerField()
    result_digest = models.CharField(max_length=64, default="")
    snapshot = models.CharField(max_length=64, default="")
    requested_by = models.CharField(max_length=150, default="")
    risk = models.CharField(max_length=6, choices=ReviewRisk.choices, default=ReviewRisk.MEDIUM)
    required_approvals = models.PositiveSmallIntegerField(default=1)
    cancel_requested = models.BooleanField(default=False)
    pause_requested = models.CharField(max_length=64, default="")
    opened_at = models.DateTimeField()
    due_at = models.DateTimeField(null=True)
    escalated_at = models.DateTimeField(null=True)
    claimed_by = models.CharField(max_length=150, default="")
    claimed_until = models.DateTimeField(null=True)
    assigned_to = models.CharField(max_length=150, default="")
    snoozed_until = models.DateTimeField(null=True)
    closed_at = models.DateTimeField(null=True)

    class Meta:
        indexes = [
            models.Index(fields=["due_at"], name="case_open_due", condition=Q(closed_at__isnull=True)),
        ]
        constraints = [
            models.UniqueConstraint(fields=["job"], condition=Q(closed_at__isnull=True), name="case_one_open_per_job"),
            models.CheckConstraint(condition=~Q(reason=""), name="case_reason_not_empty"),
            models.CheckConstraint(condition=Q(risk__in=ReviewRisk.values), name="case_risk_known"),
            models.CheckConstraint(
                condition=Q(risk=ReviewRisk.HIGH, required_approvals=2)
                | ~Q(risk=ReviewRisk.HIGH) & Q(required_approvals=1),
                name="case_high_risk_takes_two",
            ),
            models.CheckConstraint(
                condition=Q(claimed_by="", claimed_until__isnull=True)
                | ~Q(claimed_by="") & Q(claimed_until__isnull=False),
                name="case_claim_whole",
            ),
        ]

    def __str__(self) -> str:
        return f"case {self.pk} of J-{self.job_id}: {self.reason}"


class ReviewDecision(models.Model):
    """Append-only. `grants` raises the job's own maxima; `note` is a clarification of ≤ 4 KiB for the stage named.

    `closing` is the decision that moved the job; another one is the first of two approvals. `requested_by` and
    `risk` are copies that a trigger compares, so that the rules about who may decide hold in the row itself.
    """

    case = models.ForeignKey(ReviewCase, on_delete=models.PROTECT, related_name="decisions")
    job = models.ForeignKey(Job, on_delete=models.PROTECT, related_name="decisions")
    decision = models.CharField(max_length=20)
    actor = models.CharField(max_length=150)
    reason = models.CharField(max_length=500)
    note = models.CharField(max_length=4096, default="")
    stage = models.CharField(max_length=10, default="")
    outcome = models.CharField(max_length=10, default="")
    grants = models.JSONField(default=dict)
    job_version = models.PositiveIntegerField()
    result_digest = models.CharField(max_length=64, default="")
    policy_number = models.PositiveIntegerField()
    requested_by = models.CharField(max_length=150, default="")
    risk = models.CharField(max_length=6, choices=ReviewRisk.choices, default=ReviewRisk.MEDIUM)
    closing = models.BooleanField(default=True)
    break_glass = models.BooleanField(default=False)
    created_at = models.DateTimeField()

    class Meta:
        indexes = [models.Index(fields=["actor", "-id"], name="decision_actor_newest")]
        constraints = [
            models.CheckConstraint(condition=~Q(actor=""), name="decision_actor_not_empty"),
            models.CheckConstraint(condition=~Q(reason=""), name="decision_reason_not_empty"),
            models.CheckConstraint(condition=Q(risk__in=ReviewRisk.values), name="decision_risk_known"),
            models.UniqueConstraint(
                fields=["case", "actor"], condition=Q(decision__in=TWO_PEOPLE), name="decision_one_approval_per_person"
            ),
            models.UniqueConstraint(fields=["case"], condition=Q(closing=True), name="decision_one_closes_a_case"),
            models.CheckConstraint(
                condition=~Q(risk=ReviewRisk.HIGH) | Q(decision="cancel") | ~Q(actor=F("requested_by")),
                name="decision_not_on_own_risky_job",
            ),
            models.CheckConstraint(
                condition=Q(closing=True) | Q(risk=ReviewRisk.HIGH, decision__in=TWO_PEOPLE, break_glass=False),
                name="decision_open_only_as_first_of_two",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.decision} by {self.actor}"


class FollowUp(models.Model):
    """One owner decided alone (break-glass): another person looks at it afterwards, by `due_at`."""

    case = models.OneToOneField(ReviewCase, on_delete=models.PROTECT, related_name="follow_up")
    opened_by = models.CharField(max_length=150)
    reason = models.CharField(max_length=500)
    opened_at = models.DateTimeField()
    due_at = models.DateTimeField()
    closed_by = models.CharField(max_length=150, default="")
    closed_at = models.DateTimeField(null=True)
    note = models.CharField(max_length=500, default="")

    class Meta:
        constraints = [
            models.CheckConstraint(condition=~Q(opened_by="") & ~Q(reason=""), name="follow_up_has_person_and_reason"),
            models.CheckConstraint(
                condition=Q(closed_by="", closed_at__isnull=True, note="")
                | ~Q(closed_by="") & ~Q(note="") & Q(closed_at__isnull=False),
                name="follow_up_closed_whole",
            ),
            models.CheckConstraint(condition=~Q(closed_by=F("opened_by")), name="follow_up_by_another_person"),
        ]

    def __str__(self) -> str:
        return f"follow-up of case {self.case_id}"


class ViewedFile(models.Model):
    """A person's own tick at a file of a case's diff. A case stands for one result, so the tick does too."""

    case = models.ForeignKey(ReviewCase, on_delete=models.PROTECT, related_name="viewed")
    actor = models.CharField(max_length=150)
    path = models.CharField(max_length=1000)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["case", "actor", "path"], name="viewed_once")]

    def __str__(self) -> str:
        return f"{self.path} seen by {self.actor}"
