"""Kinds of values of YAML keys: reading, refusing and describing them.

A :class:`Field` serves three readers from one definition: the validation with line and column, the JSON Schema for
editors, and the reference in docs.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

#: Files and directories have such names, several of them joined, and may have 255 bytes.
LONGEST_NAME = 60

_NUMBER = re.compile(r"[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_WHOLE = re.compile(r"[0-9]{1,18}")
_THOUSANDS = re.compile(r"[0-9]{1,3}(,[0-9]{3})+(\.[0-9]+)? ?%?")
_COMMA = re.compile(r"[0-9]+(,[0-9]+)+(\.[0-9]+)? ?%?")

#: Between these is every measured figure, and no number whose arithmetic overflows or vanishes.
SMALLEST, LARGEST = 1e-9, 1e12


@dataclass(frozen=True)
class Field:
    """One key: its parser, the wanted value, and its meaning."""

    #: Parses the scalar's text; raises a ValueError with the fault.
    read: Callable[[str], Any]
    #: The wanted value, for the user.
    wanted: str
    #: Meaning of the key, with units; one sentence.
    help: str
    #: The JSON Schema of the value.
    schema: Mapping[str, Any]
    required: bool = False
    #: A key without a value is no fault of the file: it stops its own rows, and no others.
    may_be_blank: bool = False


@dataclass(frozen=True)
class Nested:
    """A key that holds a mapping: with a closed set of keys, or (``fields`` is None) of free names to texts."""

    fields: Mapping[str, Field | Nested | Sequence_] | None
    help: str
    #: Pattern of free names: they become names of environment variables.
    names: str = r"[A-Za-z_][A-Za-z0-9_]*"
    #: The wanted form of a name, for the user, if it is not the set of its letters.
    wanted: str = ""
    required: bool = False
    #: Parses the text under a free name; raises a ValueError with the fault.
    read: Callable[[str], str] = str
    #: The keys of the mapping under each free name, or the list there, if it is no text.
    each: Mapping[str, Field | Nested | Sequence_] | Nested | Sequence_ | None = None
    #: The text that may be in place of the mapping.
    short: Field | None = None


@dataclass(frozen=True)
class Sequence_:  # noqa: N801 - the name of the thing; "Sequence" is taken by typing
    """A key that holds a list of texts (``item`` is None), of values, or of mappings; a required one is not empty."""

    item: Field | Nested | Mapping[str, Field | Nested | Sequence_] | None
    help: str
    required: bool = False
    #: The value that may be in place of the list.
    short: Field | None = None


Kind = Field | Nested | Sequence_
Fields = Mapping[str, Kind]


def may_be_blank(fields: Fields) -> Fields:
    """The same keys, each of which may lack a value."""
    return {
        key: replace(known, may_be_blank=True) if isinstance(known, Field) else known for key, known in fields.items()
    }


def text(help_: str, *, required: bool = False, lines: bool = False) -> Field:
    """Any text that is not empty, of one line unless ``lines`` is true."""

    def read(raw: str) -> str:
        if not raw.strip():
            raise ValueError("is empty")
        if not lines and "\n" in raw:
            raise ValueError("has more than one line")
        return raw

    return Field(read, "a text", help_, {"type": ["string", "number"]}, required)


def pattern(regex: str, wanted: str, help_: str, *, required: bool = False, longest: int = LONGEST_NAME) -> Field:
    """A text that a regular expression matches in full, of limited length."""
    compiled = re.compile(regex)

    def read(raw: str) -> str:
        if compiled.fullmatch(raw) is None:
            near = nearest(raw, [raw.lower()] if len(raw) <= longest and compiled.fullmatch(raw.lower()) else [])
            raise ValueError(f"got '{raw}', wanted {wanted}{near}")
        if len(raw) > longest:
            raise ValueError(f"has {len(raw)} characters, wanted at most {longest}")
        return raw

    text_schema = {"type": "string", "pattern": f"^(?:{regex})$", "maxLength": longest}
    schema = {"anyOf": [text_schema, {"type": "number"}]}
    return Field(read, wanted, help_, schema, required)


def choice(options: Collection[str], help_: str, *, required: bool = False) -> Field:
    """One word of a closed set."""

    def read(raw: str) -> str:
        if raw not in options:
            raise ValueError(f"got '{raw}', wanted one of {', '.join(options)}{nearest(raw, options)}")
        return raw

    return Field(read, f"one of {', '.join(options)}", help_, {"enum": list(options)}, required)


def whole(help_: str, *, required: bool = False) -> Field:
    """A whole number above zero."""

    def read(raw: str) -> int:
        if _WHOLE.fullmatch(raw) is None or int(raw) == 0:
            raise ValueError(
                f"got '{raw}', wanted a whole number above 0, such as 64{_without_commas(raw, whole=True)}"
            )
        return int(raw)

    return Field(read, "a whole number above 0", help_, {"type": "integer", "minimum": 1}, required)


def number(help_: str, *, required: bool = False, largest: float = LARGEST) -> Field:
    """A number above zero, of a measurable size."""

    def read(raw: str) -> float:
        if _NUMBER.fullmatch(raw) is None or not 0 < float(raw) < float("inf"):
            raise ValueError(f"got '{raw}', wanted a number above 0, such as 4.324{_without_commas(raw)}")
        if not SMALLEST <= float(raw) <= largest:
            raise ValueError(f"got '{raw}', wanted a number from {SMALLEST:g} to {largest:g}, such as 4.324")
        return float(raw)

    schema = {"type": "number", "exclusiveMinimum": 0, "maximum": largest}
    return Field(read, "a number above 0", help_, schema, required)


def read_percent(raw: str, wanted: str, fits: Callable[[Decimal], bool] = bool, digits: int = 3) -> float:
    """A fitting percentage with ``digits`` digits before its point, as a fraction; a ValueError has the wanted form."""
    match = re.fullmatch(rf"([0-9]{{1,{digits}}}(?:\.[0-9]{{1,12}})?) ?%", raw)
    if match is None or not fits(Decimal(match[1])):
        raise ValueError(f"got '{raw}', wanted {wanted}{_without_commas(raw)}")
    return float(Decimal(match[1]) / 100)


def read_percentage(raw: str) -> float:
    """``52.59%`` as the fraction 0.5259; it is above 0 % and up to 100 %, or a ValueError is raised."""
    return read_percent(raw, "a percentage such as 5%", lambda percent: 0 < percent <= 100)


def percentage(help_: str) -> Field:
    """A percentage above 0 % and up to 100 %, kept as a fraction."""
    schema = {"type": "string", "pattern": r"^\d{1,3}(\.\d{1,12})? ?%$"}
    return Field(read_percentage, "a percentage such as 5%", help_, schema)


def read_tolerance(raw: str) -> float:
    """A percentage above 0 % and below 100 %, or a ValueError: with 100 % every run would pass."""
    fraction = read_percentage(raw)
    if fraction >= 1:
        raise ValueError(f"got '{raw}', wanted a percentage above 0% and below 100%, such as 5%")
    return fraction


def tolerance(help_: str) -> Field:
    """A percentage above 0 % and below 100 %, kept as a fraction."""
    schema = {"type": "string", "pattern": r"^0?\d{1,2}(\.\d{1,12})? ?%$"}
    return Field(read_tolerance, "a percentage below 100%, such as 5%", help_, schema)


def read_gain(raw: str) -> float:
    """A percentage above 0 %, which may be far more than 100 %, or a ValueError: ``900%`` is 9.0."""
    return read_percent(raw, "a percentage above 0%, such as 25%", digits=6)


def gain(help_: str) -> Field:
    """A percentage above 0 % of any size, kept as a fraction."""
    schema = {"type": "string", "pattern": r"^\d{1,6}(\.\d{1,12})? ?%$"}
    return Field(read_gain, "a percentage above 0%, such as 25%", help_, schema)


def flag(help_: str) -> Field:
    """``true`` or ``false``, nothing else."""

    def read(raw: str) -> bool:
        if raw not in {"true", "false"}:
            raise ValueError(f"got '{raw}', wanted true or false")
        return raw == "true"

    return Field(read, "true or false", help_, {"type": "boolean"})


def _without_commas(raw: str, *, whole: bool = False) -> str:
    """The spelling of a number with a comma: ``; decimal comma? write 4.3``; empty without one."""
    if _COMMA.fullmatch(raw) is None:
        return ""
    hints = []
    if not whole and raw.count(",") == 1 and "." not in raw:
        hints.append(f"; decimal comma? write {raw.replace(',', '.')}")
    if _THOUSANDS.fullmatch(raw):
        hints.append(f"; thousands? write {raw.replace(',', '')}")
    return "".join(hints)


def nearest(word: str, known: Collection[str]) -> str:
    """``; did you mean 'x'?`` for a misspelt word, or nothing."""
    matches = misspelt(word, known)
    return f"; did you mean '{matches[0]}'?" if matches else ""


def misspelt(word: str, known: Collection[str]) -> list[str]:
    """The known word that is most like this one, whatever its capitals; empty if there is none.

    Of rows that differ in a digit, it is the one with the longest common beginning.
    """
    by_small = {one.lower(): one for one in known}
    found = difflib.get_close_matches(word.lower(), by_small, n=9)
    matchers = {one: difflib.SequenceMatcher(None, one, word.lower()) for one in found}
    likeness = {one: (m.ratio(), m.get_matching_blocks()[0].size) for one, m in matchers.items()}
    return [by_small[max(found, key=likeness.__getitem__)]] if found else []
