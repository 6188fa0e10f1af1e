"""One job: where it is and why, what happens next, and everything it left behind."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from reviews.forms.acts import Reasoned
from reviews.jobs import JobView, check, load
from reviews.permissions import sees_contents


@require_safe
def detail(request: HttpRequest, job_id: int) -> HttpResponse:
    view = load(job_id)
    if request.htmx and "shown" in request.GET:  # type: ignore[attr-defined]
        return _changes(request, view, request.GET["shown"])
    return page(request, view)


def page(request: HttpRequest, view: JobView, *, status: int = 200, **more: object) -> HttpResponse:
    """The job's page. `more` may hold a form that was refused, or `stale` and `kept` for a 409."""
    checked = check(view.job) if "check" in request.GET else None
    shown = {"view": view, "job": view.job, "contents": sees_contents(request, view.job.repository)}
    context = {**shown, "cancel": Reasoned(), "again": Reasoned(), "checked": checked, **more}
    return render(request, "job.html", context, status=status)


def _changes(request: HttpRequest, view: JobView, shown: str) -> HttpResponse:
    """All that tells of the job, when anything did change; forms are exchanged only when another one is due."""
    if shown == view.mark:
        return HttpResponse(status=204)
    context = {
        "view": view,
        "job": view.job,
        "contents": sees_contents(request, view.job.repository),
        "refreshed": True,
        "was_final": shown.startswith("F"),
        "cancel": Reasoned(),
        "again": Reasoned(),
    }
    return render(request, "job.html#changes", context)
