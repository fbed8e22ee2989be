"""Rows on their way from a document to YAML: what they state, where from, what is missing, and what each is called."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import TypeAlias

from pytest_gsw.importing.rows import FACT
from pytest_gsw.tables.fields import LONGEST_NAME
from pytest_gsw.tables.model import blank_id
from pytest_gsw.tables.stated import StatedRow
from pytest_gsw.tables.yamlfile import Stated

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
    for feature in _features(group) if len(group) > 1 else ():
        words = [feature(row) for row in group]
        kinds: dict[tuple[str, ...], set[str]] = {}
        for before, word in zip(told, words, strict=True):
            kinds.setdefault(tuple(before), set()).add(word)
        told = [
            [*before, word] if word and len(kinds[tuple(before)]) > 1 else before
            for before, word in zip(told, words, strict=True)
        ]
    return told


def _features(group: Iterable[Row]) -> Iterator[Callable[[Row], str]]:
    for key, short in _SETTINGS.items():
        yield lambda row, key=key, short=short: f"{short}{_slug(row.text(key))}" if row.text(key) else ""  # type: ignore[misc]
    for name in dict.fromkeys(name for row in group for name in row.attributes):
        yield lambda row, name=name: _slug(f"{name} {text}") if (text := row.attributes.get(name)) else ""  # type: ignore[misc]


def _slug(text: str) -> str:
    return re.sub(r"[^a-z0-9.]+", "-", text.lower()).strip("-.")[:24]
