"""Django's own admin for people, open to owners only; rows of the engine are looked at there, never written (H3)."""

from functools import wraps
from typing import Any

from django.contrib.admin import AdminSite
from django.contrib.auth.views import redirect_to_login
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext_lazy as _

from jobs.services.people import is_owner
from reviews.permissions import SAFE, require_fresh_password


class PeopleSite(AdminSite):
    """Signing in is the console's; a role counts from the next request on, `is_staff` counts for nothing."""

    site_header = site_title = _("AgentQ: people")
    index_title = _("People, and the engine's rows to look at")

    def has_permission(self, request: HttpRequest) -> bool:
        return is_owner(request.user)

    def admin_view(self, view: Any, cacheable: bool = False) -> Any:
        """Looking takes the role; changing takes a fresh password as well."""
        inner = super().admin_view(view, cacheable)

        @wraps(view)
        def guarded(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
            if request.method not in SAFE and self.has_permission(request):
                require_fresh_password(request)
            return inner(request, *args, **kwargs)

        return guarded

    def login(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:  # noqa: ARG002
        if request.user.is_authenticated:
            raise PermissionDenied(_("Owners manage people."))
        return redirect_to_login(request.GET.get("next") or request.get_full_path())
