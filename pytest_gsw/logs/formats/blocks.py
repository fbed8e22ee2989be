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
from typing import Any

from pytest_gsw.common.blocks import BOX, LONGEST_PATTERN, PROGRAMS, Block, Pattern, anywhere, normalized
from pytest_gsw.logs.formats.base import BuiltIn, FigureParser
from pytest_gsw.logs.scan import is_wanted, label_of, number, quoted_text

#: Thousands by commas alone: "1,5" is 1.5 in half of the world.
_NUMBER = re.compile(
    r"(\+?(?:\d{1,3}(?:,\d{3}){1,6}|\d{1,20})(?:\.\d{0,25})?(?:[eE][-+]?\d{1,3})?)([kKMGT]?)[,;]?", re.ASCII
)
_FACTORS = {"": 1.0, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
#: Cells that hold no number.
_EMPTY_CELLS = frozenset({"N/A", "NA", "-"})
_WORD = re.compile(r"[^\W_]")
_RANK = re.compile(r"\b[Rr](?:ank|ANK)[ =:#]{0,2}(\d{1,7})\b")
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
    first, *cells = [cell.strip() for cell in BOX.split(line.strip())]
    return [] if first or not cells or cells[-1] else cells[:-1]


def _cells(line: str) -> list[str]:
    """The cells of a row: between the lines of a box, else between blanks."""
    return _boxed(line) or [word for word in normalized(line).split() if word not in {":", "="}]


def _value(text: str) -> float | None:
    """The positive number in a text, alone."""
    found = _NUMBER.fullmatch(text)
    value = 0.0 if found is None else (number(found[1].encode()) or 0.0) * _FACTORS[found[2]]
    return value if 0 < value < math.inf else None


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
        self._values: list[float] = []
        self._by_rank: Counter[int | None] = Counter()
        #: By the launcher's label: an open table's heading, and its first row.
        self._tables: dict[int | None, list[str]] = {}
        self._begun = 0
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
            self._tables[label] = [raw]
        elif table is not None and _WORD.search(line):
            table[1:] = [raw]
            self._add(label, raw, line, table[0])
        elif table is not None and len(table) > 1:  # a blank line or a rule behind rows
            del self._tables[label]

    def _add(self, label: int | None, raw: str, line: str, heading: str = "") -> None:
        """Add the figures of a line, or of a row of a table, if it is one of the block's."""
        if self._line is not None and self._line.has_number:
            texts = self._line.numbers(line)
        else:
            texts = [self._cell(raw, heading)] if self._line is None or self._line.matches(line) else []
        rank = _RANK.search(line) if texts and label is None else None
        for text in texts:
            if self._block.unit_in is not None and self._block.unit_in not in f"{heading} {line}":
                self._fail(f"no {self._block.unit_in!r} in the line or its heading", line)
            self.attempts = 1
            self._by_rank[label if rank is None else int(rank[1])] += 1
            value = _value(text)
            if value is None:
                self._fail("no single positive number at its place", line)
            self._values.append((value or 0.0) * self._block.times)

    def _cell(self, raw: str, heading: str) -> str:
        """The cell of the column; empty if a row has none, or another process has written into it."""
        cells, names, column = _cells(raw), _cells(heading), self._block.column or ""
        place = int(column) if column.isdecimal() else names.index(column) + 1 if names.count(column) == 1 else 0
        is_longer = not column.isdecimal() and len(cells) > len(names)
        between = cells[self._words : place] if heading and self._words and not BOX.search(raw) else ()
        is_torn = any(cell not in _EMPTY_CELLS and number(cell.encode()) is None for cell in between)
        return cells[place - 1] if 0 < place <= len(cells) and not is_longer and not is_torn else ""

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
            fault = fault or (None if found is not None else f"no whole JSON document, or no number at {block.json}")
        elif self._is_text:
            values = [1.0]
        counts = set(self._by_rank.values())
        if fault is None and self._missing:
            fault = f"{next(iter(self._missing))!r} is not in it"
        elif fault is None and is_open:
            fault = "its last table has no end"
        elif fault is None and len(values) != block.each:
            shown = ", ".join(f"{value:g}" for value in values[:8])
            fault = f"{len(values)} figures, and the table's 'each' is {block.each}: {shown}"
        elif fault is None and len(counts) > 1:
            fault = f"some ranks print {min(counts)} figures, others {max(counts)}"
        elif fault is None and self._begun not in {0, 1, block.each}:
            fault = f"{self._begun} runs, or headings, of {block.each} figures"
        figures = {} if fault else {self._key: [_STATISTICS[block.statistic or "last"](values)]}
        return figures, fault


def _in_documents(text: str, keys: Sequence[str]) -> list[float] | None:
    """The numbers at a path in all JSON documents of a text; ``None`` if one is broken, or is no number."""
    found, begin = list[Any](), _DOCUMENT.search(text)
    try:
        while begin is not None:
            document, end = json.JSONDecoder().raw_decode(text, begin.start(1))
            found += _at(document, keys)
            begin = _DOCUMENT.search(text, end)
    except (ValueError, RecursionError):
        return None
    values = [None if isinstance(value, bool) else _value(str(value)) for value in found]
    return None if None in values else [value for value in values if value is not None]


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
