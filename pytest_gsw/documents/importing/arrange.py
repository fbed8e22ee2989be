"""Tables become plain ones, in which a row or a column is one run: turned, divided, and cells of two runs parted.

Each step takes a table and gives the tables that it holds; what a step does not know, it leaves as it is.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

from pytest_gsw.documents.importing.cells import Number, is_nothing, read_number
from pytest_gsw.documents.importing.labels import (
    ACCELERATOR,
    CONFIGURATION,
    DTYPE,
    FIGURES,
    JUDGED,
    Label,
    accelerator,
    count_in_cell,
    gpu_count,
    is_compared,
    is_no_run,
    node_count,
    read_label,
)
from pytest_gsw.documents.importing.markdown import Cell, Table
from pytest_gsw.documents.importing.titles import is_model, read_title
from pytest_gsw.tables.metrics import TFLOPS_PER_GPU

#: Words above columns that say nothing of the runs below them.
_OF_ALL = re.compile(r"(?:(?:training|measured|expected) )?(?:performance|throughput|results?|metrics?)", re.IGNORECASE)
_UNIT_CELL = re.compile(
    r"[\[(][^\[\]()0-9]{1,24}[\])]|(?:m?s|msec|sec(?:onds)?|%|#|k?tok(?:ens)?/s(?:ec)?(?:/gpu)?|samples/s(?:ec)?|tflops?(?:/s)?"
    r"(?:/gpu)?)",
    re.IGNORECASE,
)
_PREFIXED = re.compile(
    rf"(?P<group>[0-9]+(?:\.[0-9]+)?[ ]?B|{ACCELERATOR.pattern}|{DTYPE.pattern})[ :-]+(?P<label>.+)", re.IGNORECASE
)
_PAIR = re.compile(r"([^()]{1,40}?)[ ]?\(([^()]{1,40})\)")
_FIGURES = frozenset(FIGURES)
#: Figures that tell runs apart: an MFU of BF16 and one of FP8 may be of one run.
_OF_RUNS = JUDGED | {TFLOPS_PER_GPU.key}


def arranged(table: Table, of_one_gpu: Collection[str] = ()) -> tuple[Table, ...]:
    """The plain tables that a table holds; abbreviations ``of_one_gpu`` are its document's for tokens/s/GPU."""
    tables: tuple[Table, ...] = (_spelt_out(table, of_one_gpu),)
    for step in (_with_units, _turned, _by_corner, _parted_columns, _by_heading, _by_group, _by_pair):
        tables = tuple(part for one in tables for part in step(one))
    return tables


def _spelt_out(table: Table, of_one_gpu: Collection[str]) -> Table:
    """The table with the names of columns and rows that its document defines."""

    def spelt(cell: Cell) -> Cell:
        return replace(cell, text="Tokens/s/GPU") if cell.text.lower() in of_one_gpu else cell

    rows = tuple((spelt(row[0]), *row[1:]) if row else row for row in table.rows)
    return replace(table, header=tuple(map(spelt, table.header)), rows=rows) if of_one_gpu else table


def _with_units(table: Table) -> Iterator[Table]:
    """The table whose columns have the units that its first row holds: ``[ms]``."""
    first = table.rows[0] if table.rows else ()
    texts = [cell.text for cell in first]
    is_units = len(first) == len(table.header) and all(is_nothing(text) or _UNIT_CELL.fullmatch(text) for text in texts)
    if not is_units or all(map(is_nothing, texts)):
        yield table
        return
    header = tuple(
        cell if not set(text) - set("[]()-#") else replace(cell, text=f"{cell.text} ({text.strip('[]()')})")
        for cell, text in zip(table.header, texts, strict=True)
    )
    yield replace(table, header=header, rows=table.rows[1:])


def _parted_columns(table: Table) -> Iterator[Table]:
    """The table with a column for each name of "TP/PP/CP"; ``4/8/2`` below it is three cells."""
    names = {n: _parts_of_name(cell.text) for n, cell in enumerate(table.header)}
    if not any(names.values()) or table.groups:
        yield table
        return
    header = tuple(part for n, cell in enumerate(table.header) for part in _split(cell, names[n]))
    rows = tuple(
        tuple(part for n, cell in enumerate(row) for part in _split(cell, names[n]))
        if len(row) == len(table.header)
        else row[: len(table.header) - 1]
        for row in table.rows
    )
    yield replace(table, header=header, rows=rows)


def _parts_of_name(text: str) -> int:
    """How many settings or figures a column's name has, all of which are known; 0 where it is one name."""
    if read_label(text) is not None:
        return 0
    for sign, keys in ((" / ", CONFIGURATION | _FIGURES), ("/", CONFIGURATION)):
        labels = [read_label(part) for part in text.split(sign)]
        if len(labels) > 1 and all(label is not None and label.key in keys for label in labels):
            return len(labels)
    return 0


def _split(cell: Cell, parts: int) -> tuple[Cell, ...]:
    """A cell at its slashes; one that has not as many stands in each place, where nothing can read it."""
    texts = [text.strip() for text in cell.text.split("/")] if parts else []
    if len(texts) != parts:
        return (replace(cell, text=cell.text if is_nothing(cell.text) else f"{cell.text} ({parts} columns)"),) * parts
    return tuple(replace(cell, text=text) for text in texts) if parts else (cell,)


def _turned(table: Table) -> Iterator[Table]:
    """The table with its runs as rows, where they are columns and the GPU count is a row."""
    keys = {label.key for row in table.rows if row for label in (read_label(row[0].text),) if label is not None}
    names = _runs(table)
    is_by_run = any(
        gpu_count(cell.text) or node_count(cell.text) or is_nothing(cell.text) or read_label(cell.text)
        for cell in names
    )
    is_even = all(len(row) == len(table.header) for row in table.rows)
    if not {"gpus", "nodes"} & keys or not _FIGURES & keys or is_by_run or not is_even or not names:
        yield table
        return
    first = replace(table.header[0], text=_what_they_name(names) or table.header[0].text)
    columns = tuple(zip(*table.rows, strict=True))
    rows = tuple((name, *cells) for name, cells in zip(table.header, columns, strict=True) if name in names)
    yield replace(table, header=(first, *columns[0]), rows=rows, groups=())


def _runs(table: Table) -> list[Cell]:
    """The names of the columns that are runs: they have a GPU count, and are no target and no difference."""
    labels = ((row, read_label(row[0].text)) for row in table.rows if row)
    counts = [row for row, label in labels if label is not None and label.key in {"gpus", "nodes"}]
    counted = [n for row in counts for n, cell in enumerate(row) if isinstance(read_number(cell.text), Number)]
    counted += [n for row in counts for n, cell in enumerate(row) if count_in_cell(cell.text)]
    names = [cell for n, cell in enumerate(table.header) if n and n in counted and not is_no_run(cell.text)]
    return [cell for cell in names if not is_compared(cell.text)] or names


def _by_corner(table: Table) -> Iterator[Table]:
    """A table for each row, where the first column's name is the figure and the others' are GPU counts."""
    figure = read_label(table.header[0].text)
    counts = [gpu_count(cell.text) is not None or node_count(cell.text) is not None for cell in table.header[1:]]
    rows = [row for row in table.rows if row]
    known = any(read_label(row[0].text) is not None or not row[0].text for row in rows)
    if figure is None or figure.key not in _FIGURES or not counts or not all(counts) or known:
        yield table
        return
    for row in rows:
        line = (replace(row[0], text=table.header[0].text), *row[1:])
        yield replace(table, header=(row[0], *table.header[1:]), rows=(line,), about=(*table.about, row[0].text))


def _what_they_name(names: Sequence[Cell]) -> str | None:
    """What the names of runs are, as a column's name; ``None`` where that is not known."""
    titles = [read_title(cell.text) for cell in names]
    if all(title.size or is_model(title.model) for title in titles):
        return "Model"
    if all(accelerator(cell.text) for cell in names):
        return "Accelerator"
    return "Precision" if all(DTYPE.fullmatch(cell.text) for cell in names) else None


def _by_heading(table: Table) -> Iterator[Table]:
    """The table divided at rows of one cell, which say what the rows below them are about."""
    rows: list[tuple[Cell, ...]] = []
    about: tuple[str, ...] = table.about
    for row in table.rows:
        if not _is_heading(row, table):
            rows.append(row)
            continue
        if rows:
            yield replace(table, rows=tuple(rows), about=about)
        rows = []
        about = (*table.about, row[0].text)
    if rows or not table.rows:
        yield replace(table, rows=tuple(rows), about=about)


def _is_heading(row: Sequence[Cell], table: Table) -> bool:
    """Whether only a row's first cell has text, which names a model, a dtype, an accelerator or a size of model."""
    if len(table.header) < 2 or not row or any(cell.text for cell in row[1:]):
        return False
    title = read_title(row[0].text)
    return bool(title.size or title.dtype or title.accelerator or is_model(title.model))


def _by_group(table: Table) -> Iterator[Table]:
    """The table divided by what stands above its columns, where that tells runs apart."""
    groups, names = _groups(table)
    told = [_is_told(group, name) for group, name in zip(groups, names, strict=True)]
    telling = dict.fromkeys(
        group
        for group, name, is_told in zip(groups, names, told, strict=True)
        if is_told and (label := read_label(name)) is not None and label.key in _OF_RUNS
    )
    if not all(map(is_compared, telling)):
        telling = {group: None for group in telling if not is_compared(group)}
        told = [is_told and not is_compared(group) for group, is_told in zip(groups, told, strict=True)]
    header = []
    for group, name, is_told, cell in zip(groups, names, told, table.header, strict=True):
        whole = cell.text if not table.groups else f"{group} {name}".strip()
        is_plain = _OF_ALL.fullmatch(group) or group in telling or (is_told and table.groups)
        header.append(replace(cell, text=name if is_plain else whole))
    whole_table = replace(table, header=tuple(header), groups=())
    if not telling:
        yield whole_table
    for group in telling:
        kept = [n for n, is_told in enumerate(told) if not is_told or groups[n] == group or groups[n] not in telling]
        rows = tuple(_of_columns(row, kept, len(header)) for row in table.rows)
        yield replace(whole_table, header=tuple(header[n] for n in kept), rows=rows, about=(*table.about, group))


def _groups(table: Table) -> tuple[Sequence[str], Sequence[str]]:
    """What stands above each column, or before its name, and the names without it."""
    texts = [cell.text for cell in table.header]
    if table.groups:
        return table.groups, texts
    found = [_PREFIXED.fullmatch(text) if read_label(text) is None else None for text in texts]
    labels = [None if match is None else read_label(match["label"]) for match in found]
    keys = [label.key for label in labels if label is not None and label.key in FIGURES]
    if not any(keys.count(key) > 1 for key in keys):
        return [""] * len(texts), texts
    groups = ["" if match is None else match["group"] for match in found]
    return groups, [text if match is None else match["label"] for match, text in zip(found, texts, strict=True)]


def _is_told(group: str, name: str) -> bool:
    """Whether a column is of the runs that stand above it."""
    if not group or read_label(name) is None or _OF_ALL.fullmatch(group) or is_no_run(group):
        return False
    return read_label(f"{group} {name}") is None


def _of_columns(row: Sequence[Cell], kept: Sequence[int], width: int) -> tuple[Cell, ...]:
    """The cells of some columns; a row that is short or long stays so, because its cells cannot be told."""
    return tuple(row[n] for n in kept) if len(row) == width else tuple(row[: len(kept) - 1])


def _by_pair(table: Table) -> Iterator[Table]:
    """The table of what stands before parentheses, and those of what stands in them, where cells hold two runs.

    A row proves that by two precisions, or by two settings: one figure in parentheses may be anything.
    """
    labels = [read_label(cell.text) for cell in table.header]
    pairs = {n: found for n, row in enumerate(table.rows) if (found := _pairs(row, labels))}
    keys = {n: {key for key, _ in found.values()} for n, found in pairs.items()}
    parted = [n for n in pairs if keys[n] & _FIGURES]
    if not any(keys[n] - _FIGURES for n in parted):
        yield table
        return
    yield replace(
        table, rows=tuple(_part(row, pairs[n], 1) if n in parted else row for n, row in enumerate(table.rows))
    )
    abouts = {
        n: next((match[2] for key, match in pairs[n].values() if key == "dtype"), "in parentheses") for n in parted
    }
    for about in dict.fromkeys(abouts.values()):
        second = tuple(_part(table.rows[n], pairs[n], 2) for n in parted if abouts[n] == about)
        yield replace(table, rows=second, about=(*table.about, about))


def _pairs(row: Sequence[Cell], labels: Sequence[Label | None]) -> dict[int, tuple[str, re.Match[str]]]:
    """The cells that hold two of what their column is about: ``FP8 (BF16)``, ``64 (0)``, ``3986 (3546)``."""
    found = {}
    for n, (cell, label) in enumerate(zip(row, labels, strict=False)):
        match = _PAIR.fullmatch(cell.text)
        if match is None or label is None:
            continue
        if label.key == "dtype" and DTYPE.fullmatch(match[1]) and DTYPE.fullmatch(match[2]):
            found[n] = (label.key, match)
        first, second = read_number(match[1]), read_number(match[2])
        if not isinstance(first, Number) or not isinstance(second, Number):
            continue
        if label.key in CONFIGURATION or (label.key in FIGURES and first.value < 4 * second.value < 16 * first.value):
            found[n] = (label.key, match)
    return found


def _part(row: Sequence[Cell], pairs: Mapping[int, tuple[str, re.Match[str]]], which: int) -> tuple[Cell, ...]:
    """The cells of one of two runs; what has no parentheses is the same for both."""
    return tuple(
        replace(cell, text=pairs[n][1][which].strip(), column=cell.column + pairs[n][1].start(which))
        if n in pairs
        else cell
        for n, cell in enumerate(row)
    )
