"""Policies: the versions, one version, two compared with a replay on past decisions, a draft, the activation."""

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from jobs.errors import PolicyRefused
from jobs.models import FailureRecord, PolicyActivation, PolicyVersion
from jobs.policies import cases
from jobs.policies.document import PolicyDocument
from jobs.policies.drafting import with_rule
from jobs.policies.loading import BUILTIN_PATH, PolicyInvalid, load, load_json, to_policy
from jobs.services import policies
from jobs.services.people import is_owner
from jobs.simulation import simulate
from reviews import policies as shown
from reviews.forms.policies import Activation, Draft
from reviews.permissions import actor


@require_safe
def index(request: HttpRequest) -> HttpResponse:
    found = shown.listed()
    active = next((each for each in found if each.active), None)
    return render(request, "policies.html", {"versions": found, "active": active, "owner": is_owner(request.user)})


@require_safe
def detail(request: HttpRequest, number: int) -> HttpResponse:
    version = get_object_or_404(PolicyVersion.objects.select_related("parent"), number=number)
    document = load_json(version.document)
    context = {
        "version": version,
        "document": document,
        "answers": cases.answers(document),
        "active": _active(),
        "activations": version.activations.order_by("-pk"),
        "owner": is_owner(request.user),
    }
    return render(request, "policy.html", context)


@require_safe
def compare(request: HttpRequest, old: int, new: int) -> HttpResponse:
    return _compared(request, _version(old), _version(new))


@require_POST
def activate(request: HttpRequest, number: int) -> HttpResponse:
    """The version decides from now on; refused with what its own cases say."""
    version, active = _version(number), _version(_active())
    form = Activation(request.POST)
    if not form.is_valid():
        return _compared(request, active, version, form=form, status=422)
    try:
        policies.activate(number, actor=actor(request), reason=form.cleaned_data["reason"])
    except PolicyRefused as refusal:
        form.add_error("reason", str(refusal))
        return _compared(request, active, version, form=form, status=409)
    messages.success(request, _("Version %(number)d is active. New attempts use it.") % {"number": number})
    return redirect("policies")


@require_http_methods(["GET", "HEAD", "POST"])
def draft(request: HttpRequest) -> HttpResponse:
    """A draft's text: checked as often as wanted, published once it is valid and its own cases pass."""
    base = _base(request)
    if request.method != "POST":
        record = _record(request)
        form = Draft(initial={"source": _source(base, record), "note": _note(record)})
        return _drafting(request, form, base)
    policies.active()  # a first version to compare with
    form = Draft(request.POST)
    if not form.is_valid():
        return _drafting(request, form, base, status=422)
    # A browser sends CR LF; what was read is what is stored.
    text = form.cleaned_data["source"].replace("\r\n", "\n")
    try:
        document = load(text, _("line"))
    except PolicyInvalid as error:
        return _drafting(request, form, base, problems=error.problems, status=422)
    answers = cases.answers(document)
    failing = [each for each in answers if not each.passes]
    if request.POST.get("do") != "publish" or failing:
        status = 422 if failing else 200
        return _drafting(request, form, base, document=document, answers=answers, status=status)
    try:
        version = policies.publish(
            document, author=actor(request), note=form.cleaned_data["note"], source=text, parent=base
        )
    except PolicyRefused as refusal:
        form.add_error("source", str(refusal))
        return _drafting(request, form, base, document=document, answers=answers, status=409)
    messages.success(request, _("Version %(number)d is published, not yet active.") % {"number": version.number})
    return redirect("policy_compare", _active(), version.number)


def _drafting(
    request: HttpRequest,
    form: Draft,
    base: int,
    *,
    document: PolicyDocument | None = None,
    status: int = 200,
    **more: object,
) -> HttpResponse:
    context: dict[str, object] = {"form": form, "base": base, "problems": [], **more}
    if document is not None:
        old, new = policies.rules(base), to_policy(document)
        context |= {"document": document, "rows": shown.rows(old, new), "replay": _replay(document)}
    return render(request, "policy_draft.html", context, status=status)


def _compared(
    request: HttpRequest,
    old: PolicyVersion,
    new: PolicyVersion,
    *,
    form: Activation | None = None,
    status: int = 200,
) -> HttpResponse:
    before, after = policies.rules(old.number), policies.rules(new.number)
    document = load_json(new.document)
    used = {each.version.number: each for each in shown.listed()}
    answers = cases.answers(document)
    context = {
        "old": old,
        "new": new,
        "rows": shown.rows(before, after),
        "repeats": shown.repeats(before, after),
        "replay": _replay(document),
        "answers": answers,
        "failing": [each for each in answers if not each.passes],
        "unproven": cases.unproven(document, load_json(old.document)),
        "old_used": used[old.number],
        "new_used": used[new.number],
        "active": _active(),
        "form": form or Activation(),
        "owner": is_owner(request.user),
        "own": new.author == actor(request),
    }
    return render(request, "policy_compare.html", context, status=status)


def _replay(document: PolicyDocument) -> dict[str, object]:
    found = simulate(to_policy(document))
    return {"found": found, "matrix": shown.matrix(found), "columns": shown.columns()}


def _version(number: int) -> PolicyVersion:
    return get_object_or_404(PolicyVersion, number=number)


def _active() -> int:
    """The number of the active version; 1, which the built-in one gets, before there is any. Reads only."""
    newest = PolicyActivation.objects.order_by("-pk").values_list("version__number", flat=True).first()
    return newest or 1


def _base(request: HttpRequest) -> int:
    """The version that the draft starts from: the one named, else the active one."""
    named = request.POST.get("base") or request.GET.get("base") or ""
    if named.isascii() and named.isdigit() and len(named) < 9:
        return _version(int(named)).number
    return _active()


def _record(request: HttpRequest) -> FailureRecord | None:
    named = request.GET.get("failure", "")
    if not named:
        return None
    if not (named.isascii() and named.isdigit() and len(named) < 19):
        raise Http404
    return get_object_or_404(FailureRecord, pk=int(named), failure_class="unknown")


def _source(base: int, record: FailureRecord | None) -> str:
    if not PolicyVersion.objects.exists():
        return BUILTIN_PATH.read_text(encoding="utf-8")
    try:
        text = policies.source(base)
    except PolicyRefused as refusal:
        return f"# {refusal}\n"
    if record is None:
        return text
    newest = PolicyVersion.objects.order_by("-number").values_list("number", flat=True).first() or 0
    return with_rule(text, record.facts, version=f"v{newest + 1}", mark=record.fingerprint[:8])


def _note(record: FailureRecord | None) -> str:
    return _("A rule for what happened in J-%(id)d.") % {"id": record.job_id} if record else ""
