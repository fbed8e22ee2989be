"""What a document says beside its tables: formulas, steps, the statistic, GPUs of a node."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from pytest_gsw.documents.importing.markdown import Document
from pytest_gsw.documents.importing.sentences import NEGATED
from pytest_gsw.documents.importing.titles import Title, read_title
from pytest_gsw.tables.yamlfile import Stated

#: A document is about one model, or some; what it says of each is held against each row.
_MOST_MODELS = 100
#: Of patterns whose words may have any case, and whose digits are those of ASCII.
_WORDS = re.IGNORECASE | re.ASCII
_FLOPS = re.compile(
    r"model flops for (?P<name>.{1,80}?)(?: for GBS ?= ?1\b.{0,60}?)? (?:is |= ?)?"
    r"(?P<flops>\d{1,3}(?:\.\d{1,6})?[eE]\+?\d{1,2})(?!\d|\.\d)",
    _WORDS,
)
_FLOPS_RESULT = re.compile(r"\s*model flops = .{1,300} = (?P<flops>\d{1,3}(?:\.\d{1,6})?[eE]\+?\d{1,2})\s*$", _WORDS)
_CALCULATION = re.compile(r"^\s*(?P<name>\S.{2,60}?) calculation:\s*$", re.IGNORECASE)
_STEPS = re.compile(
    r"(?:first|run for|total of|runs for|stops after) (?:the first |a total of )?([1-9]\d{0,5}) (?:training )?steps",
    _WORDS,
)
#: Lines about the steps of something else than a whole run.
_OF_OTHER_STEPS = re.compile(r"trac(?:e|ing)|profil|warm.?up|nccl", re.IGNORECASE)
_LAST_STEP = re.compile(r"last training step", _WORDS)
_LAST_STEPS = re.compile(
    r"average (?:\w+ ){0,4}(?:from|of|over) the last ([1-9]\d{0,3}) (?:training )?(?:steps|iterations)", _WORDS
)
_ITERATIONS = re.compile(
    r"(?:iterations|steps) (\d{1,6}) ?(?:-|to|\u2013) ?(\d{1,6}) (?:\w+ ){0,3}(?:mean|average|averag)", _WORDS
)
_AVERAGED = re.compile(r"averag(?:e|ing) (?:the )?(?:throughput|`?elapsed time per iteration)", _WORDS)
_TOKENS_FORMULA = re.compile(r"\(sequence length\) ?\* ?\(global batch size\)", _WORDS)
_TOKENS_EXAMPLE = re.compile(r"(?<![\d.])([1-9]\d{2,5}) ?\* ?(\d{1,6}) ?/ ?(\d{1,5}(?:\.\d{1,6})?)\s*=", re.ASCII)
_GPUS_PER_NODE = re.compile(
    r"N_GPUS_PER_NODE\W{0,4}is ([1-9]\d?)(?!\d)|--gres=gpu:([1-9]\d?)(?!\d)|"
    r"(?:each|per|a|every) node has ([1-9]\d?) GPUs|(?<!\d)([1-9]\d?) GPUs (?:per|a|in each) node|"
    r"nodes? (?:with|of) ([1-9]\d?) (?:[A-Z][\w-]{1,20} )?GPUs?(?![\w-]| (?:or|and|to) )|"
    r"(?<![\d-])([1-9]\d?)-GPU nodes?(?!\w)",
    re.ASCII,
)
_PROXY = re.compile(r"proxy configs? ?\((?:<|below) ?(\d{1,6}) ?GPUs?", _WORDS)
_SPREAD = re.compile(r"results?.{0,80}\+/-\s?([1-9]\d?)\s?% (?:correct|accurate|exact|noise)", _WORDS)
_EXAMPLE = re.compile(r"\s{0,8}E\.g\. (?:For )?(.{3,60}?) on \d")
_GPT2_FORMULA = re.compile(r"model_size\w* ?\* ?4 ?\* ?2 ?\* ?seq\w* ?\* ?global_batch_size ?/")
_DP_IS_GPUS = re.compile(r"\bDP ?= ?GPUs\b")
_SCRIPTS = re.compile(r"(?:scripts?|log files|logs) .{0,40}\[`?([A-Za-z0-9][\w.-]{0,60})`?\]\(\./\1/?\)", _WORDS)


@dataclass(frozen=True)
class Architecture:
    """What the notes of a document compute model FLOPs from."""

    #: gpt3, llama, grok or gpt2, see :mod:`pytest_gsw.performance.flops`.
    formula: str
    #: By the keys of ``architecture``, as written.
    numbers: Mapping[str, Stated]
    sequence_length: Stated | None
    #: Size of the model that the numbers are of, where the document says it: ``405b``.
    size: str = ""


@dataclass(frozen=True)
class Prose:
    """What a document says beside its tables; ``None`` and empty where it does not."""

    #: Stated model FLOPs of one sample, and the model that they are of.
    model_flops: tuple[tuple[Title, Stated], ...]
    #: Models that headings, examples and statements name.
    models: tuple[Title, ...]
    architectures: tuple[Architecture, ...]
    steps: Stated | None
    statistic: Stated | None
    #: The sequence length that an example of the formula of tokens per second takes.
    example_sequence_length: Stated | None
    #: GPUs of one node, with the words that say which node, where there are any.
    gpus_per_node: Stated | None
    #: Below this GPU count rows are proxies.
    proxy_below: Stated | None
    tolerance: Stated | None
    #: TFLOP/s by the GPT-2 document's formula, which counts recomputed activations.
    counts_recomputation: bool


def read_prose(document: Document) -> Prose:
    """Everything that the document's prose says, the first statement of each."""
    lines = list(document.texts(document.prose))
    texts = [line for _, line in lines]
    has_formula = any(map(_TOKENS_FORMULA.search, texts))
    flops = tuple(islice(_model_flops(lines), _MOST_MODELS))
    examples = (match[1] for match in map(_EXAMPLE.match, texts) if match is not None)
    return Prose(
        model_flops=flops,
        models=(*(title for title, _ in flops if title.model), *map(read_title, islice(examples, _MOST_MODELS))),
        architectures=tuple(islice(_architectures(lines), _MOST_MODELS)),
        steps=_only(_STEPS, [(n, line) for n, line in lines if not _OF_OTHER_STEPS.search(line)]),
        statistic=_statistic([(n, line) for n, line in lines if not NEGATED.search(line)]),
        example_sequence_length=_first(_TOKENS_EXAMPLE, lines) if has_formula else None,
        gpus_per_node=_first(_GPUS_PER_NODE, lines),
        proxy_below=_first(_PROXY, lines),
        tolerance=_first(_SPREAD, lines),
        counts_recomputation=any(_GPT2_FORMULA.search(text) for text in texts),
    )


@dataclass(frozen=True)
class SectionProse:
    """What one section says beside its tables."""

    #: Tensor parallelism, where it is one for all.
    tp: str | None
    #: Each GPU is a data-parallel rank of its own.
    dp_is_gpus: bool
    #: The directory of scripts that it links, or that the nearest section further up does.
    directory: Stated | None


def read_sections(document: Document) -> list[SectionProse]:
    """What each section of a document says, in their order."""
    found: list[SectionProse] = []
    directory: Stated | None = None
    for section in document.sections:
        lines = list(document.texts(section))
        directory = _first(_SCRIPTS, lines) or directory
        tp = _degree("TP", (line for _, line in lines if line.count("|") < 2))
        found.append(SectionProse(tp, any(_DP_IS_GPUS.search(line) for _, line in lines), directory))
    return found


def _degree(name: str, lines: Iterable[str]) -> str | None:
    """The degree of parallelism that a section's prose gives (``TP=4``); ``None`` where it gives none, or several."""
    pattern = re.compile(rf"(?<![A-Za-z0-9*/_]){name}(?:_SIZE)? ?= ?([1-9][0-9]{{0,4}})(?![0-9*/.])")
    found = {match for line in lines for match in pattern.findall(line)}
    return found.pop() if len(found) == 1 else None


def _first(pattern: re.Pattern[str], lines: Sequence[tuple[int, str]]) -> Stated | None:
    """The first statement, whichever group of the pattern has it."""
    for number, line in lines:
        match = pattern.search(line)
        if match is not None:
            return _stated(match, next(n for n, text in enumerate(match.groups(), 1) if text is not None), number)
    return None


def _only(pattern: re.Pattern[str], lines: Sequence[tuple[int, str]]) -> Stated | None:
    """The first statement, where all that the text makes are alike."""
    found = [_stated(match, 1, number) for number, line in lines for match in pattern.finditer(line)]
    return found[0] if len({stated.text for stated in found}) == 1 else None


def _stated(match: re.Match[str], group: str | int, line: int) -> Stated:
    return Stated(match[group], line, match.start(group) + 1)


def _model_flops(lines: Sequence[tuple[int, str]]) -> Iterator[tuple[Title, Stated]]:
    """Statements in the text; after them, results of notes of models that the text says nothing of."""
    stated = [
        (read_title(match["name"]), _stated(match, "flops", number))
        for number, line in lines
        for match in _FLOPS.finditer(line)
    ]
    yield from stated
    calculated = Title()
    for number, line in lines:
        heading, result = _CALCULATION.match(line), _FLOPS_RESULT.match(line)
        calculated = read_title(heading["name"]) if heading else calculated
        if result is not None and calculated.size and all(title.size != calculated.size for title, _ in stated):
            yield calculated, _stated(result, "flops", number)


#: Words that say which steps count, in this order, and the statistic that they mean.
_STATISTICS = (
    (_LAST_STEPS, r"mean[-\1:]"),
    (_ITERATIONS, r"mean[\1:\2]"),
    (_LAST_STEP, "last"),
    (_AVERAGED, "mean"),
)


def _statistic(lines: Sequence[tuple[int, str]]) -> Stated | None:
    for pattern, text in _STATISTICS:
        for number, line in lines:
            match = pattern.search(line)
            if match is not None:
                return Stated(match.expand(text), number, match.start() + 1)
    return None


#: Symbols of the documents' formulas, and the keys of ``architecture``.
_SYMBOLS: Mapping[str, str] = {
    **dict.fromkeys(("number of layers", "num of layers"), "layers"),
    "hidden size": "hidden_size",
    **dict.fromkeys(("ffn size", "ffn hidden size"), "ffn_size"),
    **dict.fromkeys(("number of attention heads", "number of head", "number of heads"), "attention_heads"),
    **dict.fromkeys(("number of query groups", "number of query group"), "query_groups"),
    "top k": "experts_top_k",
    **dict.fromkeys(("vocab size", "vocabulary size"), "vocabulary_size"),
    **dict.fromkeys(("sequence length", "seq length"), "sequence_length"),
}
_PART = re.compile(r"^\s*(?P<part>attention|mlp|embedding) flops = (?P<right>.{1,300})$", _WORDS)
_SYMBOL = re.compile(r"\(([a-z][a-z ]{1,40})\)", _WORDS)


def _architectures(lines: Sequence[tuple[int, str]]) -> Iterator[Architecture]:
    """The numbers behind the symbols: each formula in words is laid over the lines that have its numbers.

    ``12 * (number of layers) * (hidden size)^2`` over ``12 * 80 * 8192^2 = …`` says 80 layers. A line such as
    "Llama 3.1 405b calculation:" begins the numbers of another model.
    """
    if any(_GPT2_FORMULA.search(line) for _, line in lines):
        yield Architecture("gpt2", {}, None)
        return
    words: dict[str, str] = {}
    found: list[tuple[str, dict[str, Stated]]] = [("", {})]
    for number, line in lines:
        heading = _CALCULATION.match(line)
        if heading is not None:
            found.append((read_title(heading["name"]).size, {}))
        match = _PART.match(line)
        if match is None:
            continue
        part, right = match["part"].lower(), match["right"]
        if _SYMBOL.search(right) and "=" not in right:
            words.setdefault(part, right)
        elif part in words:
            for key, stated in _lay_over(words[part], right, number, match.start("right")):
                found[-1][1].setdefault(key, stated)
    formula = _formula(words)
    for size, numbers in found:
        if formula is not None and numbers:
            sequence = numbers.pop("sequence_length", None)
            yield Architecture(formula, numbers, sequence, size)


def _formula(words: Mapping[str, str]) -> str | None:
    """Which of the known formulas the words are; a release changed the formula now and then."""
    attention, mlp = (re.sub(r"[\s()]", "", words.get(part, "")).lower() for part in ("attention", "mlp"))
    grouped = "12*numberoflayers*hiddensize^2*1+numberofquerygroups/numberofattentionheads+sequencelength/hiddensize"
    if attention == "24*numberoflayers*hiddensize^2+12*numberoflayers*hiddensize*sequencelength":
        return "gpt3" if mlp == "48*numberoflayers*hiddensize^2" else None
    if attention == grouped and mlp == "18*numberoflayers*ffnsize*hiddensize":
        return "llama"
    if attention == f"{grouped}/2" and mlp == "18*numberoflayers*ffnsize*hiddensize*topk":
        return "grok"
    return None


def _lay_over(words: str, numbers: str, line: int, offset: int) -> Iterator[tuple[str, Stated]]:
    """The number at the place of each symbol; nothing where the two lines differ in anything else."""
    # Every other piece is a symbol's name, those between them are arithmetic.
    pieces = _SYMBOL.split(words)
    plain = ("".join(rf"[\s()]*{re.escape(c)}" for c in re.sub(r"[\s()]", "", piece)) for piece in pieces[::2])
    pattern = r"[\s()]*([1-9][0-9]{0,8})".join(plain)
    match = re.fullmatch(pattern + r"[\s()]*", numbers.split("=")[0])
    for group, name in enumerate(pieces[1::2], 1) if match is not None else ():
        key = _SYMBOLS.get(name.lower())
        if match is not None and key is not None:
            yield key, Stated(match[group], line, offset + match.start(group) + 1)
