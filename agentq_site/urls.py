"""The console is the whole site; sign-in pages are Django's own."""

from django.urls import include, path

urlpatterns = [
    path("accounts/", include("django.contrib.auth.urls")),
    path("", include("reviews.urls")),
]
