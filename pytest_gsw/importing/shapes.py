"""Which of the recipes' shapes a table has, and what stands where in it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from pytest_gsw.importing.labels import (
    CONFIGURATION,
    FIGURES,
    NODE_COUNT,
    Label,
    accelerator,
    gpu_count,
    read_label,
)
from pytest_gsw.importing.markdown import Cell, Table


@dataclass(frozen=True)
class Scale:
    """One column of a table whose columns are GPU counts."""

    column: int
    #: GPUs, or nodes where the header counts those.
    gpus: int | None
    nodes: int | None
    accelerator: str | None
    header: Cell


@dataclass(frozen=True)
class ByScale:
    """Figures are rows, GPU counts are columns: the recipes' main shape."""

    scales: tuple[Scale, ...]
    #: By the number of the table's row.
    labels: Mapping[int, Label]


@dataclass(frozen=True)
class ByRun:
    """Each row is one run: the GPT-2 document, and tables of one's own."""

    #: By the number of the table's column; ``None`` is a column of the document's own.
    labels: Mapping[int, Label | None]


@dataclass(frozen=True)
class Configurations:
    """GPU counts and settings without figures; each row is joined to the runs of its GPU count."""

    labels: Mapping[int, Label | None]


@dataclass(frozen=True)
class NoBaseline:
    """Something else, and why."""

    reason: str


Shape = ByScale | ByRun | Configurations | NoBaseline


def shape_of(table: Table) -> Shape:
    """The shape of one table."""
    if len(table.header) < 2:
        return NoBaseline("has one column")
    if not table.rows:
        return NoBaseline("has no rows")
    return _by_scale(table) or _by_row(table)


def _by_scale(table: Table) -> ByScale | NoBaseline | None:
    scales = _scales(table)
    if not scales:
        return None
    labels = {n: label for n, row in enumerate(table.rows) if row and (label := read_label(row[0].text)) is not None}
    labels = {n: _settled(label, table) for n, label in labels.items()}
    keys = [label.key for label in labels.values()]
    doubled = sorted({key for key in keys if keys.count(key) > 1})
    if doubled:
        return NoBaseline(f"has two rows that mean {doubled[0]}")
    if any(label.key in FIGURES for label in labels.values()):
        return ByScale(scales, labels)
    if any(label.key in CONFIGURATION for label in labels.values()):
        return ByScale(scales, labels)
    return NoBaseline("has GPU counts, and no row of figures such as step time or throughput")


def _scales(table: Table) -> tuple[Scale, ...]:
    """The columns that are a GPU count; none where the header is one of runs."""
    first = read_label(table.header[0].text)
    counts_in_header = first is not None and first.key in {"gpus", "nodes"}
    scales = []
    for column, cell in enumerate(table.header[1:], 1):
        counted = gpu_count(cell.text)
        nodes = NODE_COUNT.search(cell.text)
        if counted is not None:
            scales.append(Scale(column, counted[0], None, counted[1], cell))
        elif nodes is not None:
            scales.append(Scale(column, None, int(nodes["nodes"]), accelerator(cell.text), cell))
        elif first is not None and counts_in_header and re.fullmatch(r"[1-9][0-9]{0,6}", cell.text):
            number = int(cell.text)
            of_gpus = first.key == "gpus"
            scales.append(Scale(column, number if of_gpus else None, None if of_gpus else number, None, cell))
    return tuple(scales)


def _by_row(table: Table) -> Shape:
    labels = {n: read_label(cell.text) for n, cell in enumerate(table.header)}
    labels = {n: label and _settled(label, table) for n, label in labels.items()}
    labels = {n: Label("accelerator") if _names_gpus(label, n, table) else label for n, label in labels.items()}
    keys = [label.key for label in labels.values() if label is not None]
    doubled = sorted({key for key in keys if keys.count(key) > 1 and key != "notes"})
    if "gpus" not in keys and "nodes" not in keys:
        figures = [key for key in keys if key in FIGURES]
        return NoBaseline("has figures, and no GPU counts" if figures else "has no GPU counts")
    if doubled:
        return NoBaseline(f"has two columns that mean {doubled[0]}")
    if any(key in FIGURES for key in keys):
        return ByRun(labels)
    if any(key in CONFIGURATION for key in keys):
        return Configurations(labels)
    return NoBaseline("has GPU counts, and neither figures nor settings of a run")


def _names_gpus(label: Label | None, column: int, table: Table) -> bool:
    """Whether a column "GPU" says which they are, and not how many."""
    cells = [row[column].text for row in table.rows if column < len(row) and row[column].text]
    return label is not None and label.key == "gpus" and bool(cells) and all(accelerator(text) for text in cells)


def _settled(label: Label, table: Table) -> Label:
    """A bare "time" is of what the table is about: of a checkpoint, or of a step."""
    if label.key != "time_s":
        return label
    about = " ".join((*table.headings[-1:], *table.captions)).lower()
    return Label("checkpoint_save_time_s" if "checkpoint" in about else "step_time_s", label.unit)
