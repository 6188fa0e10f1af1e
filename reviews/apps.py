"""The console as a Django app."""

from typing import Any

from django.apps import AppConfig
from django.contrib.auth.signals import user_logged_in


class ReviewsConfig(AppConfig):
    name = "reviews"
    verbose_name = "AgentQ console"

    def ready(self) -> None:
        user_logged_in.connect(_signed_in, dispatch_uid="reviews")


def _signed_in(request: Any, **_more: Any) -> None:
    from reviews.permissions import note_sign_in

    note_sign_in(request)
