"""The values of rows as written, with their places.

A :class:`~pytest_gsw.tables.model.Baseline` has numbers. A contradiction between two of them depends on the written
digits, and a finding needs its place; hence this form, which rows of YAML files and rows of imported documents share.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pytest_gsw.tables.load import read_table
from pytest_gsw.tables.model import Baseline, BlankRow
from pytest_gsw.tables.schema import ROW_FIELDS
from pytest_gsw.tables.yaml_values import Spelt, Stated, read_spelling


@dataclass(frozen=True)
class StatedRow:
    """One row: every key that it has itself, from its table or from its file.

    Keys are those of :data:`pytest_gsw.tables.schema.ROW_FIELDS`, ``model``, ``framework``, ``document``, ``release``,
    ``activation_recomputation``, and those of mappings with a dot: ``architecture.layers``, ``attributes.id``.
    """

    #: Name in the plugin: ``llama2_70b_fp8[H100x64]``.
    id: str
    #: The file of the places: a YAML table, or a document.
    file: str
    values: Mapping[str, Stated]
    #: Known findings by name, each with its reason.
    acknowledged: Mapping[str, str] = field(default_factory=dict)


#: Keys of a file that describe its rows and are no row's own.
_FILE_KEYS = frozenset({"model", "framework", "log_format", "document", "release", "activation_recomputation"})
_MAPPINGS = frozenset({"architecture", "attributes"})


def stated_rows(path: Path) -> tuple[StatedRow, ...]:
    """All rows of one baseline file as written, in the file's order, without blank values.

    Each key is the nearest one's, as in :func:`~pytest_gsw.tables.load.read_table`. Acknowledgements at the file and at
    a table count for all their rows.

    Raises:
        FileError: The file is wrong; it lists every fault with line and column.
    """
    table = read_table(path)
    blanks = {row.id: {blank.key for blank in row.blanks} for row in table.blanks}
    rows: list[Baseline | BlankRow] = sorted(
        (*table.rows, *table.blanks), key=lambda row: (row.location.line, row.location.column)
    )
    file: Any = read_spelling(path)
    # The file is right, or there would have been a FileError.
    levels = [(file, table, row) for table in file["tables"] for row in table["rows"]]
    found = []
    for row, above in zip(rows, levels, strict=True):
        blank = blanks.get(row.id, ())
        values = {key: stated for key, stated in _values(above).items() if key not in blank}
        found.append(StatedRow(row.id, str(path), values, _acknowledgements(above)))
    return tuple(found)


def _values(levels: Sequence[Mapping[str, Spelt]]) -> dict[str, Stated]:
    values: dict[str, Stated] = {}
    for level in levels:
        for key, spelt in level.items():
            if isinstance(spelt, Stated) and (key in ROW_FIELDS or key in _FILE_KEYS):
                values[key] = spelt
            elif isinstance(spelt, Mapping) and key in _MAPPINGS:
                # A nearer mapping replaces the whole other one.
                values = {name: stated for name, stated in values.items() if not name.startswith(f"{key}.")}
                values |= {f"{key}.{name}": text for name, text in spelt.items() if isinstance(text, Stated)}
    return values


def _acknowledgements(levels: Sequence[Mapping[str, Spelt]]) -> dict[str, str]:
    reasons: dict[str, str] = {}
    for level in levels:
        spelt: Any = level.get("acknowledged", {})
        reasons |= {name: text.text for name, text in spelt.items() if isinstance(text, Stated)}
    return reasons
