"""Telling people about reviews: whom, how, and at most once; a message that fails never keeps a job waiting (H3).

Maintenance notes what is to be told, then sends it. Messages hold ids, counts and codes, never a payload.
"""

import hashlib
import hmac
import json
import logging
import time
import urllib.request
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.contrib.auth import get_user_model
from django.core.mail import send_mail
from django.db.models import F, Q
from django.utils import timezone

from jobs.models import Notice, Preference, ReviewCase
from jobs.models.notice import NoticeKind
from jobs.services.people import USER, Role, at_least

MOST_TRIES = 5
FIRST_WAIT = timedelta(minutes=1)
SECONDS = 10  # for one message
BATCH, ROUND_SECONDS = 20, 20  # messages and time of one round
WEBHOOK = ""  # the person of a notice that goes to the webhook

WISHES = ("mail_mine", "mail_second_person", "mail_high_risk")

log = logging.getLogger(__name__)


def run(now: datetime | None = None) -> int:
    """One round: what is new is noted, what is due is sent; how many went out. Raises nothing that a job could feel."""
    now = now or timezone.now()
    note_new(now)
    due = Notice.objects.filter(sent_at__isnull=True, tries__lt=MOST_TRIES, next_try_at__lte=now)
    end, sent = time.monotonic() + ROUND_SECONDS, 0
    for notice in due.select_related("case__job").order_by("next_try_at")[:BATCH]:
        if time.monotonic() > end:
            break  # a mail server that hangs must not hold up the sweep; the rest is due next time
        sent += _send(notice, now)
    return sent


def note_new(now: datetime) -> None:
    """A notice for each person and event that has none yet; running twice at once makes none twice."""
    new = [notice for case in _open_cases() for notice in _wanted(case, now)]
    Notice.objects.bulk_create(new, ignore_conflicts=True)


def preferences(user: Any) -> dict[str, bool]:
    """What this person wants to be told; the defaults before they ever chose."""
    stored = Preference.objects.filter(user=user).first() or Preference(user=user)
    return {name: bool(getattr(stored, name)) for name in WISHES}


def prefer(user: Any, **wanted: bool) -> None:
    """From now on this person is told about exactly this."""
    Preference.objects.update_or_create(user=user, defaults=wanted)


def signature(secret: str, sent_at: str, body: bytes) -> str:
    """What the webhook's receiver computes again: HMAC-SHA256 over the time, a dot and the body."""
    return "sha256=" + hmac.new(secret.encode(), sent_at.encode() + b"." + body, hashlib.sha256).hexdigest()


def _open_cases() -> Iterator[ReviewCase]:
    """Cases of the last two weeks: what is older was told, or there was nobody to tell."""
    since = timezone.now() - timedelta(days=14)
    cases = ReviewCase.objects.filter(closed_at__isnull=True, opened_at__gte=since)
    return cases.prefetch_related("decisions").order_by("-pk")[:200].iterator(chunk_size=200)


def _wanted(case: ReviewCase, now: datetime) -> Iterator[Notice]:
    kinds = [NoticeKind.OPENED]
    if case.escalated_at:
        kinds.append(NoticeKind.ESCALATED)
    if any(not each.closing for each in case.decisions.all()):
        kinds.append(NoticeKind.SECOND)
    if settings.AGENTQ_WEBHOOK_URL:
        yield from (_notice(case, kind, WEBHOOK, now) for kind in kinds)
    if case.assigned_to:
        mine = NoticeKind.ESCALATED if case.escalated_at else NoticeKind.ASSIGNED
        yield _notice(case, mine, case.assigned_to, now)
    for kind, wish in ((NoticeKind.SECOND, "mail_second_person"), (NoticeKind.OPENED, "mail_high_risk")):
        if kind in kinds and (kind is NoticeKind.SECOND or case.risk == "high"):
            yield from (_notice(case, kind, person, now) for person in _who_wants(wish))


def _who_wants(wish: str) -> list[str]:
    people = at_least(Role.REVIEWER).filter(**{f"preference__{wish}": True})
    return [f"{USER}{name}" for name in people.values_list("username", flat=True)]


def _notice(case: ReviewCase, kind: NoticeKind, person: str, now: datetime) -> Notice:
    return Notice(case=case, kind=kind, person=person, next_try_at=now, created_at=now)


def _send(notice: Notice, now: datetime) -> bool:
    """Taken before it is sent, so that two rounds never send the same one; True when it went out."""
    wait = FIRST_WAIT * 4**notice.tries
    mine = Notice.objects.filter(pk=notice.pk, tries=notice.tries, sent_at__isnull=True)
    if not mine.update(tries=F("tries") + 1, next_try_at=now + wait):
        return False
    try:
        trouble = _post(notice) if notice.person == WEBHOOK else _mail(notice)
    except Exception as error:  # noqa: BLE001 - whatever a mail server or a receiver does, the queue goes on
        log.warning("a notice was not sent", extra={"notice": notice.pk, "why": type(error).__name__})
        Notice.objects.filter(pk=notice.pk).update(trouble=type(error).__name__[:64])
        return False
    Notice.objects.filter(pk=notice.pk).update(sent_at=timezone.now(), trouble=trouble)
    return not trouble


def _mail(notice: Notice) -> str:
    """Sent, or why there is nobody to send to."""
    name = notice.person.removeprefix(USER)
    user = get_user_model()._default_manager.filter(Q(username=name), is_active=True).first()
    if user is None or not getattr(user, "email", ""):
        return "no_address"
    if notice.kind in (NoticeKind.ASSIGNED, NoticeKind.ESCALATED) and not preferences(user)["mail_mine"]:
        return "not_wanted"
    facts = _facts(notice)
    lines = [f"{name}: {value}" for name, value in facts.items()]
    subject = f"[{settings.INSTANCE_NAME}] {notice.get_kind_display()}: {facts['job']}"
    send_mail(subject, "\n".join(lines), settings.DEFAULT_FROM_EMAIL, [user.email])
    return ""


def _post(notice: Notice) -> str:
    body = json.dumps(_facts(notice), sort_keys=True).encode()
    sent_at = str(int(timezone.now().timestamp()))
    headers = {
        "Content-Type": "application/json",
        "X-AgentQ-Time": sent_at,
        "X-AgentQ-Signature": signature(settings.AGENTQ_WEBHOOK_SECRET, sent_at, body),
    }
    url = settings.AGENTQ_WEBHOOK_URL
    request = urllib.request.Request(url, data=body, headers=headers, method="POST")  # noqa: S310 - checked at start
    with _opener.open(request, timeout=SECONDS):
        return ""


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A receiver that points elsewhere is wrong: what is signed goes to the configured address only."""

    def redirect_request(self, *_args: Any, **_kwargs: Any) -> None:
        return None


_opener = urllib.request.build_opener(_NoRedirect)


def _facts(notice: Notice) -> dict[str, Any]:
    """Ids, codes and counts."""
    case = notice.case
    return {
        "event": notice.kind,
        "instance": settings.INSTANCE_NAME,
        "review": case.pk,
        "job": f"J-{case.job_id}",
        "risk": case.risk,
        "reason": case.reason,
        "due_at": case.due_at.isoformat() if case.due_at else "",
        "open_reviews": ReviewCase.objects.filter(closed_at__isnull=True).count(),
        "address": f"{settings.AGENTQ_BASE_URL}/reviews/{case.pk}/" if settings.AGENTQ_BASE_URL else "",
    }
