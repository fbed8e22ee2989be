"""A row as it is drafted from the cells of a table: each value with its place, and remarks on what is unclear."""

from __future__ import annotations

import enum
import re
from collections.abc import Iterable, Mapping
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
from pytest_gsw.documents.importing.labels import CONFIGURATION, DTYPE, JUDGED, Label
from pytest_gsw.documents.importing.markdown import Cell
from pytest_gsw.tables.metrics import (
    DAYS_TO_TRAIN,
    MFU,
    SAMPLES_PER_S,
    SAVE_TIME,
    STEP_TIME,
    TFLOPS_PER_GPU,
    TOKENS_PER_S,
    TOKENS_PER_S_PER_GPU,
)
from pytest_gsw.tables.yamlfile import Stated

_TIMES = frozenset({STEP_TIME.key, SAVE_TIME.key})
COUNTS = CONFIGURATION | {"gpus", "nodes", "gpus_per_node"}


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


def take(draft: Draft, label: Label, cell: Cell, share: Share) -> Draft:
    """The draft with what one cell says."""
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
    if key == MFU.key and not number.unit and label.unit != "%" and share is not Share.PERCENT:
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
    if key == MFU.key:
        return _percentage(replace(number, unit=number.unit or unit), share)
    if key in COUNTS:
        return None if number.unit or number.value != int(number.value) else str(int(number.value))
    expected = {
        DAYS_TO_TRAIN.key: {"", "d", "day", "days"},
        TOKENS_PER_S.key: {"", "tok/s", "tokens/s"},
        TOKENS_PER_S_PER_GPU: {"", "tok/s", "tokens/s", "tok/s/gpu", "tokens/s/gpu"},
        SAMPLES_PER_S.key: {"", "samples/s", "it/s"},
        TFLOPS_PER_GPU.key: {"", "tflops", "tflop/s", "tflop/s/gpu", "tf"},
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


def share_of(texts: Iterable[str]) -> Share:
    """How the numbers of a column of shares are written."""
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


def blank(draft: Draft, key: str, cell: Cell, reason: str) -> Draft:
    """The draft without this value, and with the reason why."""
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
    seconds, batch = numbers.get(STEP_TIME.key), numbers.get("global_batch_size")
    if seconds is None or batch is None or seconds <= 0:
        return False
    tokens = batch * numbers.get("sequence_length", Decimal(0))
    follows = {
        SAMPLES_PER_S.key: batch / seconds,
        TOKENS_PER_S.key: tokens / seconds,
        TOKENS_PER_S_PER_GPU: tokens / seconds / (numbers.get("gpus") or 1),
    }
    stated = [key for key in follows if key in numbers]
    return bool(stated) and all(
        abs(numbers[key] / follows[key] - 1) < Decimal("0.01") for key in stated if follows[key]
    )


def _proof(key: str, digits: str, values: Mapping[str, Stated]) -> str | None:
    """The identity that proves a cell's digits, as text; ``None`` where there is none or it says otherwise."""
    other = {STEP_TIME.key: TOKENS_PER_S.key, TOKENS_PER_S.key: STEP_TIME.key}.get(key)
    needed = ("sequence_length", "global_batch_size", other or "")
    if other is None or any(name not in values for name in needed):
        return None
    sequence, batch, known = (values[name].text for name in needed)
    tokens = Decimal(sequence) * Decimal(batch)
    stated = known if key == STEP_TIME.key else digits
    seconds = digits if key == STEP_TIME.key else known
    unit = Decimal(1).scaleb(int(Decimal(stated).as_tuple().exponent))
    if Decimal(seconds) <= 0 or abs(tokens / Decimal(seconds) - Decimal(stated)) > unit:
        return None
    return f"{sequence} * {batch} / {seconds} = {stated}"
