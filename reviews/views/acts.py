"""What a person does to one job: cancel it, ask for it again. POST only, with a reason."""

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST

from jobs.core.states import State
from jobs.errors import AgentQError, EnqueueRefused
from jobs.services import control, enqueue
from reviews.forms.acts import Reasoned
from reviews.jobs import load
from reviews.permissions import actor
from reviews.views.job import page


@require_POST
def cancel(request: HttpRequest, job_id: int) -> HttpResponse:
    view = load(job_id)
    form = Reasoned(request.POST)
    if not form.is_valid():
        return page(request, view, cancel=form, status=422)
    try:
        state = control.cancel(job_id, actor=actor(request), reason=form.cleaned_data["reason"])
    except AgentQError as refusal:
        return page(request, load(job_id), stale=str(refusal), kept=request.POST["reason"], status=409)
    done = (
        _("J-%(id)d is cancelled.") if state is State.CANCELLED else _("J-%(id)d is asked to stop; its worker ends it.")
    )
    messages.success(request, done % {"id": job_id})
    return redirect("job", job_id)


@require_POST
def again(request: HttpRequest, job_id: int) -> HttpResponse:
    view = load(job_id)
    form = Reasoned(request.POST)
    if not form.is_valid():
        return page(request, view, again=form, status=422)
    try:
        answer = enqueue.again(job_id, reason=form.cleaned_data["reason"], actor=actor(request))
    except EnqueueRefused as refusal:
        return page(request, view, stale=str(refusal), kept=request.POST["reason"], status=409)
    if answer.created:
        messages.success(request, _("J-%(id)d runs the same input again.") % {"id": answer.job_id})
    else:
        messages.info(
            request,
            _("Nothing new was made: J-%(id)d has this input already.") % {"id": answer.job_id} + f" {answer.way_on}",
        )
    return redirect("job", answer.job_id)
