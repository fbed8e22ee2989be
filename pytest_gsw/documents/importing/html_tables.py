"""Tables in HTML become rows of cells, each with its place, as Markdown's tables are.

One pass over the text's tags, each looked at once: a document that nobody trusts costs no more than its length.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

from pytest_gsw.documents.importing.pipe_tables import Spot

#: Cells of a table, and of all tables of a document the places that cells with a span cover beside their own: spans are
#: repeated in each of them. A table of figures has some hundred cells.
MAX_CELLS = 20_000
#: Longer cells are no figures and no settings.
MAX_CELL = 2_000

#: What the HTML standard takes a greater colspan for.
MAX_COLSPAN = 1_000

_TAG = re.compile(
    r"<!--|<(?P<close>/?)(?P<name>table|thead|tbody|tfoot|tr|td|th|caption)(?P<rest>[^<>a-zA-Z][^<>]*)?>",
    re.IGNORECASE,
)
_SPAN = re.compile(r"(?<![a-z-])(?P<which>col|row)span\s*=\s*[\"']?\s*(?P<number>[0-9]{1,5})", re.IGNORECASE)
_HIDDEN = re.compile(r"(?<![\w\"'-])hidden(?![\w\"'-])|display\s*:\s*none", re.IGNORECASE)
_LEADING_TAGS = re.compile(r"\s*(?:<[^<>]*>\s*)*")


@dataclass(frozen=True)
class HtmlTable:
    """One table; its spans are repeated in each place that they cover."""

    #: Lines from ``<table>`` to ``</table>``, from 1, both included.
    lines: range
    #: Rows of its head, the last of which has the columns' names.
    head: tuple[tuple[Spot, ...], ...] = ()
    rows: tuple[tuple[Spot, ...], ...] = ()
    #: Why it is not read, or nothing.
    reason: str = ""
    #: Places that cells with a span cover beside their own, as far as they were counted.
    repeated: int = 0


@dataclass
class _Cell:
    spot: Spot
    columns: int
    rows: int


@dataclass
class _Row:
    in_head: bool
    is_hidden: bool = False
    only_names: bool = True
    cells: list[_Cell] = field(default_factory=list)


class _Reader:
    """The rows of one table, as its tags come."""

    def __init__(self, text: str, starts: Sequence[int], begin: int, most_repeated: int) -> None:
        self._text, self._starts, self._begin, self._most_repeated = text, starts, begin, most_repeated
        self._rows: list[_Row] = []
        self._in_head = False
        self._open: tuple[int, str, str] | None = None
        self.nested = False

    def tag(self, name: str, closes: bool, rest: str, start: int, end: int) -> None:
        """Take the next tag of the table itself."""
        self._end_cell(start)
        if name in {"thead", "tbody", "tfoot"}:
            self._in_head = name == "thead" and not closes
        elif name == "tr" and not closes:
            self._rows.append(_Row(self._in_head, is_hidden=_HIDDEN.search(rest) is not None))
        elif name in {"td", "th"} and not closes:
            self._open = (end, name, rest)

    def table(self, start: int) -> HtmlTable:
        """The table as far as it was read; it ends before ``start``."""
        self._end_cell(start)
        lines = range(_place(self._starts, self._begin)[0], _place(self._starts, start)[0] + 1)
        if self.nested:
            return HtmlTable(lines, reason="is an HTML table with a table in it")
        rows = [row for row in self._rows if row.cells and not row.is_hidden]
        names = _head_rows(rows)
        written = sum(len(row.cells) for row in rows)
        most = min(MAX_CELLS, written + self._most_repeated)
        head, body = _grid(rows[:names], most), _grid(rows[names:], most)
        if head is None or body is None:
            reason = f"is an HTML table of more than {MAX_CELLS} cells"
            reason += "" if most == MAX_CELLS else ", with those that cells above it span"
            return HtmlTable(lines, reason=reason, repeated=max(most - written, 0))
        return HtmlTable(lines, head, body, repeated=max(sum(map(len, (*head, *body))) - written, 0))

    def _end_cell(self, end: int) -> None:
        if self._open is None:
            return
        begin, name, rest = self._open
        self._open = None
        leading = _LEADING_TAGS.match(self._text, begin, end)
        first = leading.end() if leading is not None and leading.end() < end else begin
        spot = Spot(" ".join(self._text[begin : min(end, begin + MAX_CELL)].split()), *_place(self._starts, first))
        spans = {which.lower(): int(number) for which, number in _SPAN.findall(rest)}
        if not self._rows:
            self._rows.append(_Row(self._in_head))
        row = self._rows[-1]
        columns = min(spans.get("col", 1) or 1, MAX_COLSPAN)
        row.cells.append(_Cell(spot, columns, spans.get("row", 1) or MAX_CELLS))
        row.only_names = row.only_names and name == "th"


def _head_rows(rows: Sequence[_Row]) -> int:
    """How many rows are the head: those in ``<thead>``, else those of ``<th>`` alone, and else the first."""
    marked = bool(rows) and rows[0].in_head
    count = 0
    for row in rows:
        # One cell of names behind the head is a heading within the table.
        is_head = row.in_head if marked else row.only_names and (len(row.cells) > 1 or not count)
        if not is_head:
            break
        count += 1
    return count or 1


def html_tables(lines: Sequence[str], code: Collection[int]) -> Iterator[HtmlTable]:
    """The tables of a document in HTML; what begins in one of these lines of code (from 1) is none."""
    text = "\n".join(lines)
    starts = [0, *accumulate(len(line) + 1 for line in lines)]
    reader: _Reader | None = None
    depth = position = comment_end = repeated = 0
    while match := _TAG.search(text, position):
        position = match.end()
        if match["name"] is None:
            if comment_end >= 0 and _place(starts, match.start())[0] not in code:
                comment_end = text.find("-->", position)  # it is looked for once where there is none
                position = max(position, comment_end)
            continue
        name, closes = match["name"].lower(), bool(match["close"])
        if name == "table" and not closes:
            line, column = _place(starts, match.start())
            before = lines[line - 1][: column - 1].rstrip()
            if reader is None and line not in code and (not before or before.endswith(">")):
                reader = _Reader(text, starts, match.start(), MAX_CELLS - repeated)
            elif reader is not None:
                reader.nested = True
                depth += 1
        elif name == "table" and reader is not None:
            if depth == 0:
                table = reader.table(match.start())
                yield table
                repeated += table.repeated
                reader = None
            else:
                depth -= 1
        elif reader is not None and depth == 0:
            reader.tag(name, closes, match["rest"] or "", match.start(), match.end())
    if reader is not None:
        first = reader.table(len(text)).lines[0]
        yield HtmlTable(range(first, first + 1), reason="is an HTML table that does not end")


def _place(starts: Sequence[int], offset: int) -> tuple[int, int]:
    """Line and column of an offset, from 1."""
    line = bisect_right(starts, offset)
    return line, offset - starts[line - 1] + 1


def _grid(rows: Sequence[_Row], most: int) -> tuple[tuple[Spot, ...], ...] | None:
    """Rows with each cell in all places that it covers; ``None`` where these are more than ``most``.

    A cell across the whole width is a row of its own, whose text is about those below: it stays one cell.
    """
    left: dict[int, tuple[Spot, int]] = {}
    grid: list[tuple[Spot, ...]] = []
    count = 0
    for row in rows:
        if len(row.cells) == 1 and not left and row.cells[0].columns > 1:
            grid.append((row.cells[0].spot,))
            continue
        placed: dict[int, Spot] = {column: spot for column, (spot, _) in left.items()}
        left = {column: (spot, rows - 1) for column, (spot, rows) in left.items() if rows > 1}
        column = 0
        for cell in row.cells:
            for _ in range(cell.columns):
                while column in placed:
                    column += 1
                placed[column] = cell.spot
                if cell.rows > 1:
                    left[column] = (cell.spot, cell.rows - 1)
                count += 1
                if count + len(left) > most:
                    return None
        count += len(left)
        # A row that leaves a gap before a cell from above has lost a cell: it ends there, and is seen to be short.
        whole = next(n for n in range(len(placed) + 1) if n not in placed)
        grid.append(tuple(placed[column] for column in range(whole)))
    return tuple(grid)
