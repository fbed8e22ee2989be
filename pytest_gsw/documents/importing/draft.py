"""A row as it is drafted from the cells of a table: each value with its place, and remarks on what is unclear."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from pytest_gsw.documents.importing.cells import (
    UNITS,
    Number,
    Unreadable,
    is_either_comma,
    is_nothing,
    is_out_of_memory,
    other_readings,
    read_number,
    read_steps,
    to_rate,
    to_seconds,
    two_figures,
)
from pytest_gsw.documents.importing.labels import CONFIGURATION, DTYPE, JUDGED, Label
from pytest_gsw.documents.importing.markdown import Cell
from pytest_gsw.tables.metrics import DAYS_TO_TRAIN, MFU, SAMPLES_PER_S, SAVE_TIME, STEP_TIME, THROUGHPUTS
from pytest_gsw.tables.yamlfile import Stated

_TIMES = frozenset({STEP_TIME.key, SAVE_TIME.key})
#: Keys of figures between 1 and 999 as a rule, so that ``8,309`` need not be thousands.
_COMMAS_DOUBTED = _TIMES | {DAYS_TO_TRAIN.key, SAMPLES_PER_S.key}
COUNTS = CONFIGURATION | {"gpus", "nodes", "gpus_per_node"}
_WORDS = frozenset({"notes", "model", "size", "dtype", "accelerator", "framework"})
#: Before a key: its cell cannot be read, and its text is kept until an identity has been asked what its digits are.
UNREAD = "unread."


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
    #: What else a cell may say, by key, in the unit of the key; of an unreadable one, all that it may say.
    readings: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    #: Keys that the row's name states, and no column.
    named: frozenset[str] = frozenset()
    #: Why its cells may be of other columns, until an identity proves that they are not.
    doubt: str = ""

    @property
    def place(self) -> Stated:
        """Where the row stands: its GPU count, or its first value."""
        return self.values.get("gpus") or next(iter(self.values.values()))

    def without(self, key: str) -> Draft:
        """The draft without a value."""
        return replace(self, values={k: v for k, v in self.values.items() if k != key})

    def having(self, key: str, text: str, at: Cell | Stated) -> Draft:
        """The draft with a value."""
        return replace(self, values={**self.values, key: Stated(text, at.line, at.column)})

    def remarked(self, key: str, message: str, at: Cell | Stated) -> Draft:
        """The draft with one more remark."""
        return replace(self, remarks=(*self.remarks, Remark(at.line, at.column, key, message)))

    def blanked(self, key: str, reason: str) -> Draft:
        """The draft with a blank in place of a value."""
        return replace(self.without(key), blanks={**self.blanks, key: reason})


def take(draft: Draft, label: Label, cell: Cell, share: Share) -> Draft:
    """The draft with what one cell says."""
    key = label.key
    if key in _WORDS and not is_nothing(cell.text):
        return _with_precision(draft, key, cell).having(key, cell.text, cell)
    if key in JUDGED and is_out_of_memory(cell.text):
        return draft.having("expected_failure", "out_of_memory", cell)
    if key == "statistic" and not is_nothing(cell.text):
        return _with_statistic(draft, cell)
    number = None if key in _WORDS else read_number(cell.text)
    # "FSDP 0" is not used; "FSDP 1" says that it is, not in groups of what size.
    least = 2 if key == "fsdp" else 1
    unused = isinstance(number, Number) and key in CONFIGURATION and number.value < least
    if number is None or unused:
        return replace(draft.without(key), absent=draft.absent | {key})
    if isinstance(number, Number) and number.mark:
        draft = draft.remarked(key, f"'{cell.text}' carries a footnote mark, which may restrict it", cell)
    if key not in _WORDS:
        draft = replace(draft, readings={**draft.readings, key: _readings(label, cell, share)})
    text = None if isinstance(number, Unreadable) else _in_unit(key, number, label.unit, share)
    if text is None or isinstance(number, Unreadable) or (key in _COMMAS_DOUBTED and is_either_comma(cell.text)):
        return draft.blanked(key, _unread(key, cell.text)).having(UNREAD + key, cell.text, cell)
    if key == MFU.key and not number.unit and label.unit != "%" and share is not Share.PERCENT:
        what = "has no percent sign" if text == f"{number.digits}%" else "is a fraction, as all cells of its kind"
        draft = draft.remarked(key, f"'{cell.text}' {what}: taken as {text}", cell)
    return draft.having(key, text, cell)


def _with_statistic(draft: Draft, cell: Cell) -> Draft:
    """The draft with the statistic of the steps that a cell names."""
    statistic = read_steps(cell.text)
    if statistic is None:
        reason = f"the cell reads '{cell.text}', which is none of the statistics that a row can have"
        return draft.blanked("statistic", reason)
    message = f"the cell reads '{cell.text}': taken as {statistic}"
    return draft.having("statistic", statistic, cell).remarked("statistic", message, cell)


def _readings(label: Label, cell: Cell, share: Share) -> tuple[str, ...]:
    """What a cell may say besides its plain reading, in the unit of its key."""
    texts = list(other_readings(cell.text))
    if label.key in _COMMAS_DOUBTED and is_either_comma(cell.text):
        texts.append(cell.text)
    numbers = (read_number(text) for text in texts)
    read = (_in_unit(label.key, number, label.unit, share) for number in numbers if isinstance(number, Number))
    return tuple(dict.fromkeys(text for text in read if text is not None))


def _unread(key: str, text: str) -> str:
    """Why a cell is left blank, unless an identity proves what it says."""
    reason = f"the cell reads '{text}'"
    two = two_figures(text)
    if two is not None:
        return f"{reason}: two figures, and nothing says which is the row's"
    if is_either_comma(text):
        return f"{reason}: the comma may stand between thousands or before decimals"
    number = read_number(text)
    if key == MFU.key and isinstance(number, Number) and number.value > 100:
        return f"{reason}, which is more than 100 %"
    return reason


def _with_precision(draft: Draft, key: str, cell: Cell) -> Draft:
    """The draft that keeps what a precision such as ``FP8-CS`` says beside its dtype."""
    precision = DTYPE.fullmatch(cell.text) if key == "dtype" else None
    if precision is None or precision[2] is None:
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
    if key in THROUGHPUTS:
        return to_rate(number, unit, UNITS.get(key, ()))
    return number.digits if not number.unit or number.unit.lower() in UNITS.get(key, ()) else None


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
        return f"{number.value.scaleb(2):f}%"
    return f"{number.digits}%" if 1 < number.value <= 100 else None
