"""What stands behind a name is not always a secret: references, placeholders, masks, words, paths, digests."""

import re
from typing import Final

_WORD: Final = re.compile(r"[A-Z]{1,24}(?![a-z])|[A-Z]?[a-z]{1,24}")
_SPLIT: Final = re.compile(r"[-_./:\\ ,;()\[\]{}!?=&+|~]{1,16}")
_TECHNICAL: Final = re.compile(
    r"(?:v|ver|version|sha|md|base|utf|rs|hs|es|ps|ed|oauth|http|aes|tls|ssl|x|k|s|ec|p|i|l|argon|pbkdf|curve|rsa|crc"
    r"|id|py|python|node|web|no|nr|auth|ipv|mp|h|db|env|stage|app|api|key|token|secret|user|admin|test|prod|dev"
    r"|release|rc|alpha|beta|part|step|line|level|type|group|field|item)?\d{1,5}(?:[a-z]{1,2})?",
    re.IGNORECASE,
)
_REFERENCE: Final = re.compile(
    r"\$[{(]|\$\{?[A-Za-z_]{1,64}\d{0,2}\}?$|\{\{|\{%|<%|#\{|@\{|%\(|%[A-Za-z_]{1,64}%?$"
    r"|\{[A-Za-z_][\w.\[\]'\"!:]{0,64}\}"
    r"|![A-Za-z/]{1,24}\b(?:$|[ .])|&[a-z]{1,24}$|\*[a-z_]{1,24}$"
    r"|(?:os|process|System|sys|ENV|Env|env|config|Config|cfg|settings|self|this|secrets|vault|args|opts"
    r"|options|request"
    r"|req|params|data|kwargs|ctx|app|var|local|module|std|keyring|Rails|builtins|import|viper|flags?|ssm"
    r"|getenv)[.\[(:]"
    r"|(?:arn|vault|ssm|op|env|file|keyring|ref\+[a-z]{1,12}|sm|gcpsm|awssm|azurekeyvault|secretsmanager|secret"
    r"|doppler"
    r"|https?|ftp|data|git\+ssh|ssh|unix):(?:/{0,3})[^\s]|projects/[^/\s]{1,64}/secrets/|@Microsoft\.KeyVault\("
)
_CALL: Final = re.compile(r"(?:await |new |lambda )?[A-Za-z_$][\w.$:]{0,80}(?:\(|\[|\?\.|->|<)")
_DOTTED: Final = re.compile(r"[A-Za-z_]\w{0,40}(?:(?:\.|->|::)[A-Za-z_]\w{0,40}){1,8}")
_PLACEHOLDER: Final = re.compile(
    r"^<[^<>]{0,80}>?$|^\[[^\[\]]{0,60}\]?$|^\(.{0,60}\)$|^\{[\w .-]{1,60}\}$|\[redacted|<redacted|placeholder"
    r"|change[-_ ]?(?:me|this|it)"
    r"|replace[-_ ]?(?:me|this|with)|\bredacted|\bdummy|\bfake|\bsample|\bmock(?:ed)?\b|not[-_]?a[-_]?(?:real"
    r"|secret)|not[-_]?real"
    r"|(?:^|[-_ {<])(?:your|my|insert|enter|paste|put|fill|some|the)[-_ ]?(?:own[-_ ]?|actual[-_ ]?|real[-_ ]?"
    r"|[a-z]{2,12}[-_ ]?){0,3}"
    r"(?:api|secret|token|password|pass|pwd|key|here|value|client|access|auth|id)\b"
    r"|^(?:abc|abcdef|qwerty|foobar|foo|bar|baz|lorem)[\d_-]{0,12}(?:def|abc|xyz)?\d{0,6}$"
    r"|^0?123456789?0?(?:abc\w{0,8})?$"
    r"|^deadbeef|^(?:0123456789|abcdefgh|12345678)[a-z0-9]{0,60}$|\bto[-_ ]?do\b|\btbd\b|\bfixme\b"
    r"|example[-_ ]?(?:key|token|secret|pass)"
    r"|^(?:test|example)[-_](?:key|token|secret|password|api[-_]key)\b",
    re.IGNORECASE,
)
_EXAMPLE: Final = re.compile(r"EXAMPLE(?:KEY)?(?![a-z])")
_MASK: Final = re.compile(r"\*{3}|[•●·█▇]{2}|x{5}|X{4}|\.{3}|…|#{4}|-{5}|_{5}|0{10}|\?{3}")
_HASH: Final = re.compile(
    r"(?:(?:sha(?:1|224|256|384|512)|md5|blake2b|h1|git|digest|xxh64)[:\-=])?(?:[0-9a-f]{32}|[0-9a-f]{40}"
    r"|[0-9a-f]{56}|[0-9a-f]{64}"
    r"|[0-9a-f]{96}|[0-9a-f]{128}|[0-9A-F]{32}|[0-9A-F]{40}|[0-9A-F]{64})"
)
_LABELLED_HASH: Final = re.compile(r"(?:sha(?:1|224|256|384|512)|md5|blake2b|h1)[:\-=]\S{16,200}")
_PUBLIC: Final = re.compile(
    r"pk_(?:test|live)_|pk\.ey|ssh-(?:rsa|ed25519|dss)"
    r"|\(?[\w.-]{1,60}/[\w.-]{1,60}#\d|[\w.+-]{1,64}@(?:[A-Za-z-]{2,40}\.){1,4}[a-z]{2,10}$"
)
_PATTERN: Final = re.compile(r"\[\^|\(\?[:P=!<]|\\{1,2}[wsdbSWD][*+{)\]\[|]|\]\{\d|\.\*\??\)|\)\?$")
_NUMBERED_NAME: Final = re.compile(r"[A-Za-z_]{0,40}(?:password|passwd|pwd|token|secret|key)_?\d{1,2}", re.IGNORECASE)
_UUID: Final = re.compile(r"[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}")
_PATH: Final = re.compile(r"(?:~|\.{1,2}|[A-Za-z]:)?[/\\]")
_NUMBER: Final = re.compile(
    r"[-+]?\d{1,3}(?:[,_]\d{3}){1,6}|[-+~<>=]{0,2}\d{1,19}(?:\.\d{1,9}){0,3}(?:\s?[A-Za-z%]{1,7}(?:/[a-z]{1,3})?)?"
    r"|\d{1,6}[-~/:]\d{1,6}(?:[-~/:]\d{1,6})?|0x[0-9a-fA-F]{1,16}|\d{4}-\d\d-\d\d(?:[T ][\d:.+Z-]{1,20})?"
)
_TYPES: Final = frozenset({
    "none", "null", "nil", "undefined", "true", "false", "str", "string", "int", "integer", "bytes", "bool",
    "boolean", "number", "object", "optional", "text", "nan", "n/a", "na", "empty", "unset", "void", "any", "char",
    "varchar",
})  # fmt: skip
_VOWELS: Final = frozenset("aeiouyAEIOUY")


def is_reference(value: str, *, quoted: bool) -> bool:
    """The value names a place where the secret is kept, or is code that fetches it."""
    if _REFERENCE.match(value) or "${" in value or "{{" in value:
        return True
    if not quoted and _CALL.match(value) and not _opening_is_symbol(value):
        return True
    return bool(_DOTTED.fullmatch(value)) and all(is_plain(part) for part in re.split(r"[.\->:]{1,2}", value) if part)


def is_masked(value: str) -> bool:
    """Most of the value was left out by whoever wrote it."""
    return bool(_MASK.search(value))


def is_placeholder(value: str) -> bool:
    """The value says that something is to be put in its place, or is a documented example."""
    return bool(_PLACEHOLDER.search(value) or _EXAMPLE.search(value)) or value.lower() in _TYPES


def is_digest(value: str) -> bool:
    """A bare hash or UUID; digests with a name are never secrets."""
    return bool(_HASH.fullmatch(value) or _UUID.fullmatch(value))


def is_labelled_digest(value: str) -> bool:
    """`sha256:…`, `sha512-…` and their like."""
    return bool(_LABELLED_HASH.fullmatch(value))


def is_public(value: str) -> bool:
    """A key that is made to be shown, or an e-mail address."""
    return bool(_PUBLIC.match(value))


def is_pattern(value: str) -> bool:
    """A regular expression that looks for secrets, as scanners and parsers hold them."""
    return bool(_PATTERN.search(value))


def is_numbered_name(value: str) -> bool:
    """`password2`, `new_password1`: another variable or field."""
    return bool(_NUMBERED_NAME.fullmatch(value))


def is_number(value: str) -> bool:
    """A number with or without a unit, a range, a date or a time."""
    return bool(_NUMBER.fullmatch(value))


def is_path(value: str) -> bool:
    """A path in a file system whose parts are words."""
    if not _PATH.match(value):
        return False
    parts = [part for part in re.split(r"[/\\]", value) if part not in ("", "~", ".", "..")]
    return all(is_plain(part) or len(part) <= 4 for part in parts) or (value.count("/") >= 3 and "." in parts[-1])


def is_plain(value: str) -> bool:
    """Words, as people and programs use them: no mixture of letters, digits and signs that only a secret has."""
    parts = [part for part in _SPLIT.split(value) if part]
    if not parts:
        return True
    return all(_is_word(part, alone=len(parts) == 1) for part in parts)


def is_prose(value: str) -> bool:
    """A sentence: several words, most of them plain."""
    parts = value.split()
    return len(parts) >= 3 and sum(is_plain(part) for part in parts) * 3 >= len(parts) * 2


def classes(value: str) -> int:
    """How many of lower case, upper case, digits and signs the value holds."""
    return (
        any(c.islower() for c in value)
        + any(c.isupper() for c in value)
        + any(c.isdigit() for c in value)
        + any(not c.isalnum() for c in value)
    )


def is_mixed(value: str) -> bool:
    """Letters and digits, and not as a word with a number."""
    return any(c.isalpha() for c in value) and any(c.isdigit() for c in value) and not is_plain(value)


def is_random(value: str) -> bool:
    """Mixed, or letters in no order that a word has."""
    return is_mixed(value) or (len(value) >= 16 and classes(value) >= 2 and not is_plain(value))


def _opening_is_symbol(value: str) -> bool:
    """`ab9(Kx2!q` is no call: what stands before the bracket is not a name that people give."""
    name = re.split(r"[(\[<?]|->", value, maxsplit=1)[0]
    parts = [part.rstrip("0123456789") for part in re.split(r"[.:$]", name)]
    return not all(is_plain(part) for part in parts) and any(c.isdigit() for c in name)


def _is_word(part: str, *, alone: bool) -> bool:
    if part.isdigit():
        return not alone and len(part) <= 4
    if _TECHNICAL.fullmatch(part):
        return not alone or len(part) <= 6
    if not part.isascii():
        return part.isalpha()
    if not part.isalpha():
        return False
    humps = _WORD.findall(part)
    if len(humps) >= 3 and len(part) < 3 * len(humps):
        return False  # letters in random case
    return all(_is_speakable(hump) for hump in humps) and len(part) <= 40


def _is_speakable(hump: str) -> bool:
    if len(hump) <= 4 or (hump.isupper() and len(hump) <= 6):
        return True
    vowels = sum(c in _VOWELS for c in hump)
    if not 0.15 <= vowels / len(hump) <= 0.75 or len(hump) > 20:
        return False
    run = 0
    for c in hump:
        run = 0 if c in _VOWELS else run + 1
        if run > 5:
            return False
    return True
