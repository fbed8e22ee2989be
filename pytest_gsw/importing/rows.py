"""Tables of a document become drafts of rows, by the labels of its family; tables of settings are joined to them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count, zip_longest
from typing import TypeAlias

from pytest_gsw.common.groups import grouped
from pytest_gsw.importing.facts import DocumentFacts, Facts, Key, Meaning, settings_of, without_settings
from pytest_gsw.importing.tables import FIGURES, SETTINGS, Cell, Document, DocumentTable, Remark, read_cell
from pytest_gsw.tables.metrics import DOCUMENTED, FURTHER, VALUE
from pytest_gsw.tables.model import blank_id
from pytest_gsw.tables.stated_rows import StatedRow
from pytest_gsw.tables.value_types import LONGEST_NAME
from pytest_gsw.tables.yaml_values import Stated

#: Line of a value from facts.
FACT = -1
_COUNTS = frozenset({"gpus", "nodes"})
#: Keys by which a table of settings identifies its runs.
_IDENTIFYING = ("model", "size", "dtype", "accelerator", "framework", "release", "case")


@dataclass
class _Name:
    """The name of a column, or of a row whose columns are runs."""

    cell: Cell
    #: ``None`` if it is not declared.
    meaning: Meaning | None
    #: The values that its label, and the settings in it, imply.
    values: Mapping[str, Cell | None]
    #: The reason why its cells are not read.
    refusal: Remark | None = None

    @property
    def key(self) -> Key:
        """The key of its cells."""
        return Key("") if self.meaning is None else self.meaning.key

    @property
    def is_run(self) -> bool:
        """True if it is the name of a run: of a GPU count, and of no key."""
        return not self.key.name and bool(_COUNTS & self.values.keys())

    @property
    def states_figure(self) -> bool:
        """True if it is the name of a figure."""
        return self.key.name in FIGURES

    @property
    def apart(self) -> dict[str, str]:
        """The values by which its figures are those of a row of their own."""
        return {key: cell.text for key, cell in self.values.items() if cell is not None}


@dataclass
class Draft:
    """The values of one row in a document."""

    table: DocumentTable
    #: Line of the row; if columns are runs, of the table's first figure.
    line: int
    title: str
    #: The values of its column that tell it from other columns with its GPU count.
    column: Mapping[str, str] = field(default_factory=dict)
    #: The values that tell it from other rows of the same cells; an empty text if it has none of a key.
    apart: Mapping[str, str] = field(default_factory=dict)
    #: The figures that are its own among rows of the same cells; ``None`` if it is the only one.
    own_figures: frozenset[str] | None = None
    #: ``None`` for a value that the document marks as missing; attributes by ``attributes.NAME``.
    values: dict[str, Cell | None] = field(default_factory=dict)
    #: Reasons for cells that are not read, with the line to add if it is the same for all rows of the table.
    refused: dict[str, Remark] = field(default_factory=dict)

    def text(self, key: str) -> str:
        """A value as written; empty if there is none."""
        stated = self.values.get(key)
        return "" if stated is None else stated.text

    def add_missing(self, values: Mapping[str, Cell | None]) -> None:
        """Add values from a more distant place; known ones stay."""
        for key, stated in values.items():
            if key not in self.refused:
                self.values.setdefault(key, stated)

    def read(self, name: _Name, cell: Cell, found: Read) -> None:
        """Read a cell of a name: by the label of the cell itself, or else as a value of the name's key."""
        key, meaning = name.key, found.meaning(f"{name.cell.text} | {cell.text}", cell)
        if meaning is not None:
            found.used.add(name.cell)
            self.add_missing(meaning.values)
        if name.refusal is not None:
            self.refused[key.name] = name.refusal
        elif key.name and (meaning is None or key.name.startswith("attributes.")):
            try:
                text = read_cell(key.name, cell.text, key.factor)
                self.add_missing({key.name: replace(cell, text=text) if text else None})
            except ValueError as error:
                self.refused.setdefault(key.name, Remark(cell.line, str(error)))

    def selecting(self, key: str = "") -> Mapping[str, str]:
        """The values by which facts of a row select it, besides its line; those of one cell, which rows may share."""
        apart = self.apart if not key or key in FIGURES else {}
        values = {"gpus": self.text("gpus"), **self.column, **apart}
        return {name: text for name, text in values.items() if name in SETTINGS and (text or name != "gpus")}

    @property
    def figures(self) -> frozenset[str]:
        """The keys of figures that it states, or whose cells are refused."""
        return FIGURES & {*(key for key, stated in self.values.items() if stated is not None), *self.refused}


@dataclass
class Read:
    """The rows and notes of all tables of a document."""

    facts: DocumentFacts
    drafts: list[Draft] = field(default_factory=list)
    #: Rows of tables of settings.
    settings: list[Draft] = field(default_factory=list)
    #: Names with a cell that is declared.
    used: set[Cell] = field(default_factory=set)
    remarks: list[Remark] = field(default_factory=list)
    left_out: list[Remark] = field(default_factory=list)

    def remark(self, line: int, text: str, add: str = "") -> None:
        """Add a remark; what resolves several is named once."""
        if not add or add not in {one.add for one in self.remarks}:
            self.remarks.append(Remark(line, text, add))

    def undeclared(self, name: _Name, what: str, settings: str) -> None:
        """Report a name if neither it nor one of its cells is declared."""
        if name.meaning is None and name.cell.text and name.cell not in self.used:
            add = self.facts.family.line_to_add(without_settings(name.cell.text), settings)
            self.remark(name.cell.line, f"the {what} '{name.cell.text}' is not declared", add)

    def meaning(self, text: str, cell: Cell) -> Meaning | None:
        """The meaning of a text by the document's labels."""
        return self.facts.family.meaning(text, cell)

    def values(self, text: str, cell: Cell) -> Mapping[str, Cell]:
        """The values that a text implies by the document's labels."""
        meaning = self.meaning(text, cell)
        return {} if meaning is None else meaning.values

    def names(self, cells: Iterable[Cell], what: str) -> list[_Name]:
        """The names of columns or rows; equal ones, and those without a text, are numbered."""
        seen: Counter[str] = Counter()
        names = []
        for number, cell in enumerate(cells, 1):
            seen[cell.text] += 1
            text = f"{cell.text} ({seen[cell.text]})" if seen[cell.text] > 1 else cell.text
            named = replace(cell, text=text if cell.text else f"{what} {number}")
            meaning = self.meaning(named.text, named) or self.meaning(cell.text, named)
            if meaning is not None and meaning.values and not (meaning.key.name or _COUNTS & meaning.values.keys()):
                meaning = None  # of a title
            values = {} if meaning is None else {**self.settings_in(named), **meaning.values}
            names.append(_Name(named, meaning, values))
        return names

    def refuse_alike(self, names: Sequence[_Name]) -> None:
        """Refuse names with the same key and values."""
        keyed = [((name.key.name, *sorted(name.apart.items())), name) for name in names if name.key.name]
        for first, *others in grouped(keyed).values():
            for name in others:
                both = f"'{first.cell.text}' and '{name.cell.text}' are both {name.key.name}"
                add = self.facts.family.line_to_add(without_settings(name.cell.text), f"key: {name.key}, case: NAME")
                name.refusal = first.refusal = Remark(name.cell.line, f"{both}, and no setting tells them apart", add)

    def settings_in(self, cell: Cell) -> dict[str, Cell | None]:
        """The settings in a title or a name, unless a label has the whole text."""
        draft = Draft(DocumentTable((cell,), (), ()), cell.line, "")
        for text, value in settings_of(cell) if cell.text.lower() not in self.facts.family.labels else ():
            name = _Name(replace(cell, text=text), self.meaning(text, value), {})
            draft.read(name, value, self)
            self.undeclared(name, "setting", "key: KEY")
        for key, refusal in draft.refused.items():
            self.remark(cell.line, f"{key} of '{cell.text}': {refusal.text}")
        return draft.values


def read_rows(document: Document, facts: DocumentFacts) -> Read:
    """The rows of a document's tables, with the settings of those that fit them."""
    found = Read(facts, left_out=list(document.left_out))
    for table in document.tables:
        skipped = next((one.text for one in table.headings if one.text in facts.whole.given.get("skip", ())), None)
        if skipped is None:
            _read_table(table, found)
        else:
            found.left_out.append(Remark(table.line, f"a table below '{skipped}', which facts skip"))
    joined = [settings for draft in found.drafts for settings in _join(draft, found)]
    for one in found.settings:
        if not any(one is other for other in joined):
            found.remark(one.line, f"settings of {one.text('gpus')} GPUs fit no row")
    return found


def _read_table(table: DocumentTable, found: Read) -> None:
    of_headings: dict[str, Cell | None] = {}
    for heading in reversed(table.headings):
        of_headings = {**found.values(f"# {heading.text}", heading), **of_headings}
    columns, width = found.names(table.header, "column"), len(table.header)
    rows = [row for row in table.rows if any(cell.text for cell in row)]
    whole = [row for row in rows if len(row) == width]
    title, names, near = (table.headings or (Cell("", 0, 0),))[-1], columns, dict[str, Cell | None]()
    runs: list[tuple[_Name, Sequence[Cell]]] = [(_Name(row[0], None, {}), row) for row in whole]
    are_columns = any(column.is_run for column in columns[1:])
    if are_columns:
        title, names = table.header[0], found.names((row[0] for row in whole), "row")
        near = {**found.settings_in(title), **found.values(title.text, title)}
        runs = [(column, [row[at] for row in whole]) for at, column in enumerate(columns) if at and column.is_run]
    found.refuse_alike(names)
    alike = Counter(run.apart.get("gpus") for run, _ in runs)
    drafts = []
    for run, cells in runs:
        apart = run.apart if alike[run.apart.get("gpus")] > 1 else {}
        for draft in _drafts(Draft(table, run.cell.line, title.text, apart), names, cells, found):
            draft.add_missing(run.values)
            draft.add_missing(near)
            drafts.append(draft)
    keys = {name.key.name for name in names}.union(*(draft.values for draft in drafts))
    of_table = found.facts.tables.get(table.line, Facts()).values
    header = ", ".join(f"'{cell.text}'" for cell in table.header)
    if not keys & (FIGURES | _COUNTS):
        text = f"no column that is declared as a figure or a GPU count: {header}"
        found.left_out.append(Remark(table.line, text))
        return
    if not _COUNTS & {*keys, *of_headings, *of_table, *found.facts.whole.values}:
        found.remark(table.line, f"no GPU count: {header}", f"tables: [{{line: {table.line}, gpus: VALUE}}]")
        return
    for draft in drafts:
        draft.add_missing(of_headings)
        if not keys & FIGURES:
            draft.add_missing({key: Stated(text, FACT, 1) for key, text in of_table.items()})
        if not are_columns:
            continue
        places = {key: stated.line for key, stated in draft.values.items() if stated is not None}
        places |= {key: refusal.line for key, refusal in draft.refused.items()}
        draft.line = next((places[key] for key in (*DOCUMENTED, *FURTHER) if key in places), draft.line)
    (found.drafts if keys & FIGURES else found.settings).extend(drafts)
    for row in rows:
        if len(row) != width:
            found.remark(row[0].line, f"a row of {len(row)} cells below a header of {width}")
    for at, column in enumerate(columns[are_columns:], are_columns):
        if any(row[at].text for row in whole):
            found.undeclared(column, "column", "gpus: VALUE" if are_columns else "key: KEY")
    if are_columns:
        found.undeclared(_Name(title, found.meaning(title.text, title), {}), "title", "")
        for line in names:
            found.undeclared(line, "row", "key: KEY")


def _drafts(run: Draft, names: Sequence[_Name], cells: Sequence[Cell], found: Read) -> Iterator[Draft]:
    """The rows of one run: one for each set of values that names of figures imply."""
    groups = {tuple(sorted(name.apart.items())): name for name in names if name.states_figure}
    every = {key: "" for name in groups.values() for key in name.apart}
    for group in groups.values() or [_Name(names[0].cell, None, {})]:
        apart = group.apart
        draft = replace(run, apart={**every, **apart}, values={}, refused={})
        for name, cell in zip(names, cells, strict=True):
            if name.apart == apart if name.states_figure else name.apart.items() <= apart.items():
                draft.read(name, cell, found)
        if len(groups) > 1:
            draft.own_figures = FIGURES & {name.key.name for name in names if name.apart == apart}
        draft.add_missing(group.values)
        if len(groups) < 2 or draft.figures or "expected_failure" in draft.values:
            yield draft


def _join(draft: Draft, found: Read) -> Iterator[Draft]:
    """Add the settings of the run's GPU count that contradict it nowhere, if all that fit agree."""
    facts = found.facts
    declared = {**facts.whole.values, **facts.tables.get(draft.table.line, Facts()).values}
    identifying = {key: text for key, text in declared.items() if key in _IDENTIFYING}
    values = {**identifying, **{key: stated.text for key, stated in draft.values.items() if stated is not None}}

    def agrees(other: Draft, key: str) -> bool:
        one, two = values.get(key), other.text(key)
        return not one or not two or one == two

    of_count = [one for one in found.settings if one.text("gpus") == draft.text("gpus")]
    fits = [one for one in of_count if all(agrees(one, key) for key in _IDENTIFYING)]
    fits = [one for one in fits if all(agrees(one, key) for key in one.values)] or fits
    yield from fits
    if not fits:
        return
    first, *others = fits
    differing = {key for key in first.values if any(one.text(key) != first.text(key) for one in others)}
    if open_ := sorted(differing - set(draft.values)):
        lines = ", ".join(str(one.line) for one in fits)
        note = f"settings of lines {lines} fit its {draft.text('gpus')} GPUs, and differ in {', '.join(open_)}"
        add = f"tables: [{{line: {first.table.line}, accelerator: NAME}}]"
        found.remark(draft.line, note, add)
    draft.add_missing({key: stated for key, stated in first.values.items() if key not in differing | {"case"}})


# ---- Rows on their way to YAML: values, blanks, and names ---------------------------------------------

#: The keys of a recipe; ``environment`` is a mapping of its own, ``arguments`` a list.
RecipeKey: TypeAlias = "Stated | Mapping[str, str] | tuple[str, ...]"

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
    #: Further figures, by the keys of ``metrics``.
    metrics: Mapping[str, str] = field(default_factory=dict)
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

    def states(self, key: str) -> bool:
        """True if it has a value of a key or of a metric."""
        return bool(self.text(VALUE if self.text("metric") == key else key)) or key in self.metrics

    def to_stated(self, document: str) -> StatedRow:
        """The row in the form for arithmetic; places count in the document."""
        values = {key: stated for key, stated in self.values.items() if stated.text}
        return StatedRow(self.id, document, {**values, "document": Stated(document, 1, 1)}, self.known)

    def with_value(self, key: str, text: str, line: int = FACT) -> DocumentRow:
        """The row with another value; an empty text removes it."""
        values = {name: stated for name, stated in self.values.items() if name != key}
        return replace(self, values={**values, key: Stated(text, line, 1)} if text else values)


@dataclass(frozen=True)
class RowFile:
    """One YAML file to write."""

    #: Relative, such as ``maxtext/llama2_70b.yaml``.
    path: str
    #: Those of a table in succession.
    rows: tuple[DocumentRow, ...]
    #: Facts of the file, and of its tables by the lines of their headers.
    facts: Facts = field(default_factory=Facts)
    tables: Mapping[int, Facts] = field(default_factory=dict)


def with_cases(rows: Sequence[DocumentRow]) -> Iterator[tuple[DocumentRow, str]]:
    """The rows with unique names, and a note on a name if one is needed.

    A case always contains the release from a heading, and the name from labels and facts. Rows that are equal in these
    get further words: settings first, then columns without a key.
    """
    drafts = [row.with_value("case", _case_begin(row), row.values.get("case", row.values["line"]).line) for row in rows]
    attributes = grouped([(row.id, name) for row in drafts for name in row.attributes])
    # A row's id, and the words that distinguish it from others of that id.
    names: list[tuple[str, ...]] = [(row.id,) for row in drafts]
    for words in zip_longest(*(_words(row, dict.fromkeys(attributes.get(row.id, ()))) for row in drafts), fillvalue=""):
        named_words = list(zip(names, words, strict=True))
        kinds = grouped(named_words)
        names = [(*name, word) if word and len({*kinds[name]}) > 1 else name for name, word in named_words]
    lines: dict[str, list[str]] = {}
    for row, (_, *chosen) in zip(drafts, names, strict=True):
        case = "-".join(filter(None, (row.text("case"), *chosen)))[:LONGEST_NAME].strip("-.")
        named = row.with_value("case", case, row.values["line"].line)
        alike = lines.setdefault(named.id, [])
        alike.append(row.text("line"))
        note = ""
        if len(alike) > 1:
            note = f"nothing distinguishes it from the row of line {alike[0]}: it is run {len(alike)} of these"
            runs = (
                named.with_value("case", f"{case[: LONGEST_NAME - 8]}-run{run}".strip("-")) for run in count(len(alike))
            )
            named = next(one for one in runs if one.id not in lines)
            lines[named.id] = [row.text("line")]
        yield named, note


def _case_begin(row: DocumentRow) -> str:
    """The part of a case that depends on no other row; facts give all of it."""
    case, release = row.values.get("case"), row.values.get("release")
    if case is not None and case.line == FACT:
        return case.text
    of_heading = release.text.lower() if release is not None and release.line > 0 else ""
    return "-".join(filter(None, (of_heading, row.text("case"))))


def _words(row: DocumentRow, attributes: Iterable[str]) -> Iterator[str]:
    """A word for each setting and each of these attributes; empty if the row has none."""
    for key, short in _SETTINGS.items():
        yield f"{short}{_slug(row.text(key))}" if row.text(key) else ""
    for name in attributes:
        yield _slug(f"{name} {row.attributes[name]}") if row.attributes.get(name) else ""


def _slug(text: str) -> str:
    return re.sub(r"[^a-z0-9.]+", "-", text.lower()).strip("-.")[:24]
