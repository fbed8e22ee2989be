"""What rows state, as written: the texts of tables and documents with the places where they stand.

A :class:`~pytest_gsw.tables.model.Baseline` has numbers. Whether two of them contradict each other
depends on the digits that were written, and a finding is of use only with its place; hence this form,
which rows of YAML files and rows of imported documents share.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Stated:
    """One value as written (``52.59%``, ``1.82E+15``), and where (line and column from 1)."""

    text: str
    line: int
    column: int


@dataclass(frozen=True)
class StatedRow:
    """One row: every key that it has itself, from its table or from its file.

    Keys are those of :data:`pytest_gsw.tables.load.ROW_FIELDS`, ``model``, ``framework``, ``document``,
    ``activation_recomputation``, and those of the architecture as ``architecture.layers``.
    """

    #: As the plugin names it: ``llama2_70b_fp8[H100x64]``.
    id: str
    #: The file that the places count in: a YAML table, or a document.
    file: str
    values: Mapping[str, Stated]
    #: Known findings by name, each with its reason.
    acknowledged: Mapping[str, str] = field(default_factory=dict)
