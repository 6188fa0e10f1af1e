"""Policy versions: published once, never changed, activated by an append-only row (P1)."""

from dataclasses import dataclass
from functools import lru_cache

from django.db import IntegrityError, transaction
from django.utils import timezone
from django.utils.translation import gettext as _

from jobs.core import redaction
from jobs.core.policy import Policy
from jobs.errors import PolicyRefused
from jobs.models import PolicyActivation, PolicyVersion
from jobs.policies import cases
from jobs.policies.document import PolicyDocument
from jobs.policies.loading import BUILTIN_PATH, builtin, load_json, to_policy
from jobs.services import audit

BUILT_IN = "engine:builtin"
# Going back to an older version undoes what somebody decided: that takes a sentence.
REASON_TO_GO_BACK = 10


@dataclass(frozen=True, slots=True)
class ActivePolicy:
    """The version that decides now."""

    pk: int
    number: int
    rules: Policy


def active() -> ActivePolicy:
    """The version of the newest activation; on an empty database the built-in one becomes version 1 first."""
    newest = _newest()
    if newest is None:
        newest = _first()
    return ActivePolicy(newest[0], newest[1], rules(newest[1]))


@lru_cache(maxsize=32)
def rules(number: int) -> Policy:
    """The pure rules of a version; a version never changes, so one process reads it once."""
    return _rules(_stored(number))


def document(number: int) -> PolicyDocument:
    """The document of a version. Raises PolicyRefused when there is no such version."""
    return load_json(_stored(number))


def _stored(number: int) -> str:
    stored = PolicyVersion.objects.filter(number=number).values_list("document", flat=True).first()
    if stored is None:
        raise PolicyRefused(_("There is no policy version %(number)d.") % {"number": number})
    return stored


@lru_cache(maxsize=8)
def _rules(text: str) -> Policy:
    return to_policy(load_json(text))


def source(number: int) -> str:
    """The TOML that a person wrote, from which a draft starts. Refuses where no text was stored with the version."""
    version = _version(number)
    if version.source:
        return version.source
    if version.digest == builtin().digest():
        return BUILTIN_PATH.read_text(encoding="utf-8")
    raise PolicyRefused(_("Version %(number)d was stored without its text.") % {"number": number})


def publish(
    new: PolicyDocument, *, author: str, note: str, source: str = "", parent: int | None = None
) -> PolicyVersion:
    """The document is the next version, audited, not yet active; `parent` is the version it was made from, else the
    newest. Refuses a document that is a version already, and a text with a secret in it, such as a pasted case (Z1)."""
    known = PolicyVersion.objects.filter(digest=new.digest()).values_list("number", flat=True).first()
    if known is not None:
        raise PolicyRefused(_("This document is version %(number)d already.") % {"number": known})
    if new.digest() != builtin().digest():
        _refuse_secrets(source or new.canonical())
    _refuse_secrets(note)
    newest = PolicyVersion.objects.order_by("-number").first()
    made_from = newest if parent is None else _version(parent)
    try:
        with transaction.atomic():
            version = PolicyVersion.objects.create(
                number=newest.number + 1 if newest else 1,
                digest=new.digest(),
                document=new.canonical(),
                source=source,
                author=author,
                note=note.strip()[:500],
                parent=made_from,
                created_at=timezone.now(),
            )
            facts = {"digest": version.digest, "parent": made_from.number if made_from else 0}
            audit.note("policy", "publish", author, reason=version.note, policy=version.number, **facts)
    except IntegrityError as error:
        if "agentq" in str(error):
            raise
        raise PolicyRefused(_("Somebody published a version at the same moment. Try again.")) from error
    return version


def activate(number: int, *, actor: str, reason: str) -> PolicyActivation:
    """From now on this version decides; jobs and attempts pinned to another keep theirs.

    Needs a reason, a longer one to go back to a version older than the active one. Refuses (PolicyRefused) the active
    version, and one whose own cases fail or whose new rules no case of its own proves (P3).
    """
    version, newest = _version(number), _newest()
    now = newest[1] if newest else 0
    if now == number:
        raise PolicyRefused(_("Version %(number)d is active already.") % {"number": number})
    if not reason.strip():
        raise PolicyRefused(_("Say why this version is to be active."))
    if number < now and len(reason.strip()) < REASON_TO_GO_BACK:
        raise PolicyRefused(
            _("Version %(number)d is older than the active %(now)d. Say in a sentence why to go back.")
            % {"number": number, "now": now}
        )
    if trouble := objections(version):
        raise PolicyRefused(" ".join(trouble))
    with transaction.atomic():
        activation = PolicyActivation.objects.create(
            version=version, actor=actor, reason=reason.strip()[:500], created_at=timezone.now()
        )
        audit.note("policy", "activate", actor, reason=reason.strip()[:500], policy=number, before=now)
    return activation


def objections(version: PolicyVersion) -> list[str]:
    """What its own cases say against activating this version, in sentences; empty when nothing does."""
    new = load_json(version.document)
    parent = load_json(version.parent.document) if version.parent else None
    found = [
        _("Case %(id)s gives %(class)s, %(action)s by %(rule)s instead of %(wanted)s.")
        % {
            "id": each.case.id,
            "class": each.answer.class_ or "-",
            "action": each.answer.action,
            "rule": each.answer.rule,
            "wanted": ", ".join(
                filter(None, (each.case.expected_class, each.case.expected_action, each.case.expected_rule))
            ),
        }
        for each in cases.answers(new)
        if not each.passes
    ]
    if unproven := cases.unproven(new, parent):
        found.append(_("No case of its own proves: %(rules)s.") % {"rules": ", ".join(unproven)})
    return found


def _refuse_secrets(text: str) -> None:
    for finding in redaction.find(text):
        line = text.count("\n", 0, finding.start) + 1
        raise PolicyRefused(
            _("Line %(line)d holds what looks like a secret (%(kind)s). Take it out; nothing was stored.")
            % {"line": line, "kind": finding.kind}
        )


def _version(number: int) -> PolicyVersion:
    version = PolicyVersion.objects.select_related("parent").filter(number=number).first()
    if version is None:
        raise PolicyRefused(_("There is no policy version %(number)d.") % {"number": number})
    return version


def _newest() -> tuple[int, int] | None:
    return PolicyActivation.objects.order_by("-pk").values_list("version_id", "version__number").first()


def _first() -> tuple[int, int]:
    # Read and checked before the transaction: on SQLite that would keep every other writer waiting.
    text, first = BUILTIN_PATH.read_text(encoding="utf-8"), builtin()
    try:
        with transaction.atomic():
            version = publish(first, author=BUILT_IN, note="the built-in policy", source=text)
            activate(version.number, actor=BUILT_IN, reason="the built-in policy")
    except (IntegrityError, PolicyRefused):
        pass  # another process was faster
    newest = _newest()
    assert newest is not None
    return newest
