"""Rows from tables: each figure with its place, settings joined to it, and nothing guessed silently."""

from __future__ import annotations

import enum
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal

from pytest_gsw.documents.importing.cells import (
    Number,
    Unreadable,
    is_nothing,
    is_out_of_memory,
    joined_digits,
    plain,
    read_number,
    to_seconds,
)
from pytest_gsw.documents.importing.labels import (
    CONFIGURATION,
    DTYPE,
    FIGURES,
    JUDGED,
    Label,
    accelerator,
    attribute_name,
    gpu_count,
    is_measured,
    read_label,
)
from pytest_gsw.documents.importing.markdown import Cell, Document, Table, Unread
from pytest_gsw.documents.importing.shapes import ByRun, ByScale, Configurations, NoBaseline, Scale, shape_of
from pytest_gsw.documents.importing.titles import Title, is_model, read_title, settings
from pytest_gsw.tables.metrics import SAVE_TIME, STEP_TIME
from pytest_gsw.tables.stated import Stated

_TIMES = frozenset({STEP_TIME.key, SAVE_TIME.key})
_COUNTS = CONFIGURATION | {"gpus", "nodes", "gpus_per_node"}


@dataclass(frozen=True)
class Remark:
    """Something about a cell that a reader of the tables must know: what it says, and what was made of it."""

    line: int
    column: int
    #: ``step_time_s``, or another key.
    key: str
    message: str


@dataclass(frozen=True)
class Draft:
    """One row as far as its own table says."""

    values: Mapping[str, Stated]
    #: Columns of the document that have no key, by the name that they get.
    attributes: Mapping[str, str] = field(default_factory=dict)
    #: Cells that are there and cannot be read, by key: a blank in the YAML, with this reason.
    blanks: Mapping[str, str] = field(default_factory=dict)
    remarks: tuple[Remark, ...] = ()
    #: Keys of which the row's own table says that there is none.
    absent: frozenset[str] = frozenset()
    #: Why its cells may be of other columns, until an identity proves that they are not.
    doubt: str = ""


@dataclass(frozen=True)
class DraftTable:
    """The rows of one table, in the document's order."""

    table: Table
    title: Title
    #: The title as one line of text.
    text: str
    rows: tuple[Draft, ...]


@dataclass(frozen=True)
class Configuration:
    """One row of a configuration table: settings for the runs that it fits."""

    table: Table
    #: The table's title as one line of text.
    text: str
    values: Mapping[str, Stated]
    dtypes: frozenset[str]
    model: str
    size: str
    accelerator: str
    variant: str
    absent: frozenset[str]


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
    for whole in document.tables:
        table, rest = _until_next_header(whole)
        if rest is not None:
            left_out.append(rest)
        shape = shape_of(table)
        if isinstance(shape, NoBaseline):
            left_out.append(Unread(table.line, table.header[0].text, shape.reason))
        elif isinstance(shape, Configurations):
            configurations += _configurations(table, shape)
            left_out += _settings_left_out(table, shape)
        else:
            drafted = _by_scale(table, shape) if isinstance(shape, ByScale) else _by_run(table, shape)
            if drafted.rows:
                tables.append(drafted)
                left_out += _parts_left_out(table, shape)
            else:
                left_out.append(Unread(table.line, drafted.text, "has no row with a figure to judge by"))
    return Extracted(tuple(tables), tuple(configurations), tuple(sorted(left_out, key=lambda one: one.line)))


def _parts_left_out(table: Table, shape: ByScale | ByRun) -> Iterator[Unread]:
    """Columns and rows that hold something and are not read."""
    if isinstance(shape, ByRun):
        for number, label in shape.labels.items():
            text = table.header[number].text
            if label is None and is_measured(text):
                reason = "is kept as an attribute: what it is, and in which unit, is not known"
                yield Unread(table.line, text, reason, "column")
        return
    read = {scale.column for scale in shape.scales}
    for number, cell in enumerate(table.header[1:], 1):
        filled = any(number < len(row) and row[number].text for row in table.rows)
        if number not in read and filled:
            yield Unread(cell.line, cell.text, "has no GPU count that can be read", "column")
    for number, row in enumerate(table.rows):
        if number not in shape.labels and any(cell.text for cell in row):
            yield Unread(row[0].line, row[0].text, "is no figure and no setting that is known", "row")


def _settings_left_out(table: Table, shape: Configurations) -> Iterator[Unread]:
    """Rows of settings that no run can be told to have."""
    column = next(n for n, label in shape.labels.items() if label is not None and label.key in {"gpus", "nodes"})
    for row in table.rows:
        reason = _misplaced(row, table)
        if reason is None and not isinstance(read_number(row[column].text), Number):
            reason = f"has no GPU count that can be read: '{row[column].text}'"
        if reason is not None and any(cell.text for cell in row):
            yield Unread(row[0].line, row[0].text, reason, "row")


def _until_next_header(table: Table) -> tuple[Table, Unread | None]:
    """The table up to a row that is the header of another one, whose row of dashes was lost."""
    for number, row in enumerate(table.rows):
        if any(gpu_count(cell.text) is not None for cell in row[1:]) and any(
            gpu_count(cell.text) is not None for cell in table.header[1:]
        ):
            reason = "has no row of dashes below its header; its rows are not read"
            return replace(table, rows=table.rows[:number]), Unread(row[0].line, row[0].text, reason)
    return table, None


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
    title = _context(table, _with_heading(read_title(table.header[0].text), table))
    rows = [_column(table, shape, scale, title) for scale in shape.scales]
    return DraftTable(table, title, _title_text(table, of_runs=False), tuple(row for row in rows if row is not None))


def _with_heading(title: Title, table: Table) -> Title:
    """The title with the size, the dtype and a known model that only the heading above it names."""
    about = _of_heading(read_title(" ".join((*table.headings[-1:], *table.captions))))
    nameless = read_label(table.header[0].text) is not None or not title.model
    return replace(
        title,
        model=about.model if nameless else title.model,
        size=title.size or (about.size if nameless or about.model == title.model else ""),
        dtype=title.dtype or about.dtype,
    )


def _column(table: Table, shape: ByScale, scale: Scale, title: Title) -> Draft | None:
    """The row at one GPU count; ``None`` where the column has no figure."""
    place = (scale.header.line, scale.header.column)
    values = {key: Stated(text, table.line, table.header[0].column) for key, text in title.settings.items()}
    values |= {key: Stated(text, *place) for key, text in settings(scale.header.text).items()}
    values |= _scale_values(scale, title, place)
    variant = read_title(scale.header.text).variant
    if variant and not title.variant and "strong-scaling" in variant:
        values["variant"] = Stated("strong-scaling", *place)
    draft = Draft(values)
    for number, label in shape.labels.items():
        row = table.rows[number]
        misplaced = _misplaced(row, table)
        if misplaced:
            draft = _blank(draft, label.key, row[0], misplaced) if label.key in FIGURES else draft
        elif scale.column < len(row):
            share = _share_of(cell.text for cell in row[1:]) if label.key == "mfu" else Share.MIXED
            draft = _take(draft, label, row[scale.column], share)
    if not any(key in FIGURES for key in (*draft.values, *draft.blanks)):
        return None
    return draft if JUDGED & {*draft.values, *draft.blanks} else None


def _scale_values(scale: Scale, title: Title, place: tuple[int, int]) -> dict[str, Stated]:
    found = {"gpus": scale.gpus, "nodes": scale.nodes, "accelerator": scale.accelerator or title.accelerator}
    return {key: Stated(str(value), *place) for key, value in found.items() if value}


def _misplaced(row: Sequence[Cell], table: Table) -> str | None:
    """Why a row's cells cannot be told to their columns, ``None`` where they can.

    A cell that was lost moves those behind it one column to the left, and nothing shows it; so a row that is
    shorter than its header is not read. Empty cells beyond the header are harmless, unless another row of the
    table has something there: then it is the header that has lost a cell.
    """
    width = len(table.header)
    beyond = any(cell.text for other in table.rows for cell in other[width:])
    if len(row) < width or (len(row) > width and beyond):
        return f"the row has {len(row)} cells and the header {width}: its cells cannot be told to their columns"
    return None


def _by_run(table: Table, shape: ByRun) -> DraftTable:
    text = _title_text(table, of_runs=True)
    title = _context(table, _of_heading(read_title(text)))
    memory = re.search(r"(?<![0-9])([0-9]{2,3})[ ]?GB nodes", text)
    names = _attribute_names(table)
    shares = [n for n, label in shape.labels.items() if label is not None and label.key == "mfu"]
    share = _share_of(row[n].text for row in table.rows for n in shares if n < len(row))
    rows = []
    for row in table.rows:
        if not any(cell.text for cell in row):
            continue
        draft = _run(table, shape, row, share, names)
        if draft is None:
            continue
        if memory:
            draft = replace(draft, values={**draft.values, "memory": Stated(memory[1], row[0].line, row[0].column)})
        rows.append(draft)
    return DraftTable(table, title, text, tuple(rows))


def _of_heading(title: Title) -> Title:
    """What a heading says of runs; its words name a model only with a size, or where the family is known."""
    named = bool(title.size) or is_model(title.model)
    return replace(title, model=title.model if named else "", variant="")


def _run(table: Table, shape: ByRun, row: Sequence[Cell], share: Share, names: Sequence[str]) -> Draft | None:
    """One run; ``None`` where the row holds neither a GPU count nor a figure, such as a sub-heading."""
    width = len(table.header)
    judged = [n for n, label in shape.labels.items() if label is not None and label.key in FIGURES]
    draft = Draft({})
    lacks_figures = bool(judged) and len(row) <= max(judged)
    if len(row) != width:
        reason = f"the row has {len(row)} cells and the header {width}: its cells cannot be told to their columns"
        if lacks_figures or len(row) > width:
            gpus = next(n for n, label in shape.labels.items() if label and label.key in {"gpus", "nodes"})
            if gpus >= len(row) or is_nothing(row[gpus].text):
                return None
            return Draft({}, remarks=(Remark(row[0].line, row[0].column, "row", f"left out: {reason}"),))
        draft = replace(draft, doubt=reason)
    for number, label in shape.labels.items():
        if number >= len(row):
            continue
        if label is None:
            name = names[number]
            if not is_nothing(row[number].text) or row[number].text.lower() == "na":
                draft = replace(draft, attributes={**draft.attributes, name: row[number].text})
        else:
            draft = _take(draft, label, row[number], share)
    counted = {"gpus", "nodes"} & {*draft.values, *draft.blanks}
    failed = "expected_failure" in draft.values
    return draft if counted and (failed or JUDGED & {*draft.values, *draft.blanks}) else None


def _attribute_names(table: Table) -> list[str]:
    """The names that columns have as attributes; of several with one name, each after the first has a number."""
    names = [attribute_name(cell.text) for cell in table.header]
    earlier = [names[:number].count(name) for number, name in enumerate(names)]
    return [f"{name}_{number + 1}" if number else name for name, number in zip(names, earlier, strict=True)]


def _configurations(table: Table, shape: Configurations) -> Iterator[Configuration]:
    about = _context(table, _of_heading(read_title(" ".join((*table.headings[-1:], *table.captions)))))
    for row in table.rows:
        if _misplaced(row, table):
            continue
        draft = Draft({})
        words: dict[str, str] = {}
        for number, label in shape.labels.items():
            if label is None:
                continue
            if label.key in _COUNTS:
                draft = _take(draft, label, row[number], Share.MIXED)
            else:
                words[label.key] = row[number].text
        named, sized = read_title(words.get("model", "")), read_title(words.get("size", ""))
        model = named.model or about.model
        size = sized.size or named.size or about.size
        values = {key: stated for key, stated in draft.values.items() if key in _COUNTS}
        if size:
            values["size"] = Stated(size, row[0].line, row[0].column)
        yield Configuration(
            table=table,
            text=_title_text(table, of_runs=True),
            values=values,
            dtypes=frozenset(match[0].lower() for match in DTYPE.findall(words.get("dtype", ""))),
            model=model if is_model(model) else "",
            size=size,
            accelerator=accelerator(words.get("accelerator", "")) or about.accelerator,
            variant=about.variant,
            absent=draft.absent,
        )


def _take(draft: Draft, label: Label, cell: Cell, share: Share) -> Draft:
    """The draft with what one cell says.

    Args:
        draft: The row so far.
        label: What the cell's row or column is about.
        cell: The cell.
        share: How its row or column writes shares.
    """
    key = label.key
    if key in {"notes", "model", "size", "dtype", "accelerator", "framework"}:
        known = {k: v for k, v in draft.values.items() if k != key}
        if is_nothing(cell.text):
            return replace(draft, values=known, absent=draft.absent | {key})
        return _set(_with_precision(draft, key, cell), key, cell, cell.text)
    if key in JUDGED and is_out_of_memory(cell.text):
        return _set(draft, "expected_failure", cell, "out_of_memory")
    number = read_number(cell.text)
    # "FSDP 0" is not used; "FSDP 1" says that it is, not in groups of what size.
    least = 2 if key == "fsdp" else 1
    unused = isinstance(number, Number) and key in CONFIGURATION and number.value < least
    if number is None or unused:
        kept = {k: v for k, v in draft.values.items() if k != key}
        return replace(draft, values=kept, absent=draft.absent | {key})
    if isinstance(number, Unreadable):
        return _unreadable(draft, key, cell)
    if number.mark:
        draft = _remark(draft, key, cell, f"'{cell.text}' carries a footnote mark, which may restrict it")
    text = _in_unit(key, number, label.unit, share)
    if text is None:
        return _unreadable(draft, key, cell)
    if key == "mfu" and not number.unit and label.unit != "%" and share is not Share.PERCENT:
        what = "has no percent sign" if text == f"{number.digits}%" else "is a fraction, as all cells of its kind"
        draft = _remark(draft, key, cell, f"'{cell.text}' {what}: taken as {text}")
    return _set(draft, key, cell, text)


def _with_precision(draft: Draft, key: str, cell: Cell) -> Draft:
    """The draft that keeps what a precision such as ``FP8-CS`` says beside its dtype."""
    if key != "dtype" or DTYPE.fullmatch(cell.text) is None or DTYPE.fullmatch(cell.text)[2] is None:  # type: ignore[index]
        return draft
    return replace(draft, attributes={**draft.attributes, "precision": cell.text})


def _in_unit(key: str, number: Number, unit: str, share: Share) -> str | None:
    """A number's digits in the unit of its key; ``None`` where it has another kind of unit, or is impossible."""
    if number.value <= 0:
        return None
    if key in _TIMES:
        return to_seconds(number, unit)
    if key == "mfu":
        return _percentage(replace(number, unit=number.unit or unit), share)
    if key in _COUNTS:
        return None if number.unit or number.value != int(number.value) else str(int(number.value))
    expected = {
        "days_to_train_1t_tokens": {"", "d", "day", "days"},
        "tokens_per_s": {"", "tok/s", "tokens/s"},
        "tokens_per_s_per_gpu": {"", "tok/s", "tokens/s", "tok/s/gpu", "tokens/s/gpu"},
        "samples_per_s": {"", "samples/s", "it/s"},
        "tflops_per_gpu": {"", "tflops", "tflop/s", "tflop/s/gpu", "tf"},
    }
    return number.digits if number.unit.lower() in expected.get(key, {""}) else None


class Share(enum.Enum):
    """How the cells of a share, such as MFU, are written."""

    #: None with a percent sign, and none above one.
    FRACTION = "fraction"
    #: None with a percent sign, all above one, and more than one of them.
    PERCENT = "percent"
    #: With percent signs, or not alike: each cell must say what it is.
    MIXED = "mixed"


def _share_of(texts: Iterable[str]) -> Share:
    numbers = [found for text in texts if isinstance(found := read_number(text), Number)]
    if not numbers or any(number.unit for number in numbers):
        return Share.MIXED
    if all(number.value <= 1 for number in numbers):
        return Share.FRACTION
    return Share.PERCENT if len(numbers) > 1 and all(number.value > 1 for number in numbers) else Share.MIXED


def _percentage(number: Number, share: Share) -> str | None:
    if number.unit == "%":
        return f"{number.digits}%" if number.value <= 100 else None
    if number.unit:
        return None
    if share is Share.FRACTION:
        return f"{plain(number.value.scaleb(2))}%"
    return f"{number.digits}%" if 1 < number.value <= 100 else None


def _set(draft: Draft, key: str, cell: Cell, text: str) -> Draft:
    return replace(draft, values={**draft.values, key: Stated(text, cell.line, cell.column)})


def _remark(draft: Draft, key: str, cell: Cell, message: str) -> Draft:
    return replace(draft, remarks=(*draft.remarks, Remark(cell.line, cell.column, key, message)))


def _blank(draft: Draft, key: str, cell: Cell, reason: str) -> Draft:
    remarked = _remark(draft, key, cell, f"left blank: {reason}")
    kept = {k: v for k, v in remarked.values.items() if k != key}
    return replace(remarked, values=kept, blanks={**draft.blanks, key: reason})


def _unreadable(draft: Draft, key: str, cell: Cell) -> Draft:
    """The cell stays as written for now; an identity may prove what its digits are, see :func:`repaired`."""
    blanked = replace(draft, blanks={**draft.blanks, key: f"the cell reads '{cell.text}'"})
    kept = {k: v for k, v in blanked.values.items() if k != key}
    return replace(blanked, values={**kept, f"unread.{key}": Stated(cell.text, cell.line, cell.column)})


def repaired(draft: Draft) -> Draft:
    """The draft with the cells that an identity proves; the others stay blank, each with a remark.

    ``8.7  5`` is 8.75 where sequence length * GBS / 8.75 s is the documented throughput to its last digit.
    """
    for key in [name.removeprefix("unread.") for name in draft.values if name.startswith("unread.")]:
        stated = draft.values[f"unread.{key}"]
        kept = {k: v for k, v in draft.values.items() if k != f"unread.{key}"}
        digits = joined_digits(stated.text)
        proof = None if digits is None else _proof(key, digits, kept)
        cell = Cell(stated.text, stated.line, stated.column)
        if digits is None or proof is None:
            message = f"left blank: the cell reads '{stated.text}'"
            draft = _remark(replace(draft, values=kept), key, cell, message)
        else:
            blanks = {k: v for k, v in draft.blanks.items() if k != key}
            message = f"the cell reads '{stated.text}': it is {digits}, as {proof}"
            draft = _remark(_set(replace(draft, values=kept, blanks=blanks), key, cell, digits), key, cell, message)
    return draft


def proven(draft: Draft) -> bool:
    """Whether the figures of a row agree with each other, so that none of its cells is of another column.

    Two of them are enough: the step time, and a throughput that follows from it to within one percent.
    """
    numbers = {
        key: Decimal(stated.text) for key, stated in draft.values.items() if re.fullmatch(r"[0-9.]+", stated.text)
    }
    seconds, batch = numbers.get("step_time_s"), numbers.get("global_batch_size")
    if seconds is None or batch is None or seconds <= 0:
        return False
    tokens = batch * numbers.get("sequence_length", Decimal(0))
    follows = {
        "samples_per_s": batch / seconds,
        "tokens_per_s": tokens / seconds,
        "tokens_per_s_per_gpu": tokens / seconds / (numbers.get("gpus") or 1),
    }
    stated = [key for key in follows if key in numbers]
    return bool(stated) and all(
        abs(numbers[key] / follows[key] - 1) < Decimal("0.01") for key in stated if follows[key]
    )


def _proof(key: str, digits: str, values: Mapping[str, Stated]) -> str | None:
    """The identity that proves a cell's digits, as text; ``None`` where there is none or it says otherwise."""
    other = {"step_time_s": "tokens_per_s", "tokens_per_s": "step_time_s"}.get(key)
    needed = ("sequence_length", "global_batch_size", other or "")
    if other is None or any(name not in values for name in needed):
        return None
    sequence, batch, known = (values[name].text for name in needed)
    tokens = Decimal(sequence) * Decimal(batch)
    stated = known if key == "step_time_s" else digits
    seconds = digits if key == "step_time_s" else known
    unit = Decimal(1).scaleb(int(Decimal(stated).as_tuple().exponent))
    if Decimal(seconds) <= 0 or abs(tokens / Decimal(seconds) - Decimal(stated)) > unit:
        return None
    return f"{sequence} * {batch} / {seconds} = {stated}"
