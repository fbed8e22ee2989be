"""What a sentence states of runs: GPUs, nodes, accelerator, dtype, lengths, batches, degrees of parallelism, the model.

A sentence that speaks of what is possible, required, planned or elsewhere states nothing, nor does a number that is
a limit or one of several.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from pytest_gsw.documents.importing.labels import ACCELERATOR, DTYPE, accelerator
from pytest_gsw.documents.importing.markdown import LONGEST_TEXT
from pytest_gsw.documents.importing.titles import FAMILIES, is_model, read_title
from pytest_gsw.tables.yamlfile import Stated

#: Samples of one data-parallel rank: no key of a row.
LOCAL_BATCH = "local_batch_size"

_WORDS = re.IGNORECASE | re.ASCII
#: Marks of Markdown: a link or an image, code and bold, HTML, and what begins a point of a list.
_MARK = re.compile(r"!?\[([^\[\]]{0,300})\]\([^()]{0,600}\)|\[\^[^\]]{1,20}\]|[*`]+|<[^<>]{1,200}>")
POINT = re.compile(r"[ \t>]*(?:[-*+]|[0-9]{1,3}[.)])[ \t]+")
_HEADING = re.compile(r"[ ]{0,3}#{1,6}[ \t]+")
_END = re.compile(r"(?<=[.!?])\s+(?=[A-Z(])|;\s+")

#: Words of what may be, must be, was elsewhere, or is no training.
_NO_STATEMENT = re.compile(
    r"(?<![a-z])(?:requir\w*|prerequisites?|needs?|needed|minimum|maximum|can|cannot|could|may|might|should|would|will|"
    r"supports?|supported|tested|(?:verified|validated) (?:on|with|up)|recommend\w*|e\.g\.|for (?:example|instance)|"
    r"if|unless|suppos\w+|assum\w+|plan(?:s|ned)?|estimat\w+|project(?:ed|ions?)|extrapolat\w+|theoretical\w*|"
    r"versus|vs|compared (?:to|with)|instead|previous(?:ly)?|earlier|available|inference|serving|decod\w+|not|never|"
    r"todo)(?![a-z])|n't\b",
    _WORDS,
)
NEGATED = re.compile(r"\bnot\b|n't\b|\bnever\b|\bunsupported\b", re.IGNORECASE)
#: What a cluster has is not what a run has taken.
_CAPACITY = re.compile(
    r"(?<![a-z])(?:has|have|had|consist(?:s|ed|ing)? of|compris\w+|contain\w*|offer\w*|provid\w*|own\w*) "
    r"(?:a total of )?$",
    _WORDS,
)
_ELSEWHERE = re.compile(
    r"(?<![a-z])(?:(?:table|figure|fig\.|section)[ ]?[0-9]|appendix|(?:an)?other (?:tables?|sections?|pages?))", _WORDS
)
_COMPARED = (
    r"(?<![a-z])(?:up to|at (?:least|most)|(?:more|less|fewer|larger|smaller|other) than|between|without|no|"
    r"(?:than|as)(?: on| with)?|from|to|or)"
)
#: What a number is a limit, a bound or a part of, before and behind it.
_BOUNDED = re.compile(
    rf"(?:{_COMPARED}|(?<![a-z])(?:over|under|below|above|about|around|roughly|nearly|and|beyond|every|each|per|of the|"
    r"approx(?:imately|\.)?|min\.?|max\.?)|[~\u2248\u2265\u2264<>=+/\u2013\u2014-]|(?<![A-Za-z0-9=])[0-9]{1,7},)\s*$",
    _WORDS,
)
#: The same of a setting that has its name before it: "and TP=2" is one more of them.
_LIMITED = re.compile(rf"{_COMPARED}\s*$", _WORDS)
_SEVERAL = re.compile(
    r"\s*(?:(?:or|to|and|vs\.?|,|/|\+|-|\u2013|\u2014|&)\s*(?:and |or )?[0-9]|\+|or (?:more|less|fewer)|"
    r"(?:at )?first|initially)",
    _WORDS,
)
#: What counts tokens and is less is no sequence's length, such as the 2 of "sequence 2".
_SHORTEST = 128

_N = r"(?P<n>[1-9][0-9]{0,2}(?:,[0-9]{3})+|[1-9][0-9]{0,6})"
_BEFORE = r"(?<![A-Za-z0-9_.,/*-])"
_MADE_BY = r"(?:(?:NVIDIA|AMD|Instinct|Google|identical|power[- ]limited|SXM5?|HGX|Hopper|Blackwell|Ampere)[ ])*"
_KIND = rf"{ACCELERATOR.pattern.replace('?P<name>', '?:').replace('?P<memory>', '?:')}(?:[ ](?:SXM5?|PCIe))?"
_REMARK = r"(?:[ ]?\([^()]{1,30}\))?"
_GPU = r"(?:GPUs?|accelerators?|devices)(?![A-Za-z0-9]|[ -]hours?)"
_GPUS = rf"(?:[ ]?[xX\u00d7][ ]?|[ -]){_MADE_BY}(?:{_KIND}{_REMARK}[ ])?{_GPU}"
_HAS = r"(?:has|contains|holds|with|comes with|is equipped with)"
_OF = r"(?:[ ]?[xX\u00d7*][ ]?|,?[ ](?:of|with|having)[ ](?:[a-z]+[ ])?)"
_MACHINE = r"(?:nodes?|hosts?|servers?|machines?)"
_PER_MACHINE = rf"[ ]?(?:(?:per|a|/|in (?:each|a|every)|on (?:each|a|every))[ ]?{_MACHINE}|each)(?![A-Za-z])"

#: In this order; what an earlier pattern has read is none of a later one's.
_COUNTS: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (key, re.compile(pattern, _WORDS))
    for key, pattern in (
        (
            "both",
            rf"{_BEFORE}{_N}[ -]?{_MACHINE}{_OF}(?P<m>[1-9][0-9]?)(?:{_GPUS}|[ ]?[xX\u00d7]?[ ]?{_KIND})(?:[ ]each)?",
        ),
        ("gpus_per_node", rf"{_BEFORE}{_N}{_GPUS}{_PER_MACHINE}"),
        ("gpus_per_node", rf"(?:each|every|a|per) {_MACHINE} {_HAS}:? {_N}{_GPUS}"),
        ("gpus", rf"{_BEFORE}{_N}{_GPUS}"),
        ("gpus", rf"{_BEFORE}{_N}[ ]?[xX\u00d7][ ]?{_MADE_BY}(?!DGX){_KIND}"),
        ("gpus", rf"(?:on|used|uses|using|with) {_N} {_MADE_BY}{_KIND}"),
        ("gpus", rf"(?<![A-Za-z])(?:#[ ]?|number of |num )?GPUs?(?: count)?[ ]?[=:][ ]?{_N}(?![A-Za-z0-9%]|[.,][0-9])"),
        ("one_gpu", r"(?<![A-Za-z])(?:single|one|1)[- ]GPU(?![A-Za-z])"),
        ("nodes", rf"{_BEFORE}{_N}[ -]?(?:x[ ]?)?(?:DGX[ -]?|HGX[ -]?)?(?:{_KIND}[ ])?{_MACHINE}(?![A-Za-z])"),
        ("nodes", rf"(?<![A-Za-z])(?:number of |num )?nodes[ ]?[=:][ ]?{_N}(?![A-Za-z0-9%]|[.,][0-9])"),
        ("one_node", rf"(?<![A-Za-z])(?:single|one)[- ]{_MACHINE}(?![A-Za-z])"),
    )
)  # fmt: skip

_ONE = {"one_gpu": "gpus", "one_node": "nodes"}
#: The 3 of "Llama 3 GPUs" counts none.
_NUMBERED_BEFORE = re.compile(r"(?:llama|gpt|grok|qwen|phi|table|step|v)[ -]?$", _WORDS)

_SIZE = r"(?:[ _-](?:size|degree))?"
_IS = r"\)?[ ]?(?:=|:|of|is)?[ ]?"
_VALUE = rf"{_N}(?![0-9%A-Za-z]|[.,][0-9]|[ ]?(?:[xX\u00d7*][ ]?[0-9]))"
_SETTINGS: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (key, re.compile(rf"(?<![A-Za-z0-9_*/.]){pattern}{_VALUE}", re.ASCII))
    for key, pattern in (
        *((key, rf"{key.upper()}(?:_SIZE| size| degree)?[ ]?[=:]?[ ]?") for key in ("tp", "pp", "cp", "ep", "dp")),
        *(
            (key, rf"(?i:{word}(?:[ _-]model)?[ _-]parallel(?:ism)?{_SIZE}{_IS})")
            for key, word in (("tp", "tensor"), ("pp", "pipeline"), ("cp", "context"), ("ep", "expert"), ("dp", "data"))
        ),
        ("vp", r"VPP?[ ]?[=:]?[ ]?"),
        # "FSDP 2" may be its version; beside another degree it is one itself.
        ("fsdp", r"FSDP(?:[ ]?=[ ]?| (?:degree|size) | (?=[0-9]{1,5},? (?:TP|PP|CP|EP)[ ]?=?[ ]?[0-9]))"),
        ("micro_batch_size", rf"(?:MBS[ ]?[=:]?[ ]?|(?i:micro[ _-]?batch{_SIZE}{_IS}))"),
        ("global_batch_size", rf"(?:GBS[ ]?[=:]?[ ]?|(?i:global[ _-]?batch{_SIZE}{_IS}))"),
        (LOCAL_BATCH, rf"(?i:local[ _-]?batch{_SIZE}{_IS})"),
        ("gradient_accumulation_steps", rf"(?i:gradient[ _-]accumulation(?:[ _-]steps)?{_IS})"),
        ("sequence_length", rf"(?i:(?:(?:packed|max)[ _])?(?:seq(?:uence)?|context)(?:[ _-]?len(?:gth)?)?{_IS})"),
        ("sequence_length", r"(?:SL[ ]?=[ ]?|(?i:packed (?:in)?to ))"),
    )
)  # fmt: skip

_DTYPE = re.compile(rf"{DTYPE.pattern}|(?<![A-Za-z0-9])(?:Float8|BFloat16)(?![A-Za-z0-9])", re.IGNORECASE)
_LONG_NAMES = {"float8": "fp8", "bfloat16": "bf16"}

_B = r"[0-9]+(?:x[0-9]+)?(?:\.[0-9]+)?[bB]"
#: A known model's name without its size.
FAMILY = re.compile(rf"(?<![A-Za-z0-9]){FAMILIES.pattern}(?:[ _-]?v?[0-9](?:\.[0-9])?(?![0-9xXbB]))?", _WORDS)
_MODEL = re.compile(
    rf"{FAMILY.pattern}(?:[ _-][A-Za-z]{{2,12}})?[ _-]?{_B}(?:-A[0-9.]+B)?"
    r"(?![A-Za-z0-9])",
    _WORDS,
)
_AND_MORE = re.compile(rf"\s*(?:,|/|&|and|or|to|-)\s*(?:and\s+|or\s+)?{_B}(?![A-Za-z0-9])", _WORDS)


@dataclass(frozen=True)
class Sentence:
    """One sentence, or one point of a list, without Markdown's marks."""

    text: str
    #: Line and column of each letter.
    places: Sequence[tuple[int, int]]
    #: What it states, by the keys of rows; more than one value where it does not say which.
    said: Mapping[str, tuple[Stated, ...]]


def read_sentences(lines: Sequence[str], numbers: Sequence[int], within: str = "") -> Iterator[Sentence]:
    """The sentences of some lines of a document; ``within`` is what a list stands below, ``Each node has:``."""
    text, places = _plain(lines, numbers)
    begin = 0
    for end, following in [*((m.start(), m.end()) for m in _END.finditer(text)), (len(text), len(text))]:
        own, at = text[begin:end], places[begin:end]
        begin = following
        if own.strip():
            before = f"{within.rstrip(' :')} " if within else ""
            known = [at[0]] * len(before) + list(at)
            yield Sentence(own, at, _said(before + own, known, len(before)))


def said_in(text: str) -> Mapping[str, tuple[str, ...]]:
    """What a cell's text states, by key."""
    said = _said(text[:LONGEST_TEXT], [(0, 0)] * len(text), 0)
    return {key: tuple(one.text for one in stated) for key, stated in said.items()}


def names_in(text: str) -> Mapping[str, tuple[str, ...]]:
    """The models, sizes, accelerators and dtypes that a text names, whatever it says of them, by key."""
    found: dict[str, tuple[str, ...]] = {}
    for key, value, _ in _names(text):
        found[key] = (*found.get(key, ()), value)
    return found


def _plain(lines: Sequence[str], numbers: Sequence[int]) -> tuple[str, list[tuple[int, int]]]:
    """Some lines as one text, and where each of its letters stands."""
    letters: list[str] = []
    places: list[tuple[int, int]] = []
    for number in numbers:
        line = lines[number - 1]
        if len(line) > LONGEST_TEXT or line.count("|") > 1:
            continue
        lead = POINT.match(line) or _HEADING.match(line)
        column = lead.end() if lead is not None else 0
        for mark in [*_MARK.finditer(line, column), None]:
            end = mark.start() if mark is not None else len(line)
            kept = [(column, end)] if mark is None or mark[1] is None else [(column, end), mark.span(1)]
            for position in (p for span in kept for p in range(*span)):
                blank = line[position].isspace()
                if not blank or (letters and letters[-1] != " "):
                    letters.append(" " if blank else line[position])
                    places.append((number, position + 1))
            column = mark.end() if mark is not None else column
        if letters and letters[-1] != " ":
            letters.append(" ")
            places.append((number, len(line) + 1))
    return "".join(letters), places


def _said(text: str, places: Sequence[tuple[int, int]], own: int) -> Mapping[str, tuple[Stated, ...]]:
    """What a sentence states; its first letters until ``own`` are those of what it stands below."""
    if _NO_STATEMENT.search(text) or _ELSEWHERE.search(text, own + 1):
        return {}
    found: dict[str, dict[str, Stated]] = {}
    for key, value, at in (*_counts(text), *_settings(text), *_names(text)):
        found.setdefault(key, {}).setdefault(value, Stated(value, *places[at]))
    return {key: tuple(values.values()) for key, values in found.items()}


def _counts(text: str) -> Iterator[tuple[str, str, int]]:
    taken: list[range] = []
    found: list[tuple[str, str, int]] = []
    is_capacity = False
    for key, pattern in _COUNTS:
        for match in pattern.finditer(text):
            span = range(*match.span())
            if any(other.start < span.stop and span.start < other.stop for other in taken):
                continue
            taken.append(span)
            start = match.start("n") if match.groupdict().get("n") else match.start()
            is_capacity |= _CAPACITY.search(text, max(0, start - 40), start) is not None
            bounded = _BOUNDED.search(text, max(0, start - 40), start) or _SEVERAL.match(text, match.end())
            if not bounded and not _NUMBERED_BEFORE.search(text, max(0, start - 12), start):
                found += _count(key, match, start)
    return (one for one in found if not is_capacity or one[0] == "gpus_per_node")


def _count(key: str, match: re.Match[str], start: int) -> Iterator[tuple[str, str, int]]:
    if key in _ONE:
        yield _ONE[key], "1", start
        return
    count = match["n"].replace(",", "")
    if key != "both":
        yield key, count, start
        return
    yield "nodes", count, start
    yield "gpus_per_node", match["m"], match.start("m")
    yield "gpus", str(int(count) * int(match["m"])), start


def _settings(text: str) -> Iterator[tuple[str, str, int]]:
    for key, pattern in _SETTINGS:
        for match in pattern.finditer(text):
            number = int(match["n"].replace(",", ""))
            limited = _LIMITED.search(text, max(0, match.start() - 20), match.start())
            too_small = key == "sequence_length" and number < _SHORTEST
            if not (limited or too_small or _SEVERAL.match(text, match.end())):
                yield key, str(number), match.start("n")


def _names(text: str) -> Iterator[tuple[str, str, int]]:
    for match in ACCELERATOR.finditer(text):
        kind = accelerator(match[0])
        if kind is not None:
            yield "accelerator", kind, match.start()
    for match in _DTYPE.finditer(text):
        if not _LIMITED.search(text, max(0, match.start() - 20), match.start()):
            yield "dtype", _LONG_NAMES.get(match[0].lower()) or match[1].lower(), match.start()
    for match in _MODEL.finditer(text):
        title = read_title(match[0])
        if _AND_MORE.match(text, match.end()) is None and is_model(title.model) and title.size:
            yield "model", title.model, match.start()
            yield "size", title.size, match.start()
