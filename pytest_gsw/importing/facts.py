"""``facts.yaml``: labels of families of documents, and what no cell of a document says, declared beside the tables."""

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

# ---- Labels: what the columns, rows, titles and headings of a family of documents are called ----------
#
# The bundled families stand in ``families.yaml`` beside this module; ``facts.yaml`` may have further ones.

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


def _as_written(known: f.Kind) -> f.Kind:
    """The same key, whose value is checked and stays a text."""
    if not isinstance(known, f.Field):
        return known

    def read(raw: str) -> str:
        known.read(raw)
        return raw

    return replace(known, read=read, required=False, may_be_blank=False)


_SAID: f.Fields = {key: _as_written(FILE_FIELDS[key]) for key in (*sorted(NAMES), "expected_failure")}


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
        several.sort(key=lambda one: not one.column)  # what is said of one column counts first
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
        pattern, end = pattern + _spaced(text[end : place.start()]) + group, place.end()
    compiled = re.compile(pattern + _spaced(text[end:]), re.IGNORECASE)
    return Template(compiled, {key: value.value for key, value in values.items()})


def _spaced(text: str) -> str:
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
_OF_FILES: f.Fields = {
    **_SHARED,
    "architecture": FILE_FIELDS["architecture"],
    "activation_recomputation": _as_written(FILE_FIELDS["activation_recomputation"]),
}
_FILE: f.Fields = {**_OF_FILES, "path": f.text("The YAML file, such as maxtext/llama2_70b.yaml.", required=True)}
_DOCUMENT: f.Fields = {
    **_OF_FILES,
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

#: By what a document has releases of, what is in front of their names.
_PREFIXES = {"recipes": "", "nemo": NEMO}
#: What says which rows facts are of, and what is no value of a row.
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
    #: Releases of the recipes that the document's figures hold for.
    releases: tuple[str, ...] = ()


@dataclass(frozen=True)
class DocumentFacts:
    """Facts of one document."""

    #: Its name, as rows say where they come from: its file's, or with more of its path where facts name more of it.
    name: str
    family: Family
    skip: tuple[str, ...] = ()
    #: The tables of each release that a heading names go to a directory of its own; this is in front of its name.
    by_release: str | None = None
    whole: Facts = field(default_factory=Facts)
    #: By the YAML file's path.
    files: Mapping[str, Facts] = field(default_factory=dict)
    #: By the line of the table's header.
    tables: Mapping[int, Facts] = field(default_factory=dict)
    #: By the line of the row's figure, and its GPUs where they are given.
    rows: Mapping[tuple[int, int | None], Facts] = field(default_factory=dict)

    def of_row(self, line: int, gpus: str) -> Facts:
        """Facts of one row, by its line and its GPUs, or by its line alone."""
        count = int(gpus) if gpus.isdigit() else None
        return self.rows.get((line, count)) or self.rows.get((line, None)) or Facts()


@dataclass(frozen=True)
class AllFacts:
    """The facts of several documents, and the families that are known."""

    families: Mapping[str, Family]
    documents: Mapping[str, DocumentFacts] = field(default_factory=dict)

    def of(self, name: str, family: str = USUAL, release: str = "") -> DocumentFacts:
        """The facts of a document; without any, none but its name and its labels.

        Raises:
            ConfigurationError: There is no such family.
        """
        found = self.documents.get(name) or DocumentFacts(name, _known(self.families, family, "--labels"))
        values = {**found.whole.values, "release": release}
        return replace(found, whole=replace(found.whole, values=values)) if release else found


def read_facts(path: Path | None) -> AllFacts:
    """The facts of a file, those of each document by its name; without a file, the bundled families alone.

    Raises:
        FileError: The file is wrong; it lists every fault with line and column.
        ConfigurationError: A document is there twice, or has labels of no family that is known.
    """
    families = bundled_families()
    if path is None:
        return AllFacts(families)
    content = read_mapping(path, FACTS_FIELDS)
    if "labels" in content:
        families = families_of(content["labels"], path, families)
    found: dict[str, DocumentFacts] = {}
    for entry in content["documents"].value if "documents" in content else ():
        given = entry.value
        name = given["document"].value
        if name in found:
            raise ConfigurationError(f"{path}:{entry.line}: the facts of {name} are there already")
        files, tables = list(_below(given, "files")), list(_below(given, "tables"))
        rows = [row for table in tables for row in _below(table, "rows")]
        family = given["labels"].value if "labels" in given else USUAL
        found[name] = DocumentFacts(
            name=name,
            family=_known(families, family, f"{path}:{entry.line}"),
            skip=given["skip"].value if "skip" in given else (),
            by_release=_PREFIXES[given["by_release"].value] if "by_release" in given else None,
            whole=_facts(given),
            files={file["path"].value: _facts(file) for file in files},
            tables={table["line"].value: _facts(table) for table in tables},
            rows={(row["line"].value, int(row["gpus"].value) if "gpus" in row else None): _facts(row) for row in rows},
        )
    return AllFacts(families, found)


def _known(families: Mapping[str, Family], name: str, where: str) -> Family:
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
