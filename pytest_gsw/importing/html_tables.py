"""HTML tables as rows of cells: a cell with a span is in each place that it covers."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import NamedTuple

#: Places of a table, and columns that a cell may cover: a table of figures has some hundred.
MAX_PLACES = 20_000
MAX_COLUMNS = 1_000

#: A line that begins with a table, perhaps within other tags.
TABLE_LINE = re.compile(r"\s*(?:<[^<>]{1,200}>\s*){0,10}?(?P<table><table(?![A-Za-z0-9-]))", re.IGNORECASE)
#: Tags within a text, by what stands in their place: a raised 2 makes another number, and what is struck out is none.
MARKS = {
    **dict.fromkeys(("sup", "sub"), "^"),
    **dict.fromkeys(("s", "del", "strike"), "~~"),
    **dict.fromkeys(("b", "i", "em", "strong", "code", "span", "a", "u", "small", "font", "mark", "tt"), ""),
}
#: The end of a table.
TABLE_END = re.compile(r"</table\s*>", re.IGNORECASE)
_HIDDEN = re.compile(r"display\s*:\s*none", re.IGNORECASE)
_HAS_DIGIT = re.compile(r"[0-9]")

#: A cell's text, line and column.
Spot = tuple[str, int, int]


class HtmlTable(NamedTuple):
    """One table of a document."""

    #: Header and rows; the rows of a head are one header.
    rows: tuple[tuple[Spot, ...], ...]
    #: The line behind it, from 0.
    end: int
    caption: str = ""
    #: Why it is not read, or nothing.
    reason: str = ""


@dataclass
class _Cell:
    line: int
    column: int
    columns: int
    rows: int
    text: str = ""


@dataclass
class _Row:
    is_head: bool
    is_hidden: bool
    cells: list[_Cell] = field(default_factory=list)


def read_html_table(lines: Sequence[str], first: int) -> HtmlTable:
    """The table that begins in a line, which counts from 0, and ends in one of these lines."""
    last = first
    while TABLE_END.search(lines[last]) is None:
        last += 1
    begin = TABLE_LINE.match(lines[first])
    column = begin.start("table") if begin is not None else 0
    parser = _Parser(first + 1)
    parser.feed(" " * column + "\n".join(lines[first : last + 1])[column:])
    parser.close()
    if parser.tables != 1:
        return HtmlTable((), last + 1, reason="an HTML table with another one in it, or in its line")
    rows = [row for row in parser.rows if row.cells and not row.is_hidden]
    grid = _grid(rows)
    if grid is None:
        return HtmlTable((), last + 1, reason=f"an HTML table of more than {MAX_PLACES} cells")
    if not grid:
        return HtmlTable((), last + 1, reason="an HTML table without cells")
    names = next((number for number, row in enumerate(rows) if not row.is_head), len(rows)) or 1
    header = tuple(map(_joined, zip(*grid[:names], strict=False)))
    return HtmlTable((header, *grid[names:]), last + 1, parser.caption)


class _Parser(HTMLParser):
    """The cells of a table, as its tags come."""

    def __init__(self, first_line: int) -> None:
        super().__init__(convert_charrefs=True)
        self.rows: list[_Row] = []
        self.tables = 0
        self.caption = ""
        self._first_line = first_line
        self._in_head = self._in_caption = False
        self._cell: _Cell | None = None

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Open what a tag opens; HTML lets most end tags be left out."""
        given = dict(attrs)
        if tag == "table":
            self.tables += 1
        elif tag in {"thead", "tbody", "tfoot"}:
            self._in_head = tag == "thead"
        elif tag == "caption":
            self._in_caption = True
        elif tag == "tr":
            self._cell = None
            is_hidden = "hidden" in given or _HIDDEN.search(given.get("style") or "") is not None
            self.rows.append(_Row(is_head=True, is_hidden=is_hidden))
        elif tag in {"td", "th"}:
            line, column = self.getpos()
            if not self.rows:
                self.rows.append(_Row(is_head=True, is_hidden=False))
            columns, rows = (_span(given.get(name)) for name in ("colspan", "rowspan"))
            self._cell = _Cell(self._first_line + line - 1, column + 1, columns, rows)
            row = self.rows[-1]
            row.is_head = row.is_head and (tag == "th" or self._in_head)
            row.cells.append(self._cell)
        else:
            self.handle_data(MARKS.get(tag, " "))

    def handle_endtag(self, tag: str) -> None:
        """Close a cell or a part of the table."""
        if tag in {"td", "th", "tr", "table"}:
            self._cell = None
        elif tag == "thead":
            self._in_head = False
        elif tag == "caption":
            self._in_caption = False

    def handle_data(self, data: str) -> None:
        """Take the text of a cell."""
        if self._cell is not None:
            self._cell.text += data
        elif self._in_caption:
            self.caption += data


def _span(text: str | None) -> int:
    """How many places a cell covers; a span of 0 reaches to the end of the table."""
    if text is None or re.fullmatch(r"\s*[0-9]{1,6}\s*", text) is None:
        return 1
    return min(int(text) or MAX_COLUMNS, MAX_COLUMNS)


def _joined(spots: Sequence[Spot]) -> Spot:
    """The names of one column: those of several rows of a head are one, each said once."""
    *_, (_, line, column) = spots
    return " ".join(dict.fromkeys(text for text, _, _ in spots)), line, column


def _grid(rows: Sequence[_Row]) -> list[tuple[Spot, ...]] | None:
    """Rows with each cell in all places that it covers; nothing where these are too many."""
    grid: list[tuple[Spot, ...]] = []
    left: dict[int, tuple[Spot, int]] = {}
    count = 0
    for row in rows:
        placed = {column: spot for column, (spot, _) in left.items()}
        left = {column: (spot, more - 1) for column, (spot, more) in left.items() if more > 1}
        column = 0
        for cell in row.cells:
            text = cell.text
            if cell.columns > 1 and not row.is_head and _HAS_DIGIT.search(text):
                text += f" (over {cell.columns} columns)"  # whose number it is nothing says
            for _ in range(cell.columns):
                while column in placed:
                    column += 1
                placed[column] = (text, cell.line, cell.column)
                if cell.rows > 1:
                    left[column] = (placed[column], cell.rows - 1)
                count += 1
                if count + len(left) > MAX_PLACES:
                    return None
        count += len(placed) - sum(cell.columns for cell in row.cells)
        # A row that leaves a gap before a cell from above has lost a cell: it ends there, and is seen to be short.
        whole = next(number for number in range(len(placed) + 1) if number not in placed)
        grid.append(tuple(placed[column] for column in range(whole)))
    return grid
