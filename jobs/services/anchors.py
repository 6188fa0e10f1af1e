"""A note outside the database of how far the ledger had come: a restored older ledger is seen before it acts (X2).

Without it a backup that lacks the newest acts would do them a second time.
"""

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from django.conf import settings
from django.utils.translation import gettext as _

from jobs.core.keys import sha256_hex
from jobs.errors import DecisionRefused
from jobs.models import SideEffect
from jobs.services import audit

NAME = "ledger-anchor"


def raise_to(effect: SideEffect) -> None:
    """The anchor names this act, unless it names a later one already. On disk when this returns."""
    with _locked():
        known = _read()
        if known is None or known[0] < effect.pk:
            _write(effect.pk, _hash(effect))


def behind() -> bool:
    """The ledger lacks the act that the anchor names: the database is older than what was done outside."""
    known = _read()
    if known is None:
        return False
    effect = SideEffect.objects.filter(pk=known[0]).first()
    return effect is None or _hash(effect) != known[1]


def accept(*, actor: str, reason: str) -> int:
    """The anchor names the newest act that the ledger knows, whatever it named before; that act's number, 0 for none.

    After a restore: an owner has checked outside what was done since the backup. Audited, with the reason."""
    if not reason.strip():
        raise DecisionRefused(_("Give a reason: how do you know what was done outside since the backup?"))
    newest = SideEffect.objects.order_by("-pk").first()
    with _locked():
        known = _read()
        audit.note(
            "ledger",
            "anchor_accepted",
            actor,
            reason=reason.strip()[:500],
            before=known[0] if known else 0,
            now=newest.pk if newest else 0,
        )
        if newest is None:
            path().unlink(missing_ok=True)
        else:
            _write(newest.pk, _hash(newest))
    return newest.pk if newest else 0


def path() -> Path:
    place: Path = settings.ARTIFACTS_DIR / NAME
    return place


def _read() -> tuple[int, str] | None:
    try:
        noted = json.loads(path().read_text())
    except FileNotFoundError:
        return None
    except ValueError:
        return 0, ""  # damaged: no act has number 0, so that nothing acts until a person looked
    return int(noted["id"]), str(noted["hash"])


def _write(number: int, digest: str) -> None:
    fresh = path().with_name(f"{NAME}.{os.getpid()}.new")
    handle = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
    with os.fdopen(handle, "w") as file:
        file.write(json.dumps({"id": number, "hash": digest}))
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(path())
    folder = os.open(path().parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _hash(effect: SideEffect) -> str:
    """Over what of a row never changes."""
    return sha256_hex("|".join(map(str, (effect.pk, effect.job_id, effect.fence, effect.key, effect.number))))


@contextmanager
def _locked() -> Iterator[None]:
    path().parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    handle = os.open(path().with_name(f"{NAME}.lock"), os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)
