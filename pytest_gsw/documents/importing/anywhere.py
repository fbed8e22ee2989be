"""What a document states of its runs anywhere: the farthest of what stands around a table.

A dtype, an accelerator or a sequence length counts here where the document states one alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from pytest_gsw.documents.importing.labels import ACCELERATOR
from pytest_gsw.documents.importing.markdown import Document
from pytest_gsw.documents.importing.sentences import NEGATED, Sentence, names_in
from pytest_gsw.tables.yamlfile import Stated

#: Lines that state the same: no more of them are asked which run they name.
_MOST_LINES = 20
_WORDS = re.IGNORECASE | re.ASCII
_SEQUENCE = re.compile(r"^\W{0,6}(?:seq(?:uence)?[ _]?len(?:gth)?)\s*(?:=|:|is)\s*([1-9]\d{0,6})(?!\d|[.,]\d)", _WORDS)
_SEQUENCE_IN_TEXT = re.compile(
    r"(?:seq(?:uence)? length|context length)(?: is| of|:| =)? ([1-9]\d{0,6})(?!\d|[.,]\d| first| at first| initially)",
    _WORDS,
)
_WEIGHTS = re.compile(r"(?<![A-Za-z0-9])(fp16|bf16|fp32|fp8) weights", _WORDS)
_ACCELERATOR_MEMORY = re.compile(r"(?<![A-Za-z0-9])([VA]100|H100)[- ](\d{2,3}) ?gb?(?![a-z])", _WORDS)


def stated_anywhere(document: Document) -> Mapping[str, tuple[Sentence, ...]]:
    """By key, the lines that state it, where they state one thing alone; each with the runs that it names.

    A command is an example, and the model that it names is one of those that ran.
    """
    lines = list(document.texts(document.prose))
    affirmed = [(n, line) for n, line in lines if not NEGATED.search(line)]
    stated = {
        "dtype": list(_matches(_WEIGHTS, lines))[:1],
        "accelerator": _alike(_accelerators(lines)),
        "sequence_length": _alike(_matches(_SEQUENCE, lines)) or _alike(_matches(_SEQUENCE_IN_TEXT, affirmed)),
    }
    code = {n for block in document.blocks if block.kind == "code" for n in block.lines}
    texts = {n: "" if n in code else line for n, line in lines}
    return {key: tuple(_sentence(key, one, texts[one.line]) for one in found) for key, found in stated.items()}


def _alike(stated: Iterable[Stated]) -> list[Stated]:
    """The statements where all say the same, none where they differ."""
    found = list(stated)
    return found[:_MOST_LINES] if len({one.text for one in found}) == 1 else []


def _matches(pattern: re.Pattern[str], lines: Iterable[tuple[int, str]]) -> Iterator[Stated]:
    for number, line in lines:
        for match in pattern.finditer(line):
            yield Stated(match[1].lower(), number, match.start(1) + 1)


def _accelerators(lines: Iterable[tuple[int, str]]) -> list[Stated]:
    """The accelerator of which the text first names the memory; else all that it names."""
    for number, line in lines:
        match = _ACCELERATOR_MEMORY.search(line)
        if match is not None:
            return [Stated(f"{match[1].upper()}-{match[2]}GB", number, match.start() + 1)]
    return [
        Stated(match["name"].upper(), number, match.start() + 1)
        for number, line in lines
        for match in ACCELERATOR.finditer(line)
    ]


def _sentence(key: str, stated: Stated, line: str) -> Sentence:
    named = {name: tuple(Stated(text, stated.line, 1) for text in texts) for name, texts in names_in(line).items()}
    return Sentence(line, (), {**named, key: (stated,)})
