"""A document's text against itself and against its tables."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from pytest_gsw.documents.audit.examples import batches, examples, peaks, step_times
from pytest_gsw.documents.audit.figures import Row
from pytest_gsw.documents.audit.findings import Explanation, Finding, Kind, Severity
from pytest_gsw.documents.audit.scripts import scripts
from pytest_gsw.documents.audit.statements import chains, equations
from pytest_gsw.documents.audit.text import Text, first

_TITLE_VALUE = re.compile(r"\b(TP|PP|CP|EP|DP|VP|MBS|GBS|GA|FSDP) ?= ?(\d{1,7})\b")
_TERM = re.compile(r"\((\w[\w ]{0,30} flops)\)", re.IGNORECASE)
_DEFINED = re.compile(r"^[\s*-]{0,12}(\w[\w ]{0,30} flops) ?=", re.IGNORECASE)


def prose(text: Text, rows: Sequence[Row]) -> Iterator[Finding | None]:
    """Everything that the text says and that can be computed: ``None`` where it agrees."""
    yield from equations(text, rows)
    yield from chains(text)
    yield from examples(text, rows)
    yield from batches(text, rows)
    yield from step_times(text, rows)
    yield from peaks(text)
    yield from scripts(text, rows)
    yield from first(_titles(text))
    yield from first(_undefined(text))


def _titles(text: Text) -> Iterator[Finding | None]:
    """A table's title that gives one value for columns that have several."""
    title: dict[str, str] = {}
    for number, line in enumerate(text.lines, 1):
        if "|" not in line:
            title = {}
            continue
        first_cell, *cells = (cell.strip() for cell in line.strip().strip("|").split("|"))
        key = first_cell.upper()
        below = text.lines[number] if number < len(text.lines) else ""
        if re.fullmatch(r"[\s|:-]{3,2000}", below) and "-" in below and "|" in below:
            title = dict(_TITLE_VALUE.findall(first_cell))
        elif key in title and cells:
            other = [cell for cell in cells if cell.isdigit() and cell != title[key]]
            which = f"the title holds for some of its columns only; others have {', '.join(dict.fromkeys(other))}"
            yield (
                None
                if not other
                else text.finding(
                    number,
                    line.index("|", line.index(first_cell)) + 2,
                    f"{key} {', '.join(cells)}",
                    f"{key}={title[key]}",
                    "the title of the same table",
                    Explanation(Kind.ONE_INPUT, which),
                    severity=Severity.NOTICE,
                )
            )


def _undefined(text: Text) -> Iterator[Finding]:
    """Terms of the formula of model FLOPs that the document never defines."""
    defined = {match[1].lower() for line in text.lines if (match := _DEFINED.match(line)) is not None}
    unsaid = Explanation(Kind.FORMULA, "the formula names it, and no line of the document says what it is")
    for number, line in enumerate(text.lines, 1):
        if re.match(r"^[\s*-]{0,12}model flops ?= ?\(", line, re.IGNORECASE):
            for match in _TERM.finditer(line):
                if match[1].lower() not in defined:
                    place = (number, match.start(1) + 1)
                    formula = "the formula of model FLOPs"
                    yield text.finding(*place, match[1], "nothing", formula, unsaid, severity=Severity.NOTICE)
