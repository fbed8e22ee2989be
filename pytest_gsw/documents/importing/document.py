"""A document becomes rows: its tables, what its prose says of all of them, and the facts that it leaves unsaid."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from pytest_gsw.documents.importing.complete import Context, complete
from pytest_gsw.documents.importing.draft import Draft, Remark, proven, repaired
from pytest_gsw.documents.importing.facts import DocumentFacts
from pytest_gsw.documents.importing.files import check_facts, files_of
from pytest_gsw.documents.importing.join import fitting, joined, section_of
from pytest_gsw.documents.importing.markdown import Document, Unread
from pytest_gsw.documents.importing.model import JoinedTable, Read, Row
from pytest_gsw.documents.importing.prose import read_prose
from pytest_gsw.documents.importing.rows import Configuration, DraftTable, Extracted, extract


def read_rows(document: Document, facts: DocumentFacts, *, directory: str | None = None) -> Read:
    """All rows of a document.

    Raises:
        ConfigurationError: Facts of a table, a row or a file that the document does not have, or that contradict
            what a table states.
    """
    extracted = extract(document)
    context = Context(document, read_prose(document), facts, directory)
    rows: list[tuple[DraftTable, Row]] = []
    remarks: list[tuple[int | None, Remark]] = []
    joins = dict.fromkeys(((one.table.line, one.text) for one in extracted.configurations), 0)
    for table, draft, row, configurations in _rows(extracted, context):
        if row is not None:
            rows.append((table, replace(row, number=len(rows))))
            for place in {(one.table.line, one.text) for one in configurations}:
                joins[place] += 1
        of_row = (*draft.remarks, *(_left_out(row) if row is not None else ()))
        remarks += ((None if row is None else len(rows) - 1, remark) for remark in of_row)
    check_facts(facts, extracted, rows)
    files = files_of(rows, facts, context.prose)
    ids = {row.number: row.id for file in files for table in file.tables for row in table.rows}
    told = tuple(("" if number is None else ids[number], remark) for number, remark in remarks)
    unjoined = [Unread(*place, "has settings of no row that was read") for place, number in joins.items() if not number]
    left_out = sorted((*extracted.left_out, *unjoined), key=lambda one: one.line)
    used = tuple(JoinedTable(*place, number) for place, number in joins.items() if number)
    return Read(document, files, tuple(left_out), told, used)


def _left_out(row: Row) -> Iterator[Remark]:
    place = row.values["line"]
    return (Remark(place.line, place.column, key, f"left out: {reason}") for key, reason in row.left_out.items())


def _rows(
    extracted: Extracted, context: Context
) -> Iterator[tuple[DraftTable, Draft, Row | None, Sequence[Configuration]]]:
    """Each draft with the row that came of it and the configurations that fit it.

    The row is ``None`` where it cannot be told what its cells are.
    """
    for table in extracted.tables:
        section = section_of(context.document, table.table)
        for draft in table.rows:
            if not draft.values:
                yield table, draft, None, ()
                continue
            configurations = fitting(extracted.configurations, draft, table.title)
            whole = repaired(joined(draft, table, configurations, section, context.prose))
            if whole.doubt and not proven(whole):
                place = next(iter(whole.values.values()))
                remark = Remark(place.line, place.column, "row", f"left out: {whole.doubt}")
                yield table, replace(whole, remarks=(remark,)), None, ()
            else:
                yield table, whole, complete(whole, table, section, context), configurations
