"""Secrets, by the names of variables and by their form, and a mask in place of each.

The time of each pattern is proportional to the length of the text, see :mod:`pytest_gsw.common.redact`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from functools import lru_cache

#: Replacement of a secret.
MASK = "***"

# Words, not letters: MONKEY is no key, TOKENIZERS_PARALLELISM and MAX_TOKENS are no tokens; HF_TOKEN, PGPASSWORD and
# NGC_APIKEY are secrets.
_SECRET_NAME = re.compile(
    r"(?:TOKEN|SECRETS?|PASS|PASSWORD|PASSWD|PASSPHRASE|AUTH|JWT|CREDENTIALS?|COOKIES?)(?:_|$)"
    r"|(?:^|_)(?:API|ACCESS|PRIVATE|SSH|SECRET)?KEYS?(?:_|$)"
    # PWD alone is a shell's directory, and so is OLDPWD; PAT and PW are words of their own.
    r"|(?:[A-Z0-9]_|^(?!OLD)[A-Z0-9]{1,40})PWD(?:_|$)|(?:^|_)(?:PW|PAT|CREDS?|DSN)(?:_|$)|BINDPW(?:_|$)"
    r"|CONNECTION_STRING|CONN_STR|WEBHOOK(?:_UR[IL])?(?:_|$)|LICENSE_(?:CODE|KEY)(?:_|$)",
    re.IGNORECASE,
)
#: HF_TOKEN_PATH and SSH_AUTH_SOCK are the places of secrets, which logs may show.
_PLACE_NAME = re.compile(r"(?:FILE|PATH|DIR|SOCK|ASKPASS|APPLICATION_CREDENTIALS)$", re.IGNORECASE)

#: ``https://user:password@host``; often with a token alone.
_USER_INFO = re.compile(r"\b([A-Za-z][A-Za-z0-9+.-]{0,30}://)[^\s/?#]+@")

#: Secrets recognized by their first letters: tokens of Hugging Face, GitHub, GitLab, AWS, OpenAI, Slack, NVIDIA,
#: Google, npm, PyPI, Docker, Vault and Weights & Biases. All have a digit or a capital, unlike words.
_TOKENS = re.compile(
    r"(?<![A-Za-z0-9])(?:hf_|gh[oprsu]_|github_pat_|gl[a-z]{1,6}-|(?=A[KS]IA)|sk-|xox[a-z]-|nvapi-|(?=AIza)|npm_|pypi-"
    r"|dckr_pat_|hvs\.|wandb_v1_)(?=[a-z_-]{0,80}[A-Z0-9])[A-Za-z0-9_-]{16,}"
)
#: A JSON web token: two of its three parts begin with ``{"``.
_JWT = re.compile(r"(?<![\w-])eyJ[\w-]{10,}\.eyJ[\w-]{10,}(?:\.[\w-]*)?", re.ASCII)
_AUTHORIZATION = re.compile(
    r"(authorization[\"']?[ \t]{0,3}[:=][ \t]{0,3}[\"']?(?:bearer|basic|token|digest|negotiate)[ \t]{1,3})[^\s\"',;]+",
    re.IGNORECASE,
)
_BEARER = re.compile(r"\b(Bearer[ \t]{1,3})[A-Za-z0-9._~+/=-]{16,}")
#: Google's tokens for programs, valid for an hour.
_GOOGLE = re.compile(r"(?<![\w.])ya29\.[\w-]{16,}", re.ASCII)
#: The address alone permits writing.
_WEBHOOK = re.compile(r"(hooks\.slack\.com/(?:services|workflows|triggers)/)[^\s\"'<>]{8,}", re.IGNORECASE)
#: Azure's keys and signatures in its connection strings and addresses: base64, in which / may be %2F.
_AZURE = re.compile(r"((?:\bAccountKey|\bSharedAccessKey|[?&;]sig|SharedAccessSignature)=)[A-Za-z0-9+/%=_-]{20,}")
#: Secrets on a command line: ``curl -u name:secret``, ``docker login -p secret``, ``sshpass -p secret``.
_COMMAND = re.compile(
    r"(\bcurl\b[^\n]{0,400}?[ \t](?:-u|--user|-U|--proxy-user)[ \t=]{0,3}[\"']?[^\s:\"']{1,100}:(?!//)"
    r"|\b(?:docker|podman|nerdctl|helm|skopeo|oras)[ \t][^\n]{0,200}?login\b[^\n]{0,200}?[ \t]-p[ \t]{0,3}"
    r"|\bsshpass[ \t]{1,3}-p[ \t]{0,3})([\"']?)[^\s\"'`,][^\s\"']*"
)
#: 40 letters and digits are a commit's hash as well as a key; a name before them decides.
_NAMED_KEY = re.compile(
    r"((?:wandb|weights.{0,3}biases|aws|amazon)[^\n]{0,60}?(?:key|secret|login|token)[\"']?[ \t]{0,3}"
    r"(?:[:=]|is|->)?[ \t]{0,3}[\"']?"
    r"|\bwandb login[ \t]{1,3}(?:--relogin[ \t]{1,3})?)(?<![A-Za-z0-9])[A-Za-z0-9+/]{40}(?![A-Za-z0-9+/])",
    re.IGNORECASE,
)
#: A private key's first line, and the rest behind it if line ends are written as \n.
_KEY = re.compile(r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY-----[^\n]*")
#: A line of a private key: nothing but base64, unlike file names, which have dots, and hashes, which have no capitals.
_KEY_LINE = re.compile(
    r"(?<![^\s\"'])(?!/)(?=[a-z0-9+/]{0,59}[A-Z])(?=[A-Z0-9+/]{0,59}[a-z])(?=[A-Za-z]{0,59}[0-9+/])"
    r"[A-Za-z0-9+/]{60,80}={0,2}(?=[ \t]*$)",
    re.MULTILINE,
)

# name=value, "name": "value", name: value, --name value.
_GIVEN = r"((?:{names})[\"']?[ \t]{{0,3}}[:=][ \t]{{0,3}}|(?<![\w-])--[\w-]{{0,40}}(?:{names})[ \t]{{1,3}})"
#: Values that are no secrets.
_NO_VALUE = r"(?![\"']?(?:none|null|true|false|yes|no)(?=[\s\"',;)\]}&]|$))"
#: Words before a secret of any form.
_PASSWORD = re.compile(
    _GIVEN.format(names=r"passw(?:or)?d|passphrase|secret(?=[\"']?[ \t]{0,3}=)")
    + _NO_VALUE
    + r"(?:([\"'])(?:(?!\2)[^\n]){1,400}\2|[\"']?[^\s\"',;&]+)",
    re.IGNORECASE,
)
#: Words before a value that is a secret only if it has letters and digits and is no figure with a unit, no path and no
#: address: a log has "time per token: 12.5us", "eos_token: </s>" and "max_token=2048".
_TOKEN = re.compile(
    _GIVEN.format(
        names="token|secret|api[_-]?key|access[_-]?key|secret[_-]?key|private[_-]?key|credentials?|cookie|auth|authorization"
        "|jwt|(?-i:[A-Z_]PASS)"
    )
    + _NO_VALUE
    + r"([\"']?)(?![-+]?[0-9][0-9.,_]{0,30}(?:e[-+]?[0-9]{1,4})?[a-z%/]{0,9}(?![a-z0-9]))"
    + r"(?!(?:~|\.{1,2})?/|[a-z]{2,8}://)"
    + r"(?=[a-z._~+/%:@!$^-]{0,200}[0-9])(?=[0-9._~+/%:@!$^-]{0,200}[a-z])[a-z0-9._~+/%:@!$^-]{6,}={0,2}",
    re.IGNORECASE,
)

#: Variables whose names have a word of few letters; a value that is a path is no secret.
_VARIABLE = re.compile(
    r"([A-Z0-9]_(?:PWD|PW|PAT|DSN|CREDS|CONNECTION_STRING|WEBHOOK_URL)[\"']?[ \t]{0,3}[:=][ \t]{0,3}"
    r"|(?:BINDPW|LICENSE_CODE)[\"']?[ \t]{0,3}[:=][ \t]{0,3})"
    r"(?!(?:~|\.{1,2})?/)(?:([\"'])(?:(?!\2)[^\n]){1,400}\2|[\"']?[^\s\"',;&]+)"
)

#: Each with a pattern in small letters that all texts have which it changes.
_MASKS = (
    ("private key-----", _KEY, MASK),
    ("[a-z0-9+/]{60}", _KEY_LINE, MASK),
    ("@", _USER_INFO, rf"\1{MASK}@"),
    ("authorization", _AUTHORIZATION, rf"\1{MASK}"),
    ("bearer", _BEARER, rf"\1{MASK}"),
    ("eyj", _JWT, MASK),
    (
        "hf_|gh[oprsu]_|github_pat_|gl[a-z]{1,6}-|a[ks]ia|sk-|xox[a-z]-|nvapi-|aiza|npm_|pypi-|dckr_pat_|hvs[.]|wandb_v1_",
        _TOKENS,
        MASK,
    ),
    ("pass|secret", _PASSWORD, rf"\1\2{MASK}\2"),
    ("token|secret|key|credential|cookie|auth|jwt|pass", _TOKEN, rf"\1\2{MASK}"),
    ("_(?:pwd|pw|pat|dsn|creds|string|url)|bindpw|license_code", _VARIABLE, rf"\1\2{MASK}\2"),
    ("ya29[.]", _GOOGLE, MASK),
    ("hooks[.]slack[.]com/", _WEBHOOK, rf"\1{MASK}"),
    ("(?:key|sig|signature)=", _AZURE, rf"\1{MASK}"),
    ("curl|login|sshpass", _COMMAND, rf"\1\2{MASK}"),
    ("wandb|weights|aws|amazon", _NAMED_KEY, rf"\1{MASK}"),
)
#: One search instead of a dozen: a session redacts some sixty texts for each row, and nearly all have no secret.
_HINT = re.compile("|".join(hint for hint, *_ in _MASKS))


@lru_cache(maxsize=4096)
def is_secret(name: str) -> bool:
    """True if a variable of this name holds a secret: ``HF_TOKEN``, ``PGPASSWORD``."""
    return _SECRET_NAME.search(name) is not None


@lru_cache(maxsize=64)
def secret_names(names: frozenset[str | bytes]) -> tuple[str, ...]:
    """The names of variables that hold secrets; not those that hold their places."""
    decoded = map(os.fsdecode, names)
    return tuple(name for name in decoded if is_secret(name) and _PLACE_NAME.search(name) is None)


def mask_secrets(text: str, secrets: Iterable[str]) -> str:
    """A text without these secrets, and without values that look like secrets."""
    for secret in secrets:
        text = text.replace(secret, MASK)
    # Beyond ASCII there are letters that a pattern matches as others, and lower() does not.
    small, is_ascii = text.lower(), text.isascii()
    if is_ascii and _HINT.search(small) is None:
        return text
    for hint, pattern, mask in _MASKS:
        if not is_ascii or re.search(hint, small):
            text = pattern.sub(mask, text)
    return text
