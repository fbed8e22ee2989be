"""Where text stands in a document, and which of it is about which table."""

from __future__ import annotations

import re
from bisect import bisect
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from pytest_gsw.documents.importing.anywhere import stated_anywhere
from pytest_gsw.documents.importing.around import SAID, Around, Group
from pytest_gsw.documents.importing.cells import Number, read_number
from pytest_gsw.documents.importing.labels import FIGURES, read_label
from pytest_gsw.documents.importing.markdown import Block, Document, Table
from pytest_gsw.documents.importing.sentences import FAMILY, POINT, Sentence, read_sentences, said_in
from pytest_gsw.documents.importing.titles import read_title
from pytest_gsw.tables.yamlfile import Stated

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
_VALUE = re.compile(r"(?:values?|settings?|config(?:uration)?)", re.IGNORECASE)
_NUMBERED = re.compile(r"[*_]{0,3}(?:table|tab\.)[ ]?[0-9]", re.IGNORECASE)
#: Words of notes below a table that are about all of its runs.
_OF_RUNS = re.compile(
    r"(?<![a-z])(?:(?:all|these|the|for this) (?:training )?"
    r"(?:runs?|results?|numbers|measurements|experiments|figures|rows|tests)|"
    r"(?:measured|obtained|collected|run) (?:on|with))(?![a-z])|"
    r"^\W*(?:note|setup|settings|environment|hardware|configuration)(?![a-z])",
    re.IGNORECASE,
)
#: A text of more statements, or so many sections that are called so, is of other runs than one table's.
_MOST_STATEMENTS = 100
_MOST_SETUPS = 20
_OF_ABOVE = re.compile(r"(?<![a-z])(?:above|previous|preceding)(?![a-z])", re.IGNORECASE)


@dataclass(frozen=True)
class Arranged:
    """The text of one section, and where its tables begin in it."""

    tables: tuple[int, ...]
    groups: tuple[Group, ...]

    @cached_property
    def _between(self) -> tuple[tuple[Group, ...], ...]:
        """The groups before the first table, between each two, and after the last one."""
        parts: list[list[Group]] = [[] for _ in range(len(self.tables) + 1)]
        for group in self.groups:
            parts[bisect(self.tables, group.first)].append(group)
        return tuple(map(tuple, parts))

    @cached_property
    def introduction(self) -> tuple[Group, ...]:
        """What stands before the first table, without that table's caption."""
        return _stating(self._introduction)

    @cached_property
    def _introduction(self) -> tuple[Group, ...]:
        first = self._between[0]
        return first[:-1] if self.tables and first and first[-1].is_caption else first

    @cached_property
    def _introduction_of_others(self) -> tuple[Group, ...]:
        """The same for a table that has text of its own: the last of it stands directly before the first table."""
        return _stating(self._introduction[:-1])

    @cached_property
    def _numbers_below(self) -> bool:
        """Whether captions such as "Table 2: …" stand below their tables."""
        first, last = self._between[0][-1:], self._between[-1][:1]
        return any(group.is_numbered for group in last) and not any(group.is_numbered for group in first)

    def beside(self, line: int) -> tuple[tuple[Group, ...], tuple[Group, ...], tuple[Group, ...]]:
        """What stands directly beside a table, the rest of the section that is about it, and the note below it.

        Text between two tables is about the one below it, unless all text of the section stands below its tables.
        Where there is text before the first one and after the last one, nothing but its form tells.
        """
        if not self.tables:
            return (), (), ()
        place = max(bisect(self.tables, line) - 1, 0)
        is_first, is_last = place == 0, place == len(self.tables) - 1
        before, after = self._between[place], self._between[place + 1][:1]
        above, below = (
            any(group.states for group in beside) for beside in (self._between[0][-1:], self._between[-1][:1])
        )
        caption: tuple[Group, ...] = ()
        if self._numbers_below:
            caption = tuple(group for group in after if group.is_numbered)
            before = tuple(group for group in before if not group.is_numbered)
        if not is_first:
            before = tuple(group for group in before if not group.is_of_above)
            if below and len(before) == 1 and not before[0].is_caption:
                before = ()
        if not is_last:
            ours = below and not above and len(self._between[place + 1]) == 1
            after = tuple(group for group in after if group.is_of_above or (ours and not group.is_caption))
        notes = tuple(group for group in after if group.is_of_runs or group.is_of_above)
        nearest = (*before[-1:], *caption)
        has_own = any(group.states for group in nearest)
        introduction = () if is_first else self._introduction_of_others if has_own else self.introduction
        return _stating(nearest), (*introduction, *_stating(before[:-1])), _stating(notes)


class Surroundings:
    """The text of a document, by where its tables stand."""

    def __init__(self, document: Document) -> None:
        self._anywhere = stated_anywhere(document)
        self._levels = {0: 0, **{block.section: block.level for block in document.blocks if block.kind == "heading"}}
        self._parents = _parents([self._levels[section] for section in range(len(self._levels))])
        self._headings = {
            block.section: Group(block.lines[0], block.section, (_of_heading(document, block.lines[0]),))
            for block in document.blocks
            if block.kind == "heading"
        }
        settings = [group for table in document.tables if (group := _settings(table)) is not None]
        as_text = {group.first for group in settings}
        tables: dict[int, list[int]] = {}
        for table in document.tables:
            if table.line not in as_text:
                tables.setdefault(table.section, []).append(table.line)
        groups: dict[int, list[Group]] = {}
        for group in sorted((*_groups(document), *settings), key=lambda one: one.first):
            groups.setdefault(group.section, []).append(group)
        self._sections = {
            section: Arranged(tuple(tables.get(section, ())), tuple(groups.get(section, ())))
            for section in {*tables, *groups}
        }
        #: By the section that they are in, what the sections say that hold for those beside them.
        self._setups: dict[int, dict[int, tuple[Group, ...]]] = {}
        for section, heading in self._headings.items():
            title = document.lines[heading.first - 1].strip(" #")
            if _SETUP.fullmatch(title) and section in self._sections:
                beside = self._setups.setdefault(self._parents[section], {})
                beside[section] = _stating(self._sections[section].groups)

    def of(self, table: Table) -> Around:
        """What stands around a table."""
        own = self._sections.get(table.section, Arranged((), ()))
        beside, rest, after = own.beside(table.line)
        levels = [self._heading(table.section), rest, after]
        above = [table.section]
        while above[-1]:
            above.append(self._parents[above[-1]])
            section = above[-1]
            introduction = self._sections[section].introduction if section in self._sections else ()
            setups = self._setups.get(section, {})
            beside_it = setups.items() if len(setups) <= _MOST_SETUPS else ()
            levels += [self._heading(section), introduction]
            levels.append(tuple(group for one, groups in beside_it if one not in above for group in groups))
        return Around(beside, tuple(level for level in levels if level), self._anywhere)

    def _heading(self, section: int) -> tuple[Group, ...]:
        return (self._headings[section],) if section in self._headings else ()


def _stating(groups: Sequence[Group]) -> tuple[Group, ...]:
    """The groups that state something of runs; none where there are so many statements that each is of another run."""
    found = tuple(group for group in groups if group.states)
    statements = sum(bool(sentence.said) for group in found for sentence in group.sentences)
    return found if statements <= _MOST_STATEMENTS else ()


def _parents(levels: Sequence[int]) -> list[int]:
    """The section that each is a part of: the nearest one above it whose heading is a higher one's."""
    parents = [0]
    for section in range(1, len(levels)):
        other = section - 1
        while levels[other] >= levels[section]:
            other = parents[other]
        parents.append(other)
    return parents


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


def _settings(table: Table) -> Group | None:
    """A table of names and values, ``Parameter | Value``, which states what a text would; ``None`` for another one."""
    named = [(read_label(row[0].text), row[1]) for row in table.rows if len(row) == 2]
    labels = [label for label, _ in named if label is not None]
    if len(table.header) != 2 or not _VALUE.fullmatch(table.header[1].text) or {one.key for one in labels} & {*FIGURES}:
        return None
    said: dict[str, tuple[Stated, ...]] = {}
    for label, cell in named:
        number = read_number(cell.text)
        if label is None or label.key not in {"gpus", *SAID}:
            continue
        if isinstance(number, Number) and not number.unit and re.fullmatch(r"[1-9][0-9]{0,6}", number.digits):
            said[label.key] = (*said.get(label.key, ()), Stated(number.digits, cell.line, cell.column))
        else:
            told = said_in(cell.text).get(label.key, ())
            said |= {label.key: tuple(Stated(text, cell.line, cell.column) for text in told)} if told else {}
    sentence = Sentence(table.header[0].text, (), said)
    return Group(table.line, table.section, (sentence,)) if said else None


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
    is_numbered = _NUMBERED.match(text) is not None
    is_caption = (
        is_numbered
        or text.startswith(("**", "__"))
        or last.endswith(":")
        or bool(rest and text.rstrip(" *").endswith(":"))
    )
    is_of_above, is_of_runs = _OF_ABOVE.search(text) is not None, _OF_RUNS.search(text) is not None
    return Group(first.lines[0], first.section, tuple(sentences), is_caption, is_numbered, is_of_above, is_of_runs)
