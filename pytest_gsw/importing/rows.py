"""Tables of a document become drafts of rows, by the labels of its family; tables of settings are joined to them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import TypeAlias

from pytest_gsw.importing.facts import (
    DocumentFacts,
    Facts,
    Family,
    Label,
    line_to_add,
    read_text,
    settings_of,
    without_settings,
)
from pytest_gsw.importing.tables import FIGURES, Cell, Document, DocumentTable, Remark, read_cell
from pytest_gsw.tables.load import StatedRow
from pytest_gsw.tables.metrics import DOCUMENTED
from pytest_gsw.tables.model import blank_id
from pytest_gsw.tables.value_types import LONGEST_NAME
from pytest_gsw.tables.yaml_values import Stated

#: Line of a value from facts.
FACT = -1
#: Keys by which a table of settings identifies its runs.
_IDENTIFYING = ("model", "size", "dtype", "accelerator", "framework", "release", "case")


@dataclass
class Draft:
    """The values of one row in a document."""

    table: DocumentTable
    #: Line of the row; if columns are runs, of the table's first figure.
    line: int
    title: str
    #: ``None`` for a value that the document marks as missing.
    values: dict[str, Stated | None] = field(default_factory=dict)
    attributes: dict[str, str] = field(default_factory=dict)
    #: Cells with values that their keys cannot have: the reasons, and the places.
    refused: dict[str, tuple[str, Cell]] = field(default_factory=dict)

    def text(self, key: str) -> str:
        """A value as written; empty if there is none."""
        stated = self.values.get(key)
        return "" if stated is None else stated.text

    def add_missing(self, values: Mapping[str, Stated | None]) -> None:
        """Add values from a more distant place; known ones stay."""
        for key, stated in values.items():
            if key not in self.refused:
                self.values.setdefault(key, stated)

    def read(self, family: Family, column: str, label: Label, cell: Cell) -> None:
        """Read a cell of the row."""
        cell_values = family.declared_values(column, cell.text)
        if cell_values is not None:
            self.add_missing({key: Stated(text, cell.line, cell.column) for key, text in cell_values.items()})
        is_attribute = label.key.startswith("attributes.")
        if cell_values is not None and not is_attribute:
            return
        try:
            text = read_cell(label.key, cell.text, label.factor)
        except ValueError as error:
            self.refused.setdefault(label.key, (str(error), cell))
            return
        if is_attribute and text:
            self.attributes[label.key.partition(".")[2]] = text
        elif not is_attribute:
            self.add_missing({label.key: Stated(text, cell.line, cell.column) if text else None})


@dataclass
class Read:
    """The rows and notes of all tables of a document."""

    drafts: list[Draft] = field(default_factory=list)
    #: Rows of tables of settings.
    settings: list[Draft] = field(default_factory=list)
    remarks: list[Remark] = field(default_factory=list)
    left_out: list[Remark] = field(default_factory=list)

    def report_undeclared(self, family: Family, kind: str, cell: Cell, what: str, value: str = "KEY") -> None:
        """Report a label that is not declared, each once."""
        add = line_to_add(family, kind, without_settings(cell.text), value)
        if add not in {one.add for one in self.remarks}:
            self.remarks.append(Remark(cell.line, f"the {what} '{cell.text}' is not declared", add))


def read_rows(document: Document, facts: DocumentFacts) -> Read:
    """The rows of a document's tables, with the settings of those that fit them."""
    found = Read(left_out=list(document.left_out))
    for table in document.tables:
        skipped = next((one.text for one in table.headings if one.text in facts.skip), None)
        if skipped is None:
            _read_table(table, facts, found)
        else:
            found.left_out.append(Remark(table.line, f"a table below '{skipped}', which facts skip"))
    joined = [settings for draft in found.drafts for settings in _join(draft, found)]
    for one in found.settings:
        if not any(one is other for other in joined):
            found.remarks.append(Remark(one.line, f"settings of {one.text('gpus')} GPUs fit no row"))
    return found


def _read_table(table: DocumentTable, facts: DocumentFacts, found: Read) -> None:
    family = facts.family
    of_headings: dict[str, Stated | None] = {}
    for heading in reversed(table.headings):
        for key, stated in (read_text(family.headings, family, heading) or {}).items():
            of_headings.setdefault(key, stated)
    runs = [(at, read_text(family.runs, family, cell)) for at, cell in enumerate(table.header) if at]
    if any(run_values is not None for _, run_values in runs):
        _columns(table, facts, found, of_headings, runs)
        return
    labels = [family.names.get(cell.text.lower()) for cell in table.header]
    keys = {label.key for label in labels if label is not None}
    of_facts = facts.tables.get(table.line, Facts())
    counted = {"gpus", "nodes"} & {*keys, *of_headings, *of_facts.values, *facts.whole.values}
    if not counted or not keys & (FIGURES | {"gpus", "nodes"}):
        what = "no GPU count" if keys & FIGURES else "no column that is declared as a figure or a GPU count"
        names = ", ".join(f"'{cell.text}'" for cell in table.header)
        found.left_out.append(Remark(table.line, f"{what}: {names}"))
        return
    for cell in table.header:
        if cell.text.lower() not in family.names:
            found.report_undeclared(family, "names", cell, "column")
    for row in table.rows:
        if not any(cell.text for cell in row):
            continue
        title = table.headings[-1].text if table.headings else ""
        draft = Draft(table, row[0].line, title)
        if len(row) != len(table.header):
            found.remarks.append(Remark(draft.line, f"a row of {len(row)} cells below a header of {len(table.header)}"))
            continue
        for name, label, cell in zip(table.header, labels, row, strict=True):
            if label is not None:
                draft.read(family, name.text, label, cell)
        draft.add_missing(of_headings)
        if keys & FIGURES:
            found.drafts.append(draft)
        else:
            draft.add_missing({key: Stated(text, FACT, 1) for key, text in of_facts.values.items()})
            found.settings.append(draft)


def _columns(
    table: DocumentTable,
    facts: DocumentFacts,
    found: Read,
    of_headings: Mapping[str, Stated | None],
    runs: Sequence[tuple[int, Mapping[str, Stated] | None]],
) -> None:
    """Read a table whose columns are runs, and whose rows are figures and settings of them."""
    family, title = facts.family, table.header[0]
    for at, run_values in runs:
        if run_values is None and table.header[at].text:
            found.report_undeclared(family, "runs", table.header[at], "column", "{}")
    of_title = read_text(family.titles, family, title)
    if of_title is None:
        found.report_undeclared(family, "titles", title, "title", "{}")
    labels = [(row, family.names.get(row[0].text.lower())) for row in table.rows]
    for row, _ in labels:
        if row[0].text and row[0].text.lower() not in family.names:
            found.report_undeclared(family, "names", row[0], "row")
    for at, run_values in runs:
        if run_values is None:
            continue
        draft = Draft(table, table.line, title.text)
        for row, label in labels:
            if label is not None and len(row) == len(table.header):
                draft.read(family, row[0].text, label, row[at])
            elif label is not None:
                draft.refused[label.key] = (f"the row has {len(row)} cells, and the header {len(table.header)}", row[0])
        draft.add_missing({**_settings(table.header[at], family, found), **run_values})
        draft.add_missing({**_settings(title, family, found), **(of_title or {})})
        draft.add_missing(of_headings)
        lines = {key: cell.line for key, (_, cell) in draft.refused.items()}
        lines |= {key: stated.line for key, stated in draft.values.items() if stated is not None}
        draft.line = next((lines[key] for key in DOCUMENTED if key in lines), table.line)
        if FIGURES & {*draft.values, *draft.refused}:
            found.drafts.append(draft)


def _settings(cell: Cell, family: Family, found: Read) -> dict[str, Stated | None]:
    """The settings of a title, or of a column's name."""
    draft = Draft(DocumentTable((cell,), (), ()), cell.line, "")
    for name, value in settings_of(cell):
        label = family.names.get(name.lower())
        if name.lower() not in family.names:
            found.report_undeclared(family, "names", Cell(name, cell.line, cell.column), "setting")
        elif label is not None:
            draft.read(family, name, label, value)
    found.remarks += [
        Remark(at.line, f"{key} of '{cell.text}': {reason}") for key, (reason, at) in draft.refused.items()
    ]
    return draft.values


def _join(draft: Draft, found: Read) -> Iterator[Draft]:
    """Add the settings of the run's GPU count that contradict it nowhere, if all that fit agree."""
    of_count = [one for one in found.settings if one.text("gpus") == draft.text("gpus")]
    fits = [one for one in of_count if all(_agree(draft, one, key) for key in _IDENTIFYING)]
    if len(fits) > 1:
        narrower = [one for one in fits if all(_agree(draft, one, key) for key in one.values)]
        fits = narrower or fits
    yield from fits
    if not fits:
        return
    first, *others = fits
    differing = {key for key in first.values if any(one.text(key) != first.text(key) for one in others)}
    if open_ := sorted(differing - set(draft.values)):
        lines = ", ".join(str(one.line) for one in fits)
        note = f"settings of lines {lines} fit its {draft.text('gpus')} GPUs, and differ in {', '.join(open_)}"
        add = f"tables: [{{line: {first.table.line}, accelerator: OF_THESE}}]"
        if not any(one.text == note and one.line == draft.line for one in found.remarks):
            found.remarks.append(Remark(draft.line, note, add))
    draft.add_missing({key: stated for key, stated in first.values.items() if key not in differing | {"case"}})


def _agree(draft: Draft, other: Draft, key: str) -> bool:
    one, two = draft.text(key), other.text(key)
    return not one or not two or one == two


# ---- Rows on their way to YAML: values, blanks, and names ---------------------------------------------

#: The keys of a recipe; ``environment`` is a mapping of its own, ``arguments`` a list.
RecipeKey: TypeAlias = "Stated | Mapping[str, str] | tuple[str, ...]"

#: Keys without which a row cannot run; if neither document nor facts have one, the YAML has a blank.
NEEDED = ("model", "framework", "dtype", "accelerator", "gpus", "gpus_per_node", "sequence_length")
UNSAID = "the document does not say"
#: Line of a value that neither facts nor the document have.
CONVENTION = 0

#: Settings that distinguish rows, in order of precedence, and their prefixes in a case.
_SETTINGS: Mapping[str, str] = {
    "framework": "",
    "log_format": "",
    "sequence_length": "seq",
    "global_batch_size": "gbs",
    "micro_batch_size": "mbs",
    **{key: key for key in ("tp", "pp", "cp", "ep", "dp", "fsdp", "vp")},
    "gradient_accumulation_steps": "gas",
    "layers": "layers",
}


@dataclass(frozen=True)
class DocumentRow:
    """One row with everything that goes into the YAML."""

    #: By key; an empty text is a blank.
    values: Mapping[str, Stated]
    attributes: Mapping[str, str] = field(default_factory=dict)
    recipe: Mapping[str, RecipeKey] = field(default_factory=dict)
    acknowledged: Mapping[str, str] = field(default_factory=dict)
    #: The same with the acknowledgements of its table, its file and its document.
    known: Mapping[str, str] = field(default_factory=dict)
    comments: tuple[str, ...] = ()
    #: The reason for each blank.
    blanks: Mapping[str, str] = field(default_factory=dict)
    #: Line of its table's header.
    table_line: int = 0
    #: Its table's title and headings in the document.
    title: str = ""
    section: str = ""

    @property
    def id(self) -> str:
        """The row's id in the plugin."""
        return blank_id({key: stated.text for key, stated in self.values.items()})

    def text(self, key: str) -> str:
        """A value as written; empty if there is none."""
        return self.values[key].text if key in self.values else ""

    def to_stated(self, document: str, acknowledged: Mapping[str, str]) -> StatedRow:
        """The row in the form for arithmetic; places count in the document."""
        values = {key: stated for key, stated in self.values.items() if stated.text}
        return StatedRow(self.id, document, {**values, "document": Stated(document, 1, 1)}, acknowledged)

    def with_value(self, key: str, text: str, line: int = FACT) -> DocumentRow:
        """The row with another value; an empty text removes it."""
        values = {name: stated for name, stated in self.values.items() if name != key}
        return replace(self, values={**values, key: Stated(text, line, 1)} if text else values)


@dataclass(frozen=True)
class TableOfRows:
    """The rows of one table that go to one file."""

    title: str
    #: Line of the header in the document.
    line: int
    rows: tuple[DocumentRow, ...]
    comment: str = ""
    acknowledged: Mapping[str, str] = field(default_factory=dict)
    #: The headings above it, the outermost first; empty if there are none.
    section: str = ""


@dataclass(frozen=True)
class RowFile:
    """One YAML file to write."""

    #: Relative, such as ``maxtext/llama2_70b.yaml``.
    path: str
    tables: tuple[TableOfRows, ...]
    architecture: Mapping[str, str] = field(default_factory=dict)
    comment: str = ""
    release: str = ""
    #: Releases of the recipes for which its figures hold.
    releases: tuple[str, ...] = ()
    acknowledged: Mapping[str, str] = field(default_factory=dict)
    activation_recomputation: bool = False


def with_cases(rows: Sequence[DocumentRow]) -> Iterator[tuple[DocumentRow, str]]:
    """The rows with unique names, and a note on a name if one is needed.

    A case always contains the release from a heading, and the name from labels and facts. Rows that are equal in these
    get further words: settings first, then columns without a key.
    """
    drafts = [row.with_value("case", _case_begin(row), row.values.get("case", row.values["line"]).line) for row in rows]
    groups: dict[str, list[DocumentRow]] = {}
    for row in drafts:
        groups.setdefault(row.id, []).append(row)
    words = {
        id(row): words_of_group
        for group in groups.values()
        for row, words_of_group in zip(group, _distinguishing_words(group), strict=True)
    }
    lines: dict[str, list[str]] = {}
    used_ids: set[str] = set()
    for row in drafts:
        case = "-".join(filter(None, (row.text("case"), *words[id(row)])))[:LONGEST_NAME].strip("-.")
        named = row.with_value("case", case, row.values["line"].line)
        alike = lines.setdefault(named.id, [])
        alike.append(row.text("line"))
        note = ""
        if named.id in used_ids:
            note = f"nothing distinguishes it from the row of line {alike[0]}: it is run {len(alike)} of these"
            runs = (
                named.with_value("case", f"{case[: LONGEST_NAME - 8]}-run{run}".strip("-")) for run in count(len(alike))
            )
            named = next(one for one in runs if one.id not in used_ids)
        used_ids.add(named.id)
        yield named, note


def _case_begin(row: DocumentRow) -> str:
    """The part of a case that depends on no other row; facts give all of it."""
    case, release = row.values.get("case"), row.values.get("release")
    if case is not None and case.line == FACT:
        return case.text
    of_heading = release.text.lower() if release is not None and release.line > 0 else ""
    return "-".join(filter(None, (of_heading, row.text("case"))))


def _distinguishing_words(group: Sequence[DocumentRow]) -> list[list[str]]:
    """The words that distinguish each row of a group from the others, added one by one until no two are equal."""
    chosen: list[list[str]] = [[] for _ in group]
    attributes = list(dict.fromkeys(name for row in group for name in row.attributes))
    for words in zip(*(_words(row, attributes) for row in group), strict=True) if len(group) > 1 else ():
        kinds: dict[tuple[str, ...], set[str]] = {}
        for before, word in zip(chosen, words, strict=True):
            kinds.setdefault(tuple(before), set()).add(word)
        chosen = [
            [*before, word] if word and len(kinds[tuple(before)]) > 1 else before
            for before, word in zip(chosen, words, strict=True)
        ]
    return chosen


def _words(row: DocumentRow, attributes: Iterable[str]) -> Iterator[str]:
    """A word for each setting and each of these attributes; empty if the row has none."""
    for key, short in _SETTINGS.items():
        yield f"{short}{_slug(row.text(key))}" if row.text(key) else ""
    for name in attributes:
        yield _slug(f"{name} {row.attributes[name]}") if row.attributes.get(name) else ""


def _slug(text: str) -> str:
    return re.sub(r"[^a-z0-9.]+", "-", text.lower()).strip("-.")[:24]
