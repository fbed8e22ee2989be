"""``labels:`` of a family of documents: what its columns, rows, titles and headings are called.

The bundled families stand in ``families.yaml`` beside this module; ``facts.yaml`` may have further ones.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

from pytest_gsw.errors import ConfigurationError
from pytest_gsw.importing.cells import COUNTS, NAMES, WORDS, is_key, read_cell
from pytest_gsw.importing.markdown import LONGEST_CELL, Cell
from pytest_gsw.tables import fields as f
from pytest_gsw.tables.keys import FILE_FIELDS, ROW_FIELDS
from pytest_gsw.tables.yamlfile import Stated, Value, read_mapping

#: The family of a document that nothing says it of.
USUAL = "recipes"
BUNDLED = Path(__file__).with_name("families.yaml")

_LABEL = re.compile(r"(?P<key>[A-Za-z0-9_.]+)(?: ?(?:\* ?(?P<times>[0-9]{1,6}(?:\.[0-9]{1,6})?)|(?P<percent>%)))?")
_PLACE = re.compile(r"\{([a-z_]*)\}")
#: ``TP=8`` of a title, and the brackets around such.
_SETTING = re.compile(r"(?<![A-Za-z0-9_])([A-Za-z][A-Za-z0-9_-]{0,30})[ ]?=[ ]?([A-Za-z0-9/]{1,12})(?![A-Za-z0-9.])")
_BRACKETS = re.compile(r"\([^()]*\)")
_ANY_NAME = r"[^\n]{1,200}"


class Label(NamedTuple):
    """What a column, a row or a setting is: its key, and what one of it is in the key's unit."""

    key: str
    #: A factor, or ``%`` for numbers that are percentages without the sign; empty where the unit is the key's.
    factor: str = ""


class Template(NamedTuple):
    """A text with places for words, such as ``{gpus}x {accelerator} GPUs``, and what it says besides."""

    text: str
    pattern: re.Pattern[str]
    values: Mapping[str, str]


class CellValue(NamedTuple):
    """What a cell of this text says: values of other keys, or nothing."""

    column: str
    values: Mapping[str, str]


@dataclass(frozen=True)
class Family:
    """The labels of one family of documents."""

    name: str
    #: By label, in small letters; ``None`` of one that is not to be read.
    names: Mapping[str, Label | None] = field(default_factory=dict)
    #: Names of columns that are runs.
    runs: Sequence[Template] = ()
    titles: Sequence[Template] = ()
    headings: Sequence[Template] = ()
    #: By the cell's text, in small letters.
    cells: Mapping[str, Sequence[CellValue]] = field(default_factory=dict)

    def label(self, text: str) -> Label | None:
        """What a column or a row is; a KeyError where it is not declared."""
        return self.names[text.lower()]

    def says(self, column: str, text: str) -> Mapping[str, str] | None:
        """What is declared of a cell; ``None`` where nothing is."""
        known = self.cells.get(text.lower(), ())
        return next((one.values for one in known if one.column in {"", column.lower()}), None)


def read_text(templates: Sequence[Template], family: Family, cell: Cell) -> dict[str, Stated] | None:
    """What a heading, a title or a column's name says by the first template that it fits; ``None`` if it fits none."""
    for template in templates:
        match = template.pattern.fullmatch(without_settings(cell.text)[:LONGEST_CELL])
        if match is not None:
            found = dict(template.values)
            for key, word in match.groupdict().items():
                said = family.says("", word)
                found |= {key: read_cell(key, word)} if said is None else said
            return {key: Stated(value, cell.line, cell.column) for key, value in found.items() if value}
    return None


def settings_of(cell: Cell) -> list[tuple[str, Cell]]:
    """The settings of a title or of a column's name, such as ``TP=8``: their names and what they are."""
    found = _SETTING.findall(cell.text[:LONGEST_CELL])
    return [(name, Cell(text, cell.line, cell.column)) for name, text in found]


def line_to_add(family: Family, kind: str, text: str, value: str = "KEY") -> str:
    """The line of facts.yaml that declares a label."""
    quoted = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'labels: {{{family.name}: {{{kind}: {{"{quoted}": {value}}}}}}}'


def without_settings(text: str) -> str:
    """A title, or a column's name, without the brackets that have settings in them."""
    return " ".join(_BRACKETS.sub(lambda match: "" if "=" in match[0] else match[0], text).split())


# ---- As YAML writes them ---------------------------------------------------------------------------


def _read_label(raw: str) -> str:
    """A key, perhaps with a factor; ``~`` of what is not to be read."""
    match = _LABEL.fullmatch(raw)
    if raw != "~" and (match is None or not is_key(match["key"])):
        near = "" if match is None else f.nearest(match["key"], sorted({*ROW_FIELDS, *FILE_FIELDS, "nodes"}))
        raise ValueError(f"got '{raw}', wanted a key of a row, one with a factor such as 'gpus * 4', or ~{near}")
    return raw


def _texts(names: Sequence[str]) -> f.Fields:
    """Fields of these keys that check a value and leave it as it is written."""
    known = {**FILE_FIELDS, **ROW_FIELDS}
    found: dict[str, f.Field | f.Nested | f.Sequence_] = {}
    for key in names:
        one = known[key]
        assert isinstance(one, f.Field)
        found[key] = as_written(one)
    return found


def as_written(known: f.Field) -> f.Field:
    """The same field, whose value is checked and stays a text."""

    def read(raw: str) -> str:
        known.read(raw)
        return raw

    return replace(known, read=read, required=False, may_be_blank=False)


_SAID: f.Fields = _texts(
    ("model", "size", "framework", "log_format", "dtype", "accelerator", "case", "release", "expected_failure")
)


def _templates(help_: str) -> f.Nested:
    return f.Nested(None, help_, names=_ANY_NAME, wanted="a text of one line", each=_SAID)


_FAMILY: f.Fields = {
    "names": f.Nested(
        None,
        "By the name of a column, a row or a setting, the key that it is.",
        names=_ANY_NAME,
        wanted="a text of one line",
        read=_read_label,
    ),
    "runs": _templates("Names of columns that are runs each, with {gpus} and the like in them."),
    "titles": _templates("Titles of tables whose columns are runs."),
    "headings": _templates("Headings that say something of the rows below them."),
    "cells": f.Sequence_(
        {
            "cell": f.text("The text of a cell, or of a word of a heading.", required=True),
            "column": f.text("The column or row that it is a cell of; any by default."),
            **_SAID,
        },
        "What cells say that are no number and no name: values of a row, or nothing.",
    ),
}
#: ``labels`` of facts.yaml: families by their names.
LABELS = f.Nested(None, "Labels of families of documents.", names=r"[a-z0-9][a-z0-9._-]{0,40}", each=_FAMILY)


def bundled_families() -> dict[str, Family]:
    """The families that come with pytest-gsw."""
    return families_of(read_mapping(BUNDLED, {"labels": LABELS})["labels"], BUNDLED)


def families_of(labels: Value, path: Path, known: Mapping[str, Family] | None = None) -> dict[str, Family]:
    """Families as facts.yaml has them; one that is known already has these labels before its own.

    Raises:
        ConfigurationError: A template has a place for a key that no text states.
    """
    found = dict(known or {})
    for name, given in labels.value.items():
        family = _family(name, given, path)
        other = found.get(name, Family(name))
        found[name] = Family(
            name,
            {**other.names, **family.names},
            [*family.runs, *other.runs],
            [*family.titles, *other.titles],
            [*family.headings, *other.headings],
            {**other.cells, **family.cells},
        )
    return found


def _family(name: str, given: Mapping[str, Value], path: Path) -> Family:
    names = {}
    for text, raw in given["names"].value.items() if "names" in given else ():
        match = _LABEL.fullmatch(raw)
        label = None if match is None else Label(match["key"], match["times"] or match["percent"] or "")
        names[" ".join(text.lower().split())] = label
    templates: dict[str, list[Template]] = {}
    for part in ("runs", "titles", "headings"):
        entries = given[part].value.items() if part in given else ()
        templates[part] = [_template(text, values, f"{path}:{given[part].line}") for text, values in entries]
    cells: dict[str, list[CellValue]] = {}
    for entry in given["cells"].value if "cells" in given else ():
        texts = {key: value.value for key, value in entry.value.items()}
        cell, column = texts.pop("cell"), texts.pop("column", "")
        cells.setdefault(cell.lower(), []).append(CellValue(column.lower(), texts))
    for several in cells.values():
        several.sort(key=lambda one: not one.column)  # what is said of one column counts first
    return Family(name, names, cells=cells, **templates)


def _template(text: str, values: Mapping[str, Value], where: str) -> Template:
    pattern, end = "", 0
    seen: set[str] = set()
    for place in _PLACE.finditer(text):
        key = place[1]
        if key and (key not in NAMES | COUNTS or key in seen):
            raise ConfigurationError(f"{where}: '{text}' has {{{key}}} twice, or nothing states it; {{}} is any text")
        seen |= {key} - {""}
        word = WORDS.get(key) or ("[0-9]{1,12}" if key in COUNTS else ".+")
        group = f"(?P<{key}>{word})" if key else ".*"
        pattern, end = pattern + _spaced(text[end : place.start()]) + group, place.end()
    compiled = re.compile(pattern + _spaced(text[end:]), re.IGNORECASE)
    return Template(text, compiled, {key: value.value for key, value in values.items()})


def _spaced(text: str) -> str:
    return r"\ ".join(map(re.escape, text.split(" ")))
