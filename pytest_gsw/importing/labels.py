"""Labels: texts with places for words, and the settings that they mean, for one family of documents."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from pytest_gsw.common.groups import grouped
from pytest_gsw.errors import ConfigurationError
from pytest_gsw.importing.tables import LONGEST_CELL, SETTINGS, WORDS, Cell, is_key, read_cell
from pytest_gsw.tables import value_types as f
from pytest_gsw.tables.metrics import FURTHER
from pytest_gsw.tables.schema import FILE_FIELDS, ROW_FIELDS
from pytest_gsw.tables.yaml_values import Value, read_mapping

#: The default family of a document.
USUAL = "recipes"
#: The bundled families; ``facts.yaml`` may have further ones.
BUNDLED = Path(__file__).with_name("families.yaml")

_KEY = re.compile(r"(?P<name>[A-Za-z0-9_.]+)(?: ?(?:\* ?(?P<times>[0-9]{1,6}(?:\.[0-9]{1,6})?)|(?P<percent>%)))?")
_PLACE = re.compile(r"\{([^{}]*)\}")
#: ``TP=8`` of a title, and the brackets around such.
_SETTING = re.compile(r"(?<![A-Za-z0-9_])([A-Za-z][A-Za-z0-9_-]{0,30})[ ]?=[ ]?([A-Za-z0-9/]{1,12})(?![A-Za-z0-9.])")
_BRACKETS = re.compile(r"\([^()]*\)")


class Key(NamedTuple):
    """The key of a number or a word, without a name for none, and the factor from its unit to the key's."""

    name: str
    #: A factor, or ``%`` for percentages without the sign; empty if the unit is the key's.
    factor: str = ""

    def __str__(self) -> str:
        """The form of labels: ``gpus * 4``, ``mfu %``."""
        times = f" * {self.factor}" if self.factor else ""
        return f"{self.name}{' %' if self.factor == '%' else times}"


class Part(NamedTuple):
    """Literal text with words of known form, and the place for any text before it."""

    pattern: re.Pattern[str]
    #: Of the words.
    keys: list[Key]
    #: ``None`` if the part is the first; a key without a name for text that means nothing.
    before: Key | None


class Meaning(NamedTuple):
    """The meaning of a text: the key of the cells that it names, and values."""

    key: Key
    values: Mapping[str, Cell]


@dataclass(frozen=True)
class Label:
    """A text with places such as ``{gpus}x {accelerator} GPUs``, and its meaning."""

    text: str
    key: Key
    settings: Mapping[str, str]
    #: Empty if the text has no places.
    parts: Sequence[Part]

    def words(self, text: str) -> list[tuple[Key, str]] | None:
        """The words in the label's places; ``None`` if the text does not match.

        Each part is looked for once, from the end of the part before it: the cost is linear in the text.
        """
        words: list[tuple[Key, str]] = []
        end = 0
        for pattern, keys, before in self.parts:
            is_named = before is not None and bool(before.name)
            match = pattern.match(text, end) if before is None else pattern.search(text, end + is_named)
            if match is None:
                return None
            if before is not None and is_named:
                words.append((before, text[end : match.start()].strip()))
            words += zip(keys, match.groups(), strict=True)
            end = match.end()
        return words


@dataclass(frozen=True)
class Family:
    """The labels of one family of documents."""

    name: str
    #: By text in small letters, in order.
    labels: Mapping[str, Label] = field(default_factory=dict)

    def meaning(self, text: str, place: Cell) -> Meaning | None:
        """The meaning of a text: of the label that is equal, or else of the first that matches; ``None`` without one.

        ``# TEXT`` is a heading, ``COLUMN | TEXT`` a cell, any other text a name or a title.
        """
        kind, given = _kind(text), text.lower()
        text = (text if kind else without_settings(text))[:LONGEST_CELL]
        equal = self.labels.get(given) or self.labels.get(text.lower())
        for label in self._with_places.get(kind, ()) if equal is None else (equal,):
            words = [] if label is equal else label.words(text)
            if words is not None:
                try:
                    values = {**label.settings, **self._values(words)}
                except ValueError:
                    continue  # a word is no value of its place
                return Meaning(label.key, {key: replace(place, text=value) for key, value in values.items() if value})
        return None

    @cached_property
    def _with_places(self) -> Mapping[str, Sequence[Label]]:
        return grouped([(_kind(label.text), label) for label in self.labels.values() if label.parts])

    def _values(self, words: Sequence[tuple[Key, str]]) -> Mapping[str, str]:
        values: dict[str, str] = {}
        for key, word in words:
            known = self.labels.get(f"{key.name} | {word}".lower())
            if known is not None:
                values |= known.settings
            else:
                values[key.name] = read_cell(key.name, word, key.factor)
        return values

    def line_to_add(self, text: str, settings: str) -> str:
        """The line of facts.yaml that declares a label."""
        return f"labels: {{{self.name}: {{{json.dumps(text, ensure_ascii=False)}: {{{settings}}}}}}}"


def _kind(text: str) -> str:
    return "#" if text.startswith("# ") else "|" if " | " in text else ""


def settings_of(cell: Cell) -> list[tuple[str, Cell]]:
    """The settings in a title or a column's name, such as ``TP=8``: names and values."""
    return [(name, replace(cell, text=text)) for name, text in _SETTING.findall(cell.text[:LONGEST_CELL])]


def without_settings(text: str) -> str:
    """A title, or a column's name, without the brackets that contain settings."""
    return " ".join(_BRACKETS.sub(lambda match: "" if "=" in match[0] else match[0], text).split())


# ---- Keys of the YAML file -------------------------------------------------------------------------


def as_written(known: f.Kind) -> f.Kind:
    """The same key, whose value is checked and stays a text."""
    if not isinstance(known, f.Field):
        return known

    def read(raw: str) -> str:
        known.read(raw)
        return raw

    return replace(known, read=read, required=False, may_be_blank=False)


def _key(raw: str) -> Key | None:
    match = _KEY.fullmatch(raw)
    is_known = match is not None and is_key(match["name"])
    return Key(match["name"], match["times"] or match["percent"] or "") if match is not None and is_known else None


def _read_key(raw: str) -> str:
    if _key(raw) is None:
        near = f.nearest(raw.partition(" ")[0], sorted({*ROW_FIELDS, *FILE_FIELDS, *FURTHER, "nodes"}))
        raise ValueError(f"got '{raw}', wanted a key of a row, a metric, or one with a factor such as gpus * 4{near}")
    return raw


_LABEL: f.Fields = {
    "key": f.Field(_read_key, "a key of a row or a metric", "Key of the cells that have this name.", {}),
    **{key: as_written(ROW_FIELDS.get(key) or FILE_FIELDS[key]) for key in sorted(SETTINGS)},
}
#: ``labels`` of facts.yaml: families by their names.
LABELS = f.Nested(
    None,
    "Labels of families of documents.",
    names=r"[a-z0-9][a-z0-9._-]{0,40}",
    each=f.Nested(
        None,
        "Meaning of each text.",
        names=r"(?!(?:names|runs|titles|headings|cells)$)[^\n]{1,200}",
        wanted='a text and its meaning, as in {"GPUs": {key: gpus}, "# {release} results": {}, "GPU | h100_80gb": '
        "{accelerator: H100}}: names, runs, titles, headings and cells are one table",
        each=_LABEL,
    ),
)


def bundled_families() -> dict[str, Family]:
    """The families of pytest-gsw itself."""
    return families_of(read_mapping(BUNDLED, {"labels": LABELS})["labels"], BUNDLED)


def families_of(labels: Value, path: Path, known: Mapping[str, Family] | None = None) -> dict[str, Family]:
    """Families from facts.yaml; for a known one, these labels precede its own.

    Raises:
        ConfigurationError: A label has a place for what is no key.
    """
    families = dict(known or {})
    for name, given in labels.value.items():
        texts = {" ".join(text.split()): values for text, values in given.value.items()}
        own = {text.lower(): _label(text, values, f"{path}:{given.line}") for text, values in texts.items()}
        before = families.get(name, Family(name)).labels
        families[name] = Family(name, {**own, **{text: label for text, label in before.items() if text not in own}})
    return families


def _label(text: str, values: Mapping[str, Value], where: str) -> Label:
    settings = {key: value.value for key, value in values.items()}
    key = _key(settings.pop("key", "")) or Key("")
    first, *others = _PLACE.split(text)
    drafts: list[tuple[str, list[Key], Key | None]] = [(re.escape(first), [], None)]
    for place, literal in zip(others[::2], map(re.escape, others[1::2]), strict=True):
        known = _key(place) if place else Key("")
        if known is None:
            raise ConfigurationError(f"{where}: '{text}' has {{{place}}}, but that is no key; {{}} is any text")
        if known.name in WORDS:
            pattern, keys, before = drafts.pop()
            drafts.append((f"{pattern}({WORDS[known.name]}){literal}", [*keys, known], before))
        else:
            drafts.append((literal, [], known))
    pattern, keys, before = drafts.pop()
    drafts.append((rf"{pattern}\Z", keys, before))
    parts = [Part(re.compile(pattern, re.IGNORECASE), keys, before) for pattern, keys, before in drafts]
    return Label(text, key, settings, parts if others else ())
