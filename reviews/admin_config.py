"""Django's admin on a site of our own; apart from `apps`, where Django looks for one configuration only."""

from django.contrib.admin.apps import AdminConfig


class PeopleAdmin(AdminConfig):
    """Owners only, the engine's rows read-only."""

    default_site = "reviews.admin_site.PeopleSite"
