"""Tables of a document become drafts of rows, by the labels of its family; tables of settings are joined to them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from pytest_gsw.importing.cells import FIGURES, UnreadableError, read_cell
from pytest_gsw.importing.facts import DocumentFacts, Facts
from pytest_gsw.importing.labels import Family, Label, line_to_add, read_text, settings_of, without_settings
from pytest_gsw.importing.markdown import Cell, Document, LeftOut, Table
from pytest_gsw.tables.metrics import DOCUMENTED
from pytest_gsw.tables.yamlfile import Stated

#: In place of a line: what comes from facts.
FACT = -1
#: What a table of settings may say of the runs that it is of.
_TELLING = ("model", "size", "dtype", "accelerator", "framework", "release", "case")


@dataclass(frozen=True)
class Remark:
    """Something of a document that a reader has to look at."""

    line: int
    text: str
    #: The line of facts.yaml that settles it, where there is one.
    add: str = ""


@dataclass
class Draft:
    """What a document says of one row."""

    table: Table
    #: Line of the row; where columns are runs, of the table's first figure.
    line: int
    title: str
    #: ``None`` of what the document says that there is none.
    values: dict[str, Stated | None] = field(default_factory=dict)
    attributes: dict[str, str] = field(default_factory=dict)
    #: Cells that say nothing that their keys can have: why, and where they stand.
    refused: dict[str, tuple[str, Cell]] = field(default_factory=dict)

    def text(self, key: str) -> str:
        """A value as it is written, empty where there is none."""
        stated = self.values.get(key)
        return "" if stated is None else stated.text

    def say(self, values: Mapping[str, Stated | None]) -> None:
        """Take what is said further away than all that is known."""
        for key, stated in values.items():
            if key not in self.refused:
                self.values.setdefault(key, stated)

    def read(self, family: Family, column: str, label: Label, cell: Cell) -> None:
        """Take what a cell of the row says."""
        said = family.says(column, cell.text)
        if said is not None:
            self.say({key: Stated(text, cell.line, cell.column) for key, text in said.items()})
        is_attribute = label.key.startswith("attributes.")
        if said is not None and not is_attribute:
            return
        try:
            text = read_cell(label.key, cell.text, label.factor)
        except UnreadableError as error:
            self.refused.setdefault(label.key, (str(error), cell))
            return
        if is_attribute and text:
            self.attributes[label.key.partition(".")[2]] = text
        elif not is_attribute:
            self.say({label.key: Stated(text, cell.line, cell.column) if text else None})


@dataclass
class Read:
    """All that the tables of a document give."""

    drafts: list[Draft] = field(default_factory=list)
    #: Rows of tables of settings.
    settings: list[Draft] = field(default_factory=list)
    remarks: list[Remark] = field(default_factory=list)
    left_out: list[LeftOut] = field(default_factory=list)

    def undeclared(self, family: Family, kind: str, cell: Cell, what: str, value: str = "KEY") -> None:
        """Name a label that is not declared, each once."""
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
            found.left_out.append(LeftOut(table.line, f"a table below '{skipped}', which facts skip"))
    joined = [settings for draft in found.drafts for settings in _join(draft, found)]
    for one in found.settings:
        if not any(one is other for other in joined):
            found.remarks.append(Remark(one.line, f"settings of {one.text('gpus')} GPUs fit no row"))
    return found


def _read_table(table: Table, facts: DocumentFacts, found: Read) -> None:
    family = facts.family
    of_headings: dict[str, Stated | None] = {}
    for heading in reversed(table.headings):
        for key, stated in (read_text(family.headings, family, heading) or {}).items():
            of_headings.setdefault(key, stated)
    runs = [(at, read_text(family.runs, family, cell)) for at, cell in enumerate(table.header) if at]
    if any(said is not None for _, said in runs):
        _columns(table, facts, found, of_headings, runs)
        return
    labels = [family.names.get(cell.text.lower()) for cell in table.header]
    keys = {label.key for label in labels if label is not None}
    of_facts = facts.tables.get(table.line, Facts())
    counted = {"gpus", "nodes"} & {*keys, *of_headings, *of_facts.values, *facts.whole.values}
    if not counted or not keys & (FIGURES | {"gpus", "nodes"}):
        what = "no GPU count" if keys & FIGURES else "no column that is declared as a figure or a GPU count"
        names = ", ".join(f"'{cell.text}'" for cell in table.header)
        found.left_out.append(LeftOut(table.line, f"{what}: {names}"))
        return
    for cell in table.header:
        if cell.text.lower() not in family.names:
            found.undeclared(family, "names", cell, "column")
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
        draft.say(of_headings)
        if keys & FIGURES:
            found.drafts.append(draft)
        else:
            draft.say({key: Stated(text, FACT, 1) for key, text in of_facts.values.items()})
            found.settings.append(draft)


def _columns(
    table: Table,
    facts: DocumentFacts,
    found: Read,
    of_headings: Mapping[str, Stated | None],
    runs: Sequence[tuple[int, Mapping[str, Stated] | None]],
) -> None:
    """Take a table whose columns are runs, and whose rows are figures and settings of them."""
    family, title = facts.family, table.header[0]
    for at, said in runs:
        if said is None and table.header[at].text:
            found.undeclared(family, "runs", table.header[at], "column", "{}")
    of_title = read_text(family.titles, family, title)
    if of_title is None:
        found.undeclared(family, "titles", title, "title", "{}")
    labels = [(row, family.names.get(row[0].text.lower())) for row in table.rows]
    for row, _ in labels:
        if row[0].text and row[0].text.lower() not in family.names:
            found.undeclared(family, "names", row[0], "row")
    for at, said in runs:
        if said is None:
            continue
        draft = Draft(table, table.line, title.text)
        for row, label in labels:
            if label is not None and len(row) == len(table.header):
                draft.read(family, row[0].text, label, row[at])
            elif label is not None:
                draft.refused[label.key] = (f"the row has {len(row)} cells, and the header {len(table.header)}", row[0])
        draft.say({**_settings(table.header[at], family, found), **said})
        draft.say({**_settings(title, family, found), **(of_title or {})})
        draft.say(of_headings)
        draft.line = next((line for key in DOCUMENTED if (line := _line_of(draft, key))), table.line)
        if FIGURES & {*draft.values, *draft.refused}:
            found.drafts.append(draft)


def _line_of(draft: Draft, key: str) -> int:
    stated, refused = draft.values.get(key), draft.refused.get(key)
    return stated.line if stated is not None else refused[1].line if refused is not None else 0


def _settings(cell: Cell, family: Family, found: Read) -> dict[str, Stated | None]:
    """The settings of a title, or of a column's name."""
    said = Draft(Table((cell,), (), ()), cell.line, "")
    for name, value in settings_of(cell):
        label = family.names.get(name.lower())
        if name.lower() not in family.names:
            found.undeclared(family, "names", Cell(name, cell.line, cell.column), "setting")
        elif label is not None:
            said.read(family, name, label, value)
    found.remarks += [
        Remark(at.line, f"{key} of '{cell.text}': {reason}") for key, (reason, at) in said.refused.items()
    ]
    return said.values


def _join(draft: Draft, found: Read) -> Iterator[Draft]:
    """Take the settings of the run's GPU count that contradict it nowhere, where all that fit agree."""
    fits = [one for one in found.settings if _fits(draft, one)]
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
        said = f"settings of lines {lines} fit its {draft.text('gpus')} GPUs, and differ in {', '.join(open_)}"
        add = f"tables: [{{line: {first.table.line}, accelerator: OF_THESE}}]"
        if not any(one.text == said and one.line == draft.line for one in found.remarks):
            found.remarks.append(Remark(draft.line, said, add))
    draft.say({key: stated for key, stated in first.values.items() if key not in differing | {"case"}})


def _fits(draft: Draft, settings: Draft) -> bool:
    return draft.text("gpus") == settings.text("gpus") and all(_agree(draft, settings, key) for key in _TELLING)


def _agree(draft: Draft, other: Draft, key: str) -> bool:
    one, two = draft.text(key), other.text(key)
    return not one or not two or one == two
