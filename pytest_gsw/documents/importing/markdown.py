"""A document becomes headings, tables and prose, each with its place: the only door to the Markdown parser.

The parser says what is a table, what is prose, and what stands in a code block; the tables' own lines are cut by
``pipe_tables`` and ``html_tables``.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_gsw.common.redact import UNSAFE
from pytest_gsw.documents.importing.html_tables import HtmlTable, html_tables
from pytest_gsw.documents.importing.pipe_tables import (
    MAX_LINE,
    Spot,
    pipe_tables,
    tables_in_code,
    undelimited,
    unquoted,
)
from pytest_gsw.errors import ConfigurationError

if TYPE_CHECKING:
    from markdown_it import MarkdownIt

#: A README is some 20 kB; a table of ten thousand rows, two megabytes.
MAX_BYTES = 16 * 1024 * 1024
#: No cell, title or sentence is longer; the parser takes time that is quadratic in marks that nothing closes.
_MAX_INLINE = 2_000
#: No line of text that says anything is longer; what is, is data.
LONGEST_TEXT = 2_000
#: What names a table in HTML, as headings and captions do in Markdown.
_NAMING_TAG = re.compile(r"<(?P<tag>summary|caption|h[1-6])(?: [^<>]*)?>(?P<text>.{1,300}?)</(?P=tag)>", re.IGNORECASE)
#: What is struck through, or not shown.
_STRUCK = re.compile(
    r"~~[^~]{1,300}~~|<(?P<tag>s|del|strike|script|style)>.{0,300}?</(?P=tag)>|"
    r"<span style=[\"']?display: ?none[^<>]{0,20}>.{0,300}?</span>",
    re.IGNORECASE,
)
_BOLD_LINE = re.compile(r"\*\*([^*]+)\*\*:?")


@dataclass(frozen=True)
class Cell:
    """One cell: its text without Markdown's marks, and where it begins (line and column from 1)."""

    text: str
    line: int
    column: int


@dataclass(frozen=True)
class Table:
    """One table as written; rows may have more or fewer cells than the header."""

    header: tuple[Cell, ...]
    rows: tuple[tuple[Cell, ...], ...]
    #: The headings that it stands below, outermost first, with their Markdown marks taken off.
    headings: tuple[str, ...]
    #: Short lines between the last heading or table and this one that name it: ``**Performance**``, ``16GB nodes:``.
    captions: tuple[str, ...]
    #: Number of its section, see :attr:`Document.sections`.
    section: int
    #: What stands above each column's name in a header of several rows: ``FP8`` above two figures; nothing for one row.
    groups: tuple[str, ...] = ()
    #: Of a part of a table: what stands above its rows or columns within the table.
    about: tuple[str, ...] = ()

    @property
    def line(self) -> int:
        """Line of the header."""
        return self.header[0].line


@dataclass(frozen=True)
class Block:
    """A heading, a paragraph, a point of a list or code: text that stands in no table."""

    #: ``heading``, ``text`` or ``code``.
    kind: str
    #: From 1.
    lines: tuple[int, ...]
    #: Number of its section, see :attr:`Document.sections`.
    section: int
    #: Of a heading: 1 is the outermost; else 0.
    level: int = 0


@dataclass(frozen=True)
class Unread:
    """A table, or a column or row of one, that is there and is not read, and why."""

    line: int
    title: str
    reason: str
    what: str = "table"


@dataclass(frozen=True)
class Document:
    """What a document holds."""

    name: str
    lines: tuple[str, ...]
    tables: tuple[Table, ...]
    unread: tuple[Unread, ...]
    #: From each heading to the next of any level: first and last line (from 1, both included).
    sections: tuple[range, ...]
    #: Where lines of prose and code stand: not in a table.
    prose: tuple[int, ...]
    #: In the document's order.
    blocks: tuple[Block, ...]

    def texts(self, numbers: Iterable[int]) -> Iterator[tuple[int, str]]:
        """Lines with their numbers, without those that are data."""
        return ((n, self.lines[n - 1]) for n in numbers if len(self.lines[n - 1]) <= LONGEST_TEXT)


def read_document(path: Path) -> Document:
    """Read one document.

    Raises:
        ConfigurationError: It cannot be read, is no text, or is too large; or the Markdown parser is not installed.
    """
    try:
        content = path.read_bytes() if path.stat().st_size <= MAX_BYTES else None
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be read: {error.strerror}") from None
    if content is None:
        raise ConfigurationError(f"{path} is larger than {MAX_BYTES} bytes; this is no recipe's README")
    if b"\0" in content and not content.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise ConfigurationError(f"{path} is no text: it holds NUL bytes")
    return parse_document(path.name, decode(content))


def decode(content: bytes) -> str:
    """Text of a document: UTF-8, or what Windows editors write (UTF-8 or UTF-16 with a mark, cp1252)."""
    if content.startswith((b"\xff\xfe", b"\xfe\xff")):
        text = content.decode("utf-16", errors="replace")
    else:
        try:
            text = content.decode("utf-8-sig")
        except UnicodeDecodeError:
            text = content.decode("cp1252", errors="replace")
    return text.replace("\r\n", "\n").replace("\r", "\n")


def parse_document(name: str, text: str) -> Document:
    """The document's parts.

    Raises:
        ConfigurationError: The Markdown parser is not installed.
    """
    # Form feeds and the like would be line ends to str.splitlines, and are none to editors and to the parser.
    lines = tuple(UNSAFE.sub(" ", line) if UNSAFE.search(line) else line for line in text.split("\n"))
    parts = _Parts(lines, _parser(name))
    parts.take_all()
    return Document(name, lines, tuple(parts.tables), tuple(parts.unread), *parts.places(), tuple(parts.blocks))


class _Parts:
    """The parts of a document, as its blocks come."""

    def __init__(self, lines: Sequence[str], markdown: MarkdownIt) -> None:
        self._lines, self._markdown = lines, markdown
        self._unquoted = [unquoted(line) for line in lines]
        self.tables: list[Table] = []
        self.unread: list[Unread] = []
        self.blocks: list[Block] = []
        self._headings: list[tuple[int, str]] = []
        self._captions: list[str] = []
        self._begins = [1]
        self._in_table: set[int] = set()
        #: By its source: a cell that spans rows is as many cells as they are.
        self._plain = cache(partial(_plain, markdown))

    def places(self) -> tuple[tuple[range, ...], tuple[int, ...]]:
        """The sections, and the lines that stand in no table."""
        ends = [*self._begins[1:], len(self._lines) + 1]
        sections = tuple(range(a, b) for a, b in zip(self._begins, ends, strict=True))
        return sections, tuple(n for n in range(1, len(self._lines) + 1) if n not in self._in_table)

    def take_all(self) -> None:
        """Take all blocks, and each table in HTML where it begins; what stands in it is none of its own."""
        found = list(_blocks(self._markdown, self._lines))
        code = {n + 1 for kind, first, end, _ in found if kind == "code" for n in range(first, end)}
        short = [line if len(line) <= MAX_LINE else "" for line in self._unquoted]
        waiting = list(reversed(list(html_tables(short, code))))
        until = 0
        for kind, first, end, level in found:
            if first >= until:
                self._take(kind, first, end, level)
            while waiting and waiting[-1].lines[0] <= end:
                table = waiting.pop()
                self._take_html(table)
                until = table.lines[-1]

    def _take(self, kind: str, first: int, end: int, level: int) -> None:
        section = len(self._begins) - 1
        if kind == "heading":
            title = _plain(self._markdown, self._lines[first].lstrip(" #").rstrip(" #"))
            self._headings = [*(h for h in self._headings if h[0] < level), (level, title)]
            self._begins.append(first + 1)
            self.blocks.append(Block(kind, (first + 1,), section + 1, level))
            self._captions = []
        elif kind == "code":
            for line, text in tables_in_code(self._lines, first, end):
                self.unread.append(Unread(line, text, "stands in a code block; tables there are not read"))
            self.blocks.append(Block(kind, tuple(range(first + 1, end + 1)), section))
            self._captions = []
        elif kind == "html" and self._lines[first].lstrip().startswith("<!--"):
            self._captions = []
        elif not self._take_tables(first, end):
            if kind == "text":
                self._captions = _caption(self._captions, self._markdown, self._lines[first:end])
            elif "<table" not in " ".join(self._lines[first:end]).lower():
                self._captions = []
            if kind == "html":
                named = _NAMING_TAG.search(" ".join(self._lines[first:end])[:MAX_LINE])
                self._captions = [_plain(self._markdown, named["text"])] if named is not None else self._captions
        outside = tuple(n for n in range(first + 1, end + 1) if n not in self._in_table and self._lines[n - 1].strip())
        if kind == "text" and outside:
            for line, text in undelimited(self._unquoted, first, end, self._in_table):
                self.unread.append(Unread(line, text, "has no row of dashes below a header"))
            self.blocks.append(Block(kind, outside, section))

    def _take_tables(self, first: int, end: int) -> bool:
        """Take the tables in some lines; whether there are any."""
        before = len(self.tables)
        for header, sources, last in pipe_tables(self._unquoted, first, end):
            rows = tuple(map(self._spots, sources))
            self._add(self._spots(header), rows, range(header[0].line, last + 1))
            for row, spots in zip(rows, sources, strict=True):
                if "~~" in spots[0].source and not any(cell.text for cell in row):
                    self.unread.append(Unread(row[0].line, spots[0].source.strip("~"), "is struck through", "row"))
        return len(self.tables) > before

    def _take_html(self, table: HtmlTable) -> None:
        self._in_table |= set(table.lines)
        if table.reason:
            self.unread.append(Unread(table.lines[0], "", table.reason))
            return
        head = [self._spots(row) for row in table.head]
        titles = [row[0].text for row in head[:-1] if len(row) == 1]
        above = [row for row in head[:-1] if len(row) > 1]
        if not head or any(len(row) != len(head[-1]) for row in above):
            self.unread.append(Unread(table.lines[0], "", "is an HTML table whose header's rows do not fit each other"))
            return
        self._captions += titles
        groups = tuple(
            " ".join(dict.fromkeys(row[n].text for row in above if row[n] != cell)) for n, cell in enumerate(head[-1])
        )
        groups = groups if any(groups) else ()
        rows = tuple(_over_columns(self._spots(row)) for row in table.rows)
        self._add(head[-1], rows, table.lines, groups)

    def _add(
        self, header: tuple[Cell, ...], rows: tuple[tuple[Cell, ...], ...], lines: range, groups: tuple[str, ...] = ()
    ) -> None:
        titles = tuple(title for _, title in self._headings)
        section = len(self._begins) - 1
        self.tables.append(Table(header, rows, titles, tuple(self._captions[-2:]), section, groups))
        self._in_table |= set(lines)
        self._captions = self._captions[:-1]

    def _spots(self, row: Sequence[Spot]) -> tuple[Cell, ...]:
        return tuple(Cell(self._plain(one.source), one.line, one.column) for one in row)


def _parser(name: str) -> MarkdownIt:
    try:
        from markdown_it import MarkdownIt
    except ImportError:
        message = "reading Markdown needs markdown-it-py: pip install '.[import]' in a checkout of pytest-gsw"
        raise ConfigurationError(message) from None
    markdown = MarkdownIt("commonmark").enable("table")
    # In MDX, tables are indented within components; indented code is no part of it.
    return markdown.disable("code") if name.lower().endswith(".mdx") else markdown


def _blocks(markdown: MarkdownIt, lines: Sequence[str]) -> Iterator[tuple[str, int, int, int]]:
    """Headings, code, HTML, and what may hold a table, with their lines (from 0, end not included)."""
    # An overlong line is no table's; the parser takes time that is quadratic in it.
    text = "\n".join(line if len(line) <= MAX_LINE else "" for line in lines)
    kinds = {"heading_open": "heading", "fence": "code", "code_block": "code", "html_block": "html"}
    for token in markdown.parse(text):
        if token.map is None:
            continue
        first, end = token.map
        if token.type in kinds:
            level = int(token.tag[1]) if token.type == "heading_open" else 0
            yield kinds[token.type], first, end, level
        elif token.type in {"table_open", "paragraph_open"}:
            yield "text", first, end, 0


def _over_columns(row: tuple[Cell, ...]) -> tuple[Cell, ...]:
    """A row in which a number over several columns is none of them: each of these means something else."""
    often = Counter((cell.line, cell.column) for cell in row)
    return tuple(
        replace(cell, text=f"{cell.text} (over {count} columns)") if cell.text[:1].isdigit() and count > 1 else cell
        for cell in row
        for count in (often[cell.line, cell.column],)
    )


def _plain(markdown: MarkdownIt, text: str) -> str:
    """Text without Markdown's marks: bold, code, links; runs of blanks inside stay as they are, tabs become blanks."""
    text = _STRUCK.sub(" ", text.replace("\t", " ").replace("\xa0", " ")).strip()
    if not set(text) & set("*_`[<&\\!~") or len(text) > _MAX_INLINE:
        return text
    words = []
    for token in markdown.parseInline(text)[0].children or ():
        if token.type in {"text", "code_inline"}:
            words.append(token.content)
        elif token.type in {"softbreak", "hardbreak"} or (token.type == "html_inline" and "br" in token.content):
            words.append(" ")
        elif token.type == "html_inline" and token.content.lower() in {"<sup>", "<sub>"}:
            words.append("^" if "p" in token.content.lower() else "_")  # 10<sup>2</sup> is not 102
        elif token.type == "html_inline":
            words.append("\0")
        elif token.type == "image":
            words.append(f"![{token.content}]")
    # A tag between two digits separates them: 12<!-- 3 -->4 is not 124.
    return re.sub(r"(?<=[0-9.,])\0+(?=[0-9.,])", " ", "".join(words)).replace("\0", "").replace("\xa0", " ").strip()


def _caption(captions: list[str], markdown: MarkdownIt, lines: Sequence[str]) -> list[str]:
    """The captions after one more paragraph: a bold line begins anew, a short line that ends in a colon is added."""
    text = " ".join(line.strip() for line in lines)
    if not text.startswith("**"):
        text = text.lstrip("-*+> ") if len(lines) == 1 else ""
    bold = _BOLD_LINE.fullmatch(text)
    if bold is not None and len(text) <= 100:
        return [bold[1].strip(" :")]
    if text.endswith(":") and len(text) <= 60 and len(lines) == 1:
        return [*captions[:1], _plain(markdown, text).rstrip(" :")]
    return captions
