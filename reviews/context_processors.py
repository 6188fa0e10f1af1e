"""What every page's frame shows: the instance and the pages one can go to."""

from collections.abc import Callable
from functools import cache
from typing import NamedTuple

from django.conf import settings
from django.http import HttpRequest
from django.urls import reverse
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy

from reviews import queries
from reviews.permissions import ADDRESSES, may


class Page(NamedTuple):
    """One entry of the navigation. `covers` names the other addresses that belong to it; `key` ones stay on phones."""

    name: str
    label: str | Promise
    icon: str
    covers: tuple[str, ...] = ()
    key: bool = False
    number: Callable[[queries.System], int] | None = None


# Only pages that exist. A page is listed here in the change that builds it.
NAVIGATION: list[tuple[str | Promise, list[Page]]] = [
    (
        gettext_lazy("Work"),
        [
            Page(
                "jobs", gettext_lazy("Jobs"), "i-jobs", ("job", "job_diff", "job_cancellation", "job_again"), key=True
            ),
            Page(
                "reviews",
                gettext_lazy("Review"),
                "i-review",
                ("review", "review_decision", "review_act", "my_decisions", "follow_up"),
                key=True,
                number=lambda system: system.reviews.number,
            ),
            Page("enqueue", gettext_lazy("Enqueue"), "i-plus", key=True),
            Page("repositories", gettext_lazy("Repositories"), "i-file", ("repository_limits",)),
        ],
    ),
    (
        gettext_lazy("Safety"),
        [
            Page("ledger", gettext_lazy("Ledger"), "i-out"),
            Page("failures", gettext_lazy("Failures"), "i-warn", key=True),
            Page(
                "policies",
                gettext_lazy("Policies"),
                "i-policy",
                ("policy", "policy_compare", "policy_draft", "policy_activation"),
            ),
        ],
    ),
    (gettext_lazy("Proof"), [Page("samples", gettext_lazy("Weekly sample"), "i-search", ("sample_judgement",))]),
]


def console(request: HttpRequest) -> dict[str, object]:
    here = request.resolver_match.url_name if request.resolver_match else None
    system = cache(queries.system)  # asked by the pages that show it, once
    return {
        "instance_name": settings.INSTANCE_NAME,
        "csrf_cookie": settings.CSRF_COOKIE_NAME,
        "system": system,
        "may": _Allowed(request),
        "nav": [
            {"title": title, "pages": [_entry(page, here, system) for page in pages if _open_to(request, page)]}
            for title, pages in NAVIGATION
        ],
    }


def _open_to(request: HttpRequest, page: Page) -> bool:
    return may(request, ADDRESSES[page.name].read or "anything")


class _Allowed:
    """`may.work_on_reviews` in a template: whether this person's role allows "work on reviews"."""

    def __init__(self, request: HttpRequest) -> None:
        self._request = request

    def __getitem__(self, act: str) -> bool:
        return may(self._request, act.replace("_", " "))


def _entry(page: Page, here: str | None, system: Callable[[], queries.System]) -> dict[str, object]:
    count = page.number
    return {
        "href": reverse(page.name),
        "label": page.label,
        "icon": page.icon,
        "key": page.key,
        "number": (lambda: count(system())) if count else None,
        "current": here == page.name or here in page.covers,
    }
