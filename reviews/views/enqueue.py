"""The enqueue form: fields by action, the key while one types, and "already there" as an answer (E1, K1)."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods

from jobs.errors import AgentQError, EnqueueRefused
from jobs.models import Repository
from jobs.services import enqueue, workflows
from jobs.workflows.definition import WorkflowDefinition
from reviews import queries
from reviews.forms.enqueue import EnqueueForm
from reviews.forms.payload import PREFIX
from reviews.permissions import actor, sees_contents
from reviews.previews import Preview, preview


@require_http_methods(["GET", "HEAD", "POST"])
def form(request: HttpRequest) -> HttpResponse:
    """POST says what to `do`: `fields` shows an action's fields, `preview` its key; both store nothing."""
    if request.method != "POST":
        return _page(request, _form(request, _texts(request.GET)))
    asked = request.POST.get("do", "enqueue")
    if asked == "fields":
        return _page(request, _form(request, _texts(request.POST)))
    bound = _form(request, None)
    if asked == "preview":
        shown = preview(bound.request()) if bound.is_valid() else _incomplete(bound)
        if shown.near and not (bound.repository and sees_contents(request, bound.repository)):
            shown = replace(shown, near=())  # what another job was asked is what is in its repository
        if request.htmx:  # type: ignore[attr-defined]
            return render(request, "enqueue.html#preview", {"preview": shown})
        return _page(request, bound, shown=shown)
    return _enqueue(request, bound)


def _enqueue(request: HttpRequest, bound: EnqueueForm) -> HttpResponse:
    if not bound.is_valid():
        return _page(request, bound, status=422)
    try:
        answer = enqueue.enqueue(bound.request(), actor=actor(request))
    except EnqueueRefused as refusal:
        bound.refuse(refusal)
        return _page(request, bound, status=422)
    if not answer.created:
        return render(request, "already.html", {"answer": answer})
    messages.success(request, _("J-%(id)d is queued.") % {"id": answer.job_id})
    return redirect("job", answer.job_id)


def _page(
    request: HttpRequest, shown_form: EnqueueForm, *, shown: Preview | None = None, status: int = 200
) -> HttpResponse:
    definition = shown_form.definition
    budget = definition and queries.active_policy().budget_for(definition.risk, definition.name)
    context = {
        "form": shown_form,
        "definition": definition,
        "attempts": definition and budget and (definition.max_attempts or budget.attempts),
        "seconds": budget.seconds if budget else None,
        "preview": shown,
        "kept": _kept(request, shown_form),
    }
    return render(request, "enqueue.html", context, status=status)


def _form(request: HttpRequest, initial: dict[str, str] | None) -> EnqueueForm:
    """Bound to what was posted when `initial` is None."""
    given: Mapping[str, Any] = request.POST if initial is None else initial
    repositories = list(Repository.objects.order_by("name"))
    definitions = workflows.definitions()
    repository = next((each for each in repositories if each.name == given.get("repo")), None)
    if repository is None and initial is not None:
        repository = repositories[0] if repositories else None
    definition = _definition(definitions, given.get("action", ""), given.get("workflow_version", ""))
    if definition is None and initial is not None:
        definition = definitions[0] if definitions else None
    known: dict[str, Any] = {
        "definitions": definitions,
        "definition": definition,
        "repositories": repositories,
        "repository": repository,
    }
    if initial is None:
        return EnqueueForm(request.POST, **known)
    given = {name: value for name, value in initial.items() if value}
    given |= {"repo": repository.name if repository else "", "action": definition.name if definition else ""}
    return EnqueueForm(initial=given, **known)


def _kept(request: HttpRequest, shown_form: EnqueueForm) -> dict[str, str]:
    """What was typed for another action: it comes back when that action does."""
    typed = _texts(request.POST)
    return {name: typed[name] for name in typed if name.startswith(PREFIX) and name not in shown_form.fields}


def _texts(given: QueryDict) -> dict[str, str]:
    return {name: given[name] for name in given}  # type: ignore[misc]


def _definition(known: list[WorkflowDefinition], action: str, version: str) -> WorkflowDefinition | None:
    """The definition that the service would take; None when it would refuse."""
    try:
        return workflows.find(action, version or None)
    except AgentQError:
        return next((each for each in known if each.name == action), None)


def _incomplete(bound: EnqueueForm) -> Preview:
    names = ", ".join(str(bound[name].label) for name in bound.errors if name in bound.fields)
    return Preview(trouble=_("The key needs: %(names)s.") % {"names": names})
