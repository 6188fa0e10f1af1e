"""Policy versions: published once, never changed, activated by an append-only row (P1)."""

from dataclasses import dataclass
from functools import lru_cache

from django.db import IntegrityError, transaction
from django.utils import timezone
from django.utils.translation import gettext as _

from jobs.core.policy import Policy
from jobs.errors import AgentQError
from jobs.models import PolicyActivation, PolicyVersion
from jobs.policies.document import PolicyDocument
from jobs.policies.loading import builtin, load_json, to_policy
from jobs.services import audit

BUILT_IN = "engine:builtin"


class PolicyRefused(AgentQError):
    """The policy version was not published or activated."""


@dataclass(frozen=True, slots=True)
class ActivePolicy:
    """The version that decides now."""

    pk: int
    number: int
    rules: Policy


def active() -> ActivePolicy:
    """The version of the newest activation; on an empty database the built-in one becomes version 1 first."""
    newest = PolicyActivation.objects.order_by("-pk").values_list("version_id", "version__number").first()
    if newest is None:
        newest = _first()
    return ActivePolicy(newest[0], newest[1], rules(newest[1]))


@lru_cache(maxsize=32)
def rules(number: int) -> Policy:
    """The pure rules of a version; a version never changes, so one process reads it once."""
    return to_policy(load_json(PolicyVersion.objects.values_list("document", flat=True).get(number=number)))


def publish(document: PolicyDocument, *, author: str, note: str) -> PolicyVersion:
    """The document is the next version, audited, not yet active. Refuses a document that is a version already."""
    known = PolicyVersion.objects.filter(digest=document.digest()).values_list("number", flat=True).first()
    if known is not None:
        raise PolicyRefused(_("This document is version %(number)d already.") % {"number": known})
    parent = PolicyVersion.objects.order_by("-number").first()
    with transaction.atomic():
        version = PolicyVersion.objects.create(
            number=parent.number + 1 if parent else 1,
            digest=document.digest(),
            document=document.canonical(),
            author=author,
            note=note[:500],
            parent=parent,
            created_at=timezone.now(),
        )
        audit.note("policy", "publish", author, reason=note[:500], policy=version.number, digest=version.digest)
    return version


def activate(number: int, *, actor: str, reason: str) -> PolicyActivation:
    """From now on this version decides; jobs and attempts pinned to another keep theirs. Needs a reason."""
    if not reason.strip():
        raise PolicyRefused(_("Say why this version is to be active."))
    version = PolicyVersion.objects.filter(number=number).first()
    if version is None:
        raise PolicyRefused(_("There is no policy version %(number)d.") % {"number": number})
    with transaction.atomic():
        activation = PolicyActivation.objects.create(
            version=version, actor=actor, reason=reason.strip()[:500], created_at=timezone.now()
        )
        audit.note("policy", "activate", actor, reason=reason.strip()[:500], policy=number)
    return activation


def _first() -> tuple[int, int]:
    try:
        with transaction.atomic():
            version = publish(builtin(), author=BUILT_IN, note="the built-in policy")
            activate(version.number, actor=BUILT_IN, reason="the built-in policy")
    except (IntegrityError, PolicyRefused):
        pass  # another process was faster
    newest = PolicyActivation.objects.order_by("-pk").values_list("version_id", "version__number").first()
    assert newest is not None
    return newest
