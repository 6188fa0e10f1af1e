"""The ledger of acts outside: what was sent, and what came of it (X1, X2)."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from jobs.models import ReviewCase, SideEffect
from jobs.models.side_effect import OPEN_OUTCOMES, EffectOutcome

SHOWN = 100


@require_safe
def index(request: HttpRequest) -> HttpResponse:
    """The newest acts, or only those of one outcome; `open` are those that nobody knows the outcome of."""
    wanted = request.GET.get("outcome", "all")
    effects = SideEffect.objects.select_related("job__repository").defer("job__payload").order_by("-pk")
    if wanted == "open":
        effects = effects.filter(outcome__in=OPEN_OUTCOMES)
    elif wanted in EffectOutcome.values and wanted:
        effects = effects.filter(outcome=wanted)
    else:
        wanted = "all"
    shown = list(effects[:SHOWN])
    cases = ReviewCase.objects.filter(job__in={each.job_id for each in shown}, closed_at__isnull=True)
    by_job = dict(cases.values_list("job_id", "pk"))
    rows = [(each, by_job.get(each.job_id) if each.outcome in OPEN_OUTCOMES else None) for each in shown]
    unknown = SideEffect.objects.filter(outcome__in=OPEN_OUTCOMES)[: SHOWN + 1].count()
    return render(request, "ledger.html", {"rows": rows, "wanted": wanted, "unknown": unknown})
