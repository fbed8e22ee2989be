"""``facts.yaml``: labels of families of documents, and declared values that no cell of a document has."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

from pytest_gsw.errors import ConfigurationError
from pytest_gsw.importing.tables import COUNTS, FIGURES, LONGEST_CELL, NAMES, WORDS, Cell, is_key, read_cell
from pytest_gsw.tables import value_types as f
from pytest_gsw.tables.releases import NEMO
from pytest_gsw.tables.schema import FILE_FIELDS, RECIPE_FIELDS, RELEASES, ROW_FIELDS
from pytest_gsw.tables.yaml_values import Stated, Value, read_mapping

# ---- Labels: the names of columns, rows, titles and headings in a family of documents -----------------

# The bundled families are in ``families.yaml`` next to this module; ``facts.yaml`` may have further ones.

#: The default family of a document.
USUAL = "recipes"
BUNDLED = Path(__file__).with_name("families.yaml")

_LABEL = re.compile(r"(?P<key>[A-Za-z0-9_.]+)(?: ?(?:\* ?(?P<times>[0-9]{1,6}(?:\.[0-9]{1,6})?)|(?P<percent>%)))?")
_PLACE = re.compile(r"\{([a-z_]*)\}")
#: ``TP=8`` of a title, and the brackets around such.
_SETTING = re.compile(r"(?<![A-Za-z0-9_])([A-Za-z][A-Za-z0-9_-]{0,30})[ ]?=[ ]?([A-Za-z0-9/]{1,12})(?![A-Za-z0-9.])")
_BRACKETS = re.compile(r"\([^()]*\)")
_ANY_NAME = r"[^\n]{1,200}"


class Label(NamedTuple):
    """The meaning of a column, a row or a setting: its key, and the factor from its unit to the key's."""

    key: str
    #: A factor, or ``%`` for percentages without the sign; empty if the unit is the key's.
    factor: str = ""


class Template(NamedTuple):
    """A text with places for words, such as ``{gpus}x {accelerator} GPUs``, and further values that it implies."""

    pattern: re.Pattern[str]
    values: Mapping[str, str]


class CellValue(NamedTuple):
    """The declared meaning of a cell with this text: values of other keys, or nothing."""

    column: str
    values: Mapping[str, str]


@dataclass(frozen=True)
class Family:
    """The labels of one family of documents."""

    name: str
    #: By label, in small letters; ``None`` for one that is not to be read.
    names: Mapping[str, Label | None] = field(default_factory=dict)
    #: Names of columns that are runs.
    runs: Sequence[Template] = ()
    titles: Sequence[Template] = ()
    headings: Sequence[Template] = ()
    #: By the cell's text, in small letters.
    cells: Mapping[str, Sequence[CellValue]] = field(default_factory=dict)

    def declared_values(self, column: str, text: str) -> Mapping[str, str] | None:
        """The declared values of a cell; ``None`` if there are none."""
        known = self.cells.get(text.lower(), ())
        return next((one.values for one in known if one.column in {"", column.lower()}), None)


def read_text(templates: Sequence[Template], family: Family, cell: Cell) -> dict[str, Stated] | None:
    """The values in a heading, a title or a column's name, by the first matching template; ``None`` without one."""
    for template in templates:
        match = template.pattern.fullmatch(without_settings(cell.text)[:LONGEST_CELL])
        if match is not None:
            found = dict(template.values)
            for key, word in match.groupdict().items():
                declared = family.declared_values("", word)
                found |= {key: read_cell(key, word)} if declared is None else declared
            return {key: Stated(value, cell.line, cell.column) for key, value in found.items() if value}
    return None


def settings_of(cell: Cell) -> list[tuple[str, Cell]]:
    """The settings in a title or a column's name, such as ``TP=8``: names and values."""
    found = _SETTING.findall(cell.text[:LONGEST_CELL])
    return [(name, Cell(text, cell.line, cell.column)) for name, text in found]


def line_to_add(family: Family, kind: str, text: str, value: str = "KEY") -> str:
    """The line of facts.yaml that declares a label."""
    quoted = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'labels: {{{family.name}: {{{kind}: {{"{quoted}": {value}}}}}}}'


def without_settings(text: str) -> str:
    """A title, or a column's name, without the brackets that contain settings."""
    return " ".join(_BRACKETS.sub(lambda match: "" if "=" in match[0] else match[0], text).split())


# ---- Keys of the YAML file -------------------------------------------------------------------------


def _read_label(raw: str) -> str:
    """Check a key, perhaps with a factor; ``~`` for a label that is not to be read."""
    match = _LABEL.fullmatch(raw)
    if raw != "~" and (match is None or not is_key(match["key"])):
        near = "" if match is None else f.nearest(match["key"], sorted({*ROW_FIELDS, *FILE_FIELDS, "nodes"}))
        raise ValueError(f"got '{raw}', wanted a key of a row, one with a factor such as 'gpus * 4', or ~{near}")
    return raw


def _as_written(known: f.Kind) -> f.Kind:
    """The same key, whose value is checked and stays a text."""
    if not isinstance(known, f.Field):
        return known

    def read(raw: str) -> str:
        known.read(raw)
        return raw

    return replace(known, read=read, required=False, may_be_blank=False)


_DECLARABLE: f.Fields = {key: _as_written(FILE_FIELDS[key]) for key in (*sorted(NAMES), "expected_failure")}


def _templates(help_: str) -> f.Nested:
    return f.Nested(None, help_, names=_ANY_NAME, wanted="a text of one line", each=_DECLARABLE)


_FAMILY: f.Fields = {
    "names": f.Nested(
        None,
        "Key of each column, row or setting, by its name.",
        names=_ANY_NAME,
        wanted="a text of one line",
        read=_read_label,
    ),
    "runs": _templates("Names of columns that are runs each, with {gpus} and the like in them."),
    "titles": _templates("Titles of tables whose columns are runs."),
    "headings": _templates("Headings with values for the rows below them."),
    "cells": f.Sequence_(
        {
            "cell": f.text("The text of a cell, or of a word of a heading.", required=True),
            "column": f.text("The column or row that it is a cell of; any by default."),
            **_DECLARABLE,
        },
        "Meanings of cells that are no number and no name: values of a row, or nothing.",
    ),
}
#: ``labels`` of facts.yaml: families by their names.
LABELS = f.Nested(None, "Labels of families of documents.", names=r"[a-z0-9][a-z0-9._-]{0,40}", each=_FAMILY)


def bundled_families() -> dict[str, Family]:
    """The families of pytest-gsw itself."""
    return families_of(read_mapping(BUNDLED, {"labels": LABELS})["labels"], BUNDLED)


def families_of(labels: Value, path: Path, known: Mapping[str, Family] | None = None) -> dict[str, Family]:
    """Families from facts.yaml; for a known one, these labels precede its own.

    Raises:
        ConfigurationError: A template has a place for a key that no text states.
    """
    found = dict(known or {})
    for name, given in labels.value.items():
        found[name] = _family(found.get(name, Family(name)), given, path)
    return found


def _family(known: Family, given: Mapping[str, Value], path: Path) -> Family:
    names = dict(known.names)
    for text, raw in given["names"].value.items() if "names" in given else ():
        match = _LABEL.fullmatch(raw)
        label = None if match is None else Label(match["key"], match["times"] or match["percent"] or "")
        names[" ".join(text.lower().split())] = label
    templates: dict[str, list[Template]] = {}
    for part in ("runs", "titles", "headings"):
        entries = given[part].value.items() if part in given else ()
        own = [_template(text, values, f"{path}:{given[part].line}") for text, values in entries]
        templates[part] = [*own, *getattr(known, part)]
    cells: dict[str, list[CellValue]] = {}
    for entry in given["cells"].value if "cells" in given else ():
        texts = {key: value.value for key, value in entry.value.items()}
        cell, column = texts.pop("cell"), texts.pop("column", "")
        cells.setdefault(cell.lower(), []).append(CellValue(column.lower(), texts))
    for several in cells.values():
        several.sort(key=lambda one: not one.column)  # a value for one column counts first
    return Family(known.name, names, cells={**known.cells, **cells}, **templates)


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
        pattern, end = pattern + _space_pattern(text[end : place.start()]) + group, place.end()
    compiled = re.compile(pattern + _space_pattern(text[end:]), re.IGNORECASE)
    return Template(compiled, {key: value.value for key, value in values.items()})


def _space_pattern(text: str) -> str:
    return r"\ ".join(map(re.escape, text.split(" ")))


# ---- Facts of documents ----------------------------------------------------------------------------


_NAMES: f.Fields = {key: _as_written(FILE_FIELDS[key]) for key in ("model", "framework", "log_format")}
_SHARED: f.Fields = {
    **_NAMES,
    **{key: _as_written(known) for key, known in ROW_FIELDS.items() if key not in {*FIGURES, "metrics", "line"}},
    "recipe": f.Nested(
        {key: _as_written(known) for key, known in RECIPE_FIELDS.items() if key not in {"arguments", "may_fail"}},
        "How the rows are launched.",
    ),
    "comment": f.text("A comment for the YAML.", lines=True),
}
_ROW: f.Fields = {
    **_SHARED,
    **{key: _as_written(ROW_FIELDS[key]) for key in FIGURES},
    "line": f.whole("Line of the row's figure in the document.", required=True),
    "gpus": _as_written(f.whole("GPUs of the row, where columns are rows and the line is that of all of them.")),
}
_TABLE: f.Fields = {
    **_SHARED,
    "line": f.whole("Line of the table's header in the document.", required=True),
    "title": f.text("The table's title in the YAML."),
    "rows": f.Sequence_(_ROW, "Facts of single rows."),
}
_FILE_FACTS: f.Fields = {
    **_SHARED,
    "architecture": FILE_FIELDS["architecture"],
    "activation_recomputation": _as_written(FILE_FIELDS["activation_recomputation"]),
}
_FILE: f.Fields = {**_FILE_FACTS, "path": f.text("The YAML file, such as maxtext/llama2_70b.yaml.", required=True)}
_DOCUMENT: f.Fields = {
    **_FILE_FACTS,
    "document": f.text("Name of the document, or the end of its path, such as grok1/README.md.", required=True),
    "labels": f.text("The family of documents whose labels it has."),
    "skip": f.Sequence_(f.text("A heading."), "Headings below which no tables are read."),
    "release": f.text("Release that the document is of, such as a tag of its repository."),
    "releases": RELEASES,
    "by_release": f.choice(
        ("recipes", "nemo"),
        "The document has sections of several releases, of the recipes or of the NeMo container: the tables of each "
        "go to a directory of its own.",
    ),
    "files": f.Sequence_(_FILE, "Facts of all rows that go to one YAML file."),
    "tables": f.Sequence_(_TABLE, "Facts of single tables."),
}
#: Every key of ``facts.yaml``.
FACTS_FIELDS: f.Fields = {
    "labels": LABELS,
    "documents": f.Sequence_(_DOCUMENT, "Facts of each document."),
}

#: Prefixes of release names, by the document's kind of releases.
_PREFIXES = {"recipes": "", "nemo": NEMO}
#: Keys that select the rows of facts, and are no value of a row.
_NO_VALUES = frozenset(
    {
        *("document", "path", "line", "files", "tables", "rows", "recipe", "attributes", "acknowledged"),
        *("comment", "releases", "by_release", "labels", "skip", "architecture", "title"),
    }
)


@dataclass(frozen=True)
class Facts:
    """Facts at one level; texts by key as the YAML writes them."""

    values: Mapping[str, str] = field(default_factory=dict)
    attributes: Mapping[str, str] = field(default_factory=dict)
    acknowledged: Mapping[str, str] = field(default_factory=dict)
    #: ``environment`` is a mapping of its own.
    recipe: Mapping[str, str | Mapping[str, str]] = field(default_factory=dict)
    architecture: Mapping[str, str] = field(default_factory=dict)
    comment: str = ""
    title: str = ""
    #: Releases of the recipes for which the document's figures hold.
    releases: tuple[str, ...] = ()


@dataclass(frozen=True)
class DocumentFacts:
    """Facts of one document."""

    #: Its name in the rows' source: its file's, or with more of its path if facts have more of it.
    name: str
    family: Family
    skip: tuple[str, ...] = ()
    #: Prefix of a release's name, if the tables of each release in a heading go to a directory of their own.
    by_release: str | None = None
    whole: Facts = field(default_factory=Facts)
    #: By the YAML file's path.
    files: Mapping[str, Facts] = field(default_factory=dict)
    #: By the line of the table's header.
    tables: Mapping[int, Facts] = field(default_factory=dict)
    #: By the line of the row's figure, and its GPUs if they are given.
    rows: Mapping[tuple[int, int | None], Facts] = field(default_factory=dict)

    def of_row(self, line: int, gpus: str) -> Facts:
        """Facts of one row, by its line and its GPUs, or by its line alone."""
        count = int(gpus) if gpus.isdigit() else None
        return self.rows.get((line, count)) or self.rows.get((line, None)) or Facts()


@dataclass(frozen=True)
class AllFacts:
    """The facts of several documents, and the known families."""

    families: Mapping[str, Family]
    documents: Mapping[str, DocumentFacts] = field(default_factory=dict)

    def of(self, name: str, family: str = USUAL, release: str = "") -> DocumentFacts:
        """The facts of a document; by default, only its name and its labels.

        Raises:
            ConfigurationError: There is no such family.
        """
        found = self.documents.get(name) or DocumentFacts(name, _find_family(self.families, family, "--labels"))
        values = {**found.whole.values, "release": release}
        return replace(found, whole=replace(found.whole, values=values)) if release else found


def read_facts(path: Path | None) -> AllFacts:
    """The facts of a file, those of each document by its name; without a file, the bundled families alone.

    Raises:
        FileError: The file is wrong; it lists every fault with line and column.
        ConfigurationError: A document is there twice, or its labels are of no known family.
    """
    families = bundled_families()
    if path is None:
        return AllFacts(families)
    content = read_mapping(path, FACTS_FIELDS)
    if "labels" in content:
        families = families_of(content["labels"], path, families)
    found: dict[str, DocumentFacts] = {}
    for entry in content["documents"].value if "documents" in content else ():
        level = entry.value
        name = level["document"].value
        if name in found:
            raise ConfigurationError(f"{path}:{entry.line}: the facts of {name} are there already")
        files, tables = list(_below(level, "files")), list(_below(level, "tables"))
        rows = [row for table in tables for row in _below(table, "rows")]
        family = level["labels"].value if "labels" in level else USUAL
        found[name] = DocumentFacts(
            name=name,
            family=_find_family(families, family, f"{path}:{entry.line}"),
            skip=level["skip"].value if "skip" in level else (),
            by_release=_PREFIXES[level["by_release"].value] if "by_release" in level else None,
            whole=_facts(level),
            files={file["path"].value: _facts(file) for file in files},
            tables={table["line"].value: _facts(table) for table in tables},
            rows={(row["line"].value, int(row["gpus"].value) if "gpus" in row else None): _facts(row) for row in rows},
        )
    return AllFacts(families, found)


def _find_family(families: Mapping[str, Family], name: str, where: str) -> Family:
    if name not in families:
        raise ConfigurationError(f"{where}: there are no labels of '{name}'{f.nearest(name, families)}")
    return families[name]


def _below(values: Mapping[str, Value], key: str) -> Iterator[Mapping[str, Value]]:
    return (entry.value for entry in values[key].value) if key in values else iter(())


def _facts(values: Mapping[str, Value]) -> Facts:
    given = {key: value.value for key, value in values.items()}
    recipe, architecture = ({k: v.value for k, v in given.get(key, {}).items()} for key in ("recipe", "architecture"))
    return Facts(
        values={key: value for key, value in given.items() if key not in _NO_VALUES},
        attributes=given.get("attributes", {}),
        acknowledged=given.get("acknowledged", {}),
        recipe=recipe,
        architecture={key: str(value) for key, value in architecture.items()},
        comment=given.get("comment", "").strip("\n"),
        title=given.get("title", ""),
        releases=given.get("releases", ()),
    )
