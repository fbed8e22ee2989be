"""From sources to findings: every check over every row and text, and what is acknowledged of it."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePath

from pytest_gsw.documents.audit.derived import derived
from pytest_gsw.documents.audit.figures import Row, read_row
from pytest_gsw.documents.audit.findings import Audit, Audited, Finding, Severity, Stale
from pytest_gsw.documents.audit.groups import duplicates, scaling
from pytest_gsw.documents.audit.identities import against_published, identities
from pytest_gsw.documents.audit.moves import moves
from pytest_gsw.documents.audit.prose import prose
from pytest_gsw.documents.audit.shared import shared_changes
from pytest_gsw.documents.audit.text import read_text
from pytest_gsw.tables.stated import StatedRow

#: What findings of a document's text are acknowledged by: ``line_26``.
_OF_LINES = "line_"
#: Rows before and behind one that its figures may have been copied from.
_NEAR = 100
_WEIGHT = {severity: weight for weight, severity in enumerate(Severity)}


@dataclass(frozen=True)
class Source:
    """One table or document to audit."""

    file: str
    rows: tuple[StatedRow, ...]
    #: The text of a document, ``None`` for a table.
    lines: tuple[str, ...] | None = None

    @property
    def name(self) -> str:
        """The document's name, by which tables refer to it."""
        return PurePath(self.file).name


def audit(sources: Iterable[Source]) -> Audit:
    """Everything that can be computed of these sources, computed.

    A table's ``acknowledged`` counts for its own rows, and for the rows and lines of the document that it names
    where that is among the sources.
    """
    sources = tuple(sources)
    known = _Known(sources)
    checked = 0
    findings: list[Finding] = []
    moved = list(moves([read_row(row) for source in sources for row in source.rows if "release" in row.values]))
    checked += moved.count(None)
    for source in sources:
        found: list[Finding] = []
        of_releases = (one for one in moved if one is not None and one.file == source.file)
        for finding in itertools.chain(_checks(source), of_releases):
            checked += 1
            if finding is not None:
                found.append(known.reason(source, finding))
        findings += sorted(found, key=lambda one: (_WEIGHT[one.severity], one.line, one.column, one.identity))
    return Audit(
        rows=tuple(_audited(row) for source in sources for row in source.rows),
        documents=tuple(source.file for source in sources if source.lines is not None),
        checked=checked,
        findings=tuple(findings),
        stale=tuple(known.stale(findings)),
    )


def _checks(source: Source) -> Iterator[Finding | None]:
    """Every check of one source; one that finds nothing counts all the same."""
    rows = tuple(map(read_row, source.rows))
    shared = shared_changes(rows)
    for place, row in enumerate(rows):
        yield from derived(row, rows[max(0, place - _NEAR) : place + _NEAR], shared.get(row.id, {}))
        yield from identities(row)
    yield from scaling(rows)
    yield from duplicates(rows)
    for row in _one_of_each_model(rows):
        yield from against_published(row)
    if source.lines is not None:
        yield from prose(read_text(source.file, source.lines), rows)


def _one_of_each_model(rows: Sequence[Row]) -> Iterator[Row]:
    seen = set()
    for row in rows:
        stated = row.stated.values.items()
        numbers = tuple((key, value.text) for key, value in stated if key.startswith("architecture."))
        model = (row.text("model"), row.text("size"), numbers)
        if model not in seen:
            seen.add(model)
            yield row


def _audited(row: StatedRow) -> Audited:
    place = row.values.get("gpus") or next(iter(row.values.values()))
    return Audited(row.id, row.file, place.line, place.column)


class _Known:
    """What is acknowledged, and which of it has been found."""

    def __init__(self, sources: Sequence[Source]) -> None:
        self._documents = {source.name for source in sources if source.lines is not None}
        self._rows = tuple(row for source in sources for row in source.rows)
        self._own = {(row.file, row.id): row.acknowledged for row in self._rows}
        #: Of tables' rows, by the document that they name and their id; of its lines, by the document and no id.
        self._of_documents: dict[tuple[str, str | None], dict[str, str]] = {}
        for row in self._rows:
            for name, reason in row.acknowledged.items():
                for about in (row.id, None) if name.startswith(_OF_LINES) else (row.id,):
                    self._of_documents.setdefault((_document(row), about), {})[name] = reason

    def reason(self, source: Source, finding: Finding) -> Finding:
        """The finding with the reason why it is known, if it is."""
        of_document = self._of_documents.get((source.name, finding.row), {}) if source.lines is not None else {}
        own = self._own.get((finding.file, finding.row), {}) if finding.row is not None else {}
        reason = {**of_document, **own}.get(finding.identity)
        return finding if reason is None else replace(finding, acknowledged=reason)

    def stale(self, findings: Iterable[Finding]) -> Iterator[Stale]:
        """What is acknowledged and was not found; of a document's lines only where the document was read."""
        found = {(PurePath(one.file).name, one.identity) for one in findings if one.row is None}
        of_rows = {(one.row, one.identity) for one in findings}
        groups: dict[tuple[str, str, str], list[StatedRow]] = {}
        for row in self._rows:
            for name, reason in row.acknowledged.items():
                # What a file or a table acknowledges for all its rows need not be found in each.
                groups.setdefault((row.file, name, reason), []).append(row)
        for (file, name, reason), rows in groups.items():
            documents = {_document(row) for row in rows}
            if name.startswith(_OF_LINES):
                if not documents & self._documents or any((document, name) in found for document in documents):
                    continue
            elif any((row.id, name) in of_rows for row in rows):
                continue
            place = _audited(rows[0])
            yield Stale(name, file, place.line, place.column, tuple(row.id for row in rows), reason)


def _document(row: StatedRow) -> str:
    return row.values["document"].text if "document" in row.values else PurePath(row.file).name
