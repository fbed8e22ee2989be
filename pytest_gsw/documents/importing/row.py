"""Rows on their way from a document to YAML: what they state, where from, and what is missing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from pytest_gsw.documents.importing.draft import Remark
from pytest_gsw.documents.importing.prose import Architecture
from pytest_gsw.tables.model import blank_id
from pytest_gsw.tables.stated import StatedRow
from pytest_gsw.tables.yamlfile import Stated

#: The keys of a recipe; ``environment`` is a mapping of its own, ``arguments`` a list.
RecipeKey: TypeAlias = "Stated | Mapping[str, str] | tuple[str, ...]"
RecipeKeys: TypeAlias = Mapping[str, RecipeKey]

#: Keys without which a row cannot run; where neither document nor facts have one, the YAML has a blank.
NEEDED = ("model", "framework", "dtype", "accelerator", "gpus", "gpus_per_node", "sequence_length")

UNSAID = "the document does not say"

#: In place of a line: what comes from the facts, and what neither they nor the document say.
FACT = -1
CONVENTION = 0


@dataclass(frozen=True)
class Row:
    """One row with everything that goes into the YAML."""

    #: By key; an empty text is a blank.
    values: Mapping[str, Stated]
    attributes: Mapping[str, str] = field(default_factory=dict)
    recipe: RecipeKeys = field(default_factory=dict)
    acknowledged: Mapping[str, str] = field(default_factory=dict)
    comments: tuple[str, ...] = ()
    #: Why each blank is one.
    blanks: Mapping[str, str] = field(default_factory=dict)
    #: What the document states and no row can have, by key, and why.
    left_out: Mapping[str, str] = field(default_factory=dict)
    #: The accelerator as its cell names it, such as ``DGX-H100``.
    system: str = ""
    #: What the line behind a key is: ``log line`` of the framework.
    rests_on: Mapping[str, str] = field(default_factory=dict)
    #: What its identities have proven or refuted.
    remarks: tuple[Remark, ...] = ()
    #: What the document states of it, where they have proven something else or refuted it.
    documented: Mapping[str, Stated] = field(default_factory=dict)
    #: Line of its table's header.
    table_line: int = 0
    #: Its place among all rows of the document.
    number: int = 0

    @property
    def id(self) -> str:
        """As the plugin will name it."""
        return blank_id({key: stated.text for key, stated in self.values.items()})

    def stated(self, table: RowTable, file: RowFile, document: str) -> StatedRow:
        """The row as the audit reads it, with what its table and its file say of it."""
        values = {key: stated for key, stated in self.values.items() if stated.text}
        line = int(self.values["line"].text)
        values |= {f"attributes.{name}": Stated(text, line, 1) for name, text in self.attributes.items()}
        values["document"] = Stated(document, 1, 1)
        if file.activation_recomputation:
            values["activation_recomputation"] = Stated("true", 1, 1)
        if file.architecture is not None:
            values["architecture.formula"] = Stated(file.architecture.formula, 1, 1)
            values |= {f"architecture.{key}": stated for key, stated in file.architecture.numbers.items()}
        acknowledged = {**file.acknowledged, **table.acknowledged, **self.acknowledged}
        return StatedRow(self.id, document, values, acknowledged)


@dataclass(frozen=True)
class RowTable:
    """The rows of one table that go to one file."""

    title: str
    #: Line of the header in the document.
    line: int
    rows: tuple[Row, ...]
    comment: str = ""
    acknowledged: Mapping[str, str] = field(default_factory=dict)
    #: The headings that it stands below, the outermost first; empty where there are none.
    section: str = ""


@dataclass(frozen=True)
class RowFile:
    """One YAML file to be."""

    #: Relative, such as ``maxtext/llama2_70b.yaml``.
    path: str
    tables: tuple[RowTable, ...]
    architecture: Architecture | None
    #: TFLOP/s count recomputed activations.
    activation_recomputation: bool
    comment: str = ""
    release: str = ""
    #: Releases of the recipes that its figures hold for.
    releases: tuple[str, ...] = ()
    acknowledged: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class JoinedTable:
    """A table of settings, joined to the rows that they are of."""

    line: int
    title: str
    #: How many rows have settings of it.
    rows: int
