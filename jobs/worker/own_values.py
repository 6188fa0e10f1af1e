"""The secrets that this installation itself holds; no output, log line or result may show them (Z1, Z5)."""

from django.conf import settings

from jobs.errors import CredentialMissing, CredentialsInvalid
from jobs.executors import credentials


def own_values() -> tuple[str, ...]:
    """The secret key, database passwords and every credential that can be read now; in memory only."""
    found = [str(key) for key in (settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS)]
    found += [str(database.get("PASSWORD") or "") for database in settings.DATABASES.values()]
    try:
        references = credentials.parse(settings.AGENTQ_CREDENTIALS)
    except CredentialsInvalid:
        references = {}
    for name in references:
        try:
            found += credentials.resolve(references, [name]).values()
        except CredentialMissing:
            continue
    return tuple(value for value in found if value)
