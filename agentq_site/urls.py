"""The console is the whole site; signing in and changing a password are Django's own views."""

from django.contrib import admin
from django.contrib.auth import views as auth
from django.urls import include, path

urlpatterns = [
    path("accounts/login/", auth.LoginView.as_view(redirect_authenticated_user=True), name="login"),
    path("accounts/logout/", auth.LogoutView.as_view(), name="logout"),
    path("accounts/password_change/", auth.PasswordChangeView.as_view(), name="password_change"),
    path("accounts/password_change/done/", auth.PasswordChangeDoneView.as_view(), name="password_change_done"),
    path("admin/", admin.site.urls),
    path("", include("reviews.urls")),
]
