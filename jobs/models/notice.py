"""What people are told about reviews, and how each of them wants to be told (H3)."""

from django.conf import settings
from django.db import models
from django.db.models import Q

from jobs.models.review import ReviewCase


class NoticeKind(models.TextChoices):
    OPENED = "opened", "a review waits"
    ASSIGNED = "assigned", "a review was given to you"
    SECOND = "second_person", "a second person is needed"
    ESCALATED = "escalated", "a review is past its target"


class Notice(models.Model):
    """One message, at most once: to a person by e-mail, or to the webhook where `person` is empty.

    `tries` is raised before each sending, so that two rounds of maintenance never send the same one.
    """

    case = models.ForeignKey(ReviewCase, on_delete=models.PROTECT, related_name="notices")
    kind = models.CharField(max_length=16, choices=NoticeKind.choices)
    person = models.CharField(max_length=150, default="")
    tries = models.PositiveSmallIntegerField(default=0)
    next_try_at = models.DateTimeField()
    sent_at = models.DateTimeField(null=True)
    trouble = models.CharField(max_length=64, default="")
    created_at = models.DateTimeField()

    class Meta:
        indexes = [models.Index(fields=["next_try_at"], name="notice_waiting", condition=Q(sent_at__isnull=True))]
        constraints = [
            models.UniqueConstraint(fields=["case", "kind", "person"], name="notice_once"),
            models.CheckConstraint(condition=Q(kind__in=NoticeKind.values), name="notice_kind_known"),
        ]

    def __str__(self) -> str:
        return f"{self.kind} of case {self.case_id} to {self.person or 'the webhook'}"


class Preference(models.Model):
    """What one person wants: e-mail about which reviews."""

    user = models.OneToOneField(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="preference")
    mail_mine = models.BooleanField(default=True)
    mail_second_person = models.BooleanField(default=False)
    mail_high_risk = models.BooleanField(default=False)

    def __str__(self) -> str:
        return f"preferences of {self.user}"
