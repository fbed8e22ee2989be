"""A figure whose place a table declares, see :class:`~pytest_gsw.common.blocks.Block`.

The number is a positive one: ``18400``, ``18,400``, ``1.84e4``, ``18.4k``. Each of these makes the run invalid: another
text at its place, more or fewer figures than ``each``, ranks that do not print equally often, the heading of a further
run, a text that is refused or missing.
"""

from __future__ import annotations

import json
import math
import re
import statistics
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from operator import itemgetter
from typing import Any, NamedTuple

from pytest_gsw.common.blocks import BOX, LONGEST_PATTERN, PROGRAMS, Block, Pattern, anywhere, normalized
from pytest_gsw.logs.formats.base import BuiltIn, FigureParser
from pytest_gsw.logs.scan import is_wanted, label_of, number, quoted_text

#: Thousands by commas alone: "1,5" is 1.5 in half of the world.
_NUMBER = re.compile(
    r"(\+?(?:\d{1,3}(?:,\d{3}){1,6}|\d{1,20})(?:\.\d{0,25})?(?:[eE][-+]?\d{1,3})?)([kKMGT]?)[,;]?", re.ASCII
)
_FACTORS = {"": 1.0, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
#: A row of more cells is none of a box; and the most figures in a message.
_MOST_CELLS, _MOST_SHOWN = 64, 8
#: Cells that hold no number.
_EMPTY_CELLS = frozenset({"N/A", "NA", "-"})
_WORD = re.compile(r"[^\W_]")
_RANK = re.compile(r"[Rr](?<!\w[Rr])(?:ank|ANK)[ =:#]{0,2}(\d{1,7})\b")
_STATISTICS: Mapping[str, Callable[[Sequence[float]], float]] = {
    "last": itemgetter(-1),
    "min": min,
    "max": max,
    "median": statistics.median,
    "mean": statistics.fmean,
}
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
    searched = block.line or block.after or block.json or block.require[0]
    parser = partial(_Parser, block, key, name)
    return BuiltIn(name, ((b"",),), parser, shows_progress=False, wraps=True, content="figure", searched=searched)


def _boxed(line: str) -> list[str]:
    """The cells of a row between the lines of a box."""
    stripped = line.strip()
    cells = [cell.strip() for cell in BOX.split(stripped, _MOST_CELLS)] if BOX.match(stripped) else [""]
    return [] if cells[-1] else cells[1:-1]


def _cells(raw: str, line: str) -> list[str]:
    """The cells of a row: between the lines of a box, else between blanks."""
    return _boxed(raw) or [word for word in line.split() if word not in {":", "="}]


def _value(text: str) -> float | None:
    """The positive number in a text, alone."""
    found = _NUMBER.fullmatch(text)
    value = 0.0 if found is None else (number(found[1].encode()) or 0.0) * _FACTORS[found[2]]
    return value if 0 < value < math.inf else None


class _Table(NamedTuple):
    """An open table: what its heading says, and whether it has rows."""

    #: The place of the column, from 1; 0 if the heading does not have it once.
    place: int
    #: The most cells of a row, if the column is a word of the heading.
    width: float
    has_unit: bool
    has_rows: bool = False


class _Parser(FigureParser):
    def __init__(self, block: Block, key: str, name: str) -> None:
        super().__init__(name)
        self._block, self._key = block, key
        self._line = None if block.line is None else Pattern(block.line)
        #: The number of words before the numbers of a table's row, if they are known.
        self._words = len((block.line or "").partition("*")[0].split())
        self._after = None if block.after is None else anywhere(block.after)
        #: A program's own lines, each of which begins a run, as the heading of a table does.
        self._sign = PROGRAMS.get(name) if block.after is None else None
        self._missing = {text: anywhere(text) for text in block.require}
        self._refused = {text: anywhere(text) for text in block.refuse}
        self._is_text = block.line is block.after is block.json is None
        unit = "" if block.unit_in is None else re.escape(block.unit_in)
        self._unit = re.compile(rf"(?:(?<![^\W\d_])(?<!/)|(?=\W)){unit}(?:(?![\w/])|(?<=\W))")
        self._values: list[float] = []
        self._by_rank: Counter[int | None] = Counter()
        #: The open tables by the launcher's label.
        self._tables: dict[int | None, _Table] = {}
        self._begun = self._count = 0
        #: A row of a box, with its label: lines with a text in the first cell alone continue that cell.
        self._held: tuple[int | None, list[str]] | None = None
        #: The lines from the first JSON document on, and the characters that it may still have.
        self._document: list[str] = []
        self._left = _LONGEST_DOCUMENT
        self._fault: str | None = None

    def feed(self, offset: int, record: bytes) -> None:
        self._begun += self._sign is not None and is_wanted(record, (self._sign,))
        label, unlabelled = label_of(record)
        raw = unlabelled.decode("utf-8", "replace")
        row, held = _boxed(raw), self._held
        if held is not None and row[1:] and not any(row[1:]) and held[0] == label and len(held[1][0]) < LONGEST_PATTERN:
            held[1][0] += f" {row[0]}"
            return
        self._read_held()
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
        line = normalized(raw)
        found = [text for text, pattern in self._missing.items() if pattern.matches(line)]
        for text in found:
            del self._missing[text]
        refused = next((text for text, pattern in self._refused.items() if pattern.matches(line)), None)
        if refused is not None:
            self._fail(f"{refused!r} is in it", line)
        if self._is_text and (found or refused):
            self.attempts = 1
        if self._block.json is not None:
            if self._document or _DOCUMENT.match(raw):
                self.attempts = 1
                self._left -= len(raw)
                self._document += [raw] if self._left > 0 else []
        elif self._after is not None:
            self._feed_table(label, raw, line)
        elif self._line is not None:
            self._add(label, raw, line)

    def _feed_table(self, label: int | None, raw: str, line: str) -> None:
        table = self._tables.get(label)
        if self._after is not None and self._after.matches(line):
            self._begun += 1
            self._tables[label] = self._table(raw, line)
        elif table is not None and _WORD.search(line):
            self._tables[label] = table._replace(has_rows=True)
            self._add(label, raw, line, table)
        elif table is not None and table.has_rows:  # a blank line or a rule behind rows
            del self._tables[label]

    def _table(self, raw: str, line: str) -> _Table:
        names, column, has_unit = _cells(raw, line), self._block.column or "", self._has_unit(line)
        if column.isdecimal():
            return _Table(int(column), math.inf, has_unit)
        return _Table(names.index(column) + 1 if names.count(column) == 1 else 0, len(names), has_unit)

    def _has_unit(self, line: str) -> bool:
        return self._block.unit_in is None or self._unit.search(line) is not None

    def _add(self, label: int | None, raw: str, line: str, table: _Table | None = None) -> None:
        """Add the figures of a line, or of a row of a table, if it is one of the block's."""
        if self._line is not None and self._line.has_number:
            texts = self._line.numbers(line)
        else:
            texts = [self._cell(raw, line, table)] if self._line is None or self._line.matches(line) else []
        rank = _RANK.search(line) if texts and label is None else None
        for text in texts:
            if not (table is not None and table.has_unit) and not self._has_unit(line):
                self._fail(f"no {self._block.unit_in!r} in the line or its heading", line)
            self.attempts = 1
            self._by_rank[label if rank is None else int(rank[1])] += 1
            value = _value(text)
            if value is None:
                self._fail("no single positive number at its place", line)
            self._count += 1
            if self._count <= self._block.each + _MOST_SHOWN:
                self._values.append((value or 0.0) * self._block.times)

    def _cell(self, raw: str, line: str, table: _Table | None) -> str:
        """The cell of the column; empty if a row has none, or another process has written into it."""
        cells = _cells(raw, line)
        place, width = (int(self._block.column or 0), math.inf) if table is None else table[:2]
        between = cells[self._words : place] if table is not None and self._words and not BOX.search(raw) else ()
        is_torn = any(cell not in _EMPTY_CELLS and number(cell.encode()) is None for cell in between)
        return cells[place - 1] if 0 < place <= len(cells) <= width and not is_torn else ""

    def _fail(self, why: str, line: str) -> None:
        """Record a fault; the first one counts."""
        self._fault = self._fault or f"{why}: {quoted_text(line.encode())[:200]}"

    def result(self) -> tuple[Mapping[str, Sequence[float]], str | None]:
        is_open = self._held is not None and self._name in PROGRAMS
        self._read_held()
        values, block, fault = self._values, self._block, self._fault
        if block.json is not None:
            found = _in_documents("\n".join(self._document), _KEYS.findall(block.json)) if self._left > 0 else None
            values = [value * block.times for value in found or ()]
            self._count = len(values)
            fault = fault or (None if found is not None else f"no whole JSON document, or no number at {block.json}")
        elif self._is_text:
            values, self._count = [1.0], 1
        counts = set(self._by_rank.values())
        if fault is None and self._missing:
            fault = f"{next(iter(self._missing))!r} is not in it"
        elif fault is None and is_open:
            fault = "its last table has no end"
        elif fault is None and self._count != block.each:
            shown = ", ".join(f"{value:g}" for value in values[:_MOST_SHOWN])
            fault = f"{self._count} figures, and the table's 'each' is {block.each}: {shown}"
        elif fault is None and len(counts) > 1:
            fault = f"some ranks print {min(counts)} figures, others {max(counts)}"
        elif fault is None and self._begun not in {0, 1, block.each}:
            fault = f"{self._begun} runs, or headings, of {block.each} figures"
        figures = {} if fault else {self._key: [_STATISTICS[block.statistic or "last"](values)]}
        return figures, fault


def _in_documents(text: str, keys: Sequence[str]) -> list[float] | None:
    """The numbers at a path in all JSON documents of a text; ``None`` if one is broken, or is no number."""
    found, begin, decoder = list[Any](), _DOCUMENT.search(text), json.JSONDecoder(object_pairs_hook=_unique)
    try:
        while begin is not None:
            document, end = decoder.raw_decode(text, begin.start(1))
            found += _at(document, keys)
            begin = _DOCUMENT.search(text, end)
    except (ValueError, RecursionError):
        return None
    values = [None if isinstance(value, bool) else _value(str(value)) for value in found]
    return None if None in values else [value for value in values if value is not None]


def _unique(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object, in which a name that is there twice has no value."""
    found = dict(pairs)
    if len(found) < len(pairs):
        found |= {name: None for name, count in Counter(name for name, _ in pairs).items() if count > 1}
    return found


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
    for one in inner:
        yield from _at(one, keys[1:])
