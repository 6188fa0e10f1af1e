"""Looks for secrets in what a result adds: lines, whole new files and file names (V1, Z1)."""

import hashlib
import hmac
import json
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby
from pathlib import Path, PurePosixPath

from jobs.core.redaction import DETECTOR_VERSION, find, redact
from jobs.verification.added import AddedLine

MAX_FINDINGS = 500
CREDENTIAL_FILE = "credential_file"
_KEY_FILES = frozenset({"id_rsa", "id_dsa", "id_ecdsa", "id_ed25519"})
_LOGIN_FILES = frozenset({".netrc", ".pgpass", ".htpasswd", ".git-credentials", ".env"})
_ENDINGS = frozenset({".p12", ".pfx", ".jks", ".keystore", ".kdbx", ".ppk", ".ovpn"})


@dataclass(frozen=True, slots=True)
class SecretFinding:
    """Where a secret was added, and of which kind. `line` counts from 1 in the new file, 0 is the file's name.

    `fingerprint` is equal for the same value under the same key and tells nothing about it.
    """

    kind: str
    path: str
    line: int
    fingerprint: str


class Scanner:
    """The gate's `scan`. `key` keys the fingerprints; `injected` are values that must not appear in any form."""

    def __init__(self, key: bytes, *, injected: Collection[str] = ()) -> None:
        self._key = key
        self._injected = injected

    def __call__(self, lines: Iterable[AddedLine]) -> Sequence[SecretFinding]:
        """At most 500 findings, never a value. Lines of a file that follow one another are read as one text."""
        found: dict[SecretFinding, None] = {}
        for path, group in groupby(lines, key=lambda line: (line.path, line.number == 0)):
            for finding in self._in_file(path[0], list(group)):
                found.setdefault(finding)
                if len(found) >= MAX_FINDINGS:
                    return list(found)
        return list(found)

    def _in_file(self, path: str, lines: list[AddedLine]) -> Iterator[SecretFinding]:
        shown = redact(path, context="diff", injected=self._injected)
        if lines[0].number == 0 and _is_credential_file(path):
            yield SecretFinding(CREDENTIAL_FILE, shown, 0, self._fingerprint(CREDENTIAL_FILE, path))
        text = "\n".join(line.text for line in lines)
        starts, length = [], 0
        for line in lines:
            starts.append(length)
            length += len(line.text) + 1
        at = 0
        for finding in find(text, context="diff", injected=self._injected):
            while at + 1 < len(starts) and starts[at + 1] <= finding.start:
                at += 1
            value = text[finding.start : finding.end]
            yield SecretFinding(finding.kind, shown, lines[at].number, self._fingerprint(finding.kind, value))

    def _fingerprint(self, kind: str, value: str) -> str:
        message = f"{kind}\0{value}".encode("utf-8", errors="replace")
        return hmac.new(self._key, message, hashlib.sha256).hexdigest()[:16]


def kinds(findings: Iterable[SecretFinding]) -> list[str]:
    """The kinds alone, for evidence that is shown and kept."""
    return sorted({finding.kind for finding in findings})


def write(findings: Iterable[SecretFinding], path: Path) -> None:
    """The findings as JSON for the diff page, beside the attempt's outputs; places and kinds, no values."""
    listed = {"detector": DETECTOR_VERSION, "findings": [asdict(finding) for finding in findings]}
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.write_text(json.dumps(listed, ensure_ascii=False), encoding="utf-8")
    path.chmod(0o600)


def _is_credential_file(path: str) -> bool:
    name = PurePosixPath(path).name.lower()
    return name in _KEY_FILES or name in _LOGIN_FILES or PurePosixPath(name).suffix in _ENDINGS
