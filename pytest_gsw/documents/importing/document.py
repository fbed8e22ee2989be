"""A document becomes rows: its tables, what its prose says of all of them, and the facts that it leaves unsaid."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeAlias

from pytest_gsw.documents.importing.cases import chapter_of, with_cases
from pytest_gsw.documents.importing.complete import Context, complete
from pytest_gsw.documents.importing.directories import recipe_directory
from pytest_gsw.documents.importing.documented import as_documented
from pytest_gsw.documents.importing.draft import Draft, Remark
from pytest_gsw.documents.importing.emit import yaml_text
from pytest_gsw.documents.importing.evidence import read_evidence
from pytest_gsw.documents.importing.facts import DocumentFacts
from pytest_gsw.documents.importing.files import check_facts, files_of
from pytest_gsw.documents.importing.identities import proven, repaired
from pytest_gsw.documents.importing.join import Section, fitting, joined, section_of
from pytest_gsw.documents.importing.lengths import with_sequence_lengths
from pytest_gsw.documents.importing.markdown import Unread, read_document
from pytest_gsw.documents.importing.model_flops import known_flops
from pytest_gsw.documents.importing.prose import read_prose, read_sections
from pytest_gsw.documents.importing.row import JoinedTable, Row, RowFile, RowTable
from pytest_gsw.documents.importing.rows import Configuration, DraftTable, extract
from pytest_gsw.tables.stated import StatedRow

#: A README has some ten; each is held against each row.
_MOST_CONFIGURATIONS = 200
#: What a row is made of.
_Part: TypeAlias = tuple[Draft, DraftTable, Sequence[Configuration], Section]


@dataclass(frozen=True)
class Imported:
    """What one document gives."""

    #: The document's name, without its directory.
    name: str
    lines: tuple[str, ...]
    #: The YAML files to be.
    files: tuple[RowFile, ...]
    #: Tables that are no baselines, with the reason.
    left_out: tuple[Unread, ...]
    #: Cells that were not taken as they stand, with the row's id (empty where no row came of it).
    remarks: tuple[tuple[str, Remark], ...]
    joined: tuple[JoinedTable, ...]

    @property
    def rows(self) -> tuple[StatedRow, ...]:
        """Places count in the document."""
        return tuple(row.stated(table, file, self.name) for file, table, row in self._rows())

    @property
    def documented(self) -> tuple[StatedRow, ...]:
        """The rows with all that the document states, also what they do without because it is refuted."""
        rows = as_documented([row for _, _, row in self._rows()])
        places = ((file, table) for file, table, _ in self._rows())
        return tuple(row.stated(table, file, self.name) for (file, table), row in zip(places, rows, strict=True))

    @property
    def blanks(self) -> tuple[tuple[str, str, str, str], ...]:
        """What neither document nor facts say, and why: by YAML file, row id and key."""
        return tuple((file.path, row.id, *blank) for file, _, row in self._rows() for blank in row.blanks.items())

    @property
    def yaml_text(self) -> Mapping[str, str]:
        """The text of each YAML file, by its relative name."""
        return {file.path: yaml_text(file, self.name) for file in self.files}

    def with_comments(self, comments: Mapping[str, Sequence[str]]) -> Imported:
        """The same with further comments above rows, by the rows' ids."""

        def of(row: Row) -> Row:
            return replace(row, comments=(*row.comments, *comments.get(row.id, ())))

        def among(file: RowFile) -> RowFile:
            return replace(file, tables=tuple(replace(one, rows=tuple(map(of, one.rows))) for one in file.tables))

        return replace(self, files=tuple(map(among, self.files)))

    def _rows(self) -> Iterator[tuple[RowFile, RowTable, Row]]:
        return ((file, table, row) for file in self.files for table in file.tables for row in table.rows)


def import_document(path: Path, facts: DocumentFacts | None = None) -> Imported:
    """Read one document.

    Raises:
        ConfigurationError: It cannot be read, or the extra is not installed; or the facts are of a table, a row or a
            file that it does not have, or contradict what a table states.
    """
    document = read_document(path)
    extracted = extract(document)
    facts = facts or DocumentFacts()
    context = Context(document, read_prose(document), facts, recipe_directory(path, document.lines))
    parts: list[_Part] = []
    rows: list[tuple[DraftTable, Row]] = []
    remarks: list[tuple[int | None, Remark]] = []
    joins = dict.fromkeys((one.place for one in extracted.configurations), 0)
    chapters = {one.place: chapter_of(document, one.table) for one in extracted.configurations}
    said = read_evidence(document)
    sections = read_sections(document)
    for table in extracted.tables:
        section = section_of(document, table.table, sections[table.table.section], said)
        own = chapter_of(document, table.table, table.text)
        near = [one for one in extracted.configurations[:_MOST_CONFIGURATIONS] if chapters[one.place].may_hold_for(own)]
        fits = [fitting(near, drafted, table.title) if drafted.values else [] for drafted in table.rows]
        drafts = [
            joined(drafted, table, configurations, section) if drafted.values else drafted
            for drafted, configurations in zip(table.rows, fits, strict=True)
        ]
        drafts = with_sequence_lengths(drafts, table.title, context.prose)
        parts += [(draft, table, configurations, section) for draft, configurations in zip(drafts, fits, strict=True)]
    made = [_row(draft, table, section, context) for draft, table, _, section in parts]
    context = replace(context, flops=known_flops(row.values for _, row in made if row is not None))
    for part, (draft, row) in zip(parts, _again(parts, made, context), strict=True):
        _, table, configurations, _ = part
        number = len(rows) if row is not None else None
        remarks += ((number, remark) for remark in draft.remarks)
        if row is not None:
            remarks += ((number, remark) for remark in row.remarks)
            line = row.values["line"]
            left_out = ((key, f"left out: {reason}") for key, reason in row.left_out.items())
            remarks += ((number, Remark(line.line, line.column, *told)) for told in left_out)
            rows.append((table, replace(row, number=len(rows))))
            for place in {one.place for one in configurations}:
                joins[place] += 1
    check_facts(facts, extracted, rows)
    named, of_names = with_cases(rows)
    remarks += of_names
    files = files_of([(table, row) for (table, _), row in zip(rows, named, strict=True)], facts, context.prose)
    ids = {row.number: row.id for file in files for table in file.tables for row in table.rows}
    unjoined = [Unread(*place, "has settings of no row that was read") for place, number in joins.items() if not number]
    return Imported(
        name=facts.name or document.name,
        lines=document.lines,
        files=files,
        left_out=tuple(sorted((*extracted.left_out, *unjoined), key=lambda one: one.line)),
        remarks=tuple(("" if number is None else ids[number], remark) for number, remark in remarks),
        joined=tuple(JoinedTable(*place, number) for place, number in joins.items() if number),
    )


def _again(
    parts: Sequence[_Part], made: Sequence[tuple[Draft, Row | None]], context: Context
) -> Iterator[tuple[Draft, Row | None]]:
    """The rows, those once more of whose model FLOPs others tell something."""
    for (joined_draft, table, _, section), (draft, row) in zip(parts, made, strict=True):
        again = row is not None and context.flops.concerns(row.values)
        yield _row(joined_draft, table, section, context) if again else (draft, row)


def _row(draft: Draft, table: DraftTable, section: Section, context: Context) -> tuple[Draft, Row | None]:
    """The draft as far as it could be repaired, and its row; none where nothing tells what its cells are."""
    if not draft.values:
        return draft, None
    draft = repaired(draft)
    if not draft.values:  # none of its cells can be read
        return draft, None
    if draft.doubt and not proven(draft):
        place = next(iter(draft.values.values()))
        return replace(draft, remarks=()).remarked("row", f"left out: {draft.doubt}", place), None
    return draft, complete(draft, table, section, context)
