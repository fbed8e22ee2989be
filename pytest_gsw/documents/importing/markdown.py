"""A document becomes headings, tables and prose, each with its place: the only door to the Markdown parser.

The parser says what is a table, what is prose, and what stands in a code block. Rows are cut into cells here,
from the document's own lines, because GitHub's dialect drops what matters to a table of figures: cells beyond
the header's, the column in which a cell stands, and the end of a table where the next one begins without a
blank line (documents that were saved as text have such tables).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_gsw.common.redact import UNSAFE
from pytest_gsw.errors import ConfigurationError

if TYPE_CHECKING:
    from markdown_it import MarkdownIt

#: A README is some 20 kB; a table of ten thousand rows, two megabytes.
MAX_BYTES = 16 * 1024 * 1024
#: The parser needs memory for every cell; a longer line is no line of a table.
MAX_LINE = 20_000

_DELIMITER = re.compile(r"[ \t]*\|?[ \t]*:?-+:?[ \t]*(?:\|[ \t]*:?-+:?[ \t]*)*\|?[ \t]*")
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
    unquoted = [_unquoted(line) for line in lines]
    markdown = _parser()
    tables: list[Table] = []
    unread: list[Unread] = []
    headings: list[tuple[int, str]] = []
    begins = [1]
    captions: list[str] = []
    in_table: set[int] = set()
    blocks: list[Block] = []
    for kind, first, end, level in _blocks(markdown, lines):
        if kind == "heading":
            title = _plain(markdown, lines[first].lstrip(" #").rstrip(" #"))
            headings = [*(h for h in headings if h[0] < level), (level, title)]
            begins.append(first + 1)
            blocks.append(Block(kind, (first + 1,), len(begins) - 1, level))
            captions = []
            continue
        if kind in {"code", "html"}:
            unread += _unread(lines, first, end, kind)
            blocks += [Block(kind, tuple(range(first + 1, end + 1)), len(begins) - 1)] if kind == "code" else []
            captions = []
            continue
        cut = list(_tables(markdown, unquoted, first, end))
        for header, rows, after in cut:
            in_table |= set(range(header[0].line, after + 1))
            titles = tuple(title for _, title in headings)
            tables.append(Table(header, rows, titles, tuple(captions[-2:]), len(begins) - 1))
            captions = captions[:-1]
        unread += _undelimited(unquoted, first, end, in_table)
        outside = tuple(n for n in range(first + 1, end + 1) if n not in in_table and lines[n - 1].strip())
        blocks += [Block(kind, outside, len(begins) - 1)] if outside else []
        if not cut:
            captions = _caption(captions, markdown, lines[first:end])
    sections = tuple(range(a, b) for a, b in zip(begins, [*begins[1:], len(lines) + 1], strict=True))
    prose = tuple(n for n in range(1, len(lines) + 1) if n not in in_table)
    return Document(name, lines, tuple(tables), tuple(unread), sections, prose, tuple(blocks))


def _parser() -> MarkdownIt:
    try:
        from markdown_it import MarkdownIt
    except ImportError:
        message = "reading Markdown needs markdown-it-py: pip install 'pytest-gsw[import]'"
        raise ConfigurationError(message) from None
    return MarkdownIt("commonmark").enable("table")


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


def _tables(
    markdown: MarkdownIt, lines: Sequence[str], first: int, end: int
) -> Iterator[tuple[tuple[Cell, ...], tuple[tuple[Cell, ...], ...], int]]:
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
                rows.append(_cells(markdown, lines[n], n + 1))
        yield _cells(markdown, lines[start], start + 1), tuple(rows), last + 1


def _is_delimiter(line: str) -> bool:
    return len(line) <= MAX_LINE and "-" in line and _DELIMITER.fullmatch(line) is not None


def _is_below_header(line: str) -> bool:
    return "|" in line and _is_delimiter(line)


def _unquoted(line: str) -> str:
    """A line without the marks of block quotes, every letter at its place."""
    quote = re.match(r"[ \t]*(?:>[ \t]?)+", line)
    return " " * quote.end() + line[quote.end() :] if quote else line


def _cells(markdown: MarkdownIt, line: str, number: int) -> tuple[Cell, ...]:
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
        cells.append(Cell(_plain(markdown, raw.replace("\\|", "|")), number, column))
    return tuple(cells)


def _plain(markdown: MarkdownIt, text: str) -> str:
    """Text without Markdown's marks: bold, code, links; runs of blanks inside stay as they are, tabs become blanks."""
    text = text.replace("\t", " ").replace("\xa0", " ").strip()
    if not set(text) & set("*_`[<&\\!~"):
        return text
    words = []
    for token in markdown.parseInline(text)[0].children or ():
        if token.type in {"text", "code_inline"}:
            words.append(token.content)
        elif token.type in {"softbreak", "hardbreak"} or (token.type == "html_inline" and "br" in token.content):
            words.append(" ")
        elif token.type == "html_inline" and token.content.lower() in {"<sup>", "<sub>"}:
            words.append("^" if "p" in token.content.lower() else "_")  # 10<sup>2</sup> is not 102
        elif token.type == "image":
            words.append(f"![{token.content}]")
    return "".join(words).replace("\xa0", " ").strip()


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


def _undelimited(lines: Sequence[str], first: int, end: int, in_table: set[int]) -> Iterator[Unread]:
    """What looks like a table and has no row of dashes below its first row: nothing says which row is its header."""
    piped = {n for n in range(first, end) if lines[n].count("|") > 1 and n + 1 not in in_table}
    for n in sorted(piped):
        if n - 1 not in piped and n + 1 in piped:
            yield Unread(n + 1, _first_cell(lines[n]), "has no row of dashes below a header")


def _first_cell(line: str) -> str:
    return line.strip(" |").split("|")[0].strip()


def _unread(lines: Sequence[str], first: int, end: int, kind: str) -> Iterator[Unread]:
    """Tables in code and in HTML: they are listed, not read."""
    for n in range(first, end):
        if kind == "html" and "<table" in lines[n].lower():
            yield Unread(n + 1, "", "is an HTML table; only Markdown tables are read")
        elif kind == "code" and n + 1 < end and lines[n].count("|") > 1 and _is_below_header(lines[n + 1]):
            yield Unread(n + 1, _first_cell(lines[n]), "stands in a code block; tables there are not read")
