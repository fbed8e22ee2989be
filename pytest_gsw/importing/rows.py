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
from pytest_gsw.importing.tables import FIGURES, Cell, Document, Remark, Table, read_cell
from pytest_gsw.tables.load import StatedRow
from pytest_gsw.tables.metrics import DOCUMENTED
from pytest_gsw.tables.model import blank_id
from pytest_gsw.tables.value_types import LONGEST_NAME
from pytest_gsw.tables.yaml_values import Stated

#: In place of a line: what comes from facts.
FACT = -1
#: What a table of settings may say of the runs that it is of.
_TELLING = ("model", "size", "dtype", "accelerator", "framework", "release", "case")


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
        except ValueError as error:
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
    left_out: list[Remark] = field(default_factory=list)

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
            found.left_out.append(Remark(table.line, f"a table below '{skipped}', which facts skip"))
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
        found.left_out.append(Remark(table.line, f"{what}: {names}"))
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
        lines = {key: cell.line for key, (_, cell) in draft.refused.items()}
        lines |= {key: stated.line for key, stated in draft.values.items() if stated is not None}
        draft.line = next((lines[key] for key in DOCUMENTED if key in lines), table.line)
        if FIGURES & {*draft.values, *draft.refused}:
            found.drafts.append(draft)


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
    of_count = [one for one in found.settings if one.text("gpus") == draft.text("gpus")]
    fits = [one for one in of_count if all(_agree(draft, one, key) for key in _TELLING)]
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


def _agree(draft: Draft, other: Draft, key: str) -> bool:
    one, two = draft.text(key), other.text(key)
    return not one or not two or one == two


# ---- Rows on their way to YAML: what they state and lack, and what each is called ---------------------

#: The keys of a recipe; ``environment`` is a mapping of its own, ``arguments`` a list.
RecipeKey: TypeAlias = "Stated | Mapping[str, str] | tuple[str, ...]"

#: Keys without which a row cannot run; where neither document nor facts have one, the YAML has a blank.
NEEDED = ("model", "framework", "dtype", "accelerator", "gpus", "gpus_per_node", "sequence_length")
UNSAID = "the document does not say"
#: In place of a line: what neither facts nor the document say.
CONVENTION = 0

#: What tells rows apart, in the order in which it is asked, and how each is written in a case.
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
class Row:
    """One row with everything that goes into the YAML."""

    #: By key; an empty text is a blank.
    values: Mapping[str, Stated]
    attributes: Mapping[str, str] = field(default_factory=dict)
    recipe: Mapping[str, RecipeKey] = field(default_factory=dict)
    acknowledged: Mapping[str, str] = field(default_factory=dict)
    #: The same with what its table, its file and its document acknowledge.
    known: Mapping[str, str] = field(default_factory=dict)
    comments: tuple[str, ...] = ()
    #: Why each blank is one.
    blanks: Mapping[str, str] = field(default_factory=dict)
    #: Line of its table's header.
    table_line: int = 0
    #: Its table's title and headings, as the document has them.
    title: str = ""
    section: str = ""

    @property
    def id(self) -> str:
        """As the plugin will name it."""
        return blank_id({key: stated.text for key, stated in self.values.items()})

    def text(self, key: str) -> str:
        """A value as it is written, empty where there is none."""
        return self.values[key].text if key in self.values else ""

    def stated(self, document: str, acknowledged: Mapping[str, str]) -> StatedRow:
        """The row as arithmetic reads it; places count in the document."""
        values = {key: stated for key, stated in self.values.items() if stated.text}
        return StatedRow(self.id, document, {**values, "document": Stated(document, 1, 1)}, acknowledged)

    def having(self, key: str, text: str, line: int = FACT) -> Row:
        """The row with another value; an empty text takes it away."""
        values = {name: stated for name, stated in self.values.items() if name != key}
        return replace(self, values={**values, key: Stated(text, line, 1)} if text else values)


@dataclass(frozen=True)
class RowTable:
    """The rows of one table that go to one file."""

    title: str
    #: Line of the header in the document.
    line: int
    rows: tuple[Row, ...]
    comment: str = ""
    acknowledged: Mapping[str, str] = field(default_factory=dict)
    #: The headings that it stands below, the outermost first; empty where there are none.
    section: str = ""


@dataclass(frozen=True)
class RowFile:
    """One YAML file to be."""

    #: Relative, such as ``maxtext/llama2_70b.yaml``.
    path: str
    tables: tuple[RowTable, ...]
    architecture: Mapping[str, str] = field(default_factory=dict)
    comment: str = ""
    release: str = ""
    #: Releases of the recipes that its figures hold for.
    releases: tuple[str, ...] = ()
    acknowledged: Mapping[str, str] = field(default_factory=dict)
    activation_recomputation: bool = False


def with_cases(rows: Sequence[Row]) -> Iterator[tuple[Row, str]]:
    """The rows with names of their own, and what must be said of a name.

    The release that a heading names, and what labels and facts call a row, are always part of its case. What else there
    is, is decided among the rows that are alike in these: settings first, then columns that have no key.
    """
    begun = [row.having("case", _beginning(row), row.values.get("case", row.values["line"]).line) for row in rows]
    groups: dict[str, list[Row]] = {}
    for row in begun:
        groups.setdefault(row.id, []).append(row)
    words = {id(row): told for group in groups.values() for row, told in zip(group, _told_apart(group), strict=True)}
    lines: dict[str, list[str]] = {}
    taken: set[str] = set()
    for row in begun:
        case = "-".join(filter(None, (row.text("case"), *words[id(row)])))[:LONGEST_NAME].strip("-.")
        named = row.having("case", case, row.values["line"].line)
        alike = lines.setdefault(named.id, [])
        alike.append(row.text("line"))
        said = ""
        if named.id in taken:
            said = f"nothing tells it from the row of line {alike[0]}: it is run {len(alike)} of these"
            runs = (
                named.having("case", f"{case[: LONGEST_NAME - 8]}-run{run}".strip("-")) for run in count(len(alike))
            )
            named = next(one for one in runs if one.id not in taken)
        taken.add(named.id)
        yield named, said


def _beginning(row: Row) -> str:
    """The part of a case that depends on no other row; facts say all of it."""
    case, release = row.values.get("case"), row.values.get("release")
    if case is not None and case.line == FACT:
        return case.text
    of_heading = release.text.lower() if release is not None and release.line > 0 else ""
    return "-".join(filter(None, (of_heading, row.text("case"))))


def _told_apart(group: Sequence[Row]) -> list[list[str]]:
    """The words that tell each row of a group from the others: one after the other, for those that are still alike."""
    told: list[list[str]] = [[] for _ in group]
    attributes = list(dict.fromkeys(name for row in group for name in row.attributes))
    for words in zip(*(_words(row, attributes) for row in group), strict=True) if len(group) > 1 else ():
        kinds: dict[tuple[str, ...], set[str]] = {}
        for before, word in zip(told, words, strict=True):
            kinds.setdefault(tuple(before), set()).add(word)
        told = [
            [*before, word] if word and len(kinds[tuple(before)]) > 1 else before
            for before, word in zip(told, words, strict=True)
        ]
    return told


def _words(row: Row, attributes: Iterable[str]) -> Iterator[str]:
    """A word for each setting and each of these attributes, empty where the row has none."""
    for key, short in _SETTINGS.items():
        yield f"{short}{_slug(row.text(key))}" if row.text(key) else ""
    for name in attributes:
        yield _slug(f"{name} {row.attributes[name]}") if row.attributes.get(name) else ""


def _slug(text: str) -> str:
    return re.sub(r"[^a-z0-9.]+", "-", text.lower()).strip("-.")[:24]
