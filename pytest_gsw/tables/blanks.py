"""Rows that cannot run, because a key of theirs has no value: which key, why, and what is to be written where.

``pytest-gsw import`` leaves a key blank where the document does not say it. Each such row is an error of its own; the
other rows of its table run.
"""

from __future__ import annotations

import bisect
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_gsw.common.files import from_here
from pytest_gsw.common.words import command, enumerated
from pytest_gsw.errors import RunError
from pytest_gsw.tables.bundled import FACTS_FILE
from pytest_gsw.tables.fields import Field
from pytest_gsw.tables.keys import FILE_FIELDS, RECIPE_FIELDS, ROW_FIELDS
from pytest_gsw.tables.model import Blank, BlankRow
from pytest_gsw.tables.yamlfile import Value, Values, read_text

if TYPE_CHECKING:
    from pytest_gsw.tables.load import Found

#: What the importer writes behind a blank of a file or a table, and above the row of a blank, with the key.
BLANK_BEHIND = "  # BLANK: "
BLANK_ABOVE = "BLANK "
#: What it writes behind a table's title: the line of the table's header in the document.
TABLE_AT_LINE = "  # table at line "

#: Keys that name a row in facts.yaml, and so are no facts of it.
_NO_FACTS = frozenset({"gpus", "document", "release", "line", "metrics"})
_RECIPE = "recipe."
#: What no plain text of YAML may hold.
_QUOTED = re.compile(r"[^A-Za-z0-9._/-]")
_ABOVE = re.compile(rf" *# {BLANK_ABOVE}(?P<key>[a-z_0-9.]+): (?P<reason>.+)")
#: Lines as YAML counts them.
_LINES = re.compile("\r\n?|[\n\x85\u2028\u2029]")
_AT_LINE = re.compile(rf"{TABLE_AT_LINE}([0-9]+)$")


#: By key, the lines of the comments above rows that say why it is blank, and what they say.
_Comments = dict[str, tuple[list[int], list[str]]]


def blank_rows(path: Path, found: Sequence[Found]) -> tuple[BlankRow, ...]:
    """The rows of a file with its comments, which say why a key is blank and where the table stands in the document."""
    lines = ["", *_LINES.split(read_text(path))] if found else []
    above: _Comments = {}
    for number, line in enumerate(lines):
        comment = _ABOVE.match(line)
        if comment is not None:
            numbers, reasons = above.setdefault(comment["key"], ([], []))
            numbers.append(number)
            reasons.append(comment["reason"])
    rows = []
    for row in found:
        at_line = _AT_LINE.search(lines[row.table_line])
        blanks = tuple(_blanks(row, lines, above))
        known = {key: value for key, value in row.known.items() if isinstance(FILE_FIELDS.get(key), Field)}
        rows.append(BlankRow(row.id, row.location, known, blanks, int(at_line[1]) if at_line else None))
    return tuple(rows)


def _blanks(row: Found, lines: Sequence[str], above: _Comments) -> Iterator[Blank]:
    nearest: dict[str, tuple[int, Value]] = {}
    for level, values in enumerate(row.levels):
        nearest |= {key: (level, value) for key, value in _flat(values)}
    for key, (level, value) in nearest.items():
        if value.value is not None:
            continue
        is_own = level == len(row.levels) - 1
        reason = lines[value.line].partition(BLANK_BEHIND.strip())[2].strip()
        if is_own:
            # One comment stands above all rows behind each other that lack the same.
            numbers, reasons = above.get(key, ([], []))
            before = bisect.bisect(numbers, row.location.line)
            reason = reasons[before - 1] if before else reason
        yield Blank(key, value.line, reason, is_own=is_own)


def _flat(values: Values) -> Iterator[tuple[str, Value]]:
    for key, value in values.items():
        if key == "recipe" and value.value is not None:
            yield from ((_RECIPE + name, one) for name, one in value.value.items())
        else:
            yield key, value


def blank_error(row: BlankRow) -> RunError:
    """What is said of a row in the place of a result: what is blank and why, and what to write where."""
    reasons = {blank.reason for blank in row.blanks}
    because = f": {reasons.pop()}" if len(reasons) == 1 and "" not in reasons else ""
    path = from_here(row.location.path)
    evidence = [("row", f"{path}:{row.location.line}")]
    for blank in row.blanks:
        text = f"{path}:{blank.line}  {blank.key}, {_wanted(blank.key)}"
        evidence.append(("blank", f"{text}: {blank.reason}" if blank.reason else text))
    verb = "is" if len(row.blanks) == 1 else "are"
    fact = f"{enumerated([blank.key for blank in row.blanks])} {verb} blank{because}"
    return RunError(fact, tuple(evidence), advice=_advice(row))


def _field(key: str) -> Field:
    of_recipe = key.startswith(_RECIPE)
    known = RECIPE_FIELDS[key.removeprefix(_RECIPE)] if of_recipe else ROW_FIELDS.get(key) or FILE_FIELDS[key]
    assert isinstance(known, Field)  # nothing else may be blank
    return known


def _wanted(key: str) -> str:
    return _field(key).wanted


def _advice(row: BlankRow) -> str:
    """Where to write what is blank: in the table, or in facts.yaml where the importer has written the table."""
    keys = [blank.key for blank in row.blanks]
    facts = facts_of([row])
    own = [blank.key for blank in row.blanks if not _may_be_fact(blank)] if facts else keys
    into_table = f"type {enumerated(own) if own and facts else 'it' if len(keys) == 1 else 'them'} into the table"
    document = row.known.get("document")
    if document is None or not facts:
        return into_table
    directory = from_here(row.location.path.parent.parent)
    again = command("pytest-gsw", "import", str(document), "-o", str(directory), "--overwrite")
    also = f"; {enumerated([key for key in keys if key not in own])} there, or" if own else ", or"
    where = f"into {directory / FACTS_FILE} beside what it has of the document, and {again}:"
    return "\n".join([f"{into_table}{also} {where}", "", *facts])


def _may_be_fact(blank: Blank) -> bool:
    return blank.key not in _NO_FACTS


def facts_of(rows: Sequence[BlankRow]) -> list[str]:
    """The lines of facts.yaml that fill in what facts can, of the rows that the importer has written."""
    documents: dict[str, _DocumentBlanks] = {}
    for row in rows:
        blanks = [blank for blank in row.blanks if _may_be_fact(blank)]
        document, line = row.known.get("document"), row.known.get("line")
        if row.document_table is None or not blanks or document is None or line is None:
            continue
        of_document = documents.setdefault(document, _DocumentBlanks())
        table, own = of_document.tables.setdefault(row.document_table, ({}, {}))
        for blank in blanks:
            keys = own.setdefault((line, row.known.get("gpus")), {}) if blank.is_own else table
            keys[blank.key] = None
    return ["documents:", *(text for name, one in documents.items() for text in one.lines(name))] if documents else []


#: Keys, each once, in their order.
_Keys = dict[str, None]


@dataclass
class _DocumentBlanks:
    """What is blank of the rows of one document."""

    #: By the line of a table's header: its keys, and those of its rows by their lines and GPUs.
    tables: dict[int, tuple[_Keys, dict[tuple[int, int | None], _Keys]]] = field(default_factory=dict)

    def lines(self, name: str) -> Iterator[str]:
        """The lines of facts.yaml for this document."""
        yield f"  - document: {json.dumps(name) if _QUOTED.search(name) else name}"
        yield "    tables:"
        for line, (table, rows) in sorted(self.tables.items()):
            yield f"      - line: {line}"
            yield from _pairs(table, "        ")
            if rows:
                yield "        rows:"
            for (row, gpus), keys in rows.items():
                yield f"          - line: {row}"
                yield from [] if gpus is None else [f"            gpus: {gpus}"]
                yield from _pairs(keys, "            ")


def _pairs(keys: Iterable[str], indent: str) -> Iterator[str]:
    """The keys with what is to be written behind them; those of the recipe below it."""
    of_recipe = [key for key in keys if key.startswith(_RECIPE)]
    yield from (f"{indent}{key}:  # {_wanted(key)}" for key in keys if key not in of_recipe)
    if of_recipe:
        yield f"{indent}recipe:"
        yield from (f"{indent}  {key.removeprefix(_RECIPE)}:  # {_wanted(key)}" for key in of_recipe)
