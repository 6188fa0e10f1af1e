"""What a person may do, by group. Owners change what decides; further roles are further names here (H3)."""

from typing import Any

OWNERS = "owners"


def is_owner(user: Any) -> bool:
    """True for an active member of the group of owners and for a superuser."""
    return bool(user.is_active and (user.is_superuser or user.groups.filter(name=OWNERS).exists()))
