"""Rows from tables: each figure with its place, settings joined to it, and nothing guessed silently."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from pytest_gsw.common.words import rounded
from pytest_gsw.documents.importing.around import Around, counted
from pytest_gsw.documents.importing.arrange import arranged
from pytest_gsw.documents.importing.cells import Number, is_nothing, read_number
from pytest_gsw.documents.importing.draft import COUNTS, Draft, Share, share_of, take
from pytest_gsw.documents.importing.labels import (
    CONFIGURATION,
    DTYPE,
    FIGURES,
    JUDGED,
    Label,
    accelerator,
    attribute_name,
    count_in_cell,
    gpu_count,
    is_made_of_rows,
    is_measured,
    node_count,
    of_one_gpu,
    read_label,
)
from pytest_gsw.documents.importing.markdown import Cell, Document, Table, Unread
from pytest_gsw.documents.importing.row_names import names_runs, with_names
from pytest_gsw.documents.importing.shapes import ByRun, ByScale, Configurations, Labels, NoBaseline, Scale, shape_of
from pytest_gsw.documents.importing.surroundings import Surroundings
from pytest_gsw.documents.importing.titles import Title, is_model, read_title, settings
from pytest_gsw.tables.metrics import MFU
from pytest_gsw.tables.yamlfile import Stated


@dataclass(frozen=True)
class DraftTable:
    """The rows of one table, in the document's order."""

    table: Table
    title: Title
    #: The title as one line of text.
    text: str
    rows: tuple[Draft, ...]
    #: What stands around it.
    around: Around = field(default_factory=Around)


_NONE = Stated("", 0, 0)
#: ``64-512``: a setting for each count from the first to the last.
_RANGE = re.compile(r"([1-9][0-9]{0,6})[ ]?[-\u2013][ ]?([1-9][0-9]{0,6})")
#: ``GPUs``, ``GPUs*16``, ``GPUs/4``.
_OF_GPUS = re.compile(r"GPUs?(?:[ ]?([*/x\u00d7])[ ]?([1-9][0-9]{0,4}))?", re.IGNORECASE)


def _computed(formula: str, gpus: int) -> str:
    """A setting at a GPU count; nothing where it would be no whole number."""
    match = _OF_GPUS.fullmatch(formula)
    sign, number = (match[1], int(match[2])) if match is not None and match[2] else ("*", 1)
    whole, rest = divmod(gpus, number) if sign == "/" else (gpus * number, 0)
    return str(whole) if match is not None and whole and not rest else ""


@dataclass(frozen=True)
class Configuration:
    """One row of a configuration table: settings for the runs that it fits."""

    table: Table
    #: The table's title as one line of text.
    text: str
    values: Mapping[str, Stated]
    dtypes: frozenset[str]
    title: Title
    #: GPU counts that it is for, where it is for several; settings may be of the form ``GPUs/4`` then.
    scales: range = range(0)
    formulas: Mapping[str, Stated] = field(default_factory=dict)

    def at(self, gpus: str) -> Configuration:
        """The configuration at a GPU count; where it is not for that one, as it is."""
        if not gpus.isdigit() or (int(gpus) not in self.scales and self.values.get("gpus", _NONE).text != gpus):
            return self
        found = {key: (_computed(stated.text, int(gpus)), stated) for key, stated in self.formulas.items()}
        values = {key: replace(stated, text=text) for key, (text, stated) in found.items() if text}
        place = next(iter(self.values.values()), Stated("", self.table.line, 1))
        return replace(self, values={"gpus": replace(place, text=gpus), **self.values, **values})

    @property
    def place(self) -> tuple[int, str]:
        """The line and the title of its table."""
        return self.table.line, self.text


@dataclass(frozen=True)
class Extracted:
    """What the tables of a document hold."""

    tables: tuple[DraftTable, ...]
    configurations: tuple[Configuration, ...]
    left_out: tuple[Unread, ...]


def extract(document: Document) -> Extracted:
    """The rows of every table that is one of baselines, and the others with the reason why not."""
    tables: list[DraftTable] = []
    configurations: list[Configuration] = []
    left_out = list(document.unread)
    parts: list[Table] = []
    surroundings = Surroundings(document)
    abbreviations = of_one_gpu(" ".join(document.lines[n - 1] for n in document.prose))
    for whole in document.tables:
        table, rest = _until_next_header(whole)
        if rest is not None:
            left_out.append(rest)
        parts += arranged(table, abbreviations)
    for table in parts:
        around = surroundings.of(table)
        shape = shape_of(table, around.captions, counted=around.states("gpus", "nodes"))
        if isinstance(shape, NoBaseline):
            left_out.append(Unread(table.line, ", ".join((table.header[0].text, *table.about)), shape.reason))
        elif isinstance(shape, Configurations):
            configurations += _configurations(table, shape)
            left_out += _settings_left_out(table, shape)
        else:
            around = replace(around, is_titled=isinstance(shape, ByScale) or bool(table.about))
            drafted = _by_scale(table, shape) if isinstance(shape, ByScale) else _by_run(table, shape.labels, around)
            drafted = replace(drafted, around=around)
            if drafted.rows:
                tables.append(drafted)
                left_out += _parts_left_out(table, shape)
            else:
                text = ", ".join((drafted.text, *table.about))
                left_out.append(Unread(table.line, text, _without_rows(shape, around)))
    return Extracted(tuple(tables), tuple(configurations), tuple(sorted(left_out, key=lambda one: one.line)))


def _without_rows(shape: ByScale | ByRun, around: Around) -> str:
    if isinstance(shape, ByScale) or _scale_column(shape.labels) is not None:
        return "has no row with a figure to judge by"
    _, differing = around.about({}, ("gpus", "nodes"))
    return ": ".join(["has figures, and no GPU counts", *list(differing.values())[:1]])


def _parts_left_out(table: Table, shape: ByScale | ByRun) -> Iterator[Unread]:
    """Columns and rows that hold something and are not read."""
    if isinstance(shape, ByRun):
        for number, label in shape.labels.items():
            text = table.header[number].text
            if label is None and is_measured(text):
                reason = "is kept as an attribute: what it is, and in which unit, is not known"
                yield Unread(table.line, text, reason, "column")
        for row in table.rows:
            if row and is_made_of_rows(row[0].text):
                yield Unread(row[0].line, row[0].text, "is no run: it is made of other rows", "row")
        return
    read = {scale.column for scale in shape.scales}
    for number, cell in enumerate(table.header[1:], 1):
        filled = any(number < len(row) and row[number].text for row in table.rows)
        if number not in read and filled:
            is_counted = gpu_count(cell.text) is not None or node_count(cell.text) is not None
            reason = "is no measured run" if is_counted else "has no GPU count that can be read"
            yield Unread(cell.line, cell.text, reason, "column")
    for number, row in enumerate(table.rows):
        if number not in shape.labels and any(cell.text for cell in row):
            yield Unread(row[0].line, row[0].text, "is no figure and no setting that is known", "row")


def _settings_left_out(table: Table, shape: Configurations) -> Iterator[Unread]:
    """Rows of settings that no run can be told to have."""
    column = _scale_column(shape.labels)
    for row in table.rows:
        reason = _misplaced(row, table)
        text = row[column].text if reason is None and column is not None else None
        if text is not None and not isinstance(read_number(text), Number) and not _RANGE.fullmatch(text):
            reason = f"has no GPU count that can be read: '{text}'"
        if reason is not None and any(cell.text for cell in row):
            yield Unread(row[0].line, row[0].text, reason, "row")


def _until_next_header(table: Table) -> tuple[Table, Unread | None]:
    """The table up to a row that is the header of another one, whose row of dashes was lost."""
    for number, row in enumerate(table.rows) if _counts_gpus(table.header) else ():
        if _counts_gpus(row):
            reason = "has no row of dashes below its header; its rows are not read"
            return replace(table, rows=table.rows[:number]), Unread(row[0].line, row[0].text, reason)
    return table, None


def _counts_gpus(row: Sequence[Cell]) -> bool:
    return any(gpu_count(cell.text) is not None for cell in row[1:])


def _title_text(table: Table, *, of_runs: bool) -> str:
    """The title cell; for tables of runs, the heading and the captions, as their first cell is a column's name."""
    if not of_runs and table.header[0].text:
        return table.header[0].text
    return ", ".join((*table.headings[-1:], *table.captions)) or f"table at line {table.line}"


def _context(table: Table, title: Title) -> Title:
    """The title with what only the headings above it say: the accelerator, and the kind of scaling."""
    about = (*reversed(table.captions), *reversed(table.headings))
    nearest = next(filter(None, map(accelerator, about)), "")
    near = " ".join((*table.captions[-1:], *table.headings[-1:]))
    scaling = re.search(r"strong[ -]scal", near, re.IGNORECASE)
    return replace(
        title,
        accelerator=title.accelerator or nearest,
        variant=title.variant or ("strong-scaling" if scaling else ""),
    )


def _by_scale(table: Table, shape: ByScale) -> DraftTable:
    title = _with_about(_context(table, _with_heading(read_title(table.header[0].text), table)), table)
    rows = (_column(table, shape, scale, title) for scale in shape.scales)
    return DraftTable(table, title, _title_text(table, of_runs=False), tuple(row for row in rows if row is not None))


def _with_heading(title: Title, table: Table) -> Title:
    """The title with the size, the dtype and a known model that only the heading above it names."""
    about = _heading(table)
    nameless = read_label(table.header[0].text) is not None or not title.model
    return replace(
        title,
        model=about.model if nameless else title.model,
        size=title.size or (about.size if nameless or about.model == title.model else ""),
        dtype=title.dtype or about.dtype,
    )


def _heading(table: Table) -> Title:
    """What the heading and the captions say of a table."""
    return _of_heading(read_title(" ".join((*table.headings[-1:], *table.captions))))


def _with_about(title: Title, table: Table) -> Title:
    """The title with what stands above the rows or the columns within their table."""
    for text in table.about:
        part = _of_heading(read_title(text))
        kind = DTYPE.search(text)
        is_told = part.model or part.size or part.dtype or part.accelerator
        variant = "" if is_told else re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:40]
        title = replace(
            title,
            model=part.model or title.model,
            size=part.size or ("" if part.model else title.size),
            dtype=part.dtype or title.dtype,
            accelerator=part.accelerator or title.accelerator,
            variant=(kind[0].lower() if kind and kind[2] else variant) or title.variant,
        )
    return title


def _of_heading(title: Title) -> Title:
    """What a heading says of runs; its words name a model only with a size, or where the family is known."""
    named = bool(title.size) or is_model(title.model)
    return replace(title, model=title.model if named else "", variant="")


def _column(table: Table, shape: ByScale, scale: Scale, title: Title) -> Draft | None:
    """The row at one GPU count; ``None`` where the column has no figure."""
    place = (scale.header.line, scale.header.column)
    values = {key: Stated(text, table.line, table.header[0].column) for key, text in title.settings.items()}
    values |= {key: Stated(text, *place) for key, text in settings(scale.header.text).items()}
    about = {"accelerator": title.accelerator} if title.accelerator else {}
    values |= {key: Stated(text, *place) for key, text in {**about, **scale.values}.items()}
    if not title.variant and "strong-scaling" in read_title(scale.header.text).variant:
        values["variant"] = Stated("strong-scaling", *place)
    draft = Draft(values)
    for number, label in shape.labels.items():
        row = table.rows[number]
        misplaced = _misplaced(row, table)
        if misplaced and label.key in FIGURES:
            draft = draft.remarked(label.key, f"left blank: {misplaced}", row[0]).blanked(label.key, misplaced)
        elif not misplaced and scale.column < len(row):
            share = share_of(cell.text for cell in row[1:]) if label.key == MFU.key else Share.MIXED
            draft = take(draft, label, row[scale.column], share)
    return draft if JUDGED & {*draft.values, *draft.blanks} else None


def _misplaced(row: Sequence[Cell], table: Table) -> str | None:
    """Why a row's cells cannot be told to their columns, ``None`` where they can.

    A cell that was lost moves those behind it one column to the left, and nothing shows it; so a row that is
    shorter than its header is not read. Empty cells beyond the header are harmless, unless another row of the
    table has something there: then it is the header that has lost a cell.
    """
    width = len(table.header)
    beyond = any(cell.text for other in table.rows for cell in other[width:])
    return _uneven(row, width) if len(row) < width or (len(row) > width and beyond) else None


def _uneven(row: Sequence[Cell], width: int) -> str:
    return f"the row has {rounded(len(row), 'cell')} and the header {width}: its cells cannot be told to their columns"


def _by_run(table: Table, labels: Labels, around: Around) -> DraftTable:
    text = _title_text(table, of_runs=True)
    title = _with_about(_context(table, _of_heading(read_title(text))), table)
    memory = re.search(r"(?<![0-9])([0-9]{2,3})[ ]?GB nodes", text)
    names = _attribute_names(table)
    shares = [n for n, label in labels.items() if label is not None and label.key == MFU.key]
    share = share_of(row[n].text for row in table.rows for n in shares if n < len(row))
    naming = [n for n, cell in enumerate(table.header) if labels[n] is None and (n == 0 or names_runs(cell.text))]
    drafts: list[tuple[Draft, Sequence[Cell]]] = []
    for row in table.rows:
        is_run = any(cell.text for cell in row) and not is_made_of_rows(row[0].text)
        draft = _run(row, labels, names, share) if is_run else None
        if draft is not None:
            drafts.append((draft, [row[n] for n in naming if n < len(row)] if draft.values else ()))
    rows = []
    for draft in with_names(drafts):
        at = next(iter(draft.values.values()), None)
        draft = counted(draft, title, around) if at is not None else draft
        if at is None or {"gpus", "nodes"} & {*draft.values, *draft.blanks}:
            rows.append(draft.having("memory", memory[1], at) if memory and at is not None else draft)
        elif _scale_column(labels) is None:
            rows.append(Draft({}).remarked("row", "left out: nothing says how many GPUs it has", at))
    return DraftTable(table, title, text, tuple(rows) if any(row.values for row in rows) else ())


def _run(row: Sequence[Cell], labels: Labels, names: Sequence[str], share: Share) -> Draft | None:
    """One run; ``None`` where the row holds no figure, such as a sub-heading."""
    width = len(names)
    last_figure = max((n for n, label in labels.items() if label is not None and label.key in FIGURES), default=-1)
    if len(row) > width or len(row) <= last_figure:
        telling = _scale_column(labels) or 0
        if telling >= len(row) or is_nothing(row[telling].text):
            return None
        return Draft({}).remarked("row", f"left out: {_uneven(row, width)}", row[0])
    draft = Draft({}, doubt=_uneven(row, width) if len(row) < width else "")
    for number, cell in enumerate(row):
        label = labels[number]
        counted = _counted(label, cell) if label is not None else {}
        if counted:
            draft = replace(draft, values={**counted, **draft.values})
        elif label is not None:
            draft = take(draft, label, cell, share)
        elif not is_nothing(cell.text) or cell.text.lower() == "na":
            draft = replace(draft, attributes={**draft.attributes, names[number]: cell.text})
    known = {*draft.values, *draft.blanks}
    return draft if (JUDGED | {"expected_failure"}) & known else None


def _counted(label: Label, cell: Cell) -> dict[str, Stated]:
    """What a cell of a count says in words: ``64xH100``; nothing where it is a number, or cannot be read."""
    number = read_number(cell.text)
    if label.key not in {"gpus", "nodes"} or number is None or (isinstance(number, Number) and not number.unit):
        return {}
    nodes = node_count(cell.text) if label.key == "nodes" else None
    found = count_in_cell(cell.text) if label.key == "gpus" else {"nodes": str(nodes)} if nodes else {}
    return {key: Stated(text, cell.line, cell.column) for key, text in found.items()}


def _scale_column(labels: Labels) -> int | None:
    """The column of GPU or node counts, where there is one."""
    return next((n for n, label in labels.items() if label is not None and label.key in {"gpus", "nodes"}), None)


def _attribute_names(table: Table) -> list[str]:
    """The names that columns have as attributes; of several with one name, each after the first has a number."""
    names = [attribute_name(cell.text) for cell in table.header]
    earlier = [names[:number].count(name) for number, name in enumerate(names)]
    return [f"{name}_{number + 1}" if number else name for name, number in zip(names, earlier, strict=True)]


def _configurations(table: Table, shape: Configurations) -> Iterator[Configuration]:
    about = _with_about(_context(table, _heading(table)), table)
    for row in table.rows:
        if _misplaced(row, table):
            continue
        draft = Draft({})
        words: dict[str, str] = {}
        scales = range(0)
        formulas: dict[str, Stated] = {}
        for number, label in shape.labels.items():
            cell = row[number]
            if label is not None and label.key == "gpus" and (match := _RANGE.fullmatch(cell.text)):
                scales = range(int(match[1]), int(match[2]) + 1)
            elif label is not None and label.key in CONFIGURATION and _OF_GPUS.fullmatch(cell.text):
                formulas[label.key] = Stated(cell.text, cell.line, cell.column)
            elif label is not None and label.key in COUNTS:
                draft = take(draft, label, cell, Share.MIXED)
            elif label is not None:
                words[label.key] = cell.text
        named, sized = read_title(words.get("model", "")), read_title(words.get("size", ""))
        model = named.model or about.model
        size = sized.size or named.size or about.size
        values = {key: stated for key, stated in draft.values.items() if key in COUNTS}
        if size:
            values["size"] = Stated(size, row[0].line, row[0].column)
        kind = accelerator(words.get("accelerator", "")) or about.accelerator
        title = replace(about, model=model if is_model(model) else "", size=size, accelerator=kind)
        dtypes = frozenset(match[0].lower() for match in DTYPE.findall(words.get("dtype", "")))
        yield Configuration(table, _title_text(table, of_runs=True), values, dtypes, title, scales, formulas)
