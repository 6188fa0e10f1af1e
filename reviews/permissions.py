"""Who may open what: one table, read by every address of the site (H3). Roles are further values of `Who`."""

from collections.abc import Callable
from enum import Enum
from functools import wraps
from typing import Any

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.urls import URLPattern, path
from django.views.decorators.cache import cache_control

View = Callable[..., HttpResponse]


class Who(Enum):
    ANYONE = "anyone"
    SIGNED_IN = "any person whose account is active"


# Address name → who. An address without a row here cannot be reached.
WHO: dict[str, Who] = {
    "login": Who.ANYONE,
    "logout": Who.ANYONE,
    "password_change": Who.SIGNED_IN,
    "password_change_done": Who.SIGNED_IN,
    "home": Who.SIGNED_IN,
    "jobs": Who.SIGNED_IN,
    "job": Who.SIGNED_IN,
    "job_diff": Who.SIGNED_IN,
    "job_cancellation": Who.SIGNED_IN,
    "job_again": Who.SIGNED_IN,
    "enqueue": Who.SIGNED_IN,
}


def page(route: str, view: View, name: str) -> URLPattern:
    """The address, open to whom the table says; KeyError at start-up when the table does not name it."""
    return path(route, _guards[WHO[name]](view), name=name)


def actor(request: HttpRequest) -> str:
    """How this person is named in the audit."""
    return f"user:{request.user.get_username()}"


def _signed_in(view: View) -> View:
    # An account that is switched off is nobody at its next request: the session backend sees to that.
    @wraps(view)
    @login_required
    @cache_control(no_store=True)
    def guarded(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        return view(request, *args, **kwargs)

    return guarded


_guards: dict[Who, Callable[[View], View]] = {Who.ANYONE: lambda view: view, Who.SIGNED_IN: _signed_in}
