"""``facts.yaml``: labels of families of documents, and declared values that no cell of a document has."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, reduce
from pathlib import Path
from typing import Any

from pytest_gsw.errors import ConfigurationError
from pytest_gsw.importing.labels import LABELS, USUAL, Family, as_written, bundled_families, families_of
from pytest_gsw.importing.tables import FIGURES, is_key
from pytest_gsw.tables import value_types as f
from pytest_gsw.tables.metrics import VALUE
from pytest_gsw.tables.schema import FILE_FIELDS, RECIPE_FIELDS, RELEASES, ROW_FIELDS
from pytest_gsw.tables.yaml_values import Value, read_mapping

_SHARED: f.Fields = {
    **{key: as_written(FILE_FIELDS[key]) for key in ("model", "framework", "log_format")},
    **{key: as_written(known) for key, known in ROW_FIELDS.items() if key not in {*FIGURES, VALUE, "metrics", "line"}},
    "recipe": f.Nested(
        {key: as_written(known) for key, known in RECIPE_FIELDS.items() if key not in {"arguments", "may_fail"}},
        "How the rows are launched.",
    ),
    "comment": f.text("A comment for the YAML.", lines=True),
}
_ROW: f.Fields = {
    **_SHARED,
    **{key: as_written(ROW_FIELDS.get(key, ROW_FIELDS[VALUE])) for key in FIGURES},
    "line": f.whole("Line of the row's figure in the document.", required=True),
}
_TABLE: f.Fields = {
    **_SHARED,
    "line": f.whole("Line of the table's header in the document.", required=True),
    "title": f.text("The table's title in the YAML."),
    "code": f.Sequence_(f.whole("A line."), "Lines of the table's rows, if it is in a block of code."),
    "rows": f.Sequence_(_ROW, "Facts of single rows."),
}
_FILE_FACTS: f.Fields = {
    **_SHARED,
    "architecture": FILE_FIELDS["architecture"],
    "activation_recomputation": as_written(FILE_FIELDS["activation_recomputation"]),
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
    "path": f.pattern(
        r"(?:[\w{}-][\w{}.-]*/)*[\w{}-][\w{}.-]*\.yaml",
        "a path such as {model}_site.yaml",
        "Path of the document's YAML files; {framework}/{model}.yaml by default.",
    ),
    "files": f.Sequence_(_FILE, "Facts of all rows that go to one YAML file."),
    "tables": f.Sequence_(_TABLE, "Facts of single tables."),
}
#: Every key of ``facts.yaml``.
FACTS_FIELDS: f.Fields = {"labels": LABELS, "documents": f.Sequence_(_DOCUMENT, "Facts of each document.")}


@dataclass(frozen=True)
class Facts:
    """Facts at one level, as the YAML writes them."""

    given: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def values(self) -> Mapping[str, str]:
        """The values of rows."""
        return {key: value for key, value in self.given.items() if is_key(key)}

    def mapping(self, key: str) -> Mapping[str, Any]:
        """A mapping, such as the recipe; empty if there is none."""
        return {**self.given.get(key, {})}

    def text(self, key: str) -> str:
        """A text that is no value of a row; empty if there is none."""
        return str(self.given.get(key, "")).strip("\n")

    def over(self, other: Facts) -> Facts:
        """These facts, and those of the other that are missing here."""
        far = other.given
        near = {k: {**far.get(k, {}), **v} if isinstance(v, dict) else v for k, v in self.given.items()}
        return Facts({**far, **near})

    def differs(self, values: Mapping[str, str]) -> bool:
        """True if a value is another one here."""
        return any(self.values.get(key, text) != text for key, text in values.items())


@dataclass(frozen=True)
class DocumentFacts:
    """Facts of one document."""

    #: Its name in the rows' source: its file's, or with more of its path if facts have more of it.
    name: str
    family: Family
    whole: Facts = field(default_factory=Facts)
    #: By the YAML file's path.
    files: Mapping[str, Facts] = field(default_factory=dict)
    #: By the line of the table's header.
    tables: Mapping[int, Facts] = field(default_factory=dict)
    #: With the line of the row's figure.
    rows: Sequence[tuple[int, Facts]] = ()

    def of_row(self, line: int, apart: Mapping[str, str]) -> Facts:
        """Facts of one row, by its line, and by values that select it among rows of that line, if they have them."""
        fits = [facts for at, facts in self.rows if at == line and not facts.differs(apart)]
        fits.sort(key=lambda facts: len(apart.keys() & facts.values.keys()))
        return reduce(lambda wider, facts: facts.over(wider), fits, Facts())


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
        return replace(found, whole=Facts({"release": release}).over(found.whole)) if release else found


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
        tables: dict[int, Facts] = {}
        for table in _below(level, "tables"):
            line = table["line"].value
            tables[line] = tables.get(line, Facts()).over(_facts(table))
        rows = (row for table in _below(level, "tables") for row in _below(table, "rows"))
        of_code = ((line, Facts()) for table in tables.values() for line in table.given.get("code", ()))
        family = level["labels"].value if "labels" in level else USUAL
        found[name] = DocumentFacts(
            name=name,
            family=_find_family(families, family, f"{path}:{entry.line}"),
            whole=_facts(level),
            files={file["path"].value: _facts(file) for file in _below(level, "files")},
            tables=tables,
            rows=[*of_code, *((row["line"].value, _facts(row)) for row in rows)],
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
    for key in {"recipe", "architecture"} & given.keys():
        given[key] = {name: value.value for name, value in given[key].items()}
    return Facts(given)
