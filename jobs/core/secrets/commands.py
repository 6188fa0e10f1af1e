"""Passwords as arguments: of programs, of files that programs read, and beside a user's name (layer 4)."""

import re
from collections.abc import Iterator
from typing import Final

from jobs.core.secrets import values
from jobs.core.secrets.findings import LOW, Hit
from jobs.core.secrets.pairs import TRAILING
from jobs.core.secrets.views import View

_NETRC: Final = re.compile(r"\blogin[ \t\n+]{1,12}\S{1,100}[ \t\n+]{1,12}password[ \t\n+]{1,12}(\S{1,200})")
# A name and a password side by side, without the word for either: `login: demo / …`, `login("demo", "…")`.
_LOGIN: Final = re.compile(
    r"(?:log[ _-]?in|sign[ _-]?in|credentials?|creds|accounts?|账号|账户|帐号)"
    r"(?:[\"'`(:= \t]{1,4}|[ ](?:failed|with|as|for)[ ]){1,3}(?:for[ ])?[\w.@+-]{2,40}"
    r"[\"'`]?[ \t]{0,3}[/:,|][ \t]{0,3}[\"'`]?([!#-&*-.0-~]{8,64})"
)
_PGPASS: Final = re.compile(r"^[\w.*-]{1,100}:(?:543\d|3306|\*):[\w*-]{1,60}:[\w*-]{1,60}:(\S{4,200})", re.MULTILINE)
_PORTS: Final = (":543", ":3306:", ":*:")
_FLAGS: Final = (" -p", " -u", "--user", "--proxy-user", " -a")
# Programs that take a password as an argument of their own.
_CLIENT: Final = re.compile(
    r"\b(?:curl|wget|http)\b[^\n|;]{0,300}?[ \t](?:-u|--user|--proxy-user)[ \t=]{0,2}"
    r"[\"']?[\w.@+-]{1,80}:([^\s\"'@/]{3,200})"
    r"|\b(?:mysql|mysqldump|mysqladmin|mariadb)\b[^\n|;]{0,200}?[ \t]-p[\"']?([^\s\"'-][^\s\"']{2,100})"
    r"|\bsshpass[ \t]{1,4}-p[ \t]{0,2}[\"']?([^\s\"']{3,100})"
    r"|\bredis-cli\b[^\n|;]{0,100}?[ \t]-a[ \t]{1,2}[\"']?([^\s\"']{3,100})"
    r"|\b(?:docker|podman|helm|az|oc)[ \t](?:registry[ \t])?login\b[^\n|;]{0,200}?[ \t]-p[ \t]{1,2}"
    r"[\"']?([^\s\"']{3,100})"
)


def find(view: View) -> Iterator[Hit]:
    """Passwords that stand where a program or a login takes them."""
    text = view.text
    if "login" in view.lower and "password" in view.lower:
        yield from (_checked(found, 1) for found in _NETRC.finditer(text) if _is_argument(found[1]))
    for found in _LOGIN.finditer(view.lower):
        value = text[found.start(1) : found.end(1)].rstrip(TRAILING)
        if (
            values.classes(value) >= 3
            and values.is_mixed(value)
            and _is_argument(value)
            and not values.is_public(value)
        ):
            yield Hit("password", found.start(1), found.start(1) + len(value), LOW)
    if any(port in text for port in _PORTS):
        yield from (_checked(found, 1) for found in _PGPASS.finditer(text) if _is_argument(found[1]))
    for found in _CLIENT.finditer(text) if any(flag in text for flag in _FLAGS) else ():
        group = found.lastindex or 1
        if _is_argument(found[group]):
            yield _checked(found, group)


def _checked(found: re.Match[str], group: int) -> Hit:
    return Hit("password", found.start(group), found.end(group), LOW)


def _is_argument(value: str) -> bool:
    if values.is_masked(value) or values.is_placeholder(value) or values.is_reference(value, quoted=False):
        return False
    return not values.is_plain(value) or any(c.isdigit() for c in value)
