"""What owners do in Django's admin: people and groups, every change audited; the rest is only looked at (H3, A1)."""

from typing import Any

from django.apps import apps
from django.contrib import admin, messages
from django.contrib.auth.admin import GroupAdmin, UserAdmin
from django.contrib.auth.models import Group, User
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from jobs.services import audit
from jobs.services.people import GROUPS, actor_of, end_sessions


class Audited(admin.ModelAdmin):
    """Owners may do all of it, as the site is theirs alone; each change is an event of stream `auth`."""

    def has_module_permission(self, request: HttpRequest) -> bool:  # noqa: ARG002
        return True

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:  # noqa: ARG002
        return True

    def has_add_permission(self, request: HttpRequest) -> bool:  # noqa: ARG002
        return True

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:  # noqa: ARG002
        return True

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:  # noqa: ARG002
        return False  # the audit names people: they are switched off, never removed

    def log_addition(self, request: HttpRequest, obj: Any, message: Any) -> Any:
        _note(request, "added", obj, message)
        return super().log_addition(request, obj, message)

    def log_change(self, request: HttpRequest, obj: Any, message: Any) -> Any:
        _note(request, "changed", obj, message)
        return super().log_change(request, obj, message)


class People(Audited, UserAdmin):
    """Names, addresses, groups. A person's role is their group; single permissions count for nothing."""

    list_display = ("username", "email", "first_name", "last_name", "is_active", "roles", "last_login")
    list_filter = ("is_active", "groups")
    fieldsets = (
        (None, {"fields": ("username", "password")}),
        (gettext_lazy("Personal info"), {"fields": ("first_name", "last_name", "email")}),
        (gettext_lazy("Role"), {"fields": ("is_active", "is_superuser", "groups")}),
    )
    filter_horizontal = ("groups",)
    actions = ("end_sessions",)

    @admin.display(description=gettext_lazy("roles"))
    def roles(self, user: User) -> str:
        return ", ".join(sorted(group.name for group in user.groups.all()))

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        return super().get_queryset(request).prefetch_related("groups")

    @admin.action(description=gettext_lazy("End all sessions of these people"))
    def end_sessions(self, request: HttpRequest, people: QuerySet[User]) -> None:
        """Whoever is signed in as one of them is out at the next request. Session keys are shown to nobody."""
        ended = end_sessions(people.values_list("pk", flat=True))
        for person in people:
            _note(request, "sessions_ended", person, "")
        messages.success(request, _("%(count)d sessions have ended.") % {"count": ended})


class Groups(Audited, GroupAdmin):
    """Groups `repo:NAME` say who sees what is in a restricted repository. The roles' own groups stay as they are."""

    fields = ("name",)

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:  # noqa: ARG002
        return obj is None or obj.name not in GROUPS


class LookedAt(Audited):
    """A row of the engine: its services write it, with its audit."""

    actions = None
    list_per_page = 50
    show_full_result_count = False

    def has_add_permission(self, request: HttpRequest) -> bool:  # noqa: ARG002
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:  # noqa: ARG002
        return False


def _note(request: HttpRequest, act: str, obj: Any, message: Any) -> None:
    fields = [name for each in message if isinstance(each, dict) for part in each.values() for name in _names(part)]
    kind = obj._meta.model_name
    said = {"kind": kind, "who": str(obj), "fields": fields}
    audit.note("auth", f"{kind}_{act}", actor_of(request.user), **said)


def _names(part: Any) -> list[str]:
    return [str(name) for name in part.get("fields", [])] if isinstance(part, dict) else []


admin.site.unregister(Group)
admin.site.unregister(User)
admin.site.register(User, People)
admin.site.register(Group, Groups)
# Schedules and results of django-q2 are not for hands: what is edited there goes round the door.
for model in apps.get_app_config("django_q").get_models():
    if admin.site.is_registered(model):
        admin.site.unregister(model)
for model in apps.get_app_config("jobs").get_models():
    admin.site.register(model, LookedAt)
