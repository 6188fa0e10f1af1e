"""The review queue, acts on many of its cases, what one decided oneself, and what was decided alone (H1, H2)."""

from collections.abc import Callable
from datetime import datetime
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from jobs.errors import AgentQError
from jobs.models import ReviewCase, ReviewDecision
from jobs.services import cases
from reviews import queue
from reviews.forms.review import HandOver, Snooze
from reviews.permissions import actor, may

MOST = 100
Act = Callable[[int], None]


@require_http_methods(["GET", "HEAD", "POST"])
def index(request: HttpRequest) -> HttpResponse:
    if request.method == "POST":
        return _many(request)
    tab = request.GET.get("tab", "all")
    if request.htmx and "shown" in request.GET:  # type: ignore[attr-defined]
        same = queue.queue(actor(request), tab if tab in queue.TABS else "all").mark == request.GET["shown"]
        moved = {"address": f"{request.path}?tab={tab if tab in queue.TABS else 'all'}"}
        return HttpResponse(status=204) if same else render(request, "components/_moved.html", moved)
    return _page(request, tab if tab in queue.TABS else "all")


@require_safe
def mine(request: HttpRequest) -> HttpResponse:
    """The newest decisions of this person, with what became of the jobs."""
    found = ReviewDecision.objects.filter(actor=actor(request)).select_related("case", "job__repository")
    return render(request, "my_decisions.html", {"decisions": found.order_by("-pk")[:MOST]})


@require_POST
def follow_up(request: HttpRequest, follow_up_id: int) -> HttpResponse:
    try:
        cases.close_follow_up(follow_up_id, actor=actor(request), note=request.POST.get("note", ""))
    except AgentQError as refusal:
        cases.refused(actor(request), "close a follow-up", str(refusal), follow_up=follow_up_id)
        return _page(request, "all", stale=str(refusal), kept=request.POST.get("note", ""), status=409)
    messages.success(request, _("Looked at, and on record."))
    return redirect("reviews")


def _page(request: HttpRequest, tab: str, *, status: int = 200, **more: object) -> HttpResponse:
    found = queue.queue(actor(request), tab)
    context = {
        "queue": found,
        "tab": tab,
        "tabs": [(name, label, found.counts[name]) for name, label in queue.TABS.items()],
        "today": queue.today(),
        "follow_ups": queue.follow_ups(),
        "me": actor(request),
        "may_work": may(request, "work on reviews"),
        "hand_over": HandOver(),
        "snooze": Snooze(),
        "first": queue.following(actor(request)) if found.rows else None,
        **more,
    }
    return render(request, "reviews.html", context, status=status)


def _many(request: HttpRequest) -> HttpResponse:
    """First what would happen to each picked case, then, once confirmed, what did. Nothing is decided in bulk."""
    form = (HandOver if request.POST.get("do") == "assign" else Snooze)(request.POST)
    ids = [int(each) for each in request.POST.getlist("case")[:MOST] if each.isascii() and each.isdigit()]
    if not ids or not form.is_valid():
        refused = _("Pick at least one case.") if not ids else _("Choose a person or a span.")
        return _page(request, request.POST.get("tab", "all"), stale=refused, picked=ids, status=422)
    found = {case.pk: case for case in ReviewCase.objects.filter(pk__in=ids).select_related("job")}
    act, sentence = _act(form, actor(request))
    sure = "sure" in request.POST
    lines = [_line(found[pk], act if sure else None, actor(request)) for pk in ids if pk in found]
    context = {"lines": lines, "sure": sure, "sentence": sentence, "given": request.POST, "ids": ids}
    return render(request, "review_bulk.html", context)


def _act(form: HandOver | Snooze, who: str) -> tuple[Act, str]:
    typed: dict[str, Any] = form.cleaned_data
    if isinstance(form, HandOver):
        sentence = _("Hand over to %(name)s") % {"name": typed["to"]}
        return lambda pk: cases.assign(pk, to=typed["to"], actor=who, reason=typed["reason"]), sentence
    until: datetime = form.until()
    sentence = _("Snooze until %(until)s UTC") % {"until": f"{until:%Y-%m-%d %H:%M}"}
    return lambda pk: cases.snooze(pk, until=until, actor=who, reason=typed["reason"]), sentence


def _line(case: ReviewCase, act: Act | None, who: str) -> tuple[ReviewCase, str, str]:
    """The case, a tone, and what happens or happened to it."""
    if act is not None:
        try:
            act(case.pk)
        except AgentQError as refusal:
            cases.refused(who, "many", str(refusal), case=case.pk)
            return case, "bad", str(refusal)
        return case, "good", _("done")
    now = datetime.now(tz=case.opened_at.tzinfo)
    other = queue.holder(case, now)
    if case.closed_at is not None:
        return case, "bad", _("is closed already")
    if other not in ("", who):
        return case, "bad", _("%(who)s is on it") % {"who": other.partition(":")[2]}
    return case, "good", _("will be changed")
