"""Recipe READMEs become baseline tables: read, joined, checked, and written as YAML.

The layout follows the data: ``markdown`` finds tables and prose, ``cells`` and ``labels`` know what they say,
``shapes`` and ``rows`` make rows of tables, ``prose`` reads formulas and steps, ``document`` joins it all with
the ``facts`` that no document states, and ``emit`` writes the YAML.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pytest_gsw.documents.importing.document import read_rows
from pytest_gsw.documents.importing.draft import Remark
from pytest_gsw.documents.importing.emit import yaml_text
from pytest_gsw.documents.importing.facts import DocumentFacts, read_facts
from pytest_gsw.documents.importing.markdown import Unread, read_document
from pytest_gsw.documents.importing.model import JoinedTable, Read, Row, RowFile, RowTable
from pytest_gsw.tables.stated import StatedRow
from pytest_gsw.tables.yamlfile import Stated


@dataclass(frozen=True)
class Imported:
    """What one document gives."""

    #: The document's name, without its directory.
    name: str
    lines: tuple[str, ...]
    #: Places count in the document.
    rows: tuple[StatedRow, ...]
    #: The YAML files to be.
    files: tuple[RowFile, ...]
    #: Tables that are no baselines, with the reason.
    left_out: tuple[Unread, ...]
    #: Cells that were not taken as they stand, with the row's id (empty where no row came of it).
    remarks: tuple[tuple[str, Remark], ...]
    joined: tuple[JoinedTable, ...]
    #: What neither document nor facts say: by YAML file, row ids and key.
    blanks: tuple[tuple[str, str, str, str], ...]

    @property
    def yaml_text(self) -> Mapping[str, str]:
        """The text of each YAML file, by its relative name."""
        return {file.path: yaml_text(file, self.name) for file in self.files}

    def with_comments(self, comments: Mapping[str, Sequence[str]]) -> Imported:
        """The same with further comments above rows, by the rows' ids."""

        def of(row: Row) -> Row:
            return replace(row, comments=(*row.comments, *comments.get(row.id, ())))

        def among(table: RowTable) -> RowTable:
            return replace(table, rows=tuple(map(of, table.rows)))

        files = (replace(file, tables=tuple(map(among, file.tables))) for file in self.files)
        return replace(self, files=tuple(files))


def import_document(path: Path, facts: DocumentFacts | None = None) -> Imported:
    """Read one document.

    Raises:
        ConfigurationError: It cannot be read, the facts are of something else, or the extra is not installed.
    """
    document = read_document(path)
    read = read_rows(document, facts or DocumentFacts(), directory=_recipe_directory(path))
    return Imported(
        name=document.name,
        lines=document.lines,
        rows=tuple(
            _stated(row, table, file, document.name)
            for file in read.files
            for table in file.tables
            for row in table.rows
        ),
        files=read.files,
        left_out=read.left_out,
        remarks=read.remarks,
        joined=read.joined,
        blanks=tuple(_blanks(read)),
    )


def _recipe_directory(path: Path) -> str | None:
    """The recipe's directory by the README's place: ``grok1/README.md`` is the recipe grok1's."""
    name = path.resolve().parent.name
    readme = path.name.lower().startswith("readme")
    return name if readme and re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,59}", name) else None


def _stated(row: Row, table: RowTable, file: RowFile, document: str) -> StatedRow:
    values = {key: stated for key, stated in row.values.items() if stated.text}
    line = int(row.values["line"].text)
    values |= {f"attributes.{name}": Stated(text, line, 1) for name, text in row.attributes.items()}
    values["document"] = Stated(document, 1, 1)
    if file.activation_recomputation:
        values["activation_recomputation"] = Stated("true", 1, 1)
    if file.architecture is not None:
        values["architecture.formula"] = Stated(file.architecture.formula, 1, 1)
        values |= {f"architecture.{key}": stated for key, stated in file.architecture.numbers.items()}
    acknowledged = {**file.acknowledged, **table.acknowledged, **row.acknowledged}
    return StatedRow(row.id, document, values, acknowledged)


def _blanks(read: Read) -> list[tuple[str, str, str, str]]:
    return [
        (file.path, row.id, key, reason)
        for file in read.files
        for table in file.tables
        for row in table.rows
        for key, reason in row.blanks.items()
    ]


__all__ = ["DocumentFacts", "Imported", "Remark", "Unread", "import_document", "read_facts"]
