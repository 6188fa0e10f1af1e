"""Who may do what: one table of acts by role, and which act each address is (H3, facts of the roles in `people`).

Handlers check, not buttons. A role is read anew at every request. An address without a row cannot be built.
"""

import time
from collections.abc import Callable
from functools import wraps
from typing import Any, NamedTuple

from django.contrib.auth.views import redirect_to_login
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed
from django.urls import URLPattern, path
from django.utils.translation import gettext as _
from django.views.decorators.cache import cache_control

from jobs.services import cases
from jobs.services.people import ACTS, Role, actor_of, may_see_contents, role_of

View = Callable[..., HttpResponse]
SAFE = ("GET", "HEAD")
SIGNED_IN_AT = "signed_in_at"
FRESH_SECONDS = 15 * 60


class Needs(NamedTuple):
    """The act that reading an address is, and the one that writing to it is; None: it takes no such request."""

    read: str | None
    write: str | None = None

    def role(self, method: str) -> Role | None:
        """The role that this method takes; None: the method is not served."""
        act = self.read if method in SAFE else self.write if method == "POST" else None
        return None if act is None else ACTS[act]


ADDRESSES: dict[str, Needs] = {
    "login": Needs("anything", "anything"),
    "logout": Needs(None, "anything"),
    "password_change": Needs("own account", "own account"),
    "password_change_done": Needs("own account"),
    "home": Needs("see"),
    "jobs": Needs("see", "cancel"),
    "job": Needs("see"),
    "job_diff": Needs("see"),
    "job_cancellation": Needs(None, "cancel"),
    "job_again": Needs(None, "enqueue"),
    "enqueue": Needs("enqueue", "enqueue"),
    "reviews": Needs("see", "work on reviews"),
    "review": Needs("see"),
    "review_decision": Needs(None, "decide"),
    "review_act": Needs(None, "work on reviews"),
    "review_viewed": Needs(None, "work on reviews"),
    "follow_up": Needs(None, "decide"),
    "my_decisions": Needs("see"),
    "ledger": Needs("see"),
    "repositories": Needs("see"),
    "repository_limits": Needs(None, "set limits"),
    "preferences": Needs("own account", "own account"),
    "policies": Needs("see"),
    "policy": Needs("see"),
    "policy_compare": Needs("see"),
    "policy_draft": Needs("change policy", "change policy"),
    "policy_activation": Needs(None, "change policy"),
    "failures": Needs("see"),
    "samples": Needs("see"),
    "sample_judgement": Needs(None, "judge a sample"),
}


def page(route: str, view: View, name: str) -> URLPattern:
    """The address, open to whom the table says; KeyError at start-up when the table does not name it."""
    return path(route, _guarded(view, name, ADDRESSES[name]), name=name)


def actor(request: HttpRequest) -> str:
    """How this person is named in the audit."""
    return actor_of(request.user)


def may(request: HttpRequest, act: str) -> bool:
    """Whether this person's role allows the act. For what a page offers; the address's own row decides."""
    return _role(request) >= ACTS[act]


def require(request: HttpRequest, act: str) -> None:
    """Returns when the role allows the act; else it is refused, and that is on record."""
    if not may(request, act):
        _refuse(request, act)


def require_fresh_password(request: HttpRequest) -> None:
    """Refuses whoever typed their password longer than 15 minutes ago: what cannot be taken back is not done by
    whoever sits down at an open screen."""
    if time.time() - request.session.get(SIGNED_IN_AT, 0) > FRESH_SECONDS:
        cases.refused(actor(request), request.path[:200], "password is not fresh")
        raise PermissionDenied(_("This takes a password typed within the last 15 minutes: sign out and in again."))


def note_sign_in(request: HttpRequest) -> None:
    """The session remembers when its password was typed."""
    request.session[SIGNED_IN_AT] = time.time()


def require_contents(request: HttpRequest, repository: Any) -> None:
    """Refuses who may not see what is in a restricted repository."""
    if not sees_contents(request, repository):
        raise PermissionDenied(_("This repository is restricted: its owners decide who sees what is in it."))


def sees_contents(request: HttpRequest, repository: Any) -> bool:
    """Diffs, evidence and log tails of this repository are shown to this person."""
    return may_see_contents(request.user, restricted=repository.restricted, repository=repository.name)


def _guarded(view: View, name: str, needs: Needs) -> View:
    """Signed in, a method that is served, a role that suffices; then the page, which no cache keeps."""
    # An account that is switched off is nobody at its next request: the session backend sees to that.

    @wraps(view)
    @cache_control(no_store=True)
    def guarded(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        if not request.user.is_authenticated:
            return redirect_to_login(request.get_full_path())
        role = needs.role(request.method or "")
        if role is None:
            served = (*(SAFE if needs.read else ()), *(("POST",) if needs.write else ()))
            return HttpResponseNotAllowed(served)
        if _role(request) < role:
            _refuse(request, (needs.read if request.method in SAFE else needs.write) or name)
        return view(request, *args, **kwargs)

    return guarded


def _role(request: HttpRequest) -> Role:
    """Read once a request."""
    if not hasattr(request, "_agentq_role"):
        request._agentq_role = role_of(request.user)  # type: ignore[attr-defined]
    return request._agentq_role  # type: ignore[attr-defined]


def _refuse(request: HttpRequest, act: str) -> None:
    if request.method not in SAFE:
        cases.refused(actor(request), act, "role", role=_role(request).name.lower(), address=request.path[:200])
    if _role(request) is Role.SIGNED_IN:
        raise PermissionDenied(_("Your account has no role yet: ask an owner for one."))
    raise PermissionDenied(
        _("“%(act)s” takes the role %(role)s.") % {"act": act, "role": ACTS[act].name.lower().replace("_", " ")}
    )
