"""Tables of a document (GitHub's pipe tables and HTML's), their headings, and the parsing of cells."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from html.parser import HTMLParser
from itertools import count, islice

from pytest_gsw.common.blocks import BOX
from pytest_gsw.common.redact import UNSAFE
from pytest_gsw.hardware import ACCELERATORS
from pytest_gsw.tables import metrics
from pytest_gsw.tables.schema import FILE_FIELDS, ROW_FIELDS
from pytest_gsw.tables.value_types import Field
from pytest_gsw.tables.yaml_values import Stated

#: A text of a document and its place, line and column from 1.
Cell = Stated


@dataclass(frozen=True)
class DocumentTable:
    """One table. Its rows are as long as its header; others are faults that readers report."""

    header: tuple[Cell, ...]
    rows: tuple[tuple[Cell, ...], ...]
    #: The headings above it, the outermost first; the caption of an HTML table is the last one.
    headings: tuple[Cell, ...]

    @property
    def line(self) -> int:
        """The line of the header."""
        return self.header[0].line


@dataclass(frozen=True)
class Remark:
    """A note on a document for the user, or on a part that is not read, with the reason."""

    line: int
    text: str
    #: The line of facts.yaml that resolves it, if there is one.
    add: str = ""


@dataclass(frozen=True)
class Document:
    """The tables of a document."""

    tables: tuple[DocumentTable, ...]
    left_out: tuple[Remark, ...]


# ---- HTML tables as rows of cells: a cell with a span is in each place that it covers -----------------

#: Limits on places of a table, and on columns that a cell may cover: a table of figures has some hundred.
MAX_PLACES = 20_000
_MAX_COLUMNS = 1_000

#: A line that begins with a table, perhaps within other tags.
_TABLE_LINE = re.compile(r"\s*(?:<[^<>]{1,200}>\s*){0,10}?(?P<table><table(?![A-Za-z0-9-]))", re.IGNORECASE)
#: Tags within a text, by their replacement: a raised 2 changes a number, and struck out text is none.
_MARKS = {
    **dict.fromkeys(("sup", "sub"), "^"),
    **dict.fromkeys(("s", "del", "strike"), "~~"),
    **dict.fromkeys(("b", "i", "em", "strong", "code", "span", "a", "u", "small", "font", "mark", "tt"), ""),
}
#: The end of a table.
_TABLE_END = re.compile(r"</table\s*>", re.IGNORECASE)
_HIDDEN = re.compile(r"display\s*:\s*none", re.IGNORECASE)


@dataclass
class _Cell:
    line: int
    column: int
    columns: int
    rows: int
    is_head: bool
    text: str = ""


def _html_table(lines: Sequence[str], first: int, headings: tuple[Cell, ...]) -> tuple[int, DocumentTable | Remark]:
    """The table that begins in a line and ends in one of these lines, and the line after it; both count from 0."""
    last = first
    while _TABLE_END.search(lines[last]) is None:
        last += 1
    begin = _TABLE_LINE.match(lines[first])
    column = begin.start("table") if begin is not None else 0
    parser = _Parser(first + 1)
    parser.feed(" " * column + "\n".join(lines[first : last + 1])[column:])
    parser.close()
    rows = [row for row in parser.rows if row]
    grid = _grid(rows)
    if parser.tables != 1:
        reason = "an HTML table with another one in it, or in its line"
    elif grid is None:
        reason = f"an HTML table of more than {MAX_PLACES} cells"
    elif not grid:
        reason = "an HTML table without cells"
    else:
        names = next((at for at, row in enumerate(rows) if not all(cell.is_head for cell in row)), len(rows)) or 1
        # The name of one column: the names from several head rows, each once.
        header = (
            replace(cells[-1], text=" ".join(dict.fromkeys(cell.text for cell in cells)))
            for cells in zip(*grid[:names], strict=False)
        )
        captions = [Cell(plain(parser.caption.text), first + 1, 1)] if parser.caption.text else []
        return last + 1, DocumentTable(tuple(header), tuple(grid[names:]), (*headings, *captions))
    return last + 1, Remark(first + 1, reason)


class _Parser(HTMLParser):
    """Collects the cells of a table from its tags."""

    def __init__(self, first_line: int) -> None:
        super().__init__(convert_charrefs=True)
        self.rows: list[list[_Cell]] = [[]]
        self.tables = 0
        self.caption = _Cell(first_line, 1, 1, 1, is_head=True)
        self._first_line = first_line
        self._in_head = False
        #: The last row, which is none of the rows if it is hidden; the open cell or caption.
        self._row = self.rows[0]
        self._cell: _Cell | None = None

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Open a table, row or cell; HTML lets most end tags be left out."""
        attributes = dict(attrs)
        if tag == "table":
            self.tables += 1
        elif tag in {"thead", "tbody", "tfoot"}:
            self._in_head = tag == "thead"
        elif tag == "caption":
            self._cell = self.caption
        elif tag == "tr":
            self._cell, self._row = None, []
            if "hidden" not in attributes and _HIDDEN.search(attributes.get("style") or "") is None:
                self.rows.append(self._row)
        elif tag in {"td", "th"}:
            line, column = self.getpos()
            columns, rows = (_span(attributes.get(name)) for name in ("colspan", "rowspan"))
            is_head = tag == "th" or self._in_head
            self._cell = _Cell(self._first_line + line - 1, column + 1, columns, rows, is_head)
            self._row.append(self._cell)
        else:
            self.handle_data(_MARKS.get(tag, " "))

    def handle_endtag(self, tag: str) -> None:
        """Close a cell or a part of the table."""
        if tag in {"td", "th", "tr", "table"} or (tag == "caption" and self._cell is self.caption):
            self._cell = None
        elif tag == "thead":
            self._in_head = False

    def handle_data(self, data: str) -> None:
        """Add the text of a cell."""
        if self._cell is not None:
            self._cell.text += data


def _span(text: str | None) -> int:
    """The number of places that a cell covers; a span of 0 reaches to the end of the table."""
    if text is None or re.fullmatch(r"\s*[0-9]{1,6}\s*", text) is None:
        return 1
    return min(int(text) or _MAX_COLUMNS, _MAX_COLUMNS)


def _grid(rows: Sequence[Sequence[_Cell]]) -> list[tuple[Cell, ...]] | None:
    """Rows with each cell in all places that it covers; ``None`` if these are too many."""
    grid: list[tuple[Cell, ...]] = []
    left: dict[int, tuple[Cell, int]] = {}
    places = 0
    for row in rows:
        placed = {column: spot for column, (spot, _) in left.items()}
        left = {column: (spot, more - 1) for column, (spot, more) in left.items() if more > 1}
        is_head = all(cell.is_head for cell in row)
        free = (column for column in count() if column not in placed)
        for cell in row:
            is_ambiguous = cell.columns > 1 and not is_head and re.search("[0-9]", cell.text)
            text = f"{cell.text} (over {cell.columns} columns)" if is_ambiguous else cell.text
            spot = Cell(plain(text), cell.line, cell.column)
            for column in islice(free, cell.columns):
                placed[column] = spot
                if cell.rows > 1:
                    left[column] = (spot, cell.rows - 1)
            if places + len(placed) > MAX_PLACES:
                return None
        places += len(placed)
        # A row that leaves a gap before a cell from above has lost a cell: it ends there, and counts as short.
        whole = next(column for column in count() if column not in placed)
        grid.append(tuple(placed[column] for column in range(whole)))
    return grid


# ---- Documents ------------------------------------------------------------------------------------

#: A longer cell is neither a figure nor a label.
LONGEST_CELL = 300
_FENCE = re.compile(r"\s*(`{3,}|~{3,})([^`]*)$")
_HEADING = re.compile(r" {0,3}(#{1,6})[ \t]+(.*)")
_UNDERLINE = re.compile(r" {0,3}(=+|-+)[ \t]*")
_DELIMITERS = re.compile(r"\|?(?:[ \t]*:?-+:?[ \t]*\|)*(?:[ \t]*:?-+:?)?")
_TAG = re.compile(r"<(?P<end>/?)(?P<name>[A-Za-z][A-Za-z0-9]{0,20})(?:[\s/][^<>]{0,200})?>")
_LINK = re.compile(r"!?\[([^\[\]]*)\]\([^()]*\)")
_EMPHASIS = re.compile(r"(\*{1,3}|`)(?=\S)([^*`]*[^*`\s])\1")
_NOTE = re.compile(r"\[\^[^\[\]]*\]")
_MARKUP = re.compile(r"[\\\[<*`&]")
_QUOTE = re.compile(r"^(?:\s{0,3}>)+ ?")
_COMMENT = re.compile(r"<!(?=--).*?-->", re.DOTALL)
_FRONT_MATTER = re.compile(r"\A---\n(?:.+\n)+?---$", re.MULTILINE)
#: What is before the cells of a line of code: a rank, and the sign of a comment. A number with its unit is one cell.
_BEFORE_CODE = re.compile(r"\s*(?:[0-9]{1,7}:\s+)?(?:#\s)?")
_CODE_CELL = re.compile(rf"[0-9][0-9.,]{{0,30}} [A-Za-z/%]{{1,16}}(?!\S)|\S{{1,{LONGEST_CELL}}}")


def parse_document(text: str, code: Mapping[int, Sequence[int]] | None = None) -> Document:
    """The tables of a document's text, except for those in comments and in blocks of code.

    Args:
        text: The document.
        code: The tables of blocks of code that are read: the lines of their rows, by the line of the header.
    """
    lines, of_code = re.split("\r\n?|\n", text), code or {}
    kept = _without_comments("\n".join(_without_code(lines))).split("\n")
    visible = [_QUOTE.sub(lambda quote: " " * len(quote[0]), line, count=1) for line in kept]
    parts: list[DocumentTable | Remark] = []
    headings: list[tuple[int, Cell]] = []
    number = 0
    # End of the last table: a table that begins after it does not end.
    last_end = max((at for at, line in enumerate(visible, 1) if _TABLE_END.search(line)), default=0)
    while number < len(visible):
        line, end = visible[number], number + 1
        heading = _heading(visible, number)
        if heading is not None:
            depth, title = heading
            headings = [(level, one) for level, one in headings if level < depth]
            headings.append((depth, Cell(plain(title), end, 1)))
        above = tuple(one for _, one in headings)
        if end in of_code:
            cells = [_code_cells(lines[at - 1], at) for at in (end, *of_code[end]) if at <= len(lines)]
            parts += [DocumentTable(cells[0], tuple(cells[1:]), above)] if cells[0] else []
        elif "<" in line and _TABLE_LINE.match(line):
            part: DocumentTable | Remark = Remark(end, "an HTML table that does not end")
            if number < last_end:
                end, part = _html_table(visible, number, above)
            parts.append(part)
        elif "|" in line and end < len(visible) and _is_delimiter(visible[end]):
            end, part = _pipe_table(visible, number, above)
            parts.append(part)
        number = end
    return Document(
        tuple(part for part in parts if isinstance(part, DocumentTable)),
        tuple(part for part in parts if isinstance(part, Remark)),
    )


def plain(text: str) -> str:
    """The words of a text without Markdown's marks, HTML's tags, footnotes, and what is not seen."""
    text = UNSAFE.sub("", text)
    if _MARKUP.search(text) is None:
        return " ".join(text.split())
    text = _NOTE.sub("", _LINK.sub(r"\1", text.replace("\\|", "|")))
    text = _EMPHASIS.sub(r"\2", _TAG.sub(_mark, text))
    return " ".join(UNSAFE.sub("", html.unescape(text)).split())


def _mark(tag: re.Match[str]) -> str:
    return "" if tag["end"] else _MARKS.get(tag["name"].lower(), " ")


def _without_code(lines: Iterable[str]) -> Iterator[str]:
    """The lines, of which those of code between fences are empty."""
    fence = ""
    for line in lines:
        match = _FENCE.fullmatch(line)
        yield "" if fence or match is not None else line
        if match is not None and not fence:
            fence = match[1]
        elif match is not None and match[1].startswith(fence) and not match[2].strip():
            fence = ""


def _without_comments(text: str) -> str:
    """The text without YAML before it, and what is between ``<!--`` and ``-->``; an unclosed one is no comment."""
    text = _FRONT_MATTER.sub(_line_ends, text)
    end = text.rfind("-->") + 3  # each comment that begins before has an end: the cost is linear
    return _COMMENT.sub(_line_ends, text[:end]) + text[end:]


def _line_ends(hidden: re.Match[str]) -> str:
    return "\n" * hidden[0].count("\n")


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


def _code_cells(line: str, number: int) -> tuple[Cell, ...]:
    """The cells of a line of code, which counts from 1."""
    spaced = _BEFORE_CODE.sub(lambda before: " " * len(before[0]), BOX.sub(" ", line), count=1)
    return tuple(Cell(plain(cell[0]), number, cell.start() + 1) for cell in _CODE_CELL.finditer(spaced))


def _is_delimiter(line: str) -> bool:
    return "|" in line and "-" in line and _DELIMITERS.fullmatch(line.strip()) is not None


def _pipe_table(lines: Sequence[str], number: int, headings: tuple[Cell, ...]) -> tuple[int, DocumentTable | Remark]:
    """The table whose header is this line, and the line after it."""
    header = _cells(lines[number], number)
    end = number + 2
    while end < len(lines) and "|" in lines[end]:
        if end + 1 < len(lines) and _is_delimiter(lines[end + 1]):
            break  # the header of another table
        end += 1
    if len(header) != len(_cells(lines[number + 1], 0)):
        return end, Remark(number + 1, "the line below the table's header has another number of cells")
    width, rows = len(header), [_cells(lines[at], at) for at in range(number + 2, end)]
    # Empty cells beyond the header are ignored; with any other number of cells, their columns are unknown.
    fitted = (row if any(cell.text for cell in row[width:]) else row[:width] for row in rows)
    return end, DocumentTable(header, tuple(fitted), headings)


# ---- The value of a cell: a plain number with its unit, or a word; nothing is repaired ---------------

#: Cells that mean a missing value.
NOTHING = frozenset({"", "-", "\u2013", "\u2014", "na", "n/a", "none", "null", "~"})
#: Figures of training and of benchmarks: every metric of the table of metrics.
FIGURES = frozenset({*metrics.DOCUMENTED, *metrics.FURTHER})
#: Keys whose cells are counts.
COUNTS = frozenset(
    {
        *("gpus", "nodes", "gpus_per_node", "sequence_length", "global_batch_size", "micro_batch_size"),
        *("gradient_accumulation_steps", "layers", "tp", "pp", "cp", "ep", "dp", "vp", "fsdp", "min_steps"),
    }
)
#: Values of a row or a file that a label may imply.
SETTINGS = frozenset(
    key
    for key, known in {**FILE_FIELDS, **ROW_FIELDS}.items()
    if isinstance(known, Field) and key not in {*metrics.DOCUMENTED, metrics.VALUE, "line", "document"}
)

_S = {"": "1", "s": "1", "sec": "1", "secs": "1", "seconds": "1", "s/step": "1", "ms": "0.001"}
_RATE = {"": "1", "k": "1000", "tokens/s": "1", "tok/s": "1", "tokens/sec": "1"}
#: By a metric's unit, the units that may follow a number, each with its factor.
_UNITS: Mapping[str, Mapping[str, str]] = {
    metrics.STEP_TIME.unit: _S,
    metrics.MFU.key: {"%": "1"},
    metrics.DAYS_TO_TRAIN.unit: {"": "1", "d": "1", "days": "1"},
    metrics.TOKENS_PER_S.unit: _RATE,
    "tokens/s/GPU": {**_RATE, "tokens/s/gpu": "1", "token/gpu/sec": "1"},
    metrics.TFLOPS_PER_GPU.unit: {"": "1", "tflop/s": "1", "tflops": "1"},
    "ms": {"": "1", "ms": "1", "s": "1000", "us": "0.001"},
    "us": {"": "1", "us": "1", "ms": "1000"},
    "min": {"": "1", "min": "1", "mins": "1", "minutes": "1", "h": "60", "hours": "60"},
}
#: Keys whose comma may be a decimal one: a time of ``8,309`` seconds is rare.
_NO_COMMA = frozenset({metrics.STEP_TIME.key, metrics.SAVE_TIME.key, metrics.DAYS_TO_TRAIN.key, metrics.MFU.key})
_NUMBER = re.compile(
    r"(?P<digits>[1-9][0-9]{0,2}(?:,[0-9]{3}){1,5}|0|[1-9][0-9]{0,14})(?P<rest>(?:\.[0-9]{1,15})?(?:[eE][+-]?[0-9]{1,3})?)\s?"
    r"(?P<unit>[A-Za-z/%]{0,16})"
)

_DTYPES = {dtype for one in ACCELERATORS for dtype in one.tflops} | {"fp32", "tf32", "int8"}
#: Patterns for a word of each key within a longer text; a key without one is any text.
WORDS: Mapping[str, str] = {
    "size": r"[0-9]{1,4}(?:\.[0-9]{1,3})?[bBmM]",
    "dtype": "|".join(sorted(map(re.escape, _DTYPES), key=len, reverse=True)),
    "accelerator": "|".join(sorted((re.escape(one.name) for one in ACCELERATORS), key=len, reverse=True)),
    "release": r"v?[0-9]{1,4}(?:\.[0-9]{1,4}){1,3}",
    **dict.fromkeys(COUNTS, "[0-9][0-9,]{0,14}"),
    **dict.fromkeys(FIGURES, r"[0-9][0-9,.]{0,20}(?:[eE][+-]?[0-9]{1,3})?%?"),
}


_ATTRIBUTE = re.compile(r"attributes\.[A-Za-z_][A-Za-z0-9_]{0,59}")


def is_key(name: str) -> bool:
    """True if a document may state this key; ``attributes.NAME`` is a column without a key."""
    return name in FIGURES | COUNTS | SETTINGS or _ATTRIBUTE.fullmatch(name) is not None


def read_cell(key: str, text: str, factor: str = "") -> str:
    """The value of a cell as tables write it, digit for digit; empty if the cell means a missing value.

    Raises:
        ValueError: It is no plain number, or no name, of this key.
    """
    if key.startswith("attributes."):
        return text
    if text.lower() in NOTHING:
        return ""
    if key in FIGURES or key in COUNTS:
        text = _number(key, text, factor)
    elif key in {"model", "case"}:
        text = re.sub(r"[^a-z0-9._-]+", "-", text.lower()).strip("-.")
    elif key in {"size", "framework", "log_format", "dtype", "release"}:
        text = text.lower()
    field = ROW_FIELDS.get(key) or FILE_FIELDS.get(key) or ROW_FIELDS[metrics.VALUE]
    if isinstance(field, Field):
        field.read(text)
    return text


def _number(key: str, text: str, factor: str) -> str:
    match = _NUMBER.fullmatch(text)
    if match is None or (key in _NO_COMMA and "," in match["digits"]):
        raise ValueError(f"the cell reads '{text}', which is no plain number")
    metric = metrics.BY_KEY.get(key) or metrics.FURTHER.get(key)
    unit = "" if metric is None else metric.unit
    units = {**_UNITS.get(unit or key, {"": "1", unit.lower(): "1"}), **({"": "1"} if factor else {})}
    times = units.get(match["unit"].lower())
    if times is None:
        wanted = ", ".join(f"'{unit}'" for unit in units if unit) or "no unit"
        raise ValueError(f"the cell reads '{text}', wanted {wanted} behind the number")
    number = match["digits"].replace(",", "") + match["rest"]
    for scale in (times, factor.removesuffix("%")):
        if scale not in {"", "1"}:
            number = f"{Decimal(number) * Decimal(scale):f}"
            number = number.partition(".")[0] if key in COUNTS and not Decimal(number) % 1 else number
    if not Decimal(number) or (key in COUNTS and not number.isdigit()):
        raise ValueError(f"the cell reads '{text}', wanted a {'whole number' if key in COUNTS else 'number'} above 0")
    return f"{number}%" if key == metrics.MFU.key else number
