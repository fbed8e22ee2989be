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
from typing import Any

from pytest_gsw.common.blocks import BOX, PROGRAMS, Block, Pattern, anywhere, normalized
from pytest_gsw.logs.formats.base import BuiltIn, FigureParser
from pytest_gsw.logs.scan import is_wanted, label_of, number, quoted_text

#: Thousands by commas alone: "1,5" is 1.5 in half of the world.
_NUMBER = re.compile(
    r"(\+?(?:\d{1,3}(?:,\d{3}){1,6}|\d{1,20})(?:\.\d{0,25})?(?:[eE][-+]?\d{1,3})?)([kKMGT]?)[,;]?", re.ASCII
)
_FACTORS = {"": 1.0, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
#: Cells that hold no number.
_EMPTY_CELLS = frozenset({"N/A", "NA", "-", ""})
_WORD = re.compile(r"[^\W_]")
_RANK = re.compile(r"\b[Rr](?:ank|ANK)[ =:#]{0,2}(\d{1,7})\b")
_STATISTICS: Mapping[str | None, Callable[[Sequence[float]], float]] = {
    None: lambda values: values[0],
    "last": lambda values: values[-1],
    "min": min,
    "max": max,
    "median": statistics.median,
    "mean": statistics.fmean,
}
#: A document begins with a line of a brace alone, or of one before a name.
_DOCUMENT = re.compile(r'[ \t]*\{[ \t]*(?:"|$)', re.MULTILINE)
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


def _cells(line: str) -> list[str]:
    """The cells of a row: between the lines of a box, else between blanks."""
    if BOX.search(line):
        return [cell.strip() for cell in BOX.split(line.strip())[1:-1]]
    return [word for word in line.split() if word not in {":", "="}]


def _value(text: str) -> float | None:
    """The positive number in a text, alone."""
    found = _NUMBER.fullmatch(text)
    value = None if found is None else number(found[1].encode())
    return None if found is None or not value or math.isinf(value) else value * _FACTORS[found[2]]


class _Table:
    """The rows below a heading."""

    def __init__(self, heading: str, cells: Sequence[str]) -> None:
        self.heading, self.cells, self.has_rows = heading, cells, False


class _Parser(FigureParser):
    def __init__(self, block: Block, key: str, name: str) -> None:
        super().__init__(name)
        self._block, self._key = block, key
        self._line = None if block.line is None else Pattern(block.line)
        #: The texts before the numbers of a row.
        self._names = len((block.line or "").partition("*")[0].split())
        self._after = None if block.after is None else anywhere(block.after)
        self._sign = PROGRAMS.get(name) if block.after is None else None
        self._missing = {text: anywhere(text) for text in block.require}
        self._refused = {text: anywhere(text) for text in block.refuse}
        self._is_text = block.line is block.after is block.json is None
        self._values: list[float] = []
        self._by_rank: Counter[int | None] = Counter()
        #: The open tables by the launcher's label, and the number of headings, of tables or of a program.
        self._tables: dict[int | None, _Table] = {}
        self._headings = 0
        self._document: list[str] = []
        self._document_size = 0
        self._fault: str | None = None

    def feed(self, offset: int, record: bytes) -> None:
        label, record = label_of(record)
        raw = record.decode("utf-8", "replace")
        line = normalized(raw)
        for text in [text for text, pattern in self._missing.items() if pattern.matches(line)]:
            del self._missing[text]
            self.attempts = max(self.attempts, self._is_text)
        for text, pattern in self._refused.items():
            if pattern.matches(line):
                self._fail(f"{text!r} is in it", line)
                self.attempts = max(self.attempts, self._is_text)
        self._headings += self._sign is not None and is_wanted(record, (self._sign,))
        if self._block.json is not None:
            self._feed_document(raw)
        elif self._after is not None and self._after.matches(line):
            self._headings += 1
            self._tables[label] = _Table(line, _cells(raw))
        elif self._after is not None:
            self._feed_row(label, raw, line)
        elif self._line is not None and self._line.matches(line):
            self._add(label, raw, line, None)

    def _feed_row(self, label: int | None, raw: str, line: str) -> None:
        table = self._tables.get(label)
        if table is not None and not _WORD.search(line):  # a blank line, or a rule
            if table.has_rows:
                del self._tables[label]
        elif table is not None:
            table.has_rows = True
            if self._line is None or self._line.matches(line):
                self._add(label, raw, line, table)

    def _add(self, label: int | None, raw: str, line: str, table: _Table | None) -> None:
        """Add the figures of a line, or of a row of a table."""
        unit = self._block.unit_in
        if unit is not None and unit not in f"{'' if table is None else table.heading} {line}":
            self._fail(f"no {unit!r} in the line or its heading", line)
        named = _RANK.search(line) if label is None else None
        rank = label if named is None else int(named[1])
        if self._block.column is None:
            assert self._line is not None  # a block has one of the two
            texts = self._line.numbers(line)
        else:
            texts = [self._cell(raw, table) or ""]
        for text in texts:
            self.attempts = 1
            self._by_rank[rank] += 1
            value = _value(text)
            if value is None:
                self._fail("no single positive number at its place", line)
            self._values.append((value or 0.0) * self._block.times)

    def _cell(self, raw: str, table: _Table | None) -> str | None:
        """The cell of the column; ``None`` if a row has none, or another process has written into it."""
        cells, column = _cells(raw), self._block.column
        if isinstance(column, str):
            assert table is not None  # a word of its heading
            places = [at for at, name in enumerate(table.cells, 1) if name == column]
            column = places[0] if len(places) == 1 and len(cells) <= len(table.cells) else None
        if column is None or column > len(cells):
            return None
        between = cells[self._names : column] if table is not None and self._names and not BOX.search(raw) else ()
        is_row = all(cell in _EMPTY_CELLS or number(cell.encode()) is not None for cell in between)
        return cells[column - 1] if is_row else None

    def _feed_document(self, raw: str) -> None:
        if self._document or _DOCUMENT.match(raw):
            self.attempts = 1
            self._document_size += len(raw)
            if self._document_size > _LONGEST_DOCUMENT:
                self._fail(f"a JSON document of more than {_LONGEST_DOCUMENT >> 20} MiB", "")
            else:
                self._document.append(raw)

    def _fail(self, why: str, line: str) -> None:
        """Record a fault; the first one counts."""
        self._fault = self._fault or f"{why}{': ' if line else ''}{quoted_text(line.encode())[:200]}"

    def result(self) -> tuple[Mapping[str, Sequence[float]], str | None]:
        values, block, fault = self._values, self._block, self._fault
        if block.json is not None and fault is None:
            values, fault = self._read_documents(block.json)
        if self._is_text:
            values = [1.0]
        times = set(self._by_rank.values())
        if fault is None and self._missing:
            fault = f"{next(iter(self._missing))!r} is not in it"
        elif fault is None and len(values) != block.each:
            fault = f"{len(values)} figures, and the table's 'each' is {block.each}: {self._shown(values)}"
        elif fault is None and len(times) > 1:
            fault = f"some ranks print {min(times)} figures, others {max(times)}"
        elif fault is None and self._headings not in {0, 1, block.each}:
            fault = f"{self._headings} runs, or headings, of {block.each} figures"
        if fault is not None or not values:
            return {}, fault
        return {self._key: [_STATISTICS[block.statistic](values)]}, None

    @staticmethod
    def _shown(values: Sequence[float]) -> str:
        return ", ".join(f"{value:g}" for value in values[:8]) or "none"

    def _read_documents(self, path: str) -> tuple[list[float], str | None]:
        """The numbers at a path in all documents of the log, and why one is not read."""
        values = list[float]()
        try:
            for document in _documents("\n".join(self._document)):
                for found in _at(document, _KEYS.findall(path)):
                    value = None if isinstance(found, bool) else _value(str(found))
                    if value is None:
                        return [], f"no positive number at {path}: {str(found)[:80]!r}"
                    values.append(value * self._block.times)
        except (ValueError, RecursionError):
            return [], "a JSON document that is not whole"
        return values, None


def _documents(text: str) -> Iterator[Any]:
    """The JSON documents in a text; a ValueError if one is broken."""
    decoder, at = json.JSONDecoder(), 0
    while at < len(text):
        if _DOCUMENT.match(text, at) and (at == 0 or text[at - 1] == "\n"):
            document, at = decoder.raw_decode(text, text.index("{", at))
            yield document
        at = text.find("\n", at) + 1 or len(text)


def _at(value: Any, keys: Sequence[str]) -> Iterator[Any]:
    """The values at a path: names of an object, places of a list, or ``*`` for each."""
    if not keys:
        yield value
    elif isinstance(value, list):
        places = range(len(value)) if keys[0] == "*" else [int(keys[0])] if keys[0].isdigit() else []
        for place in places:
            yield from _at(value[place], keys[1:]) if place < len(value) else ()
    elif isinstance(value, dict) and keys[0] in value:
        yield from _at(value[keys[0]], keys[1:])
