"""What every page's frame shows."""

from django.conf import settings
from django.http import HttpRequest


def console(request: HttpRequest) -> dict[str, object]:
    return {"instance_name": settings.INSTANCE_NAME}
