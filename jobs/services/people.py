"""What a person is allowed to be: one of four roles, by group (H3). What each role may do is the console's table."""

from collections.abc import Iterable
from enum import IntEnum
from typing import Any

from django.contrib.auth import SESSION_KEY, get_user_model
from django.contrib.sessions.models import Session
from django.db.models import Q, QuerySet

USER = "user:"


class Role(IntEnum):
    """Each may do what the ones before it may. Read anew at every request: nothing is kept in a session."""

    NOBODY = 0
    SIGNED_IN = 1
    VIEWER = 2
    OPERATOR = 3
    REVIEWER = 4
    OWNER = 5


GROUPS = {
    "viewers": Role.VIEWER,
    "operators": Role.OPERATOR,
    "reviewers": Role.REVIEWER,
    "owners": Role.OWNER,
}
OWNERS = "owners"

# Act → the role that it takes; pages and commands ask here. To stop is cheap, to let something out is dear.
ACTS = {
    "anything": Role.NOBODY,
    "own account": Role.SIGNED_IN,
    "see": Role.VIEWER,
    "see payloads": Role.OPERATOR,
    "enqueue": Role.OPERATOR,
    "cancel": Role.OPERATOR,
    "pause": Role.OPERATOR,
    "judge a sample": Role.OPERATOR,
    "work on reviews": Role.REVIEWER,
    "decide": Role.REVIEWER,
    "decide alone": Role.OWNER,
    "register repositories": Role.OWNER,
    "set limits": Role.OWNER,
    "change policy": Role.OWNER,
    "resume": Role.OWNER,
    "manage people": Role.OWNER,
}


def role_of(user: Any) -> Role:
    """The highest of the person's roles; a superuser is an owner, and no more than that."""
    if not user.is_authenticated or not user.is_active:
        return Role.NOBODY
    if user.is_superuser:
        return Role.OWNER
    names = user.groups.filter(name__in=GROUPS).values_list("name", flat=True)
    return max((GROUPS[name] for name in names), default=Role.SIGNED_IN)


def is_owner(user: Any) -> bool:
    """True for an active member of the group of owners and for a superuser."""
    return role_of(user) is Role.OWNER


def role_named(actor: str) -> Role:
    """The role of `user:NAME`; nobody for what is no active person."""
    user = get_user_model()._default_manager.filter(username=actor.removeprefix(USER)).first()
    return role_of(user) if user is not None and actor.startswith(USER) else Role.NOBODY


def actor_of(user: Any) -> str:
    """How this person is named in the audit."""
    return f"{USER}{user.get_username()}"


def at_least(role: Role) -> "QuerySet[Any]":
    """Active people who have this role or a higher one, by name."""
    names = [name for name, has in GROUPS.items() if has >= role]
    users = get_user_model()._default_manager.filter(Q(groups__name__in=names) | Q(is_superuser=True), is_active=True)
    return users.distinct().order_by("username")


def end_sessions(people: Iterable[int]) -> int:
    """Whoever is signed in as one of these people (by id) is out at the next request; how many sessions ended."""
    ids = {str(pk) for pk in people}
    found = [session for session in Session.objects.all() if session.get_decoded().get(SESSION_KEY) in ids]
    for session in found:
        session.delete()
    return len(found)


def may_see_contents(user: Any, *, restricted: bool, repository: str) -> bool:
    """Diffs and evidence: of a restricted repository only for owners and the group `repo:NAME`."""
    role = role_of(user)
    if role < Role.VIEWER:
        return False
    return not restricted or role is Role.OWNER or user.groups.filter(name=f"repo:{repository}").exists()
