"""The weekly sample: failures that were not retried, to be judged by a person (M4)."""

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST, require_safe

from jobs.errors import SampleRefused
from jobs.models import FailureSample
from jobs.models.failure import Judgement
from jobs.services import samples
from reviews import decisions
from reviews.forms.policies import Judged
from reviews.permissions import actor

SHOWN = 100


@require_safe
def index(request: HttpRequest) -> HttpResponse:
    return _page(request)


@require_POST
def judge(request: HttpRequest, sample_id: int) -> HttpResponse:
    sample = get_object_or_404(FailureSample, pk=sample_id)
    form = Judged(request.POST)
    if not form.is_valid():
        return _page(request, refused=sample.pk, form=form, status=422)
    try:
        samples.judge(sample.pk, form.cleaned_data["judgement"], actor=actor(request), note=form.cleaned_data["note"])
    except SampleRefused as refusal:
        form.add_error("judgement", str(refusal))
        return _page(request, refused=sample.pk, form=form, status=409)
    messages.success(request, _("Your judgement of J-%(id)d is stored.") % {"id": sample.record.job_id})
    return redirect("samples")


def _page(request: HttpRequest, *, refused: int = 0, form: Judged | None = None, status: int = 200) -> HttpResponse:
    rows = FailureSample.objects.select_related("record__job__repository").defer("record__job__payload")
    waiting = list(rows.filter(judgement=Judgement.OPEN).order_by("-week", "pk")[:SHOWN])
    judged = list(rows.exclude(judgement=Judgement.OPEN).order_by("-judged_at")[:SHOWN])
    choices = [choice for choice in Judgement.choices if choice[0]]
    context = {
        "waiting": [(sample, decisions.action_text(sample.record.action)) for sample in waiting],
        "judged": [(sample, decisions.action_text(sample.record.action)) for sample in judged],
        "counts": [(label, sum(each.judgement == code for each in judged)) for code, label in choices],
        "choices": choices,
        "refused": refused,
        "form": form or Judged(),
    }
    return render(request, "samples.html", context, status=status)
