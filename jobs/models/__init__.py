"""The rows: what is stored, and what a row can never be. One file a noun; every rule is a named constraint."""

from django.db.models import CharField
from django.db.models.functions import Length

from jobs.models.attempt import Attempt
from jobs.models.audit_event import AuditEvent
from jobs.models.batch import Batch
from jobs.models.checkpoint import Checkpoint
from jobs.models.evidence import Evidence
from jobs.models.failure import FailureRecord, FailureSample
from jobs.models.job import Job
from jobs.models.notice import Notice, Preference
from jobs.models.policy import PolicyActivation, PolicyVersion
from jobs.models.repository import Repository
from jobs.models.review import FollowUp, ReviewCase, ReviewDecision, ViewedFile
from jobs.models.side_effect import SideEffect
from jobs.models.worker_node import WorkerNode
from jobs.models.workflow_version import WorkflowVersion

# Lets a constraint say how long a digest is.
CharField.register_lookup(Length)

__all__ = [
    "Attempt",
    "AuditEvent",
    "Batch",
    "Checkpoint",
    "Evidence",
    "FailureRecord",
    "FailureSample",
    "FollowUp",
    "Job",
    "Notice",
    "PolicyActivation",
    "PolicyVersion",
    "Preference",
    "Repository",
    "ReviewCase",
    "ReviewDecision",
    "SideEffect",
    "ViewedFile",
    "WorkerNode",
    "WorkflowVersion",
]
