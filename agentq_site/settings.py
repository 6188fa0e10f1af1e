"""Settings from the environment, with defaults that are safe on one machine (Z4)."""

import os
import secrets
import sys
from importlib.metadata import version
from pathlib import Path

import environ
from csp.constants import NONE, SELF
from django.core.exceptions import ImproperlyConfigured
from django.utils.translation import gettext_lazy as _

BASE_DIR = Path(__file__).resolve().parent.parent
env = environ.Env()

# Everything the program writes lives here: database, secret key, artefacts. The default is git-ignored.
DATA_DIR = Path(env("AGENTQ_DATA_DIR", default=str(BASE_DIR / ".agentq"))).resolve()


def _secret_key() -> str:
    """The key from the environment, else one generated once and kept in a 0600 file."""
    if given := env("SECRET_KEY", default=""):
        return given
    path = DATA_DIR / "secret_key"
    DATA_DIR.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        key = path.read_text().strip()
        if not key:
            raise ImproperlyConfigured(f"{path} is empty: delete it to have a new key made") from None
        return key
    with os.fdopen(handle, "w") as file:
        key = secrets.token_urlsafe(64)
        file.write(key)
    return key


SECRET_KEY = _secret_key()
DEBUG = env.bool("DEBUG", default=False)
ALLOWED_HOSTS = env.list("ALLOWED_HOSTS", default=["localhost", "127.0.0.1", "[::1]"])
CSRF_TRUSTED_ORIGINS = env.list("CSRF_TRUSTED_ORIGINS", default=[])

INSTALLED_APPS = [
    "reviews.admin_config.PeopleAdmin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "csp",
    "django_filters",
    "django_htmx",
    "django_q",
    "template_partials",
    "jobs",
    "reviews",
]
MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "csp.middleware.CSPMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.locale.LocaleMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
    "reviews.middleware.ViewerTimeZoneMiddleware",
]
ROOT_URLCONF = "agentq_site.urls"
WSGI_APPLICATION = "agentq_site.wsgi.application"
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "reviews.context_processors.console",
            ],
        },
    },
]

# --- Databases -------------------------------------------------------------------------------------------------
# SQLite: WAL and IMMEDIATE are not tuning, without them claims fail with "database is locked". FULL keeps the
# audit trail and the ledger across a power cut, NORMAL may lose the last commits then.
SQLITE_BUSY_SECONDS = env.float("AGENTQ_BUSY_SECONDS", default=10.0)
SQLITE_SYNCHRONOUS = env("AGENTQ_SQLITE_SYNCHRONOUS", default="FULL")
DATABASES = {"default": env.db_url("DATABASE_URL", default=f"sqlite:///{DATA_DIR / 'db.sqlite3'}")}
ON_SQLITE = DATABASES["default"]["ENGINE"] == "django.db.backends.sqlite3"
if ON_SQLITE:
    DATABASES["default"]["OPTIONS"] = {
        "transaction_mode": "IMMEDIATE",
        "timeout": SQLITE_BUSY_SECONDS,
        "init_command": f"PRAGMA journal_mode=WAL; PRAGMA synchronous={SQLITE_SYNCHRONOUS};",
    }
    DATA_DIR.mkdir(mode=0o700, parents=True, exist_ok=True)
else:
    DATABASES["default"]["OPTIONS"] = {
        "server_side_binding": True,
        "prepare_threshold": env.int("AGENTQ_PREPARE_THRESHOLD", default=5) or None,
        "options": "-c idle_in_transaction_session_timeout=60000",
    }
DATABASES["default"]["CONN_MAX_AGE"] = None
DATABASES["default"]["CONN_HEALTH_CHECKS"] = True
DATABASES["default"]["ATOMIC_REQUESTS"] = False  # under IMMEDIATE each GET would take the writer lock
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

CACHES = {"default": {"BACKEND": "django.core.cache.backends.filebased.FileBasedCache", "LOCATION": DATA_DIR / "cache"}}

# --- Engine (seconds unless said) ------------------------------------------------------------------------------
ARTIFACTS_DIR = Path(env("AGENTQ_ARTIFACTS", default=str(DATA_DIR / "artifacts"))).resolve()
WORKFLOWS_DIR = env("AGENTQ_WORKFLOWS", default="")
# References, never values: OPENAI_API_KEY=env:NAME or =file:/path, with blanks between. Read at the start of a run.
AGENTQ_CREDENTIALS = env("AGENTQ_CREDENTIALS", default="")
# How a result's branch may be pushed, besides to a path on this machine: https, ssh.
AGENTQ_PUSH_PROTOCOLS = env.list("AGENTQ_PUSH_PROTOCOLS", default=["file"])
AGENTQ_WORKERS = env.int("AGENTQ_WORKERS", default=2)
AGENTQ_LEASE_SECONDS = env.float("AGENTQ_LEASE_SECONDS", default=120.0)
AGENTQ_BEAT_SECONDS = env.float("AGENTQ_BEAT_SECONDS", default=20.0)
AGENTQ_FENCE_SECONDS = env.float("AGENTQ_FENCE_SECONDS", default=75.0)
AGENTQ_GRACE_SECONDS = env.float("AGENTQ_GRACE_SECONDS", default=10.0)
AGENTQ_RESERVATION_SECONDS = env.float("AGENTQ_RESERVATION_SECONDS", default=20.0)
AGENTQ_POLL_SECONDS = env.float("AGENTQ_POLL_SECONDS", default=0.05)
AGENTQ_DRAIN_SECONDS = env.float("AGENTQ_DRAIN_SECONDS", default=30.0)

Q_CLUSTER = {
    "name": "agentq",  # salt of the message signatures: never vary it by host
    "broker_class": "jobs.worker.broker.JobsBroker",
    "orm": "default",
    "workers": AGENTQ_WORKERS,
    "queue_limit": 0,  # none: the broker's gate bounds it, and a full queue would block the broker's watch over it
    "bulk": 1,
    "poll": AGENTQ_POLL_SECONDS,
    "timeout": 300,  # maintenance tasks only: a job message carries its own
    "retry": 600,
    "ack_failures": True,
    "max_attempts": 1,
    "save_limit": 1000,
    "guard_cycle": 0.5,  # django-q2 compares a float with exactly 0: only binary fractions ever get there
    "recycle": 1000,
    "catch_up": False,
    "log_level": env("AGENTQ_CLUSTER_LOG_LEVEL", default="WARNING"),
}

# --- Sign-in ---------------------------------------------------------------------------------------------------
AUTH_PASSWORD_VALIDATORS = [
    {
        "NAME": "django.contrib.auth.password_validation.MinimumLengthValidator",
        "OPTIONS": {"min_length": 15},
    },
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
]
LOGIN_URL = "login"
LOGIN_REDIRECT_URL = "/"
LOGOUT_REDIRECT_URL = "login"

# --- HTTP ------------------------------------------------------------------------------------------------------
# One switch for "behind TLS": cookies, redirect and HSTS belong together. Off by default, or a first run on
# http://127.0.0.1 could not sign in.
HTTPS = env.bool("AGENTQ_HTTPS", default=False)
SECURE_SSL_REDIRECT = HTTPS
SECURE_HSTS_SECONDS = 31_536_000 if HTTPS else 0
SECURE_HSTS_INCLUDE_SUBDOMAINS = HTTPS
SECURE_HSTS_PRELOAD = HTTPS
if env.bool("AGENTQ_BEHIND_PROXY", default=False):
    SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = HTTPS
SESSION_COOKIE_NAME = "__Host-agentq-session" if HTTPS else "agentq-session"
CSRF_COOKIE_NAME = "__Host-agentq-csrf" if HTTPS else "agentq-csrf"
CSRF_COOKIE_SAMESITE = "Strict"
SESSION_COOKIE_AGE = 12 * 3600
X_FRAME_OPTIONS = "DENY"
CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {
        "default-src": [NONE],
        "script-src": [SELF],
        "style-src": [SELF],
        "img-src": [SELF],
        "connect-src": [SELF],
        "form-action": [SELF],
        "base-uri": [NONE],
        "frame-ancestors": [NONE],
    },
}
STATIC_URL = "static/"
STATIC_ROOT = DATA_DIR / "static"
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage", "OPTIONS": {"location": DATA_DIR / "files"}},
    "staticfiles": {"BACKEND": "whitenoise.storage.CompressedManifestStaticFilesStorage"},
}
# Without a collectstatic run (tests, first try) files are served from the packages themselves.
STATIC_ROOT.mkdir(parents=True, exist_ok=True)  # whitenoise warns about a missing folder
WHITENOISE_USE_FINDERS = True
if not (STATIC_ROOT / "staticfiles.json").exists():
    STORAGES["staticfiles"] = {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"}

# --- Telling people --------------------------------------------------------------------------------------------
# Mail: smtp://user:password@host:587 or smtp+tls://…; without it nothing is sent. The webhook gets ids and counts,
# signed with the secret.
vars().update(env.email_url("EMAIL_URL", default="dummymail://"))
EMAIL_TIMEOUT = 10
DEFAULT_FROM_EMAIL = env("AGENTQ_MAIL_FROM", default="agentq@localhost")
AGENTQ_BASE_URL = env("AGENTQ_BASE_URL", default="").rstrip("/")
AGENTQ_WEBHOOK_URL = env("AGENTQ_WEBHOOK_URL", default="")
AGENTQ_WEBHOOK_SECRET = env("AGENTQ_WEBHOOK_SECRET", default="")
if AGENTQ_WEBHOOK_URL and not (AGENTQ_WEBHOOK_SECRET and AGENTQ_WEBHOOK_URL.startswith(("https://", "http://"))):
    raise ImproperlyConfigured("AGENTQ_WEBHOOK_URL needs http(s) and AGENTQ_WEBHOOK_SECRET, with which it is signed")

# --- Language, time, logs --------------------------------------------------------------------------------------
LANGUAGE_CODE = "en"
LANGUAGES = [("en", _("English")), ("zh-hans", _("Simplified Chinese"))]
USE_TZ = True
TIME_ZONE = "UTC"  # stored and computed; the viewer's own zone is applied when a page is shown (Z2)
AGENTQ_VERSION = version("agentq")
INSTANCE_NAME = env("AGENTQ_INSTANCE", default="local")

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"json": {"()": "agentq_site.logs.JsonFormatter"}},
    "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "json", "stream": sys.stderr}},
    "root": {"handlers": ["stderr"], "level": env("AGENTQ_LOG_LEVEL", default="INFO")},
    "loggers": {
        "django-q": {"handlers": ["stderr"], "level": "WARNING", "propagate": False},
        "django.request": {"level": "ERROR"},
    },
}
