"""External text (logs, Slurm, tables) made safe to display: no control characters, no secrets.

Pure functions of a text and of the environments whose secrets it may hold. The time of each is proportional to the
length of the text, however hostile that is: every repetition in a pattern is bounded, or cannot be entered twice for
the same letters.
"""

from __future__ import annotations

import dataclasses
import hashlib
import re
from collections.abc import Iterable, Mapping
from functools import lru_cache, partial
from typing import Any, TypeVar, cast

#: Escape sequences of terminals, whole ones and the beginnings of those that were cut.
ESCAPES = r"\x1b(?:\[[0-?]{0,64}[ -/]{0,8}[@-~]|\][^\x07\x1b]{0,256}(?:\x07|\x1b\\)|[@-Z\\^_c])?"
_ESCAPES = re.compile(ESCAPES)

#: Characters that no terminal, XML file or HTML page should get: control characters, those that change the direction of
#: writing or are invisible, halves of characters, and the two that XML forbids. Line ends and tabs are not among them.
UNSAFE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f"
    "\ud800-\udfff\ufeff\ufff9-\ufffb\ufffe\uffff\U000e0000-\U000e007f]"
)
#: Python's replacement for bytes of a file name that are no UTF-8.
_HALF = re.compile("[\ud800-\udfff]")

#: Results for texts up to this many characters are cached.
_LONGEST_CACHED = 512

#: A secret variable may be "1" or "true"; shorter values are not searched for in texts.
SHORTEST_SECRET = 8

Quotable = TypeVar("Quotable")

#: Most fields of a record have these types, and need no call.
_NO_TEXTS = frozenset({type(None), bool, int, float})


def printable(text: str) -> str:
    """A text without escape sequences, control characters and invisible characters; its lines stay."""
    if text.isprintable():
        return text  # as nearly all texts
    return UNSAFE.sub("", _HALF.sub("\ufffd", _ESCAPES.sub("", text).replace("\t", " ")))


def masked_text(text: str, *environments: Mapping[str, str]) -> str:
    """A text without secrets.

    Args:
        text: Text from an external source.
        environments: Variables whose values the source may contain. Values of variables with secret names are hidden
            everywhere, values that look like a secret in any case.
    """
    return _mask(text, _secrets_in(environments))


def fingerprint(text: str) -> str:
    """Eight letters that distinguish texts without showing them; many texts share them."""
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:8]


def redact(value: Quotable, *environments: Mapping[str, str]) -> Quotable:
    """External values, :func:`printable` and without secrets; the same object if nothing changes.

    Args:
        value: A text, or an error, a dataclass, a tuple, a list or a mapping with texts in it.
        environments: As for :func:`masked_text`.
    """
    return cast(Quotable, _redact_value(value, _secrets_in(environments)))


def _redact_value(value: Any, secrets: tuple[str, ...]) -> Any:
    if isinstance(value, str):
        return _redact_text(value, secrets) if len(value) <= _LONGEST_CACHED else _mask(printable(value), secrets)
    if value is None or isinstance(value, (int, float)):
        return value  # as most fields of a record
    if isinstance(value, tuple):
        return tuple(_redact_each(value, secrets))
    if isinstance(value, list):
        return _redact_each(value, secrets)
    if names := _field_names(value.__class__):
        entries = list(map(partial(getattr, value), names))
        redacted_entries = _redact_each(entries, secrets)
        if redacted_entries == entries:
            return value
        others = zip(names, entries, redacted_entries, strict=True)
        return dataclasses.replace(value, **{name: other for name, entry, other in others if other != entry})
    if isinstance(value, (dict, Mapping)):
        return dict(zip(value, _redact_each(value.values(), secrets), strict=True))
    if isinstance(value, Exception):
        arguments = _redact_value(value.args, secrets)
        return value if arguments == value.args else type(value)(*arguments)
    return value


def _redact_each(values: Iterable[Any], secrets: tuple[str, ...]) -> list[Any]:
    """The same for many values. Most are no texts, or cached texts, and need no call."""
    redacted = []
    for value in values:
        kind = type(value)
        if kind is str and len(value) <= _LONGEST_CACHED:
            redacted.append(_redact_text(value, secrets))
        else:
            redacted.append(_redact_value(value, secrets) if kind not in _NO_TEXTS and value else value)
    return redacted


@lru_cache(maxsize=4096)
def _redact_text(text: str, secrets: tuple[str, ...]) -> str:
    """A row's texts are redacted when they are recorded, reported and summed up, and most are other rows' as well."""
    return _mask(printable(text), secrets)


def _mask(text: str, secrets: Iterable[str]) -> str:
    # Some thirty patterns: a session that only collects rows masks nothing.
    from pytest_gsw.common.masks import mask_secrets

    return mask_secrets(text, secrets)


def _secrets_in(environments: Iterable[Mapping[str, str]]) -> tuple[str, ...]:
    """The secrets of environments, line by line as a log would show them; the longest first."""
    from pytest_gsw.common.masks import secret_names

    values = [
        environment.get(name, "")
        for environment in environments
        # os.environ decodes each requested name, and pytest changes a value of it with each phase of a test.
        for name in secret_names(frozenset(getattr(environment, "_data", environment)))
    ]
    return _secret_lines(tuple(values))


@lru_cache(maxsize=64)
def _secret_lines(values: tuple[str, ...]) -> tuple[str, ...]:
    """The lines of secrets, of which a session has few."""
    lines = {line.strip() for value in values for line in printable(value).split("\n")}
    return tuple(sorted([line for line in lines if len(line) >= SHORTEST_SECRET], key=len, reverse=True))


@lru_cache(maxsize=512)
def _field_names(kind: type) -> tuple[str, ...]:
    """The fields of a dataclass; empty for other types."""
    return tuple(field.name for field in dataclasses.fields(kind)) if dataclasses.is_dataclass(kind) else ()
