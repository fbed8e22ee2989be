"""What others have written (logs, Slurm, tables) made fit to be shown: no control characters, no secrets.

Pure functions of a text and of the environments whose secrets it may hold. Each takes a time that is
proportional to the length of the text, however hostile that is: every repetition in a pattern is bounded,
or cannot be entered twice for the same letters.
"""

from __future__ import annotations

import dataclasses
import hashlib
import os
import re
from collections.abc import Iterable, Mapping
from functools import lru_cache, partial
from typing import Any, TypeVar, cast

#: What is shown in place of a secret.
MASK = "***"

#: Escape sequences of terminals, whole ones and the beginnings of those that were cut.
ESCAPES = r"\x1b(?:\[[0-?]{0,64}[ -/]{0,8}[@-~]|\][^\x07\x1b]{0,256}(?:\x07|\x1b\\)|[@-Z\\^_c])?"
_ESCAPES = re.compile(ESCAPES)

#: What no terminal, XML file or HTML page should get: control characters, those that change the
#: direction of writing or are not seen, halves of characters, and the two that XML forbids. Line ends and tabs
#: are not among them.
UNSAFE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f"
    "\ud800-\udfff\ufeff\ufff9-\ufffb\ufffe\uffff\U000e0000-\U000e007f]"
)
#: What Python makes of the bytes of a file name that is no UTF-8.
_HALF = re.compile("[\ud800-\udfff]")

# Words, not letters: MONKEY is no key, TOKENIZERS_PARALLELISM and MAX_TOKENS are no tokens; HF_TOKEN,
# PGPASSWORD and NGC_APIKEY are what they look like.
_SECRET_NAME = re.compile(
    r"(?:TOKEN|SECRETS?|PASS|PASSWORD|PASSWD|PASSPHRASE|AUTH|JWT|CREDENTIALS?|COOKIES?)(?:_|$)"
    r"|(?:^|_)(?:API|ACCESS|PRIVATE|SSH|SECRET)?KEYS?(?:_|$)"
    # PWD alone is where a shell is, and so is OLDPWD; PAT and PW are words of their own.
    r"|(?:[A-Z0-9]_|^(?!OLD)[A-Z0-9]{1,40})PWD(?:_|$)|(?:^|_)(?:PW|PAT|CREDS?|DSN)(?:_|$)|BINDPW(?:_|$)"
    r"|CONNECTION_STRING|CONN_STR|WEBHOOK(?:_UR[IL])?(?:_|$)|LICENSE_(?:CODE|KEY)(?:_|$)",
    re.IGNORECASE,
)
#: HF_TOKEN_PATH and SSH_AUTH_SOCK say where a secret is, and logs may say that as well.
_PLACE_NAME = re.compile(r"(?:FILE|PATH|DIR|SOCK|ASKPASS|APPLICATION_CREDENTIALS)$", re.IGNORECASE)

#: A secret variable may be "1" or "true"; what is shorter than this is not looked for in texts.
SHORTEST_SECRET = 8

#: ``https://user:password@host``; a token often stands alone there.
_USER_INFO = re.compile(r"\b([A-Za-z][A-Za-z0-9+.-]{0,30}://)[^\s/?#]+@")

#: What gives itself away by its first letters: tokens of Hugging Face, GitHub, GitLab, AWS, OpenAI, Slack, NVIDIA,
#: Google, npm, PyPI, Docker, Vault and Weights & Biases. All have a digit or a capital, which tells them from words.
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
#: What Google gives to a program for an hour.
_GOOGLE = re.compile(r"(?<![\w.])ya29\.[\w-]{16,}", re.ASCII)
#: Who knows the address may write there.
_WEBHOOK = re.compile(r"(hooks\.slack\.com/(?:services|workflows|triggers)/)[^\s\"'<>]{8,}", re.IGNORECASE)
#: Azure's keys and signatures, as its connection strings and addresses have them: base64, of which / may be %2F.
_AZURE = re.compile(r"((?:\bAccountKey|\bSharedAccessKey|[?&;]sig|SharedAccessSignature)=)[A-Za-z0-9+/%=_-]{20,}")
#: What stands on a command line: ``curl -u name:secret``, ``docker login -p secret``, ``sshpass -p secret``.
_COMMAND = re.compile(
    r"(\bcurl\b[^\n]{0,400}?[ \t](?:-u|--user|-U|--proxy-user)[ \t=]{0,3}[\"']?[^\s:\"']{1,100}:(?!//)"
    r"|\b(?:docker|podman|nerdctl|helm|skopeo|oras)[ \t][^\n]{0,200}?login\b[^\n]{0,200}?[ \t]-p[ \t]{0,3}"
    r"|\bsshpass[ \t]{1,3}-p[ \t]{0,3})([\"']?)[^\s\"'`,][^\s\"']*"
)
#: 40 letters and digits are a commit's hash as well as a key; a name before them tells.
_NAMED_KEY = re.compile(
    r"((?:wandb|weights.{0,3}biases|aws|amazon)[^\n]{0,60}?(?:key|secret|login|token)[\"']?[ \t]{0,3}"
    r"(?:[:=]|is|->)?[ \t]{0,3}[\"']?"
    r"|\bwandb login[ \t]{1,3}(?:--relogin[ \t]{1,3})?)(?<![A-Za-z0-9])[A-Za-z0-9+/]{40}(?![A-Za-z0-9+/])",
    re.IGNORECASE,
)
#: A private key's first line, and what follows on it where line ends are written as \n.
_KEY = re.compile(r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY-----[^\n]*")
#: A line of a private key: nothing but base64, which file names, having dots, and hashes, having no capitals, are not.
_KEY_LINE = re.compile(
    r"(?<![^\s\"'])(?!/)(?=[a-z0-9+/]{0,59}[A-Z])(?=[A-Z0-9+/]{0,59}[a-z])(?=[A-Za-z]{0,59}[0-9+/])"
    r"[A-Za-z0-9+/]{60,80}={0,2}(?=[ \t]*$)",
    re.MULTILINE,
)

# name=value, "name": "value", name: value, --name value.
_GIVEN = r"((?:{names})[\"']?[ \t]{{0,3}}[:=][ \t]{{0,3}}|(?<![\w-])--[\w-]{{0,40}}(?:{names})[ \t]{{1,3}})"
#: What is no secret.
_NO_VALUE = r"(?![\"']?(?:none|null|true|false|yes|no)(?=[\s\"',;)\]}&]|$))"
#: Behind these words stands a secret, whatever it looks like.
_PASSWORD = re.compile(
    _GIVEN.format(names=r"passw(?:or)?d|passphrase|secret(?=[\"']?[ \t]{0,3}=)")
    + _NO_VALUE
    + r"(?:([\"'])(?:(?!\2)[^\n]){1,400}\2|[\"']?[^\s\"',;&]+)",
    re.IGNORECASE,
)
#: Behind these, only what has letters and digits and is no figure with a unit, no path and no address: a log has
#: "time per token: 12.5us", "eos_token: </s>" and "max_token=2048".
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

#: Variables whose names say it in a word of few letters; what is in a file is none.
_VARIABLE = re.compile(
    r"([A-Z0-9]_(?:PWD|PW|PAT|DSN|CREDS|CONNECTION_STRING|WEBHOOK_URL)[\"']?[ \t]{0,3}[:=][ \t]{0,3}"
    r"|(?:BINDPW|LICENSE_CODE)[\"']?[ \t]{0,3}[:=][ \t]{0,3})"
    r"(?!(?:~|\.{1,2})?/)(?:([\"'])(?:(?!\2)[^\n]){1,400}\2|[\"']?[^\s\"',;&]+)"
)

_MASKS = (
    (_KEY, MASK),
    (_KEY_LINE, MASK),
    (_USER_INFO, rf"\1{MASK}@"),
    (_AUTHORIZATION, rf"\1{MASK}"),
    (_BEARER, rf"\1{MASK}"),
    (_JWT, MASK),
    (_TOKENS, MASK),
    (_PASSWORD, rf"\1\2{MASK}\2"),
    (_TOKEN, rf"\1\2{MASK}"),
)
#: In small letters, what stands in every text that one of these changes; nearly all texts have none of it.
_HINTS = (
    *("private key-----", "@", "authorization", "bearer", "eyj"),
    *("hf_", "github_pat_", "akia", "asia", "sk-", "nvapi-", "aiza", "npm_", "pypi-", "dckr_pat_", "hvs.", "wandb_v1_"),
    *("pass", "secret", "token", "key", "credential", "cookie", "auth", "jwt"),
)
#: The same of tokens whose first letters differ, and of lines of a private key.
_HINT_PATTERNS = ("gh[oprsu]_", "gl[a-z]{1,6}-", "xox[a-z]-", "[a-z0-9+/]{60}")

#: What few texts hold is only looked for where one of these words is, in small letters.
_RARE_MASKS = (
    (
        ("_pwd", "_pw", "_pat", "_dsn", "_creds", "_string", "_url", "bindpw", "license_code"),
        _VARIABLE,
        rf"\1\2{MASK}\2",
    ),
    (("ya29.",), _GOOGLE, MASK),
    (("hooks.slack.com/",), _WEBHOOK, rf"\1{MASK}"),
    (("key=", "sig=", "signature="), _AZURE, rf"\1{MASK}"),
    (("curl", "login", "sshpass"), _COMMAND, rf"\1\2{MASK}"),
    (("wandb", "weights", "aws", "amazon"), _NAMED_KEY, rf"\1{MASK}"),
)
#: One look in place of a dozen: a session hides the secrets of some sixty texts for each row.
_HINT = re.compile(
    "|".join([*map(re.escape, (*_HINTS, *(word for words, *_ in _RARE_MASKS for word in words))), *_HINT_PATTERNS])
)

#: Of texts up to this many characters, what came of them is remembered.
_LONGEST_KNOWN = 512

Quotable = TypeVar("Quotable")

#: Most fields of a record are of these, and are left as they are without a call.
_NO_TEXTS = frozenset({type(None), bool, int, float})


@lru_cache(maxsize=4096)
def is_secret(name: str) -> bool:
    """Whether a variable of this name holds a secret, by its name: ``HF_TOKEN``, ``PGPASSWORD``."""
    return _SECRET_NAME.search(name) is not None


def printable(text: str) -> str:
    """A text without escape sequences, control characters and characters that cannot be seen; its lines stay."""
    if text.isprintable():
        return text  # as nearly all are
    return UNSAFE.sub("", _HALF.sub("\ufffd", _ESCAPES.sub("", text).replace("\t", " ")))


def masked_text(text: str, *environments: Mapping[str, str]) -> str:
    """A text without secrets.

    Args:
        text: What others have written.
        environments: Variables whose values the writer may have known. Those that are secrets by their
            names are hidden wherever they stand, what looks like a secret in any case.
    """
    return _masked(text, _values(environments))


def fingerprint(text: str) -> str:
    """What tells a text from another one without showing it, in eight letters, which many texts have in common."""
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:8]


def redact(value: Quotable, *environments: Mapping[str, str]) -> Quotable:
    """What others have written, :func:`printable` and without secrets; the same object where that changes nothing.

    Args:
        value: A text, or an error, a dataclass, a tuple, a list or a mapping with texts in it.
        environments: As for :func:`masked_text`.
    """
    return cast(Quotable, _quoted(value, _values(environments)))


def _quoted(value: Any, secrets: tuple[str, ...]) -> Any:
    if isinstance(value, str):
        return _known(value, secrets) if len(value) <= _LONGEST_KNOWN else _masked(printable(value), secrets)
    if value is None or isinstance(value, (int, float)):
        return value  # as most fields of a record are
    if isinstance(value, tuple):
        return tuple(_each_quoted(value, secrets))
    if isinstance(value, list):
        return _each_quoted(value, secrets)
    if names := _field_names(value.__class__):
        entries = list(map(partial(getattr, value), names))
        shown = _each_quoted(entries, secrets)
        if shown == entries:
            return value
        others = zip(names, entries, shown, strict=True)
        return dataclasses.replace(value, **{name: other for name, entry, other in others if other != entry})
    if isinstance(value, (dict, Mapping)):
        return dict(zip(value, _each_quoted(value.values(), secrets), strict=True))
    if isinstance(value, Exception):
        arguments = _quoted(value.args, secrets)
        return value if arguments == value.args else type(value)(*arguments)
    return value


def _each_quoted(values: Iterable[Any], secrets: tuple[str, ...]) -> list[Any]:
    """The same of many values. Most are no texts, or texts that are known, and are not worth a call."""
    quoted_values = []
    for value in values:
        kind = type(value)
        if kind is str and len(value) <= _LONGEST_KNOWN:
            quoted_values.append(_known(value, secrets))
        else:
            quoted_values.append(_quoted(value, secrets) if kind not in _NO_TEXTS and value else value)
    return quoted_values


@lru_cache(maxsize=4096)
def _known(text: str, secrets: tuple[str, ...]) -> str:
    """A row's texts are looked through when they are recorded, told and summed up, and most are other rows' as well."""
    return _masked(printable(text), secrets)


def _masked(text: str, secrets: Iterable[str]) -> str:
    """A text without secrets, and without what looks like one by itself."""
    for secret in secrets:
        text = text.replace(secret, MASK)
    small = text.lower()
    # Beyond ASCII there are letters that a pattern takes for others, and lower() does not.
    if text.isascii() and _HINT.search(small) is None:
        return text
    for pattern, mask in _MASKS:
        text = pattern.sub(mask, text)
    small = text.lower()
    for words, pattern, mask in _RARE_MASKS:
        if any(word in small for word in words):
            text = pattern.sub(mask, text)
    return text


def _values(environments: Iterable[Mapping[str, str]]) -> tuple[str, ...]:
    """The secrets of environments, line by line as a log would show them; the longest first."""
    values = [
        environment.get(name, "")
        for environment in environments
        # os.environ decodes each name that it is asked for, and pytest changes a value of it with each phase of a test.
        for name in _secret_names(frozenset(getattr(environment, "_data", environment)))
    ]
    return _lines_of(tuple(values))


@lru_cache(maxsize=64)
def _lines_of(values: tuple[str, ...]) -> tuple[str, ...]:
    """The lines of secrets, of which a session has few."""
    lines = {line.strip() for value in values for line in printable(value).split("\n")}
    return tuple(sorted([line for line in lines if len(line) >= SHORTEST_SECRET], key=len, reverse=True))


@lru_cache(maxsize=64)
def _secret_names(names: frozenset[str | bytes]) -> tuple[str, ...]:
    """The names of those variables that hold secrets."""
    decoded = map(os.fsdecode, names)
    return tuple(name for name in decoded if is_secret(name) and _PLACE_NAME.search(name) is None)


@lru_cache(maxsize=512)
def _field_names(kind: type) -> tuple[str, ...]:
    """The fields of a dataclass; of what is none there are none."""
    return tuple(field.name for field in dataclasses.fields(kind)) if dataclasses.is_dataclass(kind) else ()
