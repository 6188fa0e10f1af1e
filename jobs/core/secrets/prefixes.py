"""Layer 2: keys that their issuers made recognisable, and keys of unknown issuers that are made alike."""

import re
from collections.abc import Iterator
from typing import Final

from jobs.core.secrets import values
from jobs.core.secrets.findings import HIGH, LOW, Hit
from jobs.core.secrets.views import View

# Kind, then its patterns, written so that none is itself taken for a key. The first kind that fits is the one.
_KEYS: Final[tuple[tuple[str, ...], ...]] = (
    ("anthropic_key", r"sk-ant-[\w-]{16,300}"),
    ("openrouter_key", r"sk-or-[\w-]{20,200}"),
    ("openai_key", r"sk-(?:proj|svcacct|admin|None)-[\w-]{16,300}", r"sess-[A-Za-z0-9]{40}"),
    ("model_api_key",
     r"sk-[A-Za-z0-9_-]{20,200}", r"gsk_[A-Za-z0-9]{30,100}", r"xai-[A-Za-z0-9]{40,120}",
     r"pplx-[A-Za-z0-9]{30,80}", r"r8_[A-Za-z0-9]{30,60}", r"tgp_v1_[\w-]{30,60}", r"lsv2_(?:pt|sk)_[\w]{30,60}",
     r"pcsk_[\w]{40,100}", r"csk-[a-z0-9]{40,60}", r"nvapi-[\w-]{50,80}", r"fw_[A-Za-z0-9]{22,40}",
     r"jina_[\w]{40,80}", r"crsr_[0-9a-f]{64}", r"wandb_v1_[\w]{40,100}", r"AQVN[\w-]{35,60}"),
    ("github_token", r"gh[pousr]_[A-Za-z0-9_]{30,255}", r"github_pat_[A-Za-z0-9_]{22,255}"),
    ("gitlab_token",
     r"gl(?:pat|dt|rt|rtr|cbt|ptt|ft|imt|agent|soat|oas|ffct|wt)-[\w.-]{18,300}", r"GR1348941[\w-]{18,30}"),
    ("aws_key",
     r"(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}(?![A-Za-z0-9])", r"ABSK[A-Za-z0-9+/]{80,200}={0,2}",
     r"bedrock-api-key-[A-Za-z0-9+/=]{80,400}"),
    ("google_key",
     r"AIza[\w-]{35}", r"GOCSPX-[\w-]{24,40}", r"ya29\.[\w-]{20,1000}", r"1//0[\w-]{30,200}",
     r"AQ\.Ab[\w-]{30,100}"),
    ("azure_key", r"[A-Za-z0-9_~.]{3}\dQ~[\w~.-]{31,34}"),
    ("slack_token", r"xox[abceoprs](?:\.xox[bp])?-[\w-]{10,300}", r"xapp-\d-[\w-]{20,200}"),
    ("stripe_key", r"(?:sk|rk)_(?:live|test)_[A-Za-z0-9]{10,247}", r"whsec_[A-Za-z0-9+/=]{24,100}"),
    ("npm_token", r"npm_[A-Za-z0-9]{30,50}", r"NpmToken\.[0-9a-f-]{36}"),
    ("pypi_token", r"pypi-[\w-]{32,400}"),
    ("huggingface_token", r"hf_[A-Za-z0-9]{30,40}", r"api_org_[A-Za-z0-9]{34}"),
    ("telegram_token", r"(?:bot)?\d{8,10}:[A-Za-z0-9_-]{35}(?![\w-])"),
    ("twilio_key", r"SK[0-9a-f]{32}(?![A-Za-z0-9])"),
    ("sendgrid_key", r"SG\.[\w-]{16,32}\.[\w-]{16,64}"),
    ("mail_key",
     r"key-[0-9a-f]{32}(?![0-9a-f])", r"[0-9a-f]{32}-us\d{1,2}(?!\d)", r"xkeysib-[0-9a-f]{64}-\w{16}",
     r"xsmtpsib-[\w-]{40,100}", r"re_[A-Za-z0-9]{6,12}_[A-Za-z0-9]{18,40}",
     r"[0-9a-f]{32}-[0-9a-f]{8}-[0-9a-f]{8}(?![0-9a-f-])"),
    ("databricks_token", r"dapi[0-9a-f]{32}(?:-\d)?(?![0-9a-f])", r"dose[0-9a-f]{32,40}"),
    ("digitalocean_token", r"do[opr]_v1_[0-9a-f]{40,80}"),
    ("vault_token",
     r"hv[sbr]\.[\w-]{20,300}", r"dp\.(?:pt|st|ct|sa|scim|audit)\.[\w.-]{20,80}",
     r"AGE-SECRET-KEY-1[0-9A-Z]{50,70}", r"ops_eyJ[\w+/=-]{40,1000}", r"[A-Za-z0-9]{14}\.atlasv1\.[\w-]{40,80}",
     r"tskey-[a-z]{2,12}-[\w-]{16,100}"),
    ("monitoring_key",
     r"gl(?:c|sa)_[\w+/=-]{30,400}", r"NRAK-[A-Z0-9]{20,40}", r"NR(?:JS|II|AL|BR)-[\w-]{15,60}",
     r"sntry[su]_[\w+/=-]{20,400}", r"dt0[a-z]\d\d\.[A-Z0-9]{24}\.[A-Z0-9]{64}", r"phx_[A-Za-z0-9]{30,60}"),
    ("ci_token",
     r"bk[au]a_[0-9a-f]{40}", r"CCIPAT_[\w-]{30,80}", r"CCIPRJ_[\w-]{30,80}", r"sq[pua]_[0-9a-f]{40}",
     r"sgp_[\w]{30,80}", r"pul-[0-9a-f]{40}", r"pnu_[A-Za-z0-9]{36}", r"dckr_(?:pat|oat)_[\w-]{20,60}",
     r"rubygems_[0-9a-f]{40,60}", r"cio[A-Za-z0-9]{32}(?![A-Za-z0-9])", r"oy2[a-z0-9]{43}(?![a-z0-9])",
     r"AKCp[A-Za-z0-9]{50,90}", r"cmVm[A-Za-z0-9]{59,90}", r"PMAK-[0-9a-f]{24}-[0-9a-f]{34}", r"figd_[\w-]{36,60}",
     r"CFPAT-[\w-]{40,50}", r"waka_[0-9a-f-]{36}"),
    ("hosting_token",
     r"HRKU-[\w-]{30,90}", r"fo1_[\w-]{40,60}", r"fm[12][ra]?_[A-Za-z0-9+/=,_-]{50,1000}",
     r"nfp_[A-Za-z0-9]{30,60}", r"nf[cou]_[A-Za-z0-9]{36}", r"vc[pkrai]_[A-Za-z0-9]{24,80}", r"sbp_[0-9a-f]{40}",
     r"sb_secret_[\w-]{20,60}", r"pscale_(?:tkn|pw|oauth)_[\w.=-]{30,80}", r"rnd_[A-Za-z0-9]{28,40}",
     r"cfut_[\w-]{40,60}", r"napi_[a-z0-9]{50,80}", r"v1\.0-[0-9a-f]{24}-[0-9a-f]{100,200}"),
    ("office_token",
     r"ATATT3[\w=+/-]{60,250}", r"ATCTT3[\w=+/-]{60,250}", r"ATBB[A-Za-z0-9]{28,40}", r"ntn_[A-Za-z0-9]{36,60}",
     r"secret_[A-Za-z0-9]{43}", r"lin_(?:api|oauth)_[A-Za-z0-9]{30,70}", r"pat[A-Za-z0-9]{14}\.[0-9a-f]{64}",
     r"tfp_[\w]{40,60}", r"EAA[A-Za-z0-9]{100,300}", r"sl\.[A-Za-z0-9_-]{100,200}",
     r"pat-(?:na|eu)\d-[0-9a-f-]{36}"),
    ("shop_token",
     r"shp(?:at|ca|pa|ss|ua)_[0-9a-fA-F]{32}", r"sq0(?:atp|csp)-[\w-]{20,50}", r"EAAA[A-Za-z0-9_-]{58,62}",
     r"shippo_(?:live|test)_[0-9a-f]{40}", r"access-(?:sandbox|development|production)-[0-9a-f-]{36}",
     r"access_token\$(?:production|sandbox)\$[0-9a-z]{16}\$[0-9a-f]{32}", r"duffel_(?:live|test)_[\w-]{40,50}",
     r"EZ[AT]K[A-Za-z0-9]{54}"),
    ("cloud_key",
     r"LTAI[A-Za-z0-9]{12,24}(?![A-Za-z0-9])", r"AKID[A-Za-z0-9]{32}(?![A-Za-z0-9])", r"ALTAK[A-Za-z0-9]{18,30}",
     r"AKLT[\w-]{30,60}", r"JDC_[A-Z0-9]{28,32}", r"y[0-3]_[\w-]{50,100}", r"t1\.9euelZ[\w.-]{30,300}"),
    ("discord_token", r"[MNO][A-Za-z\d_-]{23,27}\.[\w-]{6}\.[\w-]{27,40}"),
    ("webhook_url",
     r"hooks\.slack\.com/(?:services|workflows|triggers)/[A-Za-z0-9/_-]{18,120}",
     r"discord(?:app)?\.com/api/webhooks/\d{15,20}/[\w-]{40,100}",
     r"webhook\.office\.com/webhookb2/[\w@./-]{40,250}",
     r"oapi\.dingtalk\.com/robot/send\?access_token=[\w-]{20,100}",
     r"qyapi\.weixin\.qq\.com/cgi-bin/webhook/send\?key=[\w-]{20,60}",
     r"open\.(?:feishu\.cn|larksuite\.com)/open-apis/bot/v2/hook/[\w-]{20,60}",
     r"hooks\.zapier\.com/hooks/catch/\d{4,12}/\w{4,12}", r"api\.telegram\.org/bot\d{8,10}:[\w-]{30,40}"),
)  # fmt: skip
_NAMED: Final = "|".join(f"(?P<k{number}>{'|'.join(patterns)})" for number, (_, *patterns) in enumerate(_KEYS))
# The look ahead lets short words pass without a try of every issuer.
_ISSUED: Final = re.compile(rf"(?<![A-Za-z0-9])(?=[\w.:/?=@~+$%-]{{16}})(?:{_NAMED})")
_ALIKE: Final = re.compile(
    r"(?<![A-Za-z0-9])([A-Za-z]{2,12})[_-](live|prod|test|pat|sk|secret|key|token|tok|api|apikey|auth|access|v\d)[_-]"
    r"(?:[A-Za-z0-9]{1,12}[_-])?([A-Za-z0-9]{20,200})(?![A-Za-z0-9])"
)
_AZURE_DEVOPS: Final = re.compile(r"[A-Za-z0-9]{76}AZDO[A-Za-z0-9]{4}|[A-Za-z0-9]{52}JQQJ9[A-Za-z0-9]{20,40}")
_AZURE_STORAGE: Final = re.compile(r"(?<![A-Za-z0-9+/])[A-Za-z0-9+/]{86}==(?![A-Za-z0-9+/=])")
# After these, 88 characters of base64 are a digest of a package, not a storage key.
_INTEGRITY: Final = ("sha512-", "sha512:", "sha512=")
_PUBLIC: Final = frozenset({"pk", "pub", "public", "publishable"})
# Behind these even bare hex digits are a key, not the digest of something.
_OUTRIGHT: Final = frozenset({"live", "pat", "sk", "secret", "token"})


def find(view: View) -> Iterator[Hit]:
    """Issued keys, then strings that are made as issued keys are."""
    text = view.text
    for found in _ISSUED.finditer(text):
        kind = _KEYS[int((found.lastgroup or "k0")[1:])][0]
        if _is_key(kind, found[0]):
            with_scheme = text.endswith("https://", 0, found.start()) and kind == "webhook_url"
            yield Hit(kind, found.start() - 8 * with_scheme, found.end())
    for found in _ALIKE.finditer(text):
        if found[1].lower() not in _PUBLIC and _is_random(found[3], bare=found[2] in _OUTRIGHT):
            yield Hit("api_key", found.start(), found.end(), LOW)
    if "AZDO" in text or "JQQJ9" in text:
        yield from (Hit("azure_key", found.start(), found.end()) for found in _AZURE_DEVOPS.finditer(text))
    if "==" in text:
        for found in _AZURE_STORAGE.finditer(text):
            if not _is_checksum(text, found.start()):
                yield Hit("azure_key", found.start(), found.end(), HIGH)


def _is_key(kind: str, value: str) -> bool:
    if kind == "webhook_url":
        return not values.is_masked(value) and not values.is_placeholder(value)
    body = re.split("[_.-]", value, maxsplit=1)[-1]
    if values.is_masked(value) or values.is_placeholder(value) or values.is_placeholder(body):
        return False
    return (
        kind in ("aws_key", "telegram_token", "cloud_key")
        or any(c.isdigit() for c in body)
        or not values.is_plain(body)
    )


def _is_random(value: str, *, bare: bool) -> bool:
    if values.is_placeholder(value) or values.is_masked(value) or not values.is_mixed(value):
        return False
    return bare or not values.is_digest(value)


def _is_checksum(text: str, start: int) -> bool:
    before = text[max(0, start - 40) : start]
    return before.endswith(_INTEGRITY) or "base64," in before
