"""Repositories: how far and how many jobs may go in each, and how an owner changes that (E3)."""

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_POST, require_safe

from jobs.core.states import ACTIVE
from jobs.errors import AgentQError
from jobs.models import AuditEvent, Job, Repository
from jobs.models.repository import Autonomy
from jobs.services import cases, repositories
from reviews.permissions import actor, may


class Limits(forms.Form):
    """What an owner sets."""

    autonomy = forms.ChoiceField(label=gettext_lazy("Autonomy"), choices=Autonomy.choices)
    concurrency = forms.IntegerField(label=gettext_lazy("Jobs at once"), min_value=1, max_value=10_000)
    restricted = forms.BooleanField(label=gettext_lazy("Restricted contents"), required=False)
    reason = forms.CharField(label=gettext_lazy("Reason"), max_length=500)


@require_safe
def index(request: HttpRequest) -> HttpResponse:
    return _page(request)


@require_POST
def limits(request: HttpRequest, repository_id: int) -> HttpResponse:
    repository = get_object_or_404(Repository, pk=repository_id)
    form = Limits(request.POST, auto_id=f"id_{repository_id}_%s")
    if not form.is_valid():
        return _page(request, refused=repository.pk, form=form, status=422)
    try:
        repositories.set_limits(repository.pk, **form.cleaned_data, actor=actor(request))
    except AgentQError as refusal:
        cases.refused(actor(request), "set limits", str(refusal), repository=repository.pk)
        form.add_error(None, str(refusal))
        return _page(request, refused=repository.pk, form=form, status=409)
    messages.success(request, _("The limits of %(name)s hold from now on.") % {"name": repository.name})
    return redirect("repositories")


def _page(request: HttpRequest, *, refused: int = 0, form: Limits | None = None, status: int = 200) -> HttpResponse:
    rows = []
    for repository in Repository.objects.order_by("name")[:500]:
        changed = AuditEvent.objects.filter(stream=f"repository:{repository.pk}").order_by("-seq").first()
        shown = form if form is not None and repository.pk == refused else _filled(repository)
        rows.append((repository, Job.objects.filter(repository=repository, state__in=ACTIVE).count(), changed, shown))
    context = {"rows": rows, "owner": may(request, "set limits"), "refused": refused}
    return render(request, "repositories.html", context, status=status)


def _filled(repository: Repository) -> Limits:
    names = ("autonomy", "concurrency", "restricted")
    values = {name: getattr(repository, name) for name in names}
    return Limits(initial=values, auto_id=f"id_{repository.pk}_%s")
