"""The ``case`` of a row: what tells it from others with the same workload, dtype, accelerator and GPU count.

A case is made of what the document says of the row, and never of a line's number. The release and the task of the
row's section are always part of it. The rest is decided among the rows of the same release and task alone: neither the
sections of another release nor their order rename a row. A row that is added renames those alone that it is like.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, count
from typing import TypeAlias

from pytest_gsw.documents.importing.cells import Number, read_number
from pytest_gsw.documents.importing.draft import Remark
from pytest_gsw.documents.importing.markdown import Document, Table
from pytest_gsw.documents.importing.row import FACT, Row
from pytest_gsw.documents.importing.rows import DraftTable
from pytest_gsw.tables.fields import LONGEST_NAME
from pytest_gsw.tables.yamlfile import Stated

#: ``25.11 NeMo Container``, ``26.02.01``: the year and month that containers are named after.
_CONTAINER = re.compile(r"(?<![A-Za-z0-9.])(2[0-9]\.(?:0[1-9]|1[0-2])(?:\.[0-9]{1,2})?)(?![A-Za-z0-9]|\.[0-9])")
#: ``Release 0.4.2``, and a heading that is nothing but ``v0.4.2``.
_NUMBERED = re.compile(
    r"(?:.*(?<![a-z])(?:release|version)[ ]|(?=v?[0-9.]+$))(v?[0-9]{1,4}(?:\.[0-9]{1,4}){1,3})(?![a-z0-9]|\.[0-9]).*",
    re.IGNORECASE,
)
#: Ways of fine-tuning, whose figures are not those of pre-training.
_WAYS: Mapping[str, re.Pattern[str]] = {
    name: re.compile(rf"(?<![a-z])(?:{words})(?![a-z])", re.IGNORECASE)
    for name, words in {"lora": "lora", "sft": r"sft|supervised[ -]fine-?[ ]?tuning", "dpo": "dpo"}.items()
}
_FINE_TUNING = re.compile(r"(?<![a-z])fine-?[ ]?tun(?:ing|e)(?![a-z])", re.IGNORECASE)
_PRE_TRAINING = re.compile(r"(?<![a-z])pre-?[ ]?train(?:ing)?(?![a-z])", re.IGNORECASE)

#: What tells rows of the same name apart, in the order in which it is asked, and how each is written in a case.
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
#: Words of titles and headings that tell nothing.
_FILLERS = re.compile(
    r"an?|and|the|of|on|for|in|with|at|to|using|by|from|models?|systems?|performance|results?|summary|pre|training|train|"
    r"pretraining|tables?|benchmarks?|nvidia|gpus?|expected|baselines?"
)
_LONGEST_WORDS = 24
_NO_LETTERS = re.compile(r"[^a-z0-9.-]+")

_Named: TypeAlias = tuple[DraftTable, Row]
_Feature: TypeAlias = Callable[[DraftTable, Row], str]


def release_of(document: Document, table: Table) -> Stated | None:
    """The release that the nearest caption or heading above a table names: ``25.11`` of "25.11 NeMo Container"."""
    for text in (*reversed(table.captions), *reversed(table.headings)):
        match = _CONTAINER.search(text) or _NUMBERED.fullmatch(text)
        if match is not None:
            headings = (document.sections[number].start for number in range(table.section, 0, -1))
            line = next((line for line in headings if match[1] in document.lines[line - 1]), table.line)
            return Stated(match[1], line, 1)
    return None


@dataclass(frozen=True)
class Chapter:
    """What the headings above a table say that its figures, or its settings, are of."""

    release: str | None
    #: Empty for pre-training.
    task: str | None

    def may_hold_for(self, rows: Chapter) -> bool:
        """Whether settings of this chapter may be those of rows of another one."""
        return self.release in {None, rows.release} and self.task in {None, rows.task or ""}


def chapter_of(document: Document, table: Table, title: str = "") -> Chapter:
    """The release and the task of a table; its own title says more of its task than what stands above it."""
    release, task = release_of(document, table), _task_in(title)
    return Chapter(release.text if release is not None else None, _task_above(table) if task is None else task)


def _task_of(table: Table, row: Row) -> str:
    """The task by the row's own column, else by the headings."""
    own = _task_in(row.attributes.get("task", ""))
    return own if own is not None else _task_above(table) or ""


def _task_above(table: Table) -> str | None:
    """The task that the nearest caption or heading names."""
    tasks = map(_task_in, (*reversed(table.captions), *reversed(table.headings)))
    return next((task for task in tasks if task is not None), None)


def _task_in(text: str) -> str | None:
    if _PRE_TRAINING.search(text):
        return ""
    ways = [name for name, pattern in _WAYS.items() if pattern.search(text)]
    if len(ways) == 1:
        return ways[0]
    return "finetuning" if ways or _FINE_TUNING.search(text) else None


def with_cases(rows: Sequence[_Named]) -> tuple[list[Row], list[tuple[int, Remark]]]:
    """The rows with names of their own, and by their numbers what must be said of names."""
    groups: dict[tuple[str, str], list[int]] = {}
    begins = [_beginning(table.table, row) for table, row in rows]
    for number, ((_, row), begin) in enumerate(zip(rows, begins, strict=True)):
        groups.setdefault((_without_case(row).id, begin), []).append(number)
    cases: dict[int, str] = {}
    for (_, begin), members in groups.items():
        told = _told_apart([rows[number] for number in members])
        cases |= {number: _case(begin, words) for number, words in zip(members, told, strict=True)}
    return _numbered([row for _, row in rows], cases)


def _case(begin: str, words: Sequence[str]) -> str:
    """The case, in letters that one may have; its beginning is cut where it would be too long."""
    begin, telling = (_NO_LETTERS.sub("-", text.lower()) for text in (begin, "-".join(words)))
    telling = telling[:LONGEST_NAME]
    room = LONGEST_NAME - len(telling) - bool(telling)
    return "-".join(filter(None, (begin[: max(room, 0)].strip("-."), telling.strip("-."))))


def _beginning(table: Table, row: Row) -> str:
    """The part of a case that depends on no other row: release, task, and what title or facts say."""
    own = row.values.get("case")
    if own is not None and own.line == FACT:
        return own.text
    release = row.values.get("release")
    words = [release.text.lower()] if release is not None and release.line != FACT else []
    task = _task_of(table, row)
    variant = own.text if own is not None else ""
    return "-".join(filter(None, (*words, task if task not in variant.split("-") else "", variant)))


def _told_apart(group: Sequence[_Named]) -> list[list[str]]:
    """The words that tell each row of a group from the others: one after the other, for those that are still alike."""
    told: list[list[str]] = [[] for _ in group]
    for feature in _features(group) if len(group) > 1 else ():
        words = [feature(table, row) for table, row in group]
        kinds: dict[tuple[str, ...], set[str]] = {}
        for before, word in zip(told, words, strict=True):
            kinds.setdefault(tuple(before), set()).add(word)
        told = [
            [*before, word] if word and len(kinds[tuple(before)]) > 1 else before
            for before, word in zip(told, words, strict=True)
        ]
    return told


def _features(group: Sequence[_Named]) -> Iterator[_Feature]:
    """What tells rows apart: settings, columns that have no key, at last the words of title, captions and headings."""
    yield lambda table, _: table.title.version
    yield lambda _, row: _slug(row.attributes.get("precision", ""), {_text(row, "dtype")})
    yield from (partial(_setting, key) for key in _SETTINGS)
    yield lambda _, row: _slug(row.system, _known(row))
    yield from (partial(_attribute, name) for name in dict.fromkeys(chain(*(row.attributes for _, row in group))))
    yield lambda table, row: _slug(table.table.header[0].text, _known(row))
    yield lambda table, row: _slug(" ".join(table.table.captions), _known(row))
    yield from (partial(_heading, depth) for depth in range(max(len(table.table.headings) for table, _ in group)))


def _setting(key: str, _: DraftTable, row: Row) -> str:
    text = _text(row, key)
    return f"{_SETTINGS[key]}{_slug(text)}" if text else ""


def _heading(depth: int, table: DraftTable, row: Row) -> str:
    """The words of a heading, the innermost at depth 0."""
    inwards = table.table.headings[::-1]
    return _slug(inwards[depth], _known(row)) if depth < len(inwards) else ""


def _attribute(name: str, _: DraftTable, row: Row) -> str:
    """A column's text as a word, with its name where the text alone says nothing; figures tell no rows apart."""
    text = row.attributes.get(name, "")
    number = read_number(text)
    if isinstance(number, Number):
        return f"{_slug(name)}{number.digits}" if number.digits.isdigit() and not number.unit else ""
    plain = re.fullmatch(r"true|false|yes|no|on|off|y|n", text, re.IGNORECASE)
    return _slug(f"{name} {text}" if plain else text)


def _known(row: Row) -> set[str]:
    """Words that a row's id has already."""
    named = (_text(row, key) for key in ("model", "size", "dtype", "accelerator"))
    return set(chain(*(re.split(r"[^a-z0-9.]+", text.lower()) for text in named)))


def _slug(text: str, known: Collection[str] | None = None) -> str:
    """A text as words of a case; of a title or heading without those that are known, and that tell nothing."""
    slug = ""
    for word in re.findall(r"[a-z0-9]+(?:\.[a-z0-9]+)*", text.lower()):
        tells = known is None or (word not in known and _FILLERS.fullmatch(word) is None)
        if tells and len(slug) + len(word) < _LONGEST_WORDS:
            slug += f"-{word}" if slug else word
    return slug


def _numbered(rows: Sequence[Row], cases: Mapping[int, str]) -> tuple[list[Row], list[tuple[int, Remark]]]:
    """The rows with their cases; those that nothing tells apart are numbered from the second on, in their order."""
    named: list[Row] = []
    remarks: list[tuple[int, Remark]] = []
    lines: dict[str, list[str]] = {}
    taken: set[str] = set()
    for number, row in enumerate(rows):
        one, line = _with_case(row, cases[number]), row.values["line"]
        alike = lines.setdefault(one.id, [])
        alike.append(line.text)
        if one.id in taken:
            message = f"nothing tells it from the row of line {alike[0]}; it is the {_ordinal(len(alike))} of such rows"
            remarks.append((number, Remark(line.line, line.column, "case", message)))
            begin = cases[number][: LONGEST_NAME - 8].strip("-.")
            numbered = (_with_case(row, f"{begin}-run{run}".strip("-")) for run in count(len(alike)))
            one = next(other for other in numbered if other.id not in taken)
            one = replace(one, comments=(*row.comments, f"case: {message}"))
        taken.add(one.id)
        named.append(one)
    return named, remarks


def _ordinal(number: int) -> str:
    endings = {1: "st", 2: "nd", 3: "rd"} if number // 10 % 10 != 1 else {}
    return f"{number}{endings.get(number % 10, 'th')}"


def _with_case(row: Row, case: str) -> Row:
    values = {key: stated for key, stated in row.values.items() if key != "case"}
    if case:
        known = row.values.get("case", row.values["line"])
        values["case"] = replace(known, text=case)
    return replace(row, values=values)


def _without_case(row: Row) -> Row:
    return _with_case(row, "")


def _text(row: Row, key: str) -> str:
    return row.values[key].text if key in row.values else ""
