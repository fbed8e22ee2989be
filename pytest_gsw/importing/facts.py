"""``facts.yaml``: labels of families of documents, and what no cell of a document says, declared beside the tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from pytest_gsw.errors import ConfigurationError
from pytest_gsw.importing.cells import FIGURES
from pytest_gsw.importing.labels import LABELS, USUAL, Family, as_written, bundled_families, families_of
from pytest_gsw.tables import fields as f
from pytest_gsw.tables.keys import FILE_FIELDS, RECIPE_FIELDS, RELEASES, ROW_FIELDS
from pytest_gsw.tables.releases import NEMO
from pytest_gsw.tables.yamlfile import Value, read_mapping


def _kept(known: f.Field | f.Nested | f.Sequence_) -> f.Field | f.Nested | f.Sequence_:
    return as_written(known) if isinstance(known, f.Field) else known


_NAMES: f.Fields = {key: _kept(FILE_FIELDS[key]) for key in ("model", "framework", "log_format")}
_SHARED: f.Fields = {
    **_NAMES,
    **{key: _kept(known) for key, known in ROW_FIELDS.items() if key not in {*FIGURES, "metrics", "line"}},
    "recipe": f.Nested(
        {key: _kept(known) for key, known in RECIPE_FIELDS.items() if key not in {"arguments", "may_fail"}},
        "How the rows are launched.",
    ),
    "comment": f.text("A comment for the YAML.", lines=True),
}
_ROW: f.Fields = {
    **_SHARED,
    **{key: _kept(ROW_FIELDS[key]) for key in FIGURES},
    "line": f.whole("Line of the row's figure in the document.", required=True),
    "gpus": as_written(f.whole("GPUs of the row, where columns are rows and the line is that of all of them.")),
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
    "activation_recomputation": _kept(FILE_FIELDS["activation_recomputation"]),
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

    def of_release(self, release: str) -> DocumentFacts:
        """The same facts of a document that is of this release."""
        return replace(self, whole=replace(self.whole, values={**self.whole.values, "release": release}))


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
        return found.of_release(release) if release else found


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
            rows={(row["line"].value, _gpus(row)): _facts(row) for row in rows},
        )
    return AllFacts(families, found)


def _gpus(row: Mapping[str, Value]) -> int | None:
    return int(row["gpus"].value) if "gpus" in row else None


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
