"""Changes of a baseline file as changes of its text: what a proposal does not mean to change keeps every byte.

Places come from the loader, never from a guess at the file's style. Whoever uses the new text makes sure with
:func:`check` that it says what was meant and nothing else; a style that this module does not know shows there.
"""

from __future__ import annotations

import json
import math
import re
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from pathlib import Path

from pytest_gsw.common.words import counted
from pytest_gsw.errors import FileError
from pytest_gsw.tables.accepted import ACCEPTED_FIGURES
from pytest_gsw.tables.keys import FILE_FIELDS
from pytest_gsw.tables.load import load_table
from pytest_gsw.tables.metrics import DOCUMENTED, SAVE_TIME, Series
from pytest_gsw.tables.model import Accepted, Baseline
from pytest_gsw.tables.yamlfile import Value, Values, read_mapping

#: Line ends as YAML counts them; a comment may hold any of them.
_LINE_END = re.compile("\r\n|[\n\r\x85\u2028\u2029]")
#: A text that YAML takes as it stands, whatever stands around it; row ids have brackets behind their first letter.
_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9._+/-]*(\[[A-Za-z0-9._-]*\])?")
#: Words that YAML takes for something else.
_NOT_PLAIN = frozenset({"null", "true", "false", "yes", "no", "on", "off", "y", "n"})
#: A number or percentage as tables have it, quoted or not.
_TOKEN = re.compile(r"""(?P<quote>["']?)(?P<number>\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)(?P<unit> ?%)?(?P=quote)""")
#: The comment above a documented figure that was measured, as :func:`with_documented` writes it.
_MEASURED = re.compile(r"[ \t]*# measured on [A-Za-z0-9._-]+, \d{4}-\d\d-\d\d: median of ")
#: Figures are written with this many digits at least; documents have four.
_DIGITS = 4

#: What a row's document may state; all of it follows from the step time.
_STEP_FIGURES = tuple(key for key in DOCUMENTED if key != SAVE_TIME.key)


class EditError(ValueError):
    """The file cannot be changed as text; the message says why, for the one who edits it by hand."""


@dataclass(frozen=True)
class _Text:
    """A file's text, by its lines as YAML counts them."""

    lines: tuple[str, ...]  #: each with its line end
    end: str  #: how the file ends its lines

    @classmethod
    def of(cls, text: str) -> _Text:
        starts = [0, *(match.end() for match in _LINE_END.finditer(text))]
        lines = [text[start:stop] for start, stop in zip(starts, [*starts[1:], len(text)], strict=True)]
        first = _LINE_END.search(text)
        return cls(tuple(line for line in lines if line), first[0] if first and first[0] != "\r" else "\n")

    def is_content(self, number: int) -> bool:
        """Whether a line (from 0) is neither blank nor a comment."""
        line = self.lines[number].strip()
        return bool(line) and not line.startswith("#")

    def indent(self, number: int) -> int:
        """How many blanks a line begins with."""
        return len(self.lines[number]) - len(self.lines[number].lstrip(" "))


def read_text(path: Path) -> str:
    """A file's text with the line ends that it has.

    Raises:
        EditError: It cannot be read, or is no UTF-8.
    """
    try:
        return path.read_bytes().decode("utf-8")
    except OSError as error:
        raise EditError(f"cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise EditError("is not UTF-8 text") from None


def with_accepted(path: Path, entries: Sequence[tuple[Baseline, Accepted]]) -> str:
    """The file's text with these accepted figures: in place of those of the same row and cluster, else at the end.

    Raises:
        EditError: The file's list of accepted figures is written in one line.
        FileError: The file is wrong.
    """
    values, text = read_mapping(path, FILE_FIELDS), _Text.of(read_text(path))
    if "accepted" not in values:
        return _appended(text, entries)
    there = values["accepted"]
    spans = _entry_spans(text, there)
    by_key = {(row.id, accepted.cluster): (row, accepted) for row, accepted in entries}
    pieces: list[str] = []
    done = 0
    for entry, (dash, end) in zip(there.value, spans, strict=True):
        new = by_key.pop((entry.value["row"].value, entry.value["cluster"].value), None)
        pieces += text.lines[done:dash]
        pieces += text.lines[dash : end + 1] if new is None else _entry_lines(*new, there.column - 1, text.end)
        done = end + 1
    if by_key and pieces and not _LINE_END.search(pieces[-1][-1:]):
        pieces[-1] += text.end
    for row, accepted in by_key.values():
        pieces += _entry_lines(row, accepted, there.column - 1, text.end)
    return "".join([*pieces, *text.lines[done:]])


def with_documented(path: Path, changes: Sequence[tuple[Baseline, Mapping[str, float], Accepted]]) -> str:
    """The file's text with other documented figures, and a comment above each row that says what they are made of.

    What the cluster that they were measured on had accepted for the row is taken out: it would still be judged by.

    Args:
        path: The file.
        changes: A row, the new values of all figures that its document may state (fractions for percentages),
            and what they were measured by.

    Raises:
        EditError: A figure of the row does not follow from its step time, or is not written at the row itself.
        FileError: The file is wrong.
    """
    values, text = read_mapping(path, FILE_FIELDS), _Text.of(read_text(path))
    lines = _without_accepted(text, values, {(row.id, accepted.cluster) for row, _, accepted in changes})
    rows = {
        (row.line, row.column): (row, _above(values, table.value))
        for table in values["tables"].value
        for row in table.value["rows"].value
    }
    comments: dict[int, list[str]] = {}
    edits: list[tuple[int, int, str, float]] = []
    for baseline, figures, accepted in changes:
        entry, above = rows[baseline.location.line, baseline.location.column]
        for key in _stated_figures(baseline, entry.value, above):
            if key not in entry.value:
                raise EditError(f"{key} of {baseline.id} is not written at the row itself")
            if key not in figures:
                raise EditError(f"nothing says what {key} of {baseline.id} would be")
            place: Value = entry.value[key]
            edits.append((place.line - 1, place.column - 1, key, figures[key]))
        comments.setdefault(_row_line(text, entry), []).append(_measured_by(accepted))
    # From the last to the first, so that places before stay where they are.
    for number, column, key, value in sorted(edits, reverse=True):
        lines[number] = _with_token(lines[number], column, key, value)
    for number in sorted(comments, reverse=True):
        new = [f"{' ' * text.indent(number)}{comment}{text.end}" for comment in comments[number]]
        old = number > 0 and _MEASURED.match(lines[number - 1]) is not None
        lines[number - old : number] = new
    return "".join(lines)


def check(path: Path, text: str, wanted: Iterable[Baseline]) -> None:
    """Make sure that a changed text says what was meant, and for all other rows what the file says.

    Args:
        path: The file as it is.
        text: What it would be.
        wanted: Rows as they are to be; documented figures may differ from them in the last digits.

    Raises:
        EditError: It does not.
    """
    expected = {row.id: row for row in load_table(path)} | {row.id: row for row in wanted}
    with tempfile.TemporaryDirectory() as directory:
        draft = Path(directory, path.name)
        draft.write_bytes(text.encode("utf-8"))
        try:
            found = {row.id: row for row in load_table(draft)}
        except FileError as error:
            raise EditError(f"the changed text would be wrong: {error.faults[0]}") from None
    different = [row_id for row_id in {**expected, **found} if not _same(expected.get(row_id), found.get(row_id), path)]
    if different:
        raise EditError(f"the changed text would not say what was meant of {different[0]}")


def _same(expected: Baseline | None, found: Baseline | None, path: Path) -> bool:
    if expected is None or found is None:
        return False
    place = replace(expected.location, path=path)
    documented, others = vars(expected.documented), vars(found.documented)
    close = all(_close(value, others[key]) for key, value in documented.items())
    found = replace(found, location=place, documented=expected.documented)
    return close and found == replace(expected, location=place)


def _entry_spans(text: _Text, there: Value) -> list[tuple[int, int]]:
    """The first and the last line (from 0) of each entry of a list.

    Raises:
        EditError: The list is not written with one entry below the other.
    """
    line = text.lines[there.line - 1]
    start = line[there.column - 1 : there.column]
    if not there.value:
        raise EditError("its 'accepted' is an empty list; take the key out first")
    if start in {"&", "!"}:
        raise EditError("its 'accepted' has an anchor or a tag in front of the list; take that out first")
    if start != "-":
        raise EditError("its 'accepted' is not a list with one entry below the other; write it so first")
    dashes = [_dash_line(text, entry.line - 1, there.column - 1) for entry in there.value]
    ends = [*(_last_content(text, dash - 1) for dash in dashes[1:]), _block_end(text, dashes[-1], there.column - 1)]
    return list(zip(dashes, ends, strict=True))


def _without_accepted(text: _Text, values: Values, keys: AbstractSet[tuple[str, str]]) -> list[str]:
    """The text's lines, empty where they are of accepted figures with these rows and clusters."""
    lines = list(text.lines)
    entries = values["accepted"].value if "accepted" in values else ()
    unwanted = [(entry.value["row"].value, entry.value["cluster"].value) in keys for entry in entries]
    if not any(unwanted):
        return lines
    spans = _entry_spans(text, values["accepted"])
    for (first, last), is_unwanted in zip(spans, unwanted, strict=True):
        if is_unwanted:
            lines[first : last + 1] = [""] * (last + 1 - first)
    if all(unwanted):
        _drop_key(lines, spans[0][0] - 1)
    return lines


def _drop_key(lines: list[str], number: int) -> None:
    """Empty the line of ``accepted:`` at or above a line, and the blank ones before it where nothing follows."""
    while number >= 0 and not lines[number].lstrip("\"'").startswith("accepted"):
        number -= 1
    if number < 0:
        raise EditError("its 'accepted' is not written at the beginning of a line; take its entries out first")
    lines[number] = ""
    if "".join(lines[number:]).strip():
        return
    while number > 0 and not lines[number - 1].strip():
        number -= 1
        lines[number] = ""


def _close(one: float | None, other: float | None) -> bool:
    return one == other or (one is not None and other is not None and math.isclose(one, other, rel_tol=1e-3))


def _appended(text: _Text, entries: Sequence[tuple[Baseline, Accepted]]) -> str:
    lines = list(text.lines)
    if lines and not _LINE_END.search(lines[-1][-1:]):
        lines[-1] += text.end
    if lines and lines[-1].strip():
        lines.append(text.end)
    lines.append(f"accepted:{text.end}")
    for row, accepted in entries:
        lines += _entry_lines(row, accepted, 2, text.end)
    return "".join(lines)


def _entry_lines(row: Baseline, accepted: Accepted, indent: int, end: str) -> list[str]:
    """One accepted figure, a key a line."""
    values = {
        "row": _scalar(row.id),
        "cluster": _scalar(accepted.cluster),
        ACCEPTED_FIGURES[row.metric]: f"{accepted.judged_s:.6g}",
        "jobs": str(accepted.jobs),
        "spread": f"{accepted.spread * 100:.2f}%",
        "job_ids": json.dumps(accepted.job_ids, ensure_ascii=False),
        **({} if accepted.image is None else {"image": _scalar(accepted.image)}),
        "date": accepted.date,
        # Twelve digits, or digits around an "e", would be a number to other readers of YAML.
        "definition": json.dumps(accepted.definition),
    }
    lead = [f"{' ' * indent}- ", *[" " * (indent + 2)] * (len(values) - 1)]
    return [f"{start}{key}: {value}{end}" for start, (key, value) in zip(lead, values.items(), strict=True)]


def _scalar(text: str) -> str:
    is_plain = _PLAIN.fullmatch(text) is not None and text.lower() not in _NOT_PLAIN
    return text if is_plain else json.dumps(text, ensure_ascii=False)


def _dash_line(text: _Text, number: int, column: int) -> int:
    """The line with the dash of a list's entry, which may stand above the entry's first key."""
    while number >= 0:
        line = text.lines[number]
        if line[:column].strip() == "" and line[column : column + 1] == "-":
            return number
        number -= 1
    raise EditError("its 'accepted' is not a list with one entry below the other; write it so first")


def _block_end(text: _Text, dash: int, column: int) -> int:
    """The last line of a list's last entry: what follows is indented no deeper than the list."""
    last = dash
    for number in range(dash + 1, len(text.lines)):
        if not text.is_content(number):
            continue
        if text.indent(number) <= column:
            break
        last = number
    return last


def _last_content(text: _Text, number: int) -> int:
    """The last line up to this one that is neither blank nor a comment: those belong to what follows."""
    while not text.is_content(number):
        number -= 1
    return number


def _above(file: Values, table: Values) -> frozenset[str]:
    """Figures that are written above a row, at its table or its file."""
    return frozenset(key for key in (*_STEP_FIGURES, *ACCEPTED_FIGURES.values()) if key in file or key in table)


def _stated_figures(baseline: Baseline, row: Values, above: frozenset[str]) -> list[str]:
    judged = baseline.judged_by
    keys = (judged.key,) if judged.series is Series.SAVES else _STEP_FIGURES
    return [key for key in keys if key in row or key in above]


def _row_line(text: _Text, entry: Value) -> int:
    """The line above which a row's comment goes: its own, or that of a dash that stands alone above it."""
    number = entry.line - 1
    alone = not text.lines[number][: entry.column - 1].strip() and text.lines[number - 1].strip() == "-"
    return number - 1 if number > 0 and alone else number


def _measured_by(accepted: Accepted) -> str:
    image = "" if accepted.image is None else f", image {accepted.image}"
    median = (
        f"median of {counted(accepted.jobs, 'job')}, spread {accepted.spread * 100:.2f} % ({accepted.job_ids}){image}"
    )
    return f"# measured on {accepted.cluster}, {accepted.date}: {median}"


def _with_token(line: str, column: int, key: str, value: float) -> str:
    match = _TOKEN.match(line, column)
    if match is None:
        raise EditError(f"{key} is not written as a plain number")
    number = value * 100 if match["unit"] else value
    quote = match["quote"]
    new = f"{quote}{_like(match['number'], number)}{match['unit'] or ''}{quote}"
    # Tables are often aligned: what a shorter number leaves is filled up, what stood in front of a longer one is taken.
    start, missing = match.start(), len(match[0]) - len(new)
    while missing < 0 and line[start - 2 : start] == "  ":
        start, missing = start - 1, missing + 1
    return f"{line[:start]}{' ' * max(0, missing)}{new}{line[match.end() :]}"


def _like(old: str, value: float) -> str:
    """A number with as many decimals as the one that it replaces has, and with four digits at least."""
    if "e" in old.lower():
        return f"{value:.6g}"
    decimals = len(old.partition(".")[2])
    digits_before = math.floor(math.log10(value)) + 1
    return f"{value:.{max(decimals, _DIGITS - digits_before, 0)}f}"


def expected_after(row: Baseline, documented: Mapping[str, float], without: str | None = None) -> Baseline:
    """A row with other documented figures, and without what a cluster has accepted, as :func:`check` wants it."""
    stated = {key: documented.get(key, old) for key, old in vars(row.documented).items() if old is not None}
    left = {cluster: accepted for cluster, accepted in row.accepted.items() if cluster != without}
    return replace(row, documented=replace(row.documented, **stated), accepted=left)
