"""What the team may still use of one service in this window; a claim reserves its share of it (B3)."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import connection
from django.db.models import Avg, Count, Q, Sum

from jobs.core.budgets import Room, TeamUse, team_room, window_of
from jobs.core.policy import Policy, TeamBudget
from jobs.models import Attempt

# What one more attempt will need is guessed from the newest attempts that told what they used.
GUESSED_FROM = 20


@dataclass(frozen=True, slots=True)
class Share:
    """Whether one more attempt has room, and the tokens that it reserves until it ends."""

    room: Room
    tokens: int


def budget_of(policy: Policy, service: str) -> TeamBudget | None:
    """The policy's limit for a service; None when there is none, or the workflow names no service."""
    return next((budget for budget in policy.team_budgets if service and budget.service == service), None)


def take_turns(service: str) -> None:
    """Until this transaction ends, nobody else counts this service: two claims never take the same last share."""
    if connection.vendor == "postgresql":  # SQLite has one writer anyway
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_xact_lock(hashtext(%s))", [f"agentq service {service}"])


def share(budget: TeamBudget, now: datetime) -> Share:
    """What is left in the window that holds `now`, with running attempts counted as what they reserved."""
    expected = _expected(budget.service) if budget.tokens is not None else 0
    return Share(team_room(use(budget, now), budget, now, tokens=expected), expected)


def use(budget: TeamBudget, now: datetime) -> TeamUse:
    """What attempts that started in the window used, and what the running ones reserved, whenever they started.

    An ended attempt that could not say what it used counts as what it had reserved: unknown is never 0.
    """
    start, _end = window_of(now, budget.window_seconds)
    ours = Attempt.objects.filter(service=budget.service)
    ended, running = Q(ended_at__isnull=False, started_at__gte=start), Q(ended_at__isnull=True)
    found: dict[str, Any] = ours.filter(ended | running).aggregate(
        ended=Count("pk", filter=ended),
        told=Sum("tokens", filter=ended),
        untold=Sum("reserved_tokens", filter=ended & Q(tokens__isnull=True)),
        running=Count("pk", filter=running),
        reserved=Sum("reserved_tokens", filter=running),
    )
    return TeamUse(
        tokens=(found["told"] or 0) + (found["untold"] or 0),
        attempts=found["ended"],
        reserved_tokens=found["reserved"] or 0,
        reserved_attempts=found["running"],
    )


def _expected(service: str) -> int:
    told = Attempt.objects.filter(service=service, tokens__isnull=False).order_by("-started_at")
    newest = told.values("pk")[:GUESSED_FROM]
    return round(Attempt.objects.filter(pk__in=newest).aggregate(mean=Avg("tokens"))["mean"] or 0)
