"""Documented figures of a table that is a site's own document, replaced where they stand; all else keeps its bytes."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from pytest_gsw.common.words import counted
from pytest_gsw.tables.metrics import DOCUMENTED, SAVE_TIME, Series
from pytest_gsw.tables.model import Accepted, Baseline
from pytest_gsw.tables.stated import stated_rows

#: A number or percentage as tables have it, quoted or not.
_TOKEN = re.compile(r"""(?P<quote>["']?)(?P<number>\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)(?P<unit> ?%)?(?P=quote)""")
#: The comment above a documented figure that was measured, as :func:`with_documented` writes it.
_MEASURED = re.compile(r"[ \t]*# measured on [A-Za-z0-9._-]+, \d{4}-\d\d-\d\d: median of ")
#: Figures are written with this many digits at least; documents have four.
_DIGITS = 4

#: What a row's document may state; all of it follows from the step time.
_STEP_FIGURES = tuple(key for key in DOCUMENTED if key != SAVE_TIME.key)


class EditError(ValueError):
    """The file cannot be changed; the message says why, for the one who edits it by hand."""


def with_documented(path: Path, text: str, changes: Sequence[tuple[Baseline, Mapping[str, float], Accepted]]) -> str:
    """A table's text with other documented figures, and a comment above each row that says what they are made of.

    The text is edited, and not written anew from its rows: the table is somebody's own document, whose comments, order
    and alignment no reader of YAML keeps. Places come from the loader, never from a guess at the file's style, and
    :func:`pytest_gsw.ageing.patch.check` makes sure that the new text says what was meant and nothing else.

    Args:
        path: The table.
        text: Its text.
        changes: A row, the new values of all figures that its document may state (fractions for percentages),
            and what they were measured by.

    Raises:
        EditError: A figure of the row does not follow from its step time, or is not written at the row itself.
        FileError: The file is wrong.
    """
    lines = text.splitlines(keepends=True)
    stated = {row.id: row.values for row in stated_rows(path)}
    comments: dict[int, list[str]] = {}
    edits: list[tuple[int, int, str, float]] = []
    for row, figures, accepted in changes:
        judged = row.judged_by
        for key in (judged.key,) if judged.series is Series.SAVES else _STEP_FIGURES:
            place = stated[row.id].get(key)
            if place is None:
                continue
            if (place.line, place.column) < (row.location.line, row.location.column):
                raise EditError(f"{key} of {row.id} is not written at the row itself")
            if key not in figures:
                raise EditError(f"nothing says what {key} of {row.id} would be")
            edits.append((place.line - 1, place.column - 1, key, figures[key]))
        comments.setdefault(_row_line(lines, row), []).append(_measured_by(accepted))
    # From the last to the first, so that places before stay where they are.
    for number, column, key, value in sorted(edits, reverse=True):
        lines[number] = _with_token(lines[number], column, key, value)
    for number in sorted(comments, reverse=True):
        line = lines[number]
        indent, end = line[: len(line) - len(line.lstrip(" "))], "\r\n" if line.endswith("\r\n") else "\n"
        old = number > 0 and _MEASURED.match(lines[number - 1]) is not None
        lines[number - old : number] = [f"{indent}{comment}{end}" for comment in comments[number]]
    return "".join(lines)


def _row_line(lines: Sequence[str], row: Baseline) -> int:
    """The line above which a row's comment goes: its own, or that of a dash that stands alone above it."""
    number = row.location.line - 1
    alone = not lines[number][: row.location.column - 1].strip() and lines[number - 1].strip() == "-"
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
    # Tables are often aligned: a number ends where the old one ended, as long as one of the blanks before it is left.
    before = line[: min(len(line[:column].rstrip(" ")) + 1, column)]
    return f"{before}{new.rjust(match.end() - len(before))}{line[match.end() :]}"


def _like(old: str, value: float) -> str:
    """A number with as many decimals as the one that it replaces has, and with four digits at least."""
    if "e" in old.lower():
        return f"{value:.6g}"
    decimals = len(old.partition(".")[2])
    digits_before = math.floor(math.log10(value)) + 1
    return f"{value:.{max(decimals, _DIGITS - digits_before, 0)}f}"
