"""One review: its page, its decision, and what one does around it. Every act is the service's to allow or refuse."""

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST, require_safe

from jobs.core.states import State
from jobs.errors import AgentQError, StaleJob
from jobs.services import cases, resolutions, reviews, supplies
from jobs.worker import lookups, proof
from reviews import queue
from reviews.forms.review import DecisionForm, HandOver, Snooze
from reviews.permissions import actor, may, require, require_contents, sees_contents
from reviews.review import ReviewView, load


@require_safe
def show(request: HttpRequest, case_id: int) -> HttpResponse:
    shown = _load(request, case_id)
    if request.htmx and "shown" in request.GET:  # type: ignore[attr-defined]
        same = shown.mark == request.GET["shown"]
        return (
            HttpResponse(status=204) if same else render(request, "components/_moved.html", {"address": request.path})
        )
    return _page(request, shown)


@require_POST
def decide(request: HttpRequest, case_id: int) -> HttpResponse:
    """The decision is taken, or the page comes again with what was typed: 422 incomplete, 409 refused or stale."""
    shown = _load(request, case_id)
    require_contents(request, shown.view.job.repository)
    form = DecisionForm(request.POST, stages=list(shown.view.definition.stages))
    if not form.is_valid():
        return _page(request, shown, form=form, status=422)
    if form.cleaned_data["alone"]:
        require(request, "decide alone")
    try:
        told = _decided(request, shown, form)
    except AgentQError as refusal:
        stale = isinstance(refusal, StaleJob)
        return _page(request, _load(request, case_id), form=form, stale=str(refusal), moved=stale, status=409)
    messages.success(request, told)
    following = queue.following(actor(request))
    return redirect("review", following) if following else redirect("reviews")


@require_POST
def act(request: HttpRequest, case_id: int) -> HttpResponse:
    """`do`: claim, release, assign or snooze."""
    shown, who = _load(request, case_id), actor(request)
    form = {"assign": HandOver, "snooze": Snooze}.get(request.POST.get("do", ""))
    bound = form(request.POST) if form else None
    if bound is not None and not bound.is_valid():
        return _page(request, shown, acting=bound, status=422)
    try:
        if isinstance(bound, HandOver):
            to, reason = bound.cleaned_data["to"], bound.cleaned_data["reason"]
            cases.assign(case_id, to=to, actor=who, reason=reason)
            messages.success(request, _("The case waits for %(name)s now.") % {"name": to})
        elif isinstance(bound, Snooze):
            cases.snooze(case_id, until=bound.until(), actor=who, reason=bound.cleaned_data["reason"])
            messages.success(request, _("Snoozed. Its target stays."))
        elif request.POST.get("do") == "release":
            cases.release(case_id, actor=who)
        else:
            cases.claim(case_id, actor=who)
    except AgentQError as refusal:
        cases.refused(who, request.POST.get("do", "")[:20], str(refusal), case=case_id)
        return _page(request, _load(request, case_id), stale=str(refusal), status=409)
    return redirect("reviews") if bound is not None else redirect("review", case_id)


@require_POST
def viewed(request: HttpRequest, case_id: int) -> HttpResponse:
    """Exactly the ticked files count as seen by this person."""
    shown = _load(request, case_id)
    require_contents(request, shown.view.job.repository)
    known = {file.change.path for file, _rules, _seen in shown.files}
    cases.mark_viewed(case_id, known & set(request.POST.getlist("path")), actor=actor(request))
    if request.htmx:  # type: ignore[attr-defined]
        return render(request, "review.html#seen", {"review": _load(request, case_id)})
    return redirect("review", case_id)


def _decided(request: HttpRequest, shown: ReviewView, form: DecisionForm) -> str:
    """What came of it, in words."""
    who, job_id = actor(request), shown.case.job_id
    if form.cleaned_data["choice"] == "resolve:unknown":
        for effect in shown.unknown[:1]:
            typed = form.cleaned_data
            resolutions.resolve(effect.pk, "unknown", reference=typed["reference"], reason=typed["reason"], actor=who)
        return _("That it cannot be told is on record. J-%(id)d stays in review.") % {"id": job_id}
    decision = form.decision()
    if form.cleaned_data["choice"] == "supply" and form.cleaned_data["payload"]:
        made = supplies.supersede(shown.case.pk, decision, form.cleaned_data["payload"], actor=who)
        return _("J-%(new)d has the other input; J-%(old)d ended.") % {"new": made.job_id, "old": job_id}
    if decision.outcome == "absent":
        proof.prove(job_id)
        for effect in shown.unknown:
            lookups.ask_for_people(effect.pk, actor=who)
    held = reviews.decide(shown.case.pk, decision, actor=who)
    if held.state is State.REVIEW and shown.case.required_approvals > 1:
        return _("Yours is the first of two decisions on J-%(id)d.") % {"id": job_id}
    return _("Decided: J-%(id)d goes on.") % {"id": job_id}


def _load(request: HttpRequest, case_id: int) -> ReviewView:
    base = request.GET.get("base", "base")
    return load(case_id, actor=actor(request), may_decide=may(request, "decide"), base=base)


def _page(request: HttpRequest, shown: ReviewView, *, status: int = 200, **more: object) -> HttpResponse:
    context = {
        "review": shown,
        "case": shown.case,
        "view": shown.view,
        "job": shown.view.job,
        "contents": sees_contents(request, shown.view.job.repository),
        "owner": may(request, "decide alone"),
        "form": DecisionForm(stages=list(shown.view.definition.stages)),
        "hand_over": HandOver(),
        "snooze": Snooze(),
        **more,
    }
    return render(request, "review.html", context, status=status)
