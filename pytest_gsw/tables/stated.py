"""What rows state, as written: the texts of tables and documents with the places where they stand.

A :class:`~pytest_gsw.tables.model.Baseline` has numbers. Whether two of them contradict each other
depends on the digits that were written, and a finding is of use only with its place; hence this form,
which rows of YAML files and rows of imported documents share.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pytest_gsw.tables.keys import ROW_FIELDS
from pytest_gsw.tables.load import read_table
from pytest_gsw.tables.model import Baseline, BlankRow
from pytest_gsw.tables.yamlfile import Spelt, Stated, read_spelling


@dataclass(frozen=True)
class StatedRow:
    """One row: every key that it has itself, from its table or from its file.

    Keys are those of :data:`pytest_gsw.tables.keys.ROW_FIELDS`, ``model``, ``framework``, ``document``,
    ``release``, ``activation_recomputation``, and those of mappings with a dot: ``architecture.layers``,
    ``attributes.id``.
    """

    #: As the plugin names it: ``llama2_70b_fp8[H100x64]``.
    id: str
    #: The file that the places count in: a YAML table, or a document.
    file: str
    values: Mapping[str, Stated]
    #: Known findings by name, each with its reason.
    acknowledged: Mapping[str, str] = field(default_factory=dict)


#: Keys of a file that are no row's, and that say what its rows are.
_FILE_KEYS = frozenset({"model", "framework", "log_format", "document", "release", "activation_recomputation"})
_MAPPINGS = frozenset({"architecture", "attributes"})


def stated_rows(path: Path) -> tuple[StatedRow, ...]:
    """All rows of one baseline file as they are spelt, in the file's order; of what is blank, nothing is stated.

    Each key is the nearest one's, as in :func:`~pytest_gsw.tables.load.read_table`. What is acknowledged
    at the file and at a table counts for all their rows.

    Raises:
        FileError: The file is wrong; it lists every fault with line and column.
    """
    table = read_table(path)
    blanks = {row.id: {blank.key for blank in row.blanks} for row in table.blanks}
    rows: list[Baseline | BlankRow] = sorted(
        (*table.rows, *table.blanks), key=lambda row: (row.location.line, row.location.column)
    )
    levels = tuple(_levels(read_spelling(path)))
    return tuple(
        StatedRow(row.id, str(path), _without(_values(above), blanks.get(row.id, ())), _acknowledged(above))
        for row, above in zip(rows, levels, strict=True)
    )


def _without(values: dict[str, Stated], blank: Container[str]) -> dict[str, Stated]:
    return {key: stated for key, stated in values.items() if key not in blank}


def _levels(root: Any) -> Iterator[Sequence[Mapping[str, Spelt]]]:
    """File, table and row of each row. The file is right, or there would have been a FileError."""
    for table in root["tables"]:
        for row in table["rows"]:
            yield root, table, row


def _values(levels: Sequence[Mapping[str, Spelt]]) -> dict[str, Stated]:
    values: dict[str, Stated] = {}
    for level in levels:
        for key, spelt in level.items():
            if isinstance(spelt, Stated) and (key in ROW_FIELDS or key in _FILE_KEYS):
                values[key] = spelt
            elif isinstance(spelt, Mapping) and key in _MAPPINGS:
                # A nearer mapping takes the place of the whole other one.
                values = {name: stated for name, stated in values.items() if not name.startswith(f"{key}.")}
                values |= {f"{key}.{name}": text for name, text in spelt.items() if isinstance(text, Stated)}
    return values


def _acknowledged(levels: Sequence[Mapping[str, Spelt]]) -> dict[str, str]:
    reasons: dict[str, str] = {}
    for level in levels:
        spelt: Any = level.get("acknowledged", {})
        reasons |= {name: text.text for name, text in spelt.items() if isinstance(text, Stated)}
    return reasons
