"""The viewer's time zone, from a cookie that the console's script sets (Z2); UTC until then."""

from collections.abc import Callable
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from django.http import HttpRequest, HttpResponse
from django.utils import timezone

ZONE_COOKIE = "agentq-zone"


class ViewerTimeZoneMiddleware:
    """Activates the named zone for one request; an unknown name means UTC."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        with timezone.override(_zone(request.COOKIES.get(ZONE_COOKIE, ""))):
            return self.get_response(request)


def _zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name or "UTC")
    except (ZoneInfoNotFoundError, ValueError):
        return ZoneInfo("UTC")
