"""Which framework trains: the evidence of a document, strongest first, each with its line.

A wrong framework costs a job, whose log is then read in vain. So a mention is no evidence: a sentence about an account,
a token, a download, a tokenizer or a checkpoint says where something comes from, and not what trains.
"""

from __future__ import annotations

import enum
import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate

from pytest_gsw.documents.importing.markdown import LONGEST_TEXT, Block, Document, Table
from pytest_gsw.documents.importing.titles import BENEATH, FRAMEWORKS, frameworks_in
from pytest_gsw.tables.load import LOG_FORMATS


class Rank(enum.IntEnum):
    """Kinds of evidence, the strongest first."""

    LOG_LINE = 1
    IMAGE = 2
    COMMAND = 3
    TITLE = 4
    PROSE = 5
    #: A name alone, which decides between what stronger evidence fits, and says nothing by itself.
    MENTION = 6


_WORDS = {
    Rank.LOG_LINE: "log line",
    Rank.IMAGE: "container image",
    Rank.COMMAND: "launch command",
    Rank.TITLE: "title",
    Rank.PROSE: "text",
    Rank.MENTION: "text",
}
#: Releases of the container "nemo" that hold NeMo alone; from 25.09 on they hold Megatron-Bridge, too.
_OF_NEMO = r"(?:(?:1\d|2[0-4])\.\d\d|25\.0[0-8])"
#: What NeMo's containers hold besides NeMo, so that a title with its name says more exactly what trains there.
_IN_NEMO = frozenset({"automodel"})
#: Signs in a line, and the frameworks that it can be a sign of: the first one where nothing else decides, or none of
#: them where that is "?". Of a log line, the first one has it as its format.
_SIGNS: tuple[tuple[Rank, str, str], ...] = (
    (Rank.LOG_LINE, r"train_step\(\) took", "paxml"),
    (Rank.LOG_LINE, r"completed step:", "maxtext"),
    (Rank.LOG_LINE, r"train_step_timing", "nemo"),
    (Rank.LOG_LINE, r"train_samples_per_second", "huggingface"),
    (Rank.LOG_LINE, r"Step Time ?: ?[\d.]{1,12} ?s GPU utilization", "megatron-bridge"),
    (Rank.LOG_LINE, r"Max iter time: [\d.]{1,12} seconds", "automodel"),
    (Rank.LOG_LINE, r"elapsed[ _]time[ _]per[ _]iteration", "megatron megatron-bridge deepspeed"),
    (Rank.LOG_LINE, r"step: {0,12}\d{1,9} .{0,200}\b[tw]ps: |grep .{0,20}[\"'][tw]ps:", "torchtitan"),
    (Rank.LOG_LINE, r"SamplesPerSec=|iter time \(s\): ", "deepspeed"),
    (Rank.LOG_LINE, r"throughput/(?:device/)?(?:batches|samples|tokens)_per_sec", "llm-foundry"),
    (Rank.IMAGE, r"nvidian?[/+]nemo-rl[:+]", "nemo-rl"),
    (Rank.IMAGE, r"nvidian?[/+]nemo-automodel[:+]", "automodel"),
    (Rank.IMAGE, rf"nvidian?[/+]nemo[:+]{_OF_NEMO}|\bNeMo ?{_OF_NEMO}", "nemo"),
    (Rank.IMAGE, rf"\b{_OF_NEMO}[\w.]{{0,12}} NeMo [Cc]ontainer", "nemo"),
    (
        Rank.IMAGE,
        r"nvidian?[/+]nemo[:+]|containers/nemo(?![\w-])|\bNeMo [Cc]ontainer",
        "? nemo megatron-bridge megatron",
    ),
    (Rank.IMAGE, r"jax[:+][\w.-]{0,40}maxtext|jax-training:maxtext|jax-maxtext-gpu|/maxtext[:@]", "maxtext"),
    (Rank.IMAGE, r"jax[:+][\w.-]{0,40}pax|/paxml?[:@]", "paxml"),
    (Rank.IMAGE, r"rocm/megatron-lm", "megatron"),
    (Rank.IMAGE, r"mosaicml/llm-foundry[:@]", "llm-foundry"),
    (Rank.IMAGE, r"deepspeed/deepspeed[:@]", "deepspeed"),
    (Rank.COMMAND, r"-m (?:src\.)?(?:MaxText|maxtext)[\w.]{0,60}\.train\b", "maxtext"),
    (Rank.COMMAND, r"(?:MaxText|maxtext)/[\w/]{0,60}train\.py", "maxtext"),
    (Rank.COMMAND, r"-m paxml\.main\b|paxml/main\.py", "paxml"),
    (Rank.COMMAND, r"-m torchtitan\.train\b|torchtitan/train\.py|--job\.config[-_]file", "torchtitan"),
    (Rank.COMMAND, r"\b(?:CONFIG|CONFIG_FILE|MODULE|NGPU)=\S{1,200} .{0,200}\brun_train\.sh", "torchtitan"),
    (Rank.COMMAND, r"\bdeepspeed .{0,200}\bpretrain_\w{1,20}\.py", "deepspeed"),
    (Rank.COMMAND, r"\bpretrain_(?:gpt|bert|t5|mamba|vlm|hybrid)\.py", "megatron deepspeed"),
    (Rank.COMMAND, r"--deepspeed\b", "? deepspeed huggingface"),
    (Rank.COMMAND, r"performance/(?:setup_experiment|run_script|run_performance_workload)\.py", "megatron-bridge"),
    (Rank.COMMAND, r"\brun_(?:grpo|dpo|rm|distillation)(?:_\w{1,20})?\.py", "nemo-rl"),
    (Rank.COMMAND, r"\bautomodel \S{1,200}\.yaml|nemo_automodel[./](?:cli|recipes)[./]", "automodel"),
    (Rank.COMMAND, r"megatron_gpt_(?:pre|fine)\w{1,20}\.py|\bnemo(?:run)? llm |launcher_scripts/main\.py", "nemo"),
    (Rank.COMMAND, r"scripts/performance/llm/\w", "nemo"),
    (Rank.COMMAND, r"\bcomposer (?:[\w.]{1,40}/){0,4}train\.py", "llm-foundry"),
    (Rank.COMMAND, r"\brun_clm\.py|\btrl sft\b", "huggingface"),
    # Primus trains with the framework that its configuration is of.
    (Rank.COMMAND, r"examples/megatron/configs/|\bBACKEND=megatron\b", "megatron"),
    (Rank.COMMAND, r"examples/megatron_bridge/configs/|\bBACKEND=megatron_bridge\b", "megatron-bridge"),
    (Rank.COMMAND, r"examples/torchtitan/configs/|\bBACKEND=torchtitan\b", "torchtitan"),
    (Rank.COMMAND, r"examples/maxtext/configs/|\bBACKEND=(?:MaxText|maxtext)\b", "maxtext"),
    (Rank.MENTION, r"(?i:megatron[- ]bridge|\bm-?bridge\b)", "megatron-bridge"),
)
_COMPILED = tuple((rank, re.compile(pattern), tuple(names.split())) for rank, pattern, names in _SIGNS)

#: What says where something comes from, or tells of something else than the document's runs.
_NO_EVIDENCE = re.compile(
    r"\baccounts?\b|HF_TOKEN|(?:access|api|auth\w{0,12}|user|your|hf|hugging ?face)[ _]tokens?\b|\blog ?in\b|\bgated\b|"
    r"\baccess to\b|licen[cs]e|download|tokeni[sz]er|checkpoint|\bweights\b|\bhubs?\b|\bconver[ts]|\bdata ?sets?\b|"
    r"\bclon|\binstall|\bnot\b|n't\b|instead of|unlike|rather than|compar|\bthan\b|\bvs\b|\bversus\b|\bthose\b|"
    r"refer to|documentation\b|\bsupport|coming soon|similar to",
    re.IGNORECASE,
)
#: A container is an image, and no title: newer ones of NeMo hold two frameworks.
_NO_TITLE = re.compile(r"\bcontainers?\b|\bimages?\b|\bset ?up\b|\bprerequisites\b", re.IGNORECASE)
#: What a sentence about runs has.
_OF_RUNS = re.compile(
    r"train|fine-?tun|workload|benchmark|performance|throughput|recipe|\bruns?\b|\bran\b|result|measure", re.IGNORECASE
)
_MARKS = re.compile(
    r"!\[[^\]]{0,200}\]\([^)]{0,300}\)|<[^>]{0,200}>|\]\([^)]{0,300}\)|https?://\S{1,300}|\(e\.g\. [^)]{0,200}\)|"
    r"[*_`\[\]]"
)
_SENTENCE = re.compile(r"(?:[^.!?]|[.!?](?!\s|$)){1,1000}")
_NAME = "|".join(f"(?:{word})" for word in FRAMEWORKS)
#: A title that leaves one framework for another, or sets it beside one.
_BESIDE = re.compile(
    rf"(?i)\b(?:from|to|without|beyond|like|leaving|replacing)\s+(?:{_NAME})|\bmigrat|\bporting\b|\bmoving\b"
)
#: "trained with NAME", "Run NAME Llama2 70B training"; in plain text Hugging Face is a trainer where it is called one.
_SAYS = (
    re.compile(
        r"(?i:\b(?:with|using|uses?|via|by|in|on)\s+(?:(?:the|nvidia|google|amd|pytorch|and)(?:'s)?\s+){0,3})"
        rf"(?P<name>(?i:{_NAME}))(?![\w/]|(?:\s+(?i:framework))?['\u2019]s)"
    ),
    re.compile(
        rf"(?<![\w/.-])(?P<name>(?i:{_NAME}))(?:\s+[A-Z0-9][\w.-]{{0,30}}){{0,4}}(?:\s+model)?"
        r"\s+(?i:(?:pre-?|fine[- ]?)?(?:train|tun)ing\b|workloads?\b|trainer\b)"
    ),
    re.compile(rf"(?<![\w/.-])(?P<name>(?i:{_NAME}))(?:\s+(?:[Ff]ramework|\d[\w.]{{0,12}}))?,?\s+provides\b"),
)
#: A list of facts: "NVIDIA H200, BF16, NeMo 24.09".
_LISTED = re.compile(rf"(?:^|[,;:|])\s*(?P<name>(?i:{_NAME}))(?:\s+\d[\w.]{{0,12}})?\s*(?=$|[,;|])")
_LONGEST_LIST = 80
#: Others train with Megatron's core, too, and say so.
_CORE = re.compile(r"(?i)megatron[- ]core")
_ON_CORE = frozenset({"megatron", *(name for name, beneath in BENEATH.items() if "megatron" in beneath)})
_IS_TRAINER = re.compile(r"(?i:trainer|accelerate|\bpeft\b|\btrl\b|(?:train|tun)ing)")


@dataclass(frozen=True)
class Evidence:
    """One sign, in one line."""

    rank: Rank
    line: int
    #: The frameworks that it can be of; several where it fits them all.
    names: frozenset[str]
    #: Number of its section, see :attr:`Document.sections`.
    section: int
    #: The one of them that it is of where nothing else decides.
    usual: str = ""
    #: The format of the log, where the line is one of a log.
    log_format: str = ""

    def __str__(self) -> str:
        return f"line {self.line} ({_WORDS[self.rank]}) is of {_or(self.names)}"


@dataclass(frozen=True)
class Finding:
    """The framework of a table's rows and the line that it rests on; or why there is none."""

    framework: str = ""
    line: int = 0
    #: What stands in that line: ``log line``.
    what: str = ""
    #: A quoted log line of the framework that is of another format than the framework's own, and its line.
    log_format: str = ""
    log_line: int = 0
    problem: str = ""


@dataclass(frozen=True)
class DocumentEvidence:
    """All evidence of a document, and which part of it each piece is about."""

    evidence: tuple[Evidence, ...]
    #: By section, those whose headings it stands below, and itself.
    above: Mapping[int, tuple[int, ...]]
    #: The section of the document's title.
    title: int | None

    def of(self, table: Table) -> Finding:
        """The framework of a table's rows.

        Where headings name several frameworks, what stands below one of them is about that one alone, unless what
        holds for the whole document says more exactly the same: "Megatron" in a recipe of NeMo.
        """
        named = _titled(" ".join((table.header[0].text, *table.captions)))
        own = [Evidence(Rank.TITLE, table.line, named, table.section)] if named else []
        chain = {*self.above.get(table.section, ()), self.title}
        about = [one for one in self.evidence if one.rank is not Rank.TITLE or one.section in chain]
        parts = self._parts
        part = parts.get(table.section)
        general = [*own, *(one for one in about if one.section not in parts)]
        if part is None:
            return _finding(_decided(general), general)
        inside = [*own, *(one for one in about if parts.get(one.section) == part)]
        return _finding(_more_exact(_decided(inside), _decided(general)), [*inside, *general])

    @cached_property
    def _parts(self) -> Mapping[int, int]:
        """By section, the nearest one at or above it whose heading names a framework, where headings name several."""
        titles = (one for one in self.evidence if one.rank is Rank.TITLE and one.section != self.title)
        named = {one.section: one.names for one in titles}
        if len(set(named.values())) < 2:
            return {}
        nearest = {section: [one for one in above if one in named] for section, above in self.above.items()}
        return {section: found[-1] for section, found in nearest.items() if found}


@dataclass(frozen=True)
class _Claim:
    """What the strongest evidence says, weaker one having decided between what fits it."""

    #: None where nothing is said, or where it competes.
    names: frozenset[str]
    #: The evidence that decided; that which competes.
    by: tuple[Evidence, ...] = ()
    #: What the strongest evidence fits.
    fits: frozenset[str] = frozenset()


def read_evidence(document: Document) -> DocumentEvidence:
    """All evidence that a document holds."""
    headings = [block for block in document.blocks if block.kind == "heading"]
    above: dict[int, tuple[int, ...]] = {}
    chain: list[Block] = []
    for heading in headings:
        chain = [*(one for one in chain if one.level < heading.level), heading]
        above[heading.section] = tuple(one.section for one in chain)
    title = headings[0].section if headings and headings[0].level == 1 else None
    return DocumentEvidence(tuple(_evidence(document)), above, title)


def _evidence(document: Document) -> Iterator[Evidence]:
    for block in document.blocks:
        lines = list(document.texts(block.lines))
        for number, text in lines:
            yield from _signs(text, number, block.section)
            if block.kind == "heading" and _titled(text):
                yield Evidence(Rank.TITLE, number, _titled(text), block.section)
        if block.kind != "code":
            yield from _said(lines, block.section)
    prose = set(document.prose)
    for section, numbers in enumerate(document.sections):
        for number in (number for number in numbers if number not in prose):  # of a table, such as one of versions
            yield from (one for one in _signs(document.lines[number - 1], number, section) if one.rank < Rank.TITLE)


def framework_of_cells(model: str, attributes: Mapping[str, str]) -> str:
    """The framework that a row's own cells are of, such as one with an image; empty where there is none, or several.

    A model's name may hold one: "Maxtext Llama2 70b". Models of Hugging Face are trained by others.
    """
    found = [one.names for text in attributes.values() for one in _signs(text, 0, 0) if one.rank < Rank.TITLE]
    named = _titled(model) - {"huggingface"}
    names = frozenset.intersection(*found, *((named,) if named else ())) if found or named else frozenset()
    return next(iter(names)) if len(names) == 1 else ""


def _signs(text: str, number: int, section: int) -> list[Evidence]:
    """The signs in a line, without those that say less exactly what another one says."""
    found: list[Evidence] = []
    plain = _MARKS.sub(" ", text) if len(text) <= LONGEST_TEXT else ""
    for rank, pattern, names in _COMPILED if len(text) <= LONGEST_TEXT else ():
        fits = frozenset(names) - {"?"}
        # The address of a link says where more is told, and not what trains.
        if pattern.search(plain if rank is Rank.MENTION else text) and not any(
            one.rank is rank and one.names <= fits for one in found
        ):
            usual = names[0].strip("?")
            log_format = LOG_FORMATS.get(usual, usual) if rank is Rank.LOG_LINE else ""
            found.append(Evidence(rank, number, fits, section, usual, log_format))
    return found


def _titled(text: str) -> frozenset[str]:
    """The frameworks that a heading or a title names as what trains."""
    text = _MARKS.sub(" ", text)
    is_none = any(pattern.search(text) for pattern in (_NO_EVIDENCE, _NO_TITLE, _BESIDE))
    return frozenset() if is_none else frameworks_in(text)


def _said(lines: Sequence[tuple[int, str]], section: int) -> Iterator[Evidence]:
    """What the sentences of a paragraph say trains."""
    texts = [_MARKS.sub(" ", line) for _, line in lines]
    text = "\n".join(texts)
    begins = list(accumulate((len(one) + 1 for one in texts), initial=0))
    for sentence in _SENTENCE.finditer(text):
        words = sentence[0]
        patterns = [*(_SAYS if _OF_RUNS.search(words) else ()), *((_LISTED,) if len(words) <= _LONGEST_LIST else ())]
        if _NO_EVIDENCE.search(words):
            continue
        for match in (match for pattern in patterns for match in pattern.finditer(words)):
            names = frameworks_in(match["name"])
            if names and (names != {"huggingface"} or _IS_TRAINER.search(words)):
                line = lines[bisect_right(begins, sentence.start() + match.start("name")) - 1][0]
                if _CORE.fullmatch(match["name"]):
                    yield Evidence(Rank.PROSE, line, _ON_CORE, section, "megatron")
                else:
                    yield Evidence(Rank.PROSE, line, names, section)


def _decided(evidence: Sequence[Evidence]) -> _Claim:
    """What the strongest evidence says; where it fits several frameworks, weaker evidence decides between them."""
    claim = _Claim(frozenset())
    for rank in Rank:
        found = [one for one in evidence if one.rank is rank]
        common = _common(found, in_words=rank >= Rank.TITLE)
        if not claim.by and found and rank is not Rank.MENTION:
            if not common:
                return _competing(found)
            claim = _Claim(common, (_first(found, common),), common)
        elif rank is Rank.TITLE and "nemo" in claim.names and common and common <= _IN_NEMO:
            claim = _Claim(common, (_first(found, common),), common)
        elif len(claim.names) > 1 and claim.names & common:
            common &= claim.names
            claim = replace(claim, names=common, by=(_first(found, common),))
        elif rank is Rank.COMMAND and claim.by and claim.by[0].rank is Rank.IMAGE:
            others = [one for one in found if not one.names & claim.names]
            if others:  # one framework's script in the other one's container
                return _competing([*claim.by, *others])
    return claim


def _competing(found: Sequence[Evidence]) -> _Claim:
    """Evidence of which there is no common framework: one line of each kind."""
    return _Claim(frozenset(), tuple({one.names: one for one in reversed(found)}.values()))


def _common(found: Sequence[Evidence], *, in_words: bool) -> frozenset[str]:
    """The frameworks that all of it fits; of words, what the others are built on; of titles, what the nearest says."""
    if not found:
        return frozenset()
    common = frozenset.intersection(*(one.names for one in found))
    if common or not in_words:
        return common
    names = frozenset(name for one in found for name in one.names)
    above = names - {name for one in names for name in BENEATH.get(one, ())}
    nearest = max(found, key=lambda one: one.line)
    return above if len(above) == 1 else nearest.names if nearest.rank is Rank.TITLE else frozenset()


def _first(found: Iterable[Evidence], names: frozenset[str]) -> Evidence:
    """The most exact evidence of these names, the first of several; of titles the nearest."""
    fitting = [one for one in found if one.names & names]
    return min(fitting, key=lambda one: (len(one.names), -one.line if one.rank is Rank.TITLE else one.line))


def _more_exact(near: _Claim, wide: _Claim) -> _Claim:
    """What a part of a document says, in the light of what holds for all of it."""
    if near.names & wide.fits:
        return replace(near, names=near.names & wide.fits)
    built_on = BENEATH.get(next(iter(wide.names)), frozenset()) if len(wide.names) == 1 else frozenset()
    return wide if near.names and near.names <= built_on else near


def _finding(claim: _Claim, evidence: Sequence[Evidence]) -> Finding:
    if not claim.by:
        return Finding(problem="no line of the document says what trains")
    by = claim.by[0]
    name = next(iter(claim.names)) if len(claim.names) == 1 else by.usual if by.usual in claim.names else ""
    if not name:
        competing = sorted(claim.by, key=lambda one: one.line)[:3]
        return Finding(problem=", ".join(map(str, competing)))
    found = Finding(name, by.line, _WORDS[by.rank])
    quoted = next((one for one in evidence if one.log_format and name in one.names), None)
    if quoted is None or quoted.log_format == LOG_FORMATS.get(name, name):
        return found
    return replace(found, log_format=quoted.log_format, log_line=quoted.line)


def _or(names: Iterable[str]) -> str:
    return " or ".join(sorted(names))
