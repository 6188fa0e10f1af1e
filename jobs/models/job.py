"""A job: one business input, its state, its lease, its budget. The table is the queue."""

from django.db import models
from django.db.models import F, Q

from jobs.core.stages import Stage
from jobs.core.states import ACTIVE, FINAL, READY, State
from jobs.models.batch import Batch
from jobs.models.policy import PolicyVersion
from jobs.models.repository import Repository
from jobs.models.workflow_version import Risk, WorkflowVersion


class Job(models.Model):
    """Written only through `services.transitions` and `services.leases`.

    `version` counts state changes, `audit_seq` events, `fence` claims. `charged` counts attempts against the
    budget. Times are UTC; on SQLite the lease is measured by `lease_boot` and `lease_until` (seconds of the
    host's boot clock), on PostgreSQL by `lease_expires_at` and the server's clock (L4).
    """

    # What was asked, fixed at enqueue.
    idempotency_key = models.CharField(max_length=64, unique=True)
    repository = models.ForeignKey(Repository, on_delete=models.PROTECT, related_name="jobs", db_index=False)
    branch = models.CharField(max_length=255)
    action = models.CharField(max_length=64)
    payload = models.TextField()  # canonical JSON: the bytes that were hashed
    workflow = models.ForeignKey(WorkflowVersion, on_delete=models.PROTECT, related_name="jobs", db_index=False)
    risk = models.CharField(max_length=24, choices=Risk.choices)
    queue = models.CharField(max_length=40, default="agentq")
    short = models.BooleanField(default=False)
    priority = models.SmallIntegerField(default=0)
    batch = models.ForeignKey(Batch, null=True, on_delete=models.PROTECT, related_name="jobs", db_index=False)
    line = models.ForeignKey("self", null=True, on_delete=models.PROTECT, related_name="again", db_index=False)
    requested_by = models.CharField(max_length=150)
    takeover_person = models.CharField(max_length=150, default="")
    policy = models.ForeignKey(PolicyVersion, on_delete=models.PROTECT, related_name="+", db_index=False)
    created_at = models.DateTimeField()

    # Where it is.
    state = models.CharField(max_length=20, choices=[(state, state) for state in State])
    version = models.PositiveIntegerField(default=1)
    audit_seq = models.PositiveIntegerField(default=1)
    audit_head = models.CharField(max_length=64)
    fence = models.PositiveIntegerField(default=0)
    next_stage = models.CharField(max_length=10, choices=[(stage, stage) for stage in Stage], default=Stage.READ)
    next_run_at = models.DateTimeField()
    pause_reason = models.CharField(max_length=64, default="")
    stop_reason = models.CharField(max_length=64, default="")
    result_digest = models.CharField(max_length=64, default="")
    confirmed_digest = models.CharField(max_length=64, default="")
    cancel_requested = models.BooleanField(default=False)
    pause_requested = models.CharField(max_length=64, default="")
    base_commit = models.CharField(max_length=64, default="")
    base_tree = models.CharField(max_length=64, default="")
    snapshot = models.CharField(max_length=64, default="")
    finished_at = models.DateTimeField(null=True)

    # Budget.
    charged = models.PositiveSmallIntegerField(default=0)
    max_attempts = models.PositiveSmallIntegerField(default=3)
    free_claim = models.BooleanField(default=False)
    crashes = models.PositiveSmallIntegerField(default=0)
    seconds_spent = models.FloatField(default=0)
    max_seconds = models.PositiveIntegerField(default=3600)
    tokens_spent = models.PositiveBigIntegerField(null=True)
    max_tokens = models.PositiveBigIntegerField(null=True)
    deadline = models.DateTimeField(null=True)

    # Reservation (a hint of 20 s to one cluster) and lease (the right to write).
    reserved_by = models.CharField(max_length=120, default="")
    reserved_until = models.DateTimeField(null=True)
    lease_owner = models.CharField(max_length=120, default="")
    lease_expires_at = models.DateTimeField(null=True)
    lease_boot = models.CharField(max_length=40, default="")
    lease_until = models.FloatField(default=0)

    class Meta:
        indexes = [
            models.Index(fields=["line"], name="job_line", condition=Q(line__isnull=False)),
            models.Index(
                F("queue"),
                F("priority").desc(),
                F("next_run_at"),
                F("id"),
                name="job_ready",
                condition=Q(state__in=READY),
            ),
            models.Index(fields=["repository", "id"], name="job_leased", condition=Q(state__in=ACTIVE)),
            models.Index(fields=["state", "id"], name="job_live", condition=~Q(state__in=FINAL)),
            models.Index(fields=["state", "-id"], name="job_state"),
            models.Index(fields=["repository", "-id"], name="job_repository_newest"),
            models.Index(fields=["repository", "state", "-id"], name="job_repository_state"),
            models.Index(fields=["action", "-id"], name="job_action"),
            models.Index(fields=["created_at"], name="job_created"),
            models.Index(fields=["batch", "-id"], name="job_batch_newest", condition=Q(batch__isnull=False)),
        ]
        constraints = [
            models.CheckConstraint(condition=Q(state__in=list(State)), name="job_state_known"),
            models.CheckConstraint(condition=Q(next_stage__in=list(Stage)), name="job_stage_known"),
            models.CheckConstraint(condition=Q(risk__in=Risk.values), name="job_risk_known"),
            models.CheckConstraint(condition=Q(idempotency_key__length=64), name="job_key_is_sha256"),
            models.CheckConstraint(
                condition=(
                    Q(state__in=ACTIVE, lease_expires_at__isnull=False) & ~Q(lease_owner="")
                    | ~Q(state__in=ACTIVE) & Q(lease_owner="", lease_expires_at__isnull=True)
                ),
                name="job_lease_iff_active",
            ),
            models.CheckConstraint(
                condition=Q(state__in=FINAL, finished_at__isnull=False)
                | ~Q(state__in=FINAL) & Q(finished_at__isnull=True),
                name="job_finished_iff_final",
            ),
            models.CheckConstraint(
                condition=Q(state=State.PAUSED) & ~Q(pause_reason="") | ~Q(state=State.PAUSED) & Q(pause_reason=""),
                name="job_pause_reason_iff_paused",
            ),
            models.CheckConstraint(
                condition=~Q(state=State.ACCEPTED) | Q(result_digest__length=64),
                name="job_accepted_has_digest",
            ),
            models.CheckConstraint(
                condition=~Q(state=State.FAILED_TERMINAL) | ~Q(stop_reason=""),
                name="job_failed_has_stop_reason",
            ),
            models.CheckConstraint(condition=Q(charged__lte=F("max_attempts")), name="job_charged_within_budget"),
            models.CheckConstraint(condition=Q(seconds_spent__gte=0), name="job_seconds_not_negative"),
            models.CheckConstraint(condition=~Q(requested_by=""), name="job_requester_not_empty"),
            models.CheckConstraint(
                condition=Q(state__in=ACTIVE) | Q(cancel_requested=False, pause_requested=""),
                name="job_flags_only_while_active",
            ),
            models.CheckConstraint(
                condition=Q(reserved_by="", reserved_until__isnull=True)
                | ~Q(reserved_by="") & Q(reserved_until__isnull=False, state__in=(*READY, *ACTIVE)),
                name="job_reservation_whole",
            ),
        ]

    def __str__(self) -> str:
        return f"J-{self.pk}"
