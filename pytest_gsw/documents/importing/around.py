"""What stands around a table and is about it: its captions, the text beside it, headings, and what introduces those.

The nearest statement counts. Where two at the same distance differ, nothing is taken, and the blank names both.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise

from pytest_gsw.documents.importing.draft import Draft
from pytest_gsw.documents.importing.labels import DTYPE, accelerator
from pytest_gsw.documents.importing.markdown import Block, Document, Table
from pytest_gsw.documents.importing.sentences import FAMILY, POINT, Sentence, read_sentences
from pytest_gsw.documents.importing.titles import Title, read_title, same_model
from pytest_gsw.tables.yamlfile import Stated

#: What tells runs apart: a sentence that names another of these than the row has is about another run.
_TELLING = ("model", "size", "accelerator", "dtype", "gpus")
#: Headings of what holds for the sections beside them.
_SETUP = re.compile(
    r"(?:[0-9.]+ )?(?:(?:experiment(?:al|s)?|test|training|benchmark(?:ing)?) )?"
    r"(?:set-?up|hardware|environment|systems?|clusters?|platform|configurations?|settings|methodology|models?)"
    r"(?: (?:set-?up|configuration|specifications?))?",
    re.IGNORECASE,
)
#: Labels of points that are about all runs; another one's point is about what it names.
_GENERAL = re.compile(
    r"(?:(?:training|model|test|default|key) )?(?:model|hardware|systems?|precision|(?:max )?seq\w*(?: len\w*)?|"
    r"parallelisms?|(?:(?:micro|global)[ -]?)?batch(?: size)?|gpus?|nodes?|clusters?|config\w*|set-?up|settings?|"
    r"environment|accelerators?|d-?type|data ?type|training|platform|"
    r"(?:tensor|pipeline|context|expert|data) parallel\w*)(?: used)?",
    re.IGNORECASE,
)
_LABELLED = re.compile(rf"{POINT.pattern}(?:\*\*|`)?([^:*`|]{{1,60}}?)(?:\*\*|`)?[ ]?:(?:\*\*)?[ ]+\S")
_NAMED_VALUE = re.compile(r"[A-Z][A-Za-z ]{1,40}:[ ]+\S")
_CAPTION = re.compile(r"(?:\*\*|__)?(?:table|tab\.)[ ]?[0-9]|\*\*|__", re.IGNORECASE)
#: Words of notes below a table that are about all of its runs.
_OF_RUNS = re.compile(
    r"(?<![a-z])(?:(?:all|these|the|for this) (?:training )?"
    r"(?:runs?|results?|numbers|measurements|experiments|figures|rows|tests)|"
    r"(?:measured|obtained|collected|run) (?:on|with))(?![a-z])|"
    r"^\W*(?:note|setup|settings|environment|hardware|configuration)(?![a-z])",
    re.IGNORECASE,
)
_OF_ABOVE = re.compile(r"(?<![a-z])(?:above|previous|preceding)(?![a-z])", re.IGNORECASE)


@dataclass(frozen=True)
class Group:
    """A paragraph with the list that it introduces, or a heading."""

    first: int
    section: int
    sentences: tuple[Sentence, ...]
    #: It names one table: the one below it.
    is_caption: bool = False
    #: It is about the table above it.
    is_of_above: bool = False
    #: It is about all runs of a table.
    is_of_runs: bool = False

    @property
    def states(self) -> bool:
        """Whether it states anything of runs."""
        return any(sentence.said for sentence in self.sentences)


@dataclass(frozen=True)
class Around:
    """The text around one table, the nearest first."""

    levels: tuple[tuple[Group, ...], ...] = ()

    def about(self, row: Mapping[str, str], keys: Collection[str]) -> tuple[dict[str, Stated], dict[str, str]]:
        """What it says of a row of these keys, and why nothing is said of the others that are there.

        What the row has itself decides which sentences are about it.
        """
        known = dict(row)
        found: dict[str, Stated] = {}
        differing: dict[str, str] = {}
        for level in self.levels:
            said = _stated(sentence for group in level for sentence in _of_row(group, known))
            for key in keys:
                values = said.get(key, {}) if key not in {*row, *found, *differing} else {}
                if len(values) == 1:
                    found |= {key: next(iter(values.values()))}
                elif values:
                    differing[key] = _differing(values.values())
            known = {**{key: next(iter(said[key])) for key in _TELLING if len(said.get(key, ())) == 1}, **known}
        return found, differing

    def states(self, *keys: str) -> bool:
        """Whether any of it states one of these."""
        return any(
            sentence.said.get(key)
            for level in self.levels
            for group in level
            for sentence in group.sentences
            for key in keys
        )


#: What the text around a table may say of its rows, beside how many GPUs they have.
SAID = (
    *("model", "size", "accelerator", "dtype", "gpus_per_node", "sequence_length"),
    *("global_batch_size", "micro_batch_size", "gradient_accumulation_steps"),
    *("tp", "pp", "cp", "ep", "dp", "vp", "fsdp"),
)


def counted(draft: Draft, title: Title, around: Around) -> Draft:
    """The draft of a row that has no GPU count of its own, with the one that stands around its table."""
    if {"gpus", "nodes"} & {*draft.values, *draft.blanks, *draft.absent}:
        return draft
    found, _ = around.about(_telling(draft, title), ("gpus", "nodes"))
    gpus, nodes = found.get("gpus"), found.get("nodes")
    if gpus is not None:
        draft = draft.having("gpus", gpus.text, gpus)
    if nodes is not None and (gpus is None or gpus.line == nodes.line):
        draft = draft.having("nodes", nodes.text, nodes)
    return draft


def surrounded(draft: Draft, title: Title, around: Around) -> Draft:
    """The draft with what stands around its table and is about it, where the row itself says nothing."""
    row = _telling(draft, title)
    own = {*row, *draft.values, *draft.blanks, *draft.absent}
    found, differing = around.about(row, [key for key in SAID if key not in own])
    for key, stated in found.items():
        draft = draft.having(key, stated.text, stated)
    for key, reason in differing.items():
        draft = draft.blanked(key, reason)
    return draft


def _telling(draft: Draft, title: Title) -> dict[str, str]:
    """What a row and its table's title say of its model, size, dtype, accelerator and GPUs."""
    cells = {key: stated.text for key, stated in draft.values.items()}
    named, sized = read_title(cells.get("model", "")), read_title(cells.get("size", ""))
    dtype = DTYPE.search(cells.get("dtype", ""))
    found = {
        "model": named.model or title.model,
        "size": sized.size or named.size or (title.size if not named.model or not title.model else ""),
        "dtype": dtype[1].lower() if dtype is not None else title.dtype,
        "accelerator": accelerator(cells.get("accelerator", "")) or title.accelerator,
        "gpus": cells.get("gpus", ""),
    }
    return {key: text for key, text in found.items() if text}


def _stated(sentences: Iterable[Sentence]) -> dict[str, dict[str, Stated]]:
    """What sentences state, by key and text, each where it stands first; of several runs, only which they are."""
    found: dict[str, dict[str, Stated]] = {}
    for sentence in sentences:
        several = any(len(sentence.said.get(key, ())) > 1 for key in _TELLING)
        for key in _TELLING if several else sentence.said:
            for stated in sentence.said.get(key, ()):
                if not several or len(sentence.said[key]) > 1:
                    found.setdefault(key, {}).setdefault(stated.text, stated)
    return found


def _differing(stated: Collection[Stated]) -> str:
    """``line 3 says 8 and line 5 says 16``."""
    lines = sorted({one.line for one in stated})
    return _and(f"line {n} says {_and(sorted(one.text for one in stated if one.line == n))}" for n in lines)


def _and(texts: Iterable[str]) -> str:
    *first, last = texts
    return f"{', '.join(first)} and {last}" if first else last


def _of_row(group: Group, known: Mapping[str, str]) -> Iterator[Sentence]:
    """The sentences of a group that may be about a row; none where the group is about other runs."""
    if all(_agree(group.sentences, key, known[key]) for key in _TELLING if known.get(key)):
        for sentence in group.sentences:
            if all(_agree((sentence,), key, known[key]) for key in _TELLING if known.get(key)):
                yield sentence


def _agree(sentences: Collection[Sentence], key: str, value: str) -> bool:
    texts = {stated.text for sentence in sentences for stated in sentence.said.get(key, ())}
    return not texts or any(_same(key, text, value) for text in texts)


def _same(key: str, one: str, other: str) -> bool:
    if key == "model":
        return same_model(one, other)
    return one.split("-")[0].lower() == other.split("-")[0].lower()


class Surroundings:
    """The text of a document, by where its tables stand."""

    def __init__(self, document: Document) -> None:
        self._document = document

    def of(self, table: Table) -> Around:
        """What stands around a table."""
        before, after = self._beside(table)
        own = table.section
        levels = [before[-1:], self._heading(own), [*self._introduction(table, own), *before[:-1]], after]
        for section in self._above(own):
            levels += [self._heading(section), self._introduction(table, section), self._setups(section, own)]
        return Around(tuple(tuple(level) for level in levels if level))

    @cached_property
    def _groups(self) -> tuple[Group, ...]:
        return tuple(_groups(self._document))

    @cached_property
    def _levels(self) -> Mapping[int, int]:
        """The heading level of each section; the one before the first heading is above all."""
        return {0: 0, **{block.section: block.level for block in self._document.blocks if block.kind == "heading"}}

    def _above(self, section: int) -> Iterator[int]:
        """The sections that a section is a part of, nearest first."""
        level = self._levels[section]
        for other in range(section - 1, -1, -1):
            if self._levels[other] < level:
                level = self._levels[other]
                yield other

    def _heading(self, section: int) -> list[Group]:
        found = (b for b in self._document.blocks if b.kind == "heading" and b.section == section)
        return [Group(b.lines[0], section, (_of_heading(self._document, b.lines[0]),)) for b in found]

    def _in(self, section: int) -> list[Group]:
        return [group for group in self._groups if group.section == section]

    def _tables(self, section: int) -> list[Table]:
        return [table for table in self._document.tables if table.section == section]

    def _introduction(self, table: Table, section: int) -> list[Group]:
        """What stands in a section before its first table, without that table's caption."""
        tables = self._tables(section)
        if not tables:
            return self._in(section)
        found = [group for group in self._in(section) if group.first < tables[0].line]
        return [] if tables[0].line == table.line else found[:-1] if found and found[-1].is_caption else found

    def _setups(self, parent: int, own: int) -> list[Group]:
        """The sections directly below another one that say what all others beside them ran on."""
        found: list[Group] = []
        for section in range(parent + 1, len(self._levels)):
            if self._levels[section] <= self._levels[parent] and parent:
                break
            is_below = next(self._above(section)) == parent
            heading = self._document.lines[self._document.sections[section].start - 1].strip(" #")
            if is_below and section != own and section not in self._above(own) and _SETUP.fullmatch(heading):
                found += self._in(section)
        return found

    def _beside(self, table: Table) -> tuple[list[Group], list[Group]]:
        """The groups directly before a table and the one directly after it, as far as they are about it.

        Text between two tables is about the one below it, unless all text of the section stands below its tables.
        Where there is text before the first one and after the last one, nothing but its form tells.
        """
        tables = self._tables(table.section)
        groups = self._in(table.section)
        place = max((n for n, one in enumerate(tables) if one.line <= table.line), default=0)
        starts = [0, *(one.line for one in tables), len(self._document.lines) + 1]
        between = [[g for g in groups if a < g.first < b] for a, b in pairwise(starts)]
        above, below = any(g.states for g in between[0][-1:]), any(g.states for g in between[-1][:1])
        before, after = between[place], between[place + 1]
        if place > 0:
            before = [g for g in before if not g.is_of_above]
            if below and len(before) == 1 and not before[0].is_caption:
                before = []
        if place < len(tables) - 1:
            ours = below and not above and len(after) == 1 and not after[0].is_caption
            after = [g for g in after[:1] if g.is_of_above or ours]
        return before, [group for group in after[:1] if group.is_of_runs or group.is_of_above]


def _of_heading(document: Document, line: int) -> Sentence:
    """A heading; a known model needs no size there, unless it is in the document's title, which is asked last."""
    sentence = next(read_sentences(document.lines, (line,)), None) or Sentence("", (), {})
    if "model" in sentence.said or line == document.sections[1].start:
        return sentence
    named = {read_title(match[0]).model: sentence.places[match.start()] for match in FAMILY.finditer(sentence.text)}
    models = tuple(Stated(model, *place) for model, place in named.items() if model)
    return replace(sentence, said={**sentence.said, "model": models}) if models else sentence


def _groups(document: Document) -> Iterator[Group]:
    """Paragraphs, each with the points or the settings in code that it introduces."""
    lines = document.lines
    starts = sorted(table.line for table in document.tables)
    run: list[Block] = []
    for block in (one for one in document.blocks if one.kind == "text" or _has_settings(one, lines)):
        apart = run and (
            run[-1].section != block.section or any(run[-1].lines[0] < start < block.lines[0] for start in starts)
        )
        if run and (apart or not _continues(run, block, lines)):
            yield _group(run, lines)
            run = []
        run.append(block)
    if run:
        yield _group(run, lines)


def _has_settings(block: Block, lines: Sequence[str]) -> bool:
    """Whether a code block is a list of names with their values, and no command or program."""
    inside = [lines[n - 1] for n in block.lines[1:-1] if lines[n - 1].strip()]
    return block.kind == "code" and bool(inside) and all(map(_NAMED_VALUE.match, inside))


def _continues(run: Sequence[Block], block: Block, lines: Sequence[str]) -> bool:
    last = lines[run[-1].lines[-1] - 1].rstrip()
    is_point = POINT.match(lines[block.lines[0] - 1]) is not None
    if block.kind == "code":
        return last.endswith(":")
    return is_point and (POINT.match(lines[run[-1].lines[0] - 1]) is not None or not last.endswith((".", "!", "?")))


def _group(run: Sequence[Block], lines: Sequence[str]) -> Group:
    first, rest = run[0], run[1:]
    text = " ".join(lines[n - 1].strip() for n in first.lines)
    within = text[-300:] if rest and POINT.match(lines[first.lines[0] - 1]) is None and first.kind == "text" else ""
    sentences: list[Sentence] = []
    for block in run:
        label = _LABELLED.match(lines[block.lines[0] - 1])
        if label is not None and not _GENERAL.fullmatch(label[1].strip()):
            continue
        if block.kind == "code":
            sentences += (one for n in block.lines[1:-1] for one in read_sentences(lines, (n,), within))
        else:
            sentences += read_sentences(lines, block.lines, within if block is not first else "")
    last = lines[run[-1].lines[-1] - 1].rstrip(" *_")
    is_caption = (
        _CAPTION.match(text) is not None or last.endswith(":") or bool(rest and text.rstrip(" *").endswith(":"))
    )
    is_of_above, is_of_runs = _OF_ABOVE.search(text) is not None, _OF_RUNS.search(text) is not None
    return Group(first.lines[0], first.section, tuple(sentences), is_caption, is_of_above, is_of_runs)
