"""Which names promise a secret: `DB_PASSWORD`, `apiKey`, `client-secret`; and which only look like it."""

import re
from functools import lru_cache
from typing import Final, NamedTuple

_WORDS: Final = re.compile(r"[A-Z]{1,40}(?![a-z])|[A-Z]?[a-z]{1,40}|\d{1,9}")
# Behind the word that counts, these change nothing.
_NEUTRAL: Final = frozenset({
    "value", "val", "text", "str", "string", "plain", "plaintext", "raw", "prod", "production", "dev",
    "development", "staging", "stage", "test", "live", "old", "new", "current", "default", "main", "primary",
    "secondary", "base64", "b64", "encoded", "confirmation", "confirm", "again", "repeat", "env", "root", "admin",
    "qa", "uat", "backup", "temp", "tmp", "master", "b",
})  # fmt: skip
_PASSWORD: Final = frozenset(
    {"password", "passwd", "pwd", "passphrase", "passcode", "passwort", "psw", "pword", "passw"}
)
_PASSWORD_ENDS: Final = ("password", "passwd", "passphrase", "pwd", "sshpass", "passwort")
_SHORT_PASSWORD: Final = frozenset({"pass", "pw"})
_SECRET: Final = frozenset({"secret", "secrets", "credential", "credentials", "creds", "cred", "secretkey"})
_KEY_ENDS: Final = (
    "apikey",
    "secretkey",
    "accesskey",
    "authkey",
    "privatekey",
    "signingkey",
    "encryptionkey",
    "accountkey",
)
_KEY_OWNERS: Final = frozenset({
    "api", "apis", "secret", "access", "private", "encryption", "encrypt", "signing", "sign", "auth", "master",
    "account", "shared", "service", "app", "application", "client", "storage", "subscription", "ssh", "webhook",
    "consumer", "deploy", "hmac", "aes", "rsa", "admin", "jwt", "cookie", "session", "license", "licence", "root",
    "bot", "fernet", "django", "flask", "stripe", "openai", "anthropic", "github", "gitlab", "aws", "azure",
    "google", "gcp", "sendgrid", "mailgun", "twilio", "datadog", "dd", "maps", "crypto", "cipher", "token",
    "security", "partner", "merchant", "pay", "payment", "mch", "bearer", "integration", "ingest", "write",
    "functions", "host", "deepseek", "dashscope", "qwen", "moonshot", "zhipu", "claude", "gemini", "mistral",
    "cohere", "openrouter", "vault", "unseal", "recovery", "wandb",
})  # fmt: skip
_NOT_TOKEN: Final = frozenset({
    "page", "next", "prev", "previous", "continuation", "cursor", "sync", "idempotency", "request", "trace",
    "correlation", "fencing", "fence", "lease", "claim", "cancel", "cancellation", "pagination", "stop", "eos",
    "bos", "pad", "special", "mask", "unk", "max", "min", "num", "count", "total", "input", "output", "cached",
    "completion", "prompt", "reasoning", "start", "end", "last", "first", "current", "scroll", "resume", "sep",
    "cls", "per", "lock", "syntax", "lex", "parse", "unexpected", "invalid", "design", "expected", "unknown",
    "upload", "changeset", "state",
})  # fmt: skip
_TOKEN_OWNERS: Final = frozenset({
    "access", "auth", "bearer", "refresh", "api", "id", "github", "gh", "gitlab", "npm", "pypi", "codecov",
    "deploy", "bot", "session", "secret", "personal", "private", "service", "slack", "telegram", "discord", "vault",
    "hf", "sonar", "snyk", "webhook", "security", "oauth", "user", "login", "jwt", "admin", "ci", "job", "registry",
    "device", "push", "account", "bitbucket", "jira", "circle", "heroku", "cloudflare", "root", "master", "sentry",
    "pat", "csrf", "xsrf", "reset",
})  # fmt: skip
_SESSION: Final = frozenset(
    {"sessionid", "jsessionid", "phpsessid", "sessid", "sid", "sess", "aspsessionid", "sessionkey"}
)
_BENIGN: Final = frozenset({
    "hash", "hashes", "hasher", "hashers", "digest", "id", "ids", "name", "names", "file", "files", "path", "paths",
    "dir", "url", "uri", "endpoint", "length", "len", "size", "policy", "field", "fields", "label", "column",
    "placeholder", "hint", "help", "reset", "type", "ttl", "expiry", "expires", "expire", "expiration", "expired",
    "age", "timeout", "count", "limit", "limits", "usage", "budget", "ref", "var", "header", "param", "prefix",
    "suffix", "pattern", "regex", "format", "version", "validator", "validators", "validation", "strength",
    "manager", "service", "store", "provider", "class", "view", "form", "input", "error", "errors", "changed",
    "required", "enabled", "disabled", "rotation", "rotated", "at", "date", "iterations", "algorithm", "template",
    "page", "kind", "index", "list", "scope", "scopes", "status", "state", "fingerprint", "checksum", "bucket",
    "buckets", "rate", "logic", "request", "response", "button", "link", "message", "msg", "title", "widget",
    "test", "tests", "handler", "factory", "model", "schema", "table", "arn", "alias", "owner", "spec", "mount",
    "volume", "group", "rule", "rules", "check", "checks", "scan", "scanner", "set", "is", "has", "no", "encoder",
    "encoding", "generator", "backend", "middleware", "context", "mode", "option", "options", "event", "found",
    "stream", "reader", "parser", "counter", "per", "sha", "sha256", "md5", "source", "key", "tokens",
    "description",
})  # fmt: skip
_PUBLISHED: Final = frozenset({"public", "publishable"})
_HASHED: Final = frozenset({"hashed", "hash", "encrypted", "digest"})
_AUTH: Final = frozenset({"auth", "authtoken", "authorization"})
_CODE: Final = frozenset({"otp", "totp", "vcode", "smscode", "captcha", "authcode", "verificationcode"})
_CODE_OWNERS: Final = frozenset({
    "verification", "verify", "sms", "auth", "otp", "login", "confirm", "confirmation", "captcha", "mfa", "2fa",
    "fa", "security", "passcode", "email", "phone", "sign", "one", "time", "onetime", "factor", "authentication",
    "authenticator",
})  # fmt: skip
_CARD_CODE: Final = frozenset({"cvv", "cvc", "cvv2", "cvc2", "csc"})
_PIN_OWNERS: Final = frozenset(
    {"card", "atm", "sim", "bank", "debit", "credit", "account", "user", "device", "payment"}
)


class Promise(NamedTuple):
    """`strong` names hold nothing but secrets, so that even a bare hash behind one is taken for it."""

    kind: str
    strong: bool


@lru_cache(maxsize=4096)
def promise(identifier: str) -> Promise | None:
    """What the name says about its value; None when it promises no secret."""
    words = [word.lower() for word in _WORDS.findall(identifier)]
    if words and words[-1] == "b" and len(words) == 1:
        return None
    while len(words) > 1 and (words[-1] in _NEUTRAL or words[-1].isdigit()) and not _decides(words):
        words.pop()
    if not words or not _PUBLISHED.isdisjoint(words):
        return None
    found = _of_last(words, identifier) or _of_any(words)
    return found._replace(strong=False) if found and not _HASHED.isdisjoint(words) else found


def _decides(words: list[str]) -> bool:
    return words[-1] in _CODE or words[-1] in _CARD_CODE


def _of_last(words: list[str], identifier: str) -> Promise | None:
    last, before = words[-1], words[-2] if len(words) > 1 else ""
    if last in _PASSWORD or last.endswith(_PASSWORD_ENDS):
        return Promise("password", True)
    if last in _SHORT_PASSWORD:
        return Promise("password", False) if before or last == "pass" else None
    if last in _SECRET or last.endswith("secret"):
        return Promise("secret", last != "creds")
    if last.endswith("token"):
        return None if before in _NOT_TOKEN else Promise("token", last != "token" or _names_owner(before, identifier))
    if (last == "key" and before in _KEY_OWNERS) or last.endswith(_KEY_ENDS):
        return Promise("api_key", True)
    if last == "sk":
        return Promise("api_key", False)
    if last in _SESSION or (last == "id" and before == "session"):
        return Promise("session", last not in ("id", "sid", "sess"))
    return _of_code(last, before, words)


def _names_owner(before: str, identifier: str) -> bool:
    return before in _TOKEN_OWNERS or (bool(before) and identifier.isupper())


def _of_code(last: str, before: str, words: list[str]) -> Promise | None:
    if last in _CODE or (last == "code" and (before in _CODE_OWNERS or (before.isdigit() and len(words) > 2))):
        return Promise("verification_code", True)
    if last in _CARD_CODE:
        return Promise("card_security_code", True)
    if (last == "pin" and before in _PIN_OWNERS) or (last == "code" and before == "pin"):
        return Promise("verification_code", True)
    if last in _AUTH:
        return Promise("authorization", False)
    return None


def _of_any(words: list[str]) -> Promise | None:
    """`password_for_ci`, `TOKEN_GITHUB`: the word that counts is not the last one."""
    if words[-1] in _BENIGN or len(words) > 5:
        return None
    for word in words[:-1]:
        if word in _PASSWORD:
            return Promise("password", False)
        if word in ("secret", "token", "apikey"):
            return Promise(word if word != "apikey" else "api_key", False)
    return None
