"""Failures by cause, and those that no rule knew: what the learning loop starts from (P3)."""

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from jobs.core.policy import CLASSES
from jobs.services.people import is_owner
from reviews import failures


@require_safe
def index(request: HttpRequest) -> HttpResponse:
    """All classes, or the one named in the address."""
    class_ = request.GET.get("class", "")
    if class_ and class_ not in CLASSES:
        raise Http404
    context = {
        "chosen": class_,
        "classes": failures.classes(),
        "groups": failures.groups(class_),
        "unknown": failures.unknown(),
        "owner": is_owner(request.user),
        "newest": failures.NEWEST,
    }
    return render(request, "failures.html", context)
