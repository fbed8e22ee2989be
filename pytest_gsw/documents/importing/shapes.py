"""Which of the recipes' shapes a table has, and what stands where in it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from pytest_gsw.documents.importing.cells import UNITS, Number, is_nothing, read_number
from pytest_gsw.documents.importing.labels import (
    ACCELERATOR,
    CONFIGURATION,
    FIGURES,
    JUDGED,
    Label,
    accelerator,
    count_in_cell,
    gpu_count,
    is_below_inference,
    is_compared,
    is_inference,
    is_measured,
    is_no_run,
    node_count,
    read_label,
)
from pytest_gsw.documents.importing.markdown import Cell, Table
from pytest_gsw.tables.metrics import SAMPLES_PER_S, SAVE_TIME, STEP_TIME, TOKENS_PER_S, TOKENS_PER_S_PER_GPU


@dataclass(frozen=True)
class Scale:
    """One column of a table whose columns are GPU counts."""

    column: int
    #: GPUs, or nodes where the header counts those, and the accelerator where it names one.
    values: Mapping[str, str]
    header: Cell


@dataclass(frozen=True)
class ByScale:
    """Figures are rows, GPU counts are columns: the recipes' main shape."""

    scales: tuple[Scale, ...]
    #: By the number of the table's row.
    labels: Mapping[int, Label]


#: By the number of the table's column; ``None`` is a column of the document's own.
Labels: TypeAlias = Mapping[int, Label | None]


@dataclass(frozen=True)
class ByRun:
    """Each row is one run: the GPT-2 document, and tables of one's own."""

    labels: Labels


@dataclass(frozen=True)
class Configurations:
    """GPU counts and settings without figures; each row is joined to the runs of its GPU count."""

    labels: Labels


@dataclass(frozen=True)
class NoBaseline:
    """Something else, and why."""

    reason: str


Shape = ByScale | ByRun | Configurations | NoBaseline


def shape_of(table: Table, captions: Sequence[str] = (), *, counted: bool = False) -> Shape:
    """The shape of one table below these captions; ``counted`` is whether the text around it counts GPUs or nodes."""
    if len(table.header) < 2:
        return NoBaseline("has one column")
    if not table.rows:
        return NoBaseline("has no rows")
    titles = (*table.headings, *table.captions)
    words = (*(cell.text for cell in table.header), *(row[0].text for row in table.rows if row), *table.headings[-1:])
    if any(map(is_inference, (*words, *table.captions, *captions))) or is_below_inference(titles):
        return NoBaseline("is about inference")
    return _by_scale(table) or _by_row(table, counted=counted)


def _by_scale(table: Table) -> ByScale | NoBaseline | None:
    scales = _scales(table)
    if not scales:
        return None
    known = ((n, read_label(row[0].text), row[1:]) for n, row in enumerate(table.rows) if row)
    settled = ((n, _settled(label, table, cells)) for n, label, cells in known if label is not None)
    labels = {n: label for n, label in settled if label is not None}
    keys = [label.key for label in labels.values()]
    doubled = sorted({key for key in keys if keys.count(key) > 1})
    if doubled:
        return NoBaseline(f"has two rows that mean {doubled[0]}")
    if any(key in FIGURES or key in CONFIGURATION for key in keys):
        return ByScale(scales, labels)
    return NoBaseline("has GPU counts, and no row of figures such as step time or throughput")


def _scales(table: Table) -> tuple[Scale, ...]:
    """The columns that are a GPU count; none where the header is one of runs."""
    first = read_label(table.header[0].text)
    bare = first.key if first is not None and first.key in {"gpus", "nodes"} else None
    scales = []
    for column, cell in enumerate(table.header[1:], 1):
        counts = {"gpus": gpu_count(cell.text), "nodes": node_count(cell.text)}
        found = {key: str(count) for key, count in counts.items() if count is not None}
        if not found and bare is not None and re.fullmatch(r"[1-9][0-9]{0,6}", cell.text):
            found = {bare: cell.text}
        kind = accelerator(cell.text)
        if found and not is_no_run(re.sub(r"\([^()]*\)", "", cell.text)):
            scales.append(Scale(column, {**found, **({"accelerator": kind} if kind else {})}, cell))
    # "Expected on 8 GPUs" is a baseline, unless what was measured stands beside it.
    measured = [scale.values for scale in scales if not is_compared(scale.header.text)]
    return tuple(one for one in scales if not is_compared(one.header.text) or one.values not in measured)


def _by_row(table: Table, *, counted: bool) -> Shape:
    columns = {n: [row[n] for row in table.rows if n < len(row)] for n in range(len(table.header))}
    read = {n: read_label(cell.text) for n, cell in enumerate(table.header)}
    labels = {n: label and _settled(label, table, columns[n]) for n, label in read.items()}
    labels |= {n: _rate(columns[n]) for n, cell in enumerate(table.header) if cell.text.lower() == "throughput"}
    texts = {n: [cell.text for cell in columns[n] if not is_nothing(cell.text)] for n in columns}
    # A column "GPU" may say which they are, and not how many; one "Hardware" how many they are, too.
    for n in [n for n, label in labels.items() if label is not None and label.key == "gpus"]:
        counted = any(count_in_cell(text) or isinstance(read_number(text), Number) for text in texts[n])
        is_kind = not counted and any(map(accelerator, texts[n]))
        labels[n] = Label("accelerator") if is_kind else labels[n]
    if not any(label is not None and label.key in {"gpus", "nodes"} for label in labels.values()):
        labels |= {n: Label("gpus") for n in _counting(labels, texts)}
    keys = [label.key for label in labels.values() if label is not None]
    doubled = sorted({key for key in keys if keys.count(key) > 1 and key != "notes"})
    if "gpus" not in keys and "nodes" not in keys and not (counted and JUDGED & set(keys)):
        figures = [key for key in keys if key in FIGURES]
        return NoBaseline("has figures, and no GPU counts" if figures else "has no GPU counts")
    if doubled:
        return NoBaseline(f"has two columns that mean {doubled[0]}")
    if any(key in FIGURES for key in keys):
        return ByRun(labels)
    unknown = [table.header[n].text for n in labels if labels[n] is None and read[n] is None]
    measured = [text for text in unknown if is_measured(text)]
    measured += [table.header[n].text for n in labels if labels[n] is None and read[n] is not None]
    if measured:
        return NoBaseline(f"has no figure that is known: what '{measured[0]}' is, and in which unit, is not said")
    if any(key in CONFIGURATION - _OF_BATCH for key in keys):
        return Configurations(labels)
    return NoBaseline("has GPU counts, and neither figures nor settings of a run")


def _rate(cells: Sequence[Cell]) -> Label | None:
    """What a bare "throughput" is, where the units of its cells all say it."""
    found = [number for cell in cells if isinstance(number := read_number(cell.text), Number)]
    for key in (TOKENS_PER_S.key, SAMPLES_PER_S.key, TOKENS_PER_S_PER_GPU):
        own = {unit for unit in UNITS[key] if key != TOKENS_PER_S_PER_GPU or "gpu" in unit}
        if found and all(number.unit.lower().removeprefix("k") in own for number in found):
            return Label(key)
    return None


def _counting(labels: Labels, texts: Mapping[int, Sequence[str]]) -> list[int]:
    """The column at least half of whose cells say how many of which GPUs they are about: ``8x H100``, ``64 GPUs``."""
    candidates = [n for n, label in labels.items() if label is None or label.key == "accelerator"]
    counts = {n: [text for text in texts[n] if count_in_cell(text) and _GPUS_IN_CELL.search(text)] for n in candidates}
    found = [n for n in candidates if counts[n] and 2 * len(counts[n]) >= len(texts[n])]
    return found if len(found) == 1 else []


_GPUS_IN_CELL = re.compile(rf"{ACCELERATOR.pattern}|(?:gpus?|chips)(?![a-z])|(?:x |^)v4-", re.IGNORECASE)


#: A table of these alone is about something else, such as the memory that they take.
_OF_BATCH = frozenset({"global_batch_size", "sequence_length"})


def _settled(label: Label, table: Table, cells: Sequence[Cell]) -> Label | None:
    """What a bare "time" or "speed" is, by what the table is about and by the units of its cells."""
    if label.key == "speed":
        units = {found.unit.lower() for cell in cells if isinstance(found := read_number(cell.text), Number)}
        return Label(STEP_TIME.key, label.unit) if units & {"s", "sec", "ms"} else None
    if label.key != "time_s":
        return label
    about = " ".join((*table.headings[-1:], *table.captions)).lower()
    if "checkpoint" in about:
        return Label(SAVE_TIME.key, label.unit) if "sav" in about or "writ" in about else None
    of_steps = re.search(r"step|iteration|train", about) and not re.search(r"data|download|compil|load|setup", about)
    return Label(STEP_TIME.key, label.unit) if of_steps else None
