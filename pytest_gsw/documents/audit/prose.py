"""A document's text against itself and against its tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pytest_gsw.documents.audit.document import Document
from pytest_gsw.documents.audit.examples import batches, examples, peaks, step_times
from pytest_gsw.documents.audit.figures import Row
from pytest_gsw.documents.audit.model import Explanation, Finding, Kind, Severity
from pytest_gsw.documents.audit.scripts import scripts
from pytest_gsw.documents.audit.spots import Place
from pytest_gsw.documents.audit.statements import chains, equations


def prose(file: str, document: Document, rows: Sequence[Row]) -> Iterator[Finding | None]:
    """Everything that the text says and that can be computed: ``None`` where it agrees."""
    place = Place(file)
    yield from equations(place, document, rows)
    yield from chains(place, document)
    yield from examples(place, document, rows)
    yield from batches(place, document, rows)
    yield from step_times(place, document, rows)
    yield from peaks(place, document)
    yield from scripts(place, document, rows)
    yield from _titles(place, document)
    for line, column, term in document.undefined:
        unsaid = Explanation(Kind.FORMULA, "the formula names it, and no line of the document says what it is")
        yield place.finding(
            line, column, term, "nothing", "the formula of model FLOPs", unsaid, severity=Severity.NOTICE
        )


def _titles(place: Place, document: Document) -> Iterator[Finding | None]:
    """A table's title that gives one value for columns that have several."""
    for row in document.titled:
        other = [cell for cell in row.cells if cell.isdigit() and cell != row.title]
        if not other:
            yield None
            continue
        text = f"the title holds for some of its columns only; others have {', '.join(dict.fromkeys(other))}"
        yield place.finding(
            row.line,
            row.column,
            f"{row.key} " + ", ".join(row.cells),
            f"{row.key}={row.title}",
            "the title of the same table",
            Explanation(Kind.ONE_INPUT, text),
            severity=Severity.NOTICE,
        )
