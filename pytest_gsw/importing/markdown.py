"""Tables of a Markdown document, with the headings that they stand below: GitHub's pipe tables, and HTML's."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from pytest_gsw.importing.html_tables import MARKS, TABLE_END, TABLE_LINE, HtmlTable, read_html_table
from pytest_gsw.tables.yamlfile import read_text

#: A longer cell is neither a figure nor a label.
LONGEST_CELL = 300
_FENCE = re.compile(r"\s*(`{3,}|~{3,})([^`]*)$")
_HEADING = re.compile(r" {0,3}(#{1,6})[ \t]+(.*)")
_UNDERLINE = re.compile(r" {0,3}(=+|-+)[ \t]*")
_DELIMITER = re.compile(r":?-+:?")
_OF_DELIMITERS = frozenset("|-: \t")
_TAG = re.compile(r"<(?P<end>/?)(?P<name>[A-Za-z][A-Za-z0-9]{0,20})(?:[\s/][^<>]{0,200})?>")
_LINK = re.compile(r"!?\[([^\[\]]*)\]\([^()]*\)")
_EMPHASIS = re.compile(r"(\*{1,3}|`)(?=\S)([^*`]*[^*`\s])\1")
_NOTE = re.compile(r"\[\^[^\[\]]*\]")
_MARKED = re.compile(r"[\\\[<*`&]")
_QUOTE = re.compile(r"^(?:\s{0,3}>)+ ?")


@dataclass(frozen=True)
class Cell:
    """A text of a document and where it stands, line and column from 1."""

    text: str
    line: int
    column: int = 1


@dataclass(frozen=True)
class Table:
    """One table. Its rows are as long as its header, or else say themselves what is wrong with them."""

    header: tuple[Cell, ...]
    rows: tuple[tuple[Cell, ...], ...]
    #: The headings above it, the outermost first; the caption of an HTML table is the last one.
    headings: tuple[Cell, ...]

    @property
    def line(self) -> int:
        """The line of the header."""
        return self.header[0].line


@dataclass(frozen=True)
class LeftOut:
    """A part of a document that is not read, and why."""

    line: int
    reason: str


@dataclass(frozen=True)
class Document:
    """What a document has of tables."""

    lines: tuple[str, ...]
    tables: tuple[Table, ...]
    left_out: tuple[LeftOut, ...]


def read_document(path: Path) -> Document:
    """The tables of a document; a FileError where it cannot be read."""
    return parse_document(read_text(path))


def parse_document(text: str) -> Document:
    """The tables of a document's text, but for those in blocks of code and in comments."""
    lines = tuple(re.split("\r\n?|\n", text))
    shown = [("" if is_code else line) for line, is_code in _marked(lines)]
    visible = [_QUOTE.sub(lambda quote: " " * len(quote[0]), line, count=1) for line in _without_comments(shown)]
    tables: list[Table] = []
    left_out: list[LeftOut] = []
    headings: list[tuple[int, Cell]] = []
    number = 0
    # Where the last table ends: what begins behind it does not.
    last_end = max((at for at, line in enumerate(visible, 1) if TABLE_END.search(line)), default=0)
    while number < len(visible):
        line = visible[number]
        heading = _heading(visible, number)
        if heading is not None:
            depth, title = heading
            headings = [(level, one) for level, one in headings if level < depth]
            headings.append((depth, Cell(plain(title), number + 1)))
        found: Table | LeftOut | None = None
        above = tuple(one for _, one in headings)
        end = number + 1
        if "<" in line and TABLE_LINE.match(line):
            found = LeftOut(end, "an HTML table that does not end")
            if number < last_end:
                of_html = read_html_table(visible, number)
                end = of_html.end
                found = _of_html(of_html, above, number + 1)
        elif "|" in line and end < len(visible) and _is_delimiter(visible[end]):
            end, found = _pipe_table(visible, number, above)
        if isinstance(found, Table):
            tables.append(found)
        elif found is not None:
            left_out.append(found)
        number = end
    return Document(lines, tuple(tables), tuple(left_out))


def plain(text: str) -> str:
    """The words of a text without Markdown's marks, HTML's tags and footnotes."""
    if _MARKED.search(text) is None:
        return " ".join(text.split())
    text = _NOTE.sub("", _LINK.sub(r"\1", text.replace("\\|", "|")))
    text = _EMPHASIS.sub(r"\2", _TAG.sub(_mark, text))
    return " ".join(html.unescape(text).split())


def _mark(tag: re.Match[str]) -> str:
    return "" if tag["end"] else MARKS.get(tag["name"].lower(), " ")


def _marked(lines: Sequence[str]) -> Iterator[tuple[str, bool]]:
    """Each line, and whether it is code between fences."""
    fence = ""
    for line in lines:
        match = _FENCE.fullmatch(line)
        if fence:
            yield line, True
            if match is not None and match[1].startswith(fence) and not match[2].strip():
                fence = ""
        else:
            fence = match[1] if match is not None else ""
            yield line, match is not None


def _without_comments(lines: Sequence[str]) -> list[str]:
    """The lines without what stands between ``<!--`` and ``-->``; what does not end is no comment."""
    text, shown, position = "\n".join(lines), [], 0
    while (begin := text.find("<!--", position)) >= 0 and (end := text.find("-->", begin)) >= 0:
        shown += [text[position:begin], "\n" * text.count("\n", begin, end)]
        position = end + 3
    return "".join([*shown, text[position:]]).split("\n")


def _heading(lines: Sequence[str], number: int) -> tuple[int, str] | None:
    """The depth and the text of a heading that begins in this line."""
    match = _HEADING.fullmatch(lines[number])
    if match is not None:
        return len(match[1]), re.sub(r"[ \t]+#+[ \t]*$", "", match[2])
    below = _UNDERLINE.fullmatch(lines[number + 1]) if number + 1 < len(lines) else None
    before = lines[number - 1] if number else ""
    is_text = lines[number].strip() and "|" not in lines[number] and _UNDERLINE.fullmatch(lines[number]) is None
    if below is None or not is_text or before.strip():
        return None
    return 1 if below[1][0] == "=" else 2, lines[number]


def _cells(line: str, number: int) -> tuple[Cell, ...]:
    """The cells of a line of a pipe table, which counts from 0."""
    pieces = re.split(r"(?<!\\)\|", line)
    column, cells = 1, []
    for piece in pieces:
        cells.append(Cell(plain(piece[: 2 * LONGEST_CELL]), number + 1, column + len(piece) - len(piece.lstrip())))
        column += len(piece) + 1
    first = 1 if line.lstrip().startswith("|") else 0
    last = len(cells) - 1 if not pieces[-1].strip() and len(cells) - first > 1 else len(cells)
    return tuple(cells[first:last])


def _is_delimiter(line: str) -> bool:
    return "-" in line and "|" in line and not set(line) - _OF_DELIMITERS and _delimits(_cells(line, 0))


def _delimits(cells: Sequence[Cell]) -> bool:
    return all(_DELIMITER.fullmatch(cell.text) for cell in cells)


def _pipe_table(lines: Sequence[str], number: int, headings: tuple[Cell, ...]) -> tuple[int, Table | LeftOut]:
    """The table whose header is this line, and the line behind it."""
    header = _cells(lines[number], number)
    end = number + 2
    while end < len(lines) and "|" in lines[end]:
        if end + 1 < len(lines) and _is_delimiter(lines[end + 1]):
            break  # the header of another table
        end += 1
    if len(header) != len(_cells(lines[number + 1], 0)):
        return end, LeftOut(number + 1, "the line below the table's header has another number of cells")
    rows = tuple(_fitted(_cells(lines[at], at), header) for at in range(number + 2, end))
    return end, Table(header, rows, headings)


def _fitted(cells: tuple[Cell, ...], header: Sequence[Cell]) -> tuple[Cell, ...]:
    """The row without empty cells beyond the header: of any other number of cells, which is which is not known."""
    width = len(header)
    return cells[:width] if not any(cell.text for cell in cells[width:]) else cells


def _of_html(found: HtmlTable, headings: tuple[Cell, ...], line: int) -> Table | LeftOut:
    if found.reason:
        return LeftOut(line, found.reason)
    header, *rows = (tuple(Cell(plain(text), at, column) for text, at, column in row) for row in found.rows)
    captions = (Cell(plain(found.caption), line),) if found.caption else ()
    return Table(header, tuple(rows), (*headings, *captions))
