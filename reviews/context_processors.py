"""What every page's frame shows: the instance and the pages one can go to."""

from typing import NamedTuple

from django.conf import settings
from django.http import HttpRequest
from django.urls import reverse
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy

from reviews import queries


class Page(NamedTuple):
    """One entry of the navigation. `covers` names the other addresses that belong to it; `key` ones stay on phones."""

    name: str
    label: str | Promise
    icon: str
    covers: tuple[str, ...] = ()
    key: bool = False


# Only pages that exist. A page is listed here in the change that builds it.
NAVIGATION: list[tuple[str | Promise, list[Page]]] = [
    (
        gettext_lazy("Work"),
        [
            Page(
                "jobs", gettext_lazy("Jobs"), "i-jobs", ("job", "job_diff", "job_cancellation", "job_again"), key=True
            ),
            Page("enqueue", gettext_lazy("Enqueue"), "i-plus", key=True),
        ],
    ),
    (
        gettext_lazy("Safety"),
        [
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
    match = request.resolver_match
    return {
        "instance_name": settings.INSTANCE_NAME,
        "csrf_cookie": settings.CSRF_COOKIE_NAME,
        "system": queries.system,  # called by the pages that show it
        "nav": [
            {"title": title, "pages": [_entry(page, match.url_name if match else None) for page in pages]}
            for title, pages in NAVIGATION
        ],
    }


def _entry(page: Page, here: str | None) -> dict[str, object]:
    return {
        "href": reverse(page.name),
        "label": page.label,
        "icon": page.icon,
        "key": page.key,
        "current": here == page.name or here in page.covers,
    }
