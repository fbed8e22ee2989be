"""A figure whose place a table declares, see :class:`~pytest_gsw.common.blocks.Block`.

The number is a positive one: ``18400``, ``18,400``, ``1.84e4``, ``18.4k``. Each of these makes the run invalid: another
text at its place, more or fewer figures than ``each``, ranks that do not print equally often, the heading of a further
run, a text that is refused or missing.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from pytest_gsw.common.blocks import BOX, LONGEST_PATTERN, PROGRAMS, Block, Expression, Pattern, anywhere, normalized
from pytest_gsw.logs.formats.base import BuiltIn, FigureParser
from pytest_gsw.logs.scan import is_wanted, label_of, number, quoted_text
from pytest_gsw.logs.steps import STATISTICS

_NUMBER = re.compile(r"(\+?\d(?:[\d,]{0,25}\d)?(?:\.\d{0,25})?(?:[eE][-+]?\d{1,3})?)([kKMGT]?)[,;]?", re.ASCII)
_FACTORS = {"": 1.0, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
#: A row of more cells is none of a box; and the most figures in a message.
_MOST_CELLS, _MOST_SHOWN = 64, 8
#: Cells that hold no number, and words that are no cells.
_EMPTY_CELLS, _NO_CELLS = frozenset({"N/A", "NA", "-"}), frozenset({":", "=", "#"})
#: Names in a heading may have single blanks; what is in parentheses is a remark on the cell before it.
_WIDE, _REMARK = re.compile(r"\s{2,}|\t"), re.compile(r"\s\([^()]*\)")
#: The last line of a box.
_BORDER = re.compile(r"[+\u2514-\u2517\u2558-\u255a\u2570][^\w|]*")
_WORD = re.compile(r"[^\W_]")
_RANK = re.compile(r"[Rr](?<!\w[Rr])(?:ank|ANK)[ =:#]{0,2}(\d{1,7})\b")
#: A document begins with a line of a brace alone, or of one before a name.
_DOCUMENT = re.compile(r'^[ \t]*(\{)[ \t]*(?:"|$)', re.MULTILINE)
_LONGEST_DOCUMENT = 8 << 20
_KEYS = re.compile(r"[^][.]+")


def block_format(block: Block, key: str, name: str) -> BuiltIn:
    """The log format of a block.

    Args:
        block: The block.
        key: The key of its figure in :attr:`~pytest_gsw.logs.model.StepLog.figures`.
        name: The name for messages: ``read``, or a program's.
    """
    searched = block.line or block.pattern or block.after or block.json or block.require[0]
    parser = partial(_Parser, block, key, name)
    return BuiltIn(name, ((b"",),), parser, shows_progress=False, wraps=True, content="figure", searched=searched)


def _boxed(line: str) -> list[str]:
    """The cells of a row between the lines of a box."""
    cells = [cell.strip() for cell in BOX.split(line, _MOST_CELLS)] if BOX.match(line) else [""]
    return [] if cells[-1] else cells[1:-1]


def _divided(raw: str) -> tuple[list[str], list[str]]:
    """The cells of a row or of a heading, divided at two blanks or more, and at each; or those of a box, twice."""
    if row := _boxed(raw):
        return row, row
    text = raw.replace("|", "  ").strip()
    wide, narrow = _WIDE.split(text), _REMARK.sub("", text).split()
    wide, narrow = ([cell for cell in cells if cell not in _NO_CELLS] for cells in (wide, narrow))
    return wide if len(wide) > 1 else narrow, narrow


def _value(text: str) -> float | None:
    """The positive number in a text, alone."""
    match = _NUMBER.fullmatch(text)
    value = 0.0 if match is None else (number(match[1].encode()) or 0.0) * _FACTORS[match[2]]
    return value if 0 < value < math.inf else None


class _Table(NamedTuple):
    """An open table: what its heading says, and whether it has rows."""

    #: The cells of the heading, by each division; none if the column is not in it once. Empty without ``after``, where
    #: the heading is the last line of words above a row.
    headings: Sequence[list[str]]
    has_unit: bool
    has_rows: bool = False


class _Parser(FigureParser):
    def __init__(self, block: Block, key: str, name: str) -> None:
        super().__init__(name)
        self._block, self._key = block, key
        self._line = None if block.line is None else Pattern(block.line)
        #: Searched for in lines as they are, with their blanks and boxes.
        self._expression = None if block.pattern is None else Expression(block.pattern)
        self._column = block.column or ""
        #: The number of words before the numbers of a table's row, if they are known.
        self._words = len((block.line or "").partition("*")[0].split())
        self._after = None if block.after is None else anywhere(block.after)
        #: The first line of a program.
        self._sign = PROGRAMS.get(name)
        self._required = {text: anywhere(text) for text in block.require}
        self._missing = {**self._required}
        self._refused = {text: anywhere(text) for text in block.refuse}
        self._is_text = block.line is block.pattern is block.after is block.json is None
        unit = "" if block.unit_in is None else re.escape(block.unit_in)
        self._unit = re.compile(rf"(?:(?<![^\W\d_])(?<!/)|(?=\W)){unit}(?:(?![\w/])|(?<=\W))")
        self._values: list[float] = []
        self._by_rank: Counter[int | None] = Counter()
        #: The open tables by the launcher's label.
        self._tables: dict[int | None, _Table] = {}
        #: The first row without ``after``, as which all are divided.
        self._first_row: list[str] = []
        #: The number of headings and of first lines, each of which begins a run.
        self._headings = self._starts = 0
        #: A row of a box, with its label: lines with a text in the first cell alone continue that cell.
        self._held: tuple[int | None, list[str]] | None = None
        #: By label, the numbers of cells and of characters of the first row of a box.
        self._boxes: dict[int | None, tuple[int, int]] = {}
        #: The characters of a box that a figure or a text is in, until its last line.
        self._open: dict[int | None, int] = {}
        #: The lines from the first JSON document on, and the characters that it may still have.
        self._document: list[str] = []
        self._left = _LONGEST_DOCUMENT
        self._fault: str | None = None

    def feed(self, offset: int, record: bytes) -> None:
        if self._fault is not None or len(self._values) > self._block.each:
            return  # nothing behind it makes the run valid
        if self._sign is not None and is_wanted(record, (self._sign,)):
            self._starts += 1
            self._missing = {**self._required}  # what is before it is not the program's, such as the text of a script
        label, unlabelled = label_of(record)
        raw = unlabelled.decode("utf-8", "replace")
        if self._expression is not None:
            self._read(label, raw)
            return
        raw = raw.strip()
        row, held = _boxed(raw), self._held
        if held is not None and row[1:] and not any(row[1:]) and held[0] == label and len(held[1][0]) < LONGEST_PATTERN:
            held[1][0] += f" {row[0]}"
            return
        self._read_held()
        if row:
            self._boxes.setdefault(label, (len(row), len(raw)))
        elif not raw or _WORD.search(raw) or _BORDER.fullmatch(raw):
            self._boxes.pop(label, None)
        if len(raw) == self._open.get(label) and _BORDER.fullmatch(raw):
            del self._open[label]
        if any(row[1:]):
            self._held = (label, row)
        else:
            self._read(label, raw)

    def _read_held(self) -> None:
        """Read the last row of a box, to which no further line belongs."""
        if self._held is not None:
            label, row = self._held
            self._held = None
            self._read(label, f"|{'|'.join(row)}|")

    def _read(self, label: int | None, raw: str) -> None:
        line, count = normalized(raw), len(self._values)
        missing = [text for text, pattern in self._missing.items() if pattern.matches(line)]
        for text in missing:
            del self._missing[text]
        refused = next((text for text, pattern in self._refused.items() if pattern.matches(line)), None)
        if refused is not None:
            self._fail(f"{refused!r} is in it", line)
        self.attempts |= self._is_text and bool(missing)
        if self._block.json is not None:
            if self._document or _DOCUMENT.match(raw):
                self.attempts = 1
                self._left -= len(raw)
                self._document += [raw] if self._left > 0 else []
        elif self._after is not None:
            self._feed_table(label, raw, line)
        elif self._line is not None and self._column and not self._line.matches(line):
            if _WORD.search(line):
                self._tables[label] = _Table((), self._has_unit(line))
        elif not self._is_text:
            self._add(label, raw, line, self._tables.get(label))
        if (missing or len(self._values) > count) and label in self._boxes:
            self._open[label] = self._boxes[label][1]

    def _feed_table(self, label: int | None, raw: str, line: str) -> None:
        table = self._tables.get(label)
        if self._after is not None and self._after.matches(line):
            self._headings += 1
            self._tables[label] = self._table(raw, line)
        elif table is not None and _WORD.search(line):
            self._tables[label] = table._replace(has_rows=True)
            self._add(label, raw, line, table)
        elif table is not None and table.has_rows:  # a blank line or a rule behind rows
            del self._tables[label]

    def _table(self, raw: str, line: str) -> _Table:
        headings, column = _divided(raw), self._column
        if column.isdecimal():
            return _Table(headings[:1], self._has_unit(line))
        return _Table([cells if cells.count(column) == 1 else [] for cells in headings], self._has_unit(line))

    def _has_unit(self, line: str) -> bool:
        return self._block.unit_in is None or self._unit.search(line) is not None

    def _add(self, label: int | None, raw: str, line: str, table: _Table | None = None) -> None:
        """Add the figures of a line, or of a row of a table, if it is one of the block's."""
        if self._expression is not None:
            texts = self._expression.numbers(raw)
        elif self._line is not None and self._line.has_number:
            texts = self._line.numbers(line)
        else:
            is_row = self._line is None or self._line.matches(line)
            texts = [self._cell(raw, line, self._headings_of(raw, table))] if is_row else []
        rank, row = _RANK.search(line) if texts and label is None else None, () if self._expression else _boxed(raw)
        for text in texts:
            if not (table is not None and table.has_unit) and not self._has_unit(line):
                self._fail(f"no {self._block.unit_in!r} in the line or its heading", line)
            self.attempts = 1
            self._by_rank[label if rank is None else int(rank[1])] += 1
            value = _value(text)
            if value is None or (row[1:] and not self._has_cell(text, row, label)):
                self._fail("no single positive number at its place", line)
            self._values.append((value or 0.0) * self._block.times)

    def _headings_of(self, raw: str, table: _Table | None) -> Sequence[list[str]]:
        """The heading of a row, by each division; without ``after`` the first row, divided at each blank."""
        if table is not None and table.headings:
            return table.headings
        self._first_row = self._first_row or _divided(raw)[1]
        return [], self._first_row

    def _cell(self, raw: str, line: str, headings: Sequence[list[str]]) -> str:
        """The cell of the column; empty if the row has other columns than its heading, or is torn."""
        for names, cells in zip(headings, _divided(raw), strict=False):
            if len(cells) == len(names):
                at = int(self._column) - 1 if self._column.isdecimal() else names.index(self._column)
                between = cells[self._words : at] if self._words and not BOX.search(raw) else ()
                is_torn = any(cell not in _EMPTY_CELLS and number(cell.encode()) is None for cell in between)
                return "" if is_torn else "".join(cells[at : at + 1])
        self._fail("its columns are not those of its heading", line)
        return ""

    def _has_cell(self, text: str, row: Sequence[str], label: int | None) -> bool:
        """True if a row of a box has as many cells as the first one, one of which begins with its only number."""
        words = (cell.split() for cell in row if cell)
        is_alone = {any(map(_value, others)) for first, *others in words if first == text} == {False}
        return is_alone and len(row) == self._boxes[label][0]

    def _fail(self, why: str, line: str) -> None:
        """Record a fault; the first one counts."""
        self.attempts = 1
        self._fault = self._fault or f"{why}: {quoted_text(line.encode())[:200]}"

    def result(self) -> tuple[Mapping[str, Sequence[float]], str | None]:
        self._read_held()
        values, block = self._values, self._block
        if block.json is not None:
            numbers = _in_documents("\n".join(self._document), _KEYS.findall(block.json)) if self._left > 0 else ()
            values = [value * block.times for value in numbers]
        elif self._is_text:
            values = [1.0]
        amount = f"more than {block.each}" if len(values) > block.each else str(len(values))
        shown = ", ".join(f"{value:g}" for value in values[:_MOST_SHOWN])
        counts, begun = self._by_rank.values() or (1,), max(self._headings, self._starts)
        problems = {
            self._fault: self._fault is not None,
            f"no whole JSON document, or no number at {block.json}": block.json and not values,
            f"{begun} runs, or headings, and the table's 'each' is {block.each}": begun not in {0, 1, block.each},
            f"{next(iter(self._missing), '')!r} is not in it": self._missing,
            "its last table has no end": self._open and self._sign is not None,
            f"{amount} figures, and the table's 'each' is {block.each}: {shown}": len(values) != block.each,
            f"some ranks print {min(counts)} figures, others {max(counts)}": min(counts) < max(counts),
        }
        fault = next((why for why, is_there in problems.items() if is_there), None)
        figures = {} if fault else {self._key: [STATISTICS[block.statistic or "last"](values)]}
        return figures, fault


def _in_documents(text: str, keys: Sequence[str]) -> Sequence[float]:
    """The numbers at a path in all JSON documents of a text; none if one is broken, or is no number."""
    documents, begin, decoder = list[Any](), _DOCUMENT.search(text), json.JSONDecoder(object_pairs_hook=_unique)
    try:
        while begin is not None:
            document, end = decoder.raw_decode(text, begin.start(1))
            documents += _at(document, keys)
            begin = _DOCUMENT.search(text, end)
    except (ValueError, RecursionError):
        return ()
    values = [value for value in map(_value, map(str, documents)) if value is not None]
    return values if len(values) == len(documents) else ()


def _unique(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object, in which a name that is there twice has no value."""
    counts = Counter(name for name, _ in pairs)
    return {name: value if counts[name] == 1 else None for name, value in pairs}


def _at(value: Any, keys: Sequence[str]) -> Iterator[Any]:
    """The values at a path: names of an object, places of a list, or ``*`` for each."""
    if not keys:
        yield value
        return
    inner: list[Any] = []
    if isinstance(value, list):
        inner = value if keys[0] == "*" else value[int(keys[0]) :][:1] if keys[0].isdecimal() else []
    elif isinstance(value, dict) and keys[0] in value:
        inner = [value[keys[0]]]
    for place in inner:
        yield from _at(place, keys[1:])
