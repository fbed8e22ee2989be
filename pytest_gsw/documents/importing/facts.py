"""``facts.yaml``: what documents do not say and a session needs, given once and kept beside the tables.

A recipe's directory, the names of its rows, a statistic that was found out by other means. Facts never hold a
figure: those come from documents alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from pytest_gsw.errors import ConfigurationError
from pytest_gsw.tables import fields as f
from pytest_gsw.tables.keys import FILE_FIELDS, OF_DOCUMENTS_ALONE, RECIPE_FIELDS, RELEASES, ROW_FIELDS
from pytest_gsw.tables.releases import NEMO
from pytest_gsw.tables.yamlfile import Value, read_mapping


def _kept(known: f.Field | f.Nested | f.Sequence_) -> f.Field | f.Nested | f.Sequence_:
    """The same field, whose value is checked and stays as written: it goes to the YAML so."""
    if not isinstance(known, f.Field):
        return known

    def read(raw: str) -> str:
        known.read(raw)
        return raw

    return replace(known, read=read, required=False, may_be_blank=False)


_SHARED: f.Fields = {
    **{key: _kept(known) for key, known in ROW_FIELDS.items() if key not in OF_DOCUMENTS_ALONE},
    "recipe": f.Nested(
        {key: _kept(known) for key, known in RECIPE_FIELDS.items() if key not in {"arguments", "may_fail"}},
        "How the rows are launched.",
    ),
    "comment": f.text("A comment for the YAML.", lines=True),
}
#: Keys of a YAML file that may differ from one table of a document to the next, and from one row.
_NAMES: f.Fields = {key: _kept(FILE_FIELDS[key]) for key in ("model", "framework", "log_format")}
_ROW: f.Fields = {
    "line": f.whole("Line of the row's figure in the document.", required=True),
    "gpus": f.whole("GPUs of the row, where columns are rows and the line is that of all of them."),
    **_NAMES,
    **{key: known for key, known in _SHARED.items() if key != "gpus"},
}
_TABLE: f.Fields = {
    "line": f.whole("Line of the table's header in the document.", required=True),
    "title": f.text("The table's title in the YAML."),
    **_NAMES,
    **_SHARED,
    "rows": f.Sequence_(_ROW, "Facts of single rows."),
}
_FILE: f.Fields = {"path": f.text("The YAML file, such as maxtext/llama2_70b.yaml.", required=True), **_SHARED}
_DOCUMENT: f.Fields = {
    "document": f.text("Name of the document, or the end of its path, such as grok1/README.md.", required=True),
    "release": f.text("Release that the document is of, such as a tag of its repository."),
    "releases": RELEASES,
    "by_release": f.choice(
        ("recipes", "nemo"),
        "The document has sections of several releases, of the recipes or of the NeMo container: the tables of each "
        "go to a directory of its own.",
    ),
    **_NAMES,
    **_SHARED,
    "files": f.Sequence_(_FILE, "Facts of all rows that go to one YAML file."),
    "tables": f.Sequence_(_TABLE, "Facts of single tables."),
}
#: Every key of ``facts.yaml``.
FACTS_FIELDS: f.Fields = {"documents": f.Sequence_(_DOCUMENT, "Facts of each document.", required=True)}

#: By what a document has releases of, what is in front of their names.
_PREFIXES = {"recipes": "", "nemo": NEMO}
#: What says which rows facts are of, and what is no value of a row.
_NO_VALUES = frozenset(
    {
        *("document", "path", "line", "gpus", "files", "tables", "rows", "recipe", "attributes", "acknowledged"),
        *("comment", "releases", "by_release"),
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
    comment: str = ""
    #: Releases of the recipes that the document's figures hold for.
    releases: tuple[str, ...] = ()


@dataclass(frozen=True)
class DocumentFacts:
    """Facts of one document."""

    #: Its name, as rows say where they come from: its file's, or with more of its path where facts name more of it.
    name: str = ""
    #: The tables of each release that a heading names go to a directory of its own; this is in front of its name.
    by_release: str | None = None
    whole: Facts = field(default_factory=Facts)
    #: By the YAML file's path.
    files: Mapping[str, Facts] = field(default_factory=dict)
    #: By the line of the table's header.
    tables: Mapping[int, Facts] = field(default_factory=dict)
    #: By the line of the row's figure, and its GPUs where they are given.
    rows: Mapping[tuple[int, int | None], Facts] = field(default_factory=dict)


def read_facts(path: Path) -> Mapping[str, DocumentFacts]:
    """The facts of each document, by its name.

    Raises:
        FileError: The file is wrong; it lists every fault with line and column.
        ConfigurationError: A document is there twice.
    """
    found: dict[str, DocumentFacts] = {}
    for entry in read_mapping(path, FACTS_FIELDS)["documents"].value:
        name = entry.value["document"].value
        if name in found:
            raise ConfigurationError(f"{path}:{entry.line}: the facts of {name} are there already")
        files, tables = _below(entry.value, "files"), _below(entry.value, "tables")
        rows = [row for table in tables for row in _below(table, "rows")]
        found[name] = DocumentFacts(
            name=name,
            by_release=_PREFIXES[entry.value["by_release"].value] if "by_release" in entry.value else None,
            whole=_facts(entry.value),
            files={file["path"].value: _facts(file) for file in files},
            tables={table["line"].value: _facts(table) for table in tables},
            rows={(row["line"].value, row["gpus"].value if "gpus" in row else None): _facts(row) for row in rows},
        )
    return found


def facts_of(path: Path, known: Mapping[str, DocumentFacts]) -> DocumentFacts:
    """The facts that name most of the end of a document's path; without any, none but its name."""
    parts = path.absolute().parts
    ends = ("/".join(parts[-count:]) for count in range(len(parts), 0, -1))
    return next((known[end] for end in ends if end in known), DocumentFacts(path.name))


def _below(values: Mapping[str, Value], key: str) -> list[Mapping[str, Value]]:
    return [entry.value for entry in values[key].value] if key in values else []


def _facts(values: Mapping[str, Value]) -> Facts:
    given = {key: value.value for key, value in values.items()}
    return Facts(
        values={key: value for key, value in given.items() if key not in _NO_VALUES},
        attributes=given.get("attributes", {}),
        acknowledged=given.get("acknowledged", {}),
        recipe={key: value.value for key, value in given.get("recipe", {}).items()},
        comment=given.get("comment", "").strip("\n"),
        releases=given.get("releases", ()),
    )
