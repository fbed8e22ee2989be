"""Tables with pipes become rows of cells, each with its place; the Markdown parser drops too much of them.

GitHub's dialect drops what matters to a table of figures: cells beyond the header's, the column in which a cell
stands, and the end of a table where the next one begins without a blank line (documents that were saved as text
have such tables).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeAlias

#: The parser needs memory for every cell; a longer line is no line of a table.
MAX_LINE = 20_000

_DELIMITER = re.compile(r"[ \t]*\|?[ \t]*:?-+:?[ \t]*(?:\|[ \t]*:?-+:?[ \t]*)*\|?[ \t]*")


@dataclass(frozen=True)
class Spot:
    """The source of one cell, and where its text begins (line and column from 1)."""

    source: str
    line: int
    column: int


Spots: TypeAlias = tuple[Spot, ...]


def pipe_tables(lines: Sequence[str], first: int, end: int) -> Iterator[tuple[Spots, tuple[Spots, ...], int]]:
    """The tables in some lines: header, rows, and the last line of each (from 1)."""
    starts = [
        n
        for n in range(first, end - 1)
        if "|" in lines[n] and _is_below_header(lines[n + 1]) and not _is_delimiter(lines[n])
    ]
    for number, start in enumerate(starts):
        limit = starts[number + 1] if number + 1 < len(starts) else end
        last = start + 1
        rows = []
        for n in range(start + 2, limit):
            if "|" not in lines[n]:
                break
            last = n
            if not _is_delimiter(lines[n]):
                rows.append(_cells(lines[n], n + 1))
        yield _cells(lines[start], start + 1), tuple(rows), last + 1


def undelimited(lines: Sequence[str], first: int, end: int, in_table: Collection[int]) -> Iterator[tuple[int, str]]:
    """What looks like a table and has no row of dashes below its first row: nothing says which row is its header."""
    piped = {n for n in range(first, end) if lines[n].count("|") > 1 and n + 1 not in in_table}
    for n in sorted(piped):
        if n - 1 not in piped and n + 1 in piped:
            yield n + 1, _first_cell(lines[n])


def tables_in_code(lines: Sequence[str], first: int, end: int) -> Iterator[tuple[int, str]]:
    """Where tables begin in lines of code, and their first cells."""
    for n in range(first, end):
        if "<table" in lines[n].lower():
            yield n + 1, ""
        elif n + 1 < end and lines[n].count("|") > 1 and _is_below_header(lines[n + 1]):
            yield n + 1, _first_cell(lines[n])


def unquoted(line: str) -> str:
    """A line without the marks of block quotes, every letter at its place."""
    quote = re.match(r"[ \t]*(?:>[ \t]?)+", line)
    return " " * quote.end() + line[quote.end() :] if quote else line


def _cells(line: str, number: int) -> Spots:
    """A row cut at its pipes; the outer ones may be there or not. A pipe with a backslash is text."""
    pipes = [match.start() for match in re.finditer(r"(?<!\\)\|", line)]
    edges = [-1, *pipes, len(line)]
    if pipes and not line[: pipes[0]].strip():
        edges = edges[1:]
    if len(edges) > 2 and not line[edges[-2] + 1 :].strip():
        edges = edges[:-1]
    cells = []
    for left, right in pairwise(edges):
        raw = line[left + 1 : right]
        column = left + 2 + len(raw) - len(raw.lstrip())
        cells.append(Spot(raw.replace("\\|", "|").strip(), number, column))
    return tuple(cells)


def _first_cell(line: str) -> str:
    return line.strip(" |").split("|")[0].strip()


def _is_delimiter(line: str) -> bool:
    return len(line) <= MAX_LINE and "-" in line and _DELIMITER.fullmatch(line) is not None


def _is_below_header(line: str) -> bool:
    return "|" in line and _is_delimiter(line)
