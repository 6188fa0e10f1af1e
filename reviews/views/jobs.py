"""The jobs list: filtered by its address, paged by key, kept fresh by one small request."""

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import ngettext
from django.views.decorators.http import require_http_methods, require_safe

from jobs.core.states import State
from jobs.errors import AgentQError
from jobs.services import control
from reviews import queries, refresh, rows
from reviews.filters import OPEN, SPANS, JobFilter
from reviews.forms.acts import CancelMany
from reviews.permissions import actor


@require_safe
def home(request: HttpRequest) -> HttpResponse:  # noqa: ARG001
    return redirect("jobs")


@require_http_methods(["GET", "HEAD", "POST"])
def index(request: HttpRequest) -> HttpResponse:
    wanted = JobFilter.read(request.GET)
    if request.method == "POST":
        return _cancel_picked(request, wanted)
    if request.htmx and "shown" in request.GET:  # type: ignore[attr-defined]
        return _changes(request, wanted)
    return _page(request, wanted, status=422 if wanted.error else 200)


def _page(
    request: HttpRequest, wanted: JobFilter, *, acting: CancelMany | None = None, status: int = 200
) -> HttpResponse:
    before, after = _key(request, "before"), _key(request, "after")
    since = queries.newest_event()
    found = queries.JobPage([], False, False) if wanted.error else queries.job_page(wanted, before=before, after=after)
    shown = rows.rows(found.jobs)
    by_state = queries.counts()
    context = {
        "wanted": wanted,
        "rows": shown,
        "newer": wanted.address(after=str(shown[0].job.pk)) if found.newer and shown else "",
        "older": wanted.address(before=str(shown[-1].job.pk)) if found.older and shown else "",
        "segments": _segments(wanted, by_state),
        "poll": _poll(request, wanted, since, [row.mark for row in shown]),
        "choices": queries.choices(),
        "spans": {code: words for code, (words, _span) in SPANS.items()},
        "any_job": any(count.number for count in by_state.values()),
        "acting": acting or CancelMany(),
        "picked": request.POST.getlist("job"),
    }
    return render(request, "jobs.html", context, status=status)


def _changes(request: HttpRequest, wanted: JobFilter) -> HttpResponse:
    """Only what changed since the page last heard: rows, counts; 204 when nothing did."""
    shown = refresh.Shown.read(request.GET)
    since = queries.newest_event()
    found = refresh.changes(wanted, shown, before=_key(request, "before"))
    if since == shown.since and not found.rows:
        return HttpResponse(status=204)
    if found.fresh and not shown.marks:
        return HttpResponse(headers={"HX-Refresh": "true"})  # there was no table yet
    context = {
        "wanted": wanted,
        "changes": found,
        "segments": _segments(wanted, queries.counts()),
        "poll": _poll(request, wanted, since, found.marks),
        "picked": [],
    }
    return render(request, "jobs.html#changes", context)


def _cancel_picked(request: HttpRequest, wanted: JobFilter) -> HttpResponse:
    """Each picked job is cancelled or says why not; a refusal does not stop the others."""
    form = CancelMany(request.POST)
    if not form.is_valid():
        return _page(request, wanted, acting=form, status=422)
    done = 0
    for job_id in form.cleaned_data["job"]:
        try:
            control.cancel(job_id, actor=actor(request), reason=form.cleaned_data["reason"])
            done += 1
        except AgentQError as refusal:
            messages.error(request, str(refusal))
    if done:
        words = ngettext(
            "%(count)d job is cancelled or asked to stop.", "%(count)d jobs are cancelled or asked to stop.", done
        )
        messages.success(request, words % {"count": done})
    return redirect(request.get_full_path())


def _segments(wanted: JobFilter, by_state: dict[str, queries.Count]) -> list[dict[str, object]]:
    """One entry a state with its count, behind "all" and "open"."""
    entries: list[tuple[str, queries.Count | None]] = [("", None), (OPEN, queries.open_jobs(by_state))]
    entries += [(state.value, by_state[state]) for state in State]
    return [
        {"state": state, "count": count, "href": wanted.address(state=state), "current": wanted.state == state}
        for state, count in entries
        if state in ("", OPEN, wanted.state) or (count and count.number)
    ]


def _poll(request: HttpRequest, wanted: JobFilter, since: int, marks: list[str]) -> str:
    before = _key(request, "before")
    address = wanted.address(**({"before": str(before)} if before else {}))
    joint = "" if address == "?" else "&"
    return f"{request.path}{address}{joint}since={since}&shown={','.join(marks)}"


def _key(request: HttpRequest, name: str) -> int | None:
    text = request.GET.get(name, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else None
