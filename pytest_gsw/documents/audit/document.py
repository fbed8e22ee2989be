"""What a document says beside its tables, as values: equations, step times in examples and logs, peaks, scripts.

Each of them knows its place. Patterns are bounded, and longer lines than prose has are left out.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TypeVar

from pytest_gsw.documents.audit.arithmetic import LONGEST_LINE, Equation, equations, evaluate_text
from pytest_gsw.documents.audit.written import Written, read_written

_NUMBER = r"\d{1,12}(?:\.\d{1,12})?"
#: Lines that an example goes on for at most.
_EXAMPLE_LINES = 14
#: Lines above a script's last one that may set its variables.
_SCRIPT_LINES = 30


#: A README has fewer than a hundred equations, and a handful of all else; what has more is no README.
_MOST_STATEMENTS = 2_000
_MOST = 200

Found = TypeVar("Found")


@dataclass(frozen=True)
class Spot:
    """A number of a text, and where it stands (line and column from 1)."""

    written: Written
    line: int
    column: int


@dataclass(frozen=True)
class Statement:
    """An equation, and where its result stands."""

    equation: Equation
    line: int
    column: int


@dataclass(frozen=True)
class LogLine:
    """A line of a log that a document quotes: its step time and, where it says so, its batch."""

    step_time: Spot
    #: What the batch may be, and how it follows, in words; none where the line does not say.
    batches: tuple[tuple[Fraction, str], ...] = ()


@dataclass(frozen=True)
class Example:
    """An example that names its run: ``E.g. GPT 3 175B FP8 on 128x H100 GPUs (GBS=256)``."""

    line: int
    text: str
    dtype: str
    gpus: int
    accelerator: str
    global_batch_size: int | None
    step_time: Spot | None = None
    #: Peak FLOP/s of one GPU as the example says.
    peak: tuple[Spot, Fraction] | None = None
    model_flops: Spot | None = None
    #: The equation of MFU computed from these.
    mfu: Statement | None = None


@dataclass(frozen=True)
class Peak:
    """A peak that a document states for an accelerator and a dtype, FLOP/s."""

    accelerator: str
    dtype: str
    flops: Fraction
    line: int


@dataclass(frozen=True)
class Script:
    """A one-liner whose variables are set beside it, what it prints, and what the document says it does."""

    line: int
    #: Variables by lower-case name.
    variables: Mapping[str, Spot]
    text: str
    value: Fraction
    result: Spot | None


@dataclass(frozen=True)
class TitledRow:
    """A row of a table whose title gives one value for all its columns."""

    line: int
    column: int
    key: str
    title: str
    cells: tuple[str, ...]


@dataclass(frozen=True)
class Document:
    """Everything that was found in a document's text."""

    statements: tuple[Statement, ...] = ()
    logs: tuple[LogLine, ...] = ()
    examples: tuple[Example, ...] = ()
    peaks: tuple[Peak, ...] = ()
    scripts: tuple[Script, ...] = ()
    titled: tuple[TitledRow, ...] = ()
    #: Terms of the formula of model FLOPs that the document never defines: line, column, term.
    undefined: tuple[tuple[int, int, str], ...] = field(default=())


def read_document(lines: Sequence[str]) -> Document:
    """What a document says beside its tables."""
    kept = [line if len(line) <= LONGEST_LINE else "" for line in lines]
    statements = _first(_statements(kept), _MOST_STATEMENTS)
    return Document(
        statements=statements,
        logs=_first(_logs(kept)),
        examples=_first(_examples(kept, statements)),
        peaks=_first(_peaks(kept)),
        scripts=_first(_scripts(kept)),
        titled=_first(_titled(kept)),
        undefined=_first(_undefined(kept)),
    )


def _first(found: Iterator[Found], most: int = _MOST) -> tuple[Found, ...]:
    return tuple(itertools.islice(found, most))


def _statements(lines: Sequence[str]) -> Iterator[Statement]:
    for number, line in enumerate(lines, 1):
        before = lines[number - 2] if number > 1 else ""
        # "attention flops = 12 * …" and its result on the next line.
        goes_on = line.lstrip().startswith("=") and before.strip() != ""
        text, offset = (f"{before} {line}", len(before) + 1) if goes_on else (line, 0)
        for equation in equations(text):
            if equation.result_start >= offset:
                yield Statement(equation, number, equation.result_start - offset + 1)


_LOG_TIMES = tuple(
    re.compile(pattern)
    for pattern in (
        rf"train_step_timing in s ?[=:] ?(?P<s>{_NUMBER})",
        rf"train_step\(\) took (?P<s>{_NUMBER}) seconds",
        rf"completed step: \d{{1,9}}, seconds: (?P<s>{_NUMBER})",
        rf"elapsed time per iteration \(ms\): (?P<ms>{_NUMBER})",
    )
)
_CONSUMED = re.compile(rf"consumed_samples ?[=:] ?({_NUMBER})")
_GLOBAL_STEP = re.compile(rf"global_step ?[=:] ?({_NUMBER})")
_LOGGED_BATCH = re.compile(r"global[_ ]batch[_ ]size ?[=:] {0,6}(\d{1,9})")


def _logs(lines: Sequence[str]) -> Iterator[LogLine]:
    for number, line in enumerate(lines, 1):
        for pattern in _LOG_TIMES:
            match = pattern.search(line)
            if match is None:
                continue
            name = str(match.lastgroup)
            written = read_written(match[name])
            if written is None:
                continue
            if name == "ms":
                written = Written(written.text, written.value / 1000, written.unit / 1000)
            yield LogLine(Spot(written, number, match.start(name) + 1), tuple(_logged_batches(line)))
            break


def _logged_batches(line: str) -> Iterator[tuple[Fraction, str]]:
    stated = _LOGGED_BATCH.search(line)
    if stated is not None:
        yield Fraction(stated[1]), f"global_batch_size {stated[1]}"
        return
    consumed, step = _CONSUMED.search(line), _GLOBAL_STEP.search(line)
    if consumed is None or step is None:
        return
    # Steps count from 0 or from 1: after global_step 49, or 50, fifty steps have consumed samples.
    for steps in (Fraction(step[1]) + 1, Fraction(step[1])):
        batch = Fraction(consumed[1]) / steps if steps else Fraction(0)
        if batch > 0 and batch.denominator == 1:
            yield batch, f"{consumed[1]} samples in {steps} steps"


_EXAMPLE = re.compile(
    r"^\s{0,8}E\.g\.,? (?P<name>.{1,80}?) on (?P<gpus>\d{1,6})x? (?P<accelerator>[A-Z]{1,3}\d{2,3}[\w-]{0,8}) GPUs?"
    r"(?: \(GBS ?= ?(?P<batch>\d{1,7})\))?",
)
_DTYPE = re.compile(r"\b(fp8|bf16|fp16|fp32|nvfp4|mxfp8)\b", re.IGNORECASE)
_EXAMPLE_TIME = re.compile(rf"^\s{{0,8}}training step time ?[=:] ?(?P<s>{_NUMBER})", re.IGNORECASE)
_EXAMPLE_PEAK = re.compile(
    rf"^\s{{0,8}}peak .{{0,40}}?FLOPS .{{0,40}}?[=:] ?(?P<peak>{_NUMBER}) ?(?P<unit>[TP])FLOPS", re.IGNORECASE
)
_EXAMPLE_FLOPS = re.compile(rf"^\s{{0,8}}model flops ?[=:] ?(?P<flops>{_NUMBER}[eE]\+?\d{{1,2}})\s*$", re.IGNORECASE)
_SCALE = {"T": 10**12, "P": 10**15}


def _examples(lines: Sequence[str], statements: Sequence[Statement]) -> Iterator[Example]:
    for number, line in enumerate(lines, 1):
        match = _EXAMPLE.match(line)
        dtype = _DTYPE.search(match["name"]) if match is not None else None
        if match is None or dtype is None:
            continue
        batch = match["batch"]
        found: dict[str, Spot] = {}
        peak: tuple[Spot, Fraction] | None = None
        last = number
        for below in range(number + 1, min(number + _EXAMPLE_LINES, len(lines)) + 1):
            text = lines[below - 1]
            if _EXAMPLE.match(text) or text.lstrip().startswith(("|", "#")):
                break
            last = below
            for name, pattern in (("s", _EXAMPLE_TIME), ("flops", _EXAMPLE_FLOPS)):
                given = pattern.match(text)
                written = read_written(given[name]) if given else None
                if given is not None and written is not None:
                    found.setdefault(name, Spot(written, below, given.start(name) + 1))
            given = _EXAMPLE_PEAK.match(text)
            written = read_written(given["peak"]) if given else None
            if given is not None and written is not None and peak is None:
                scale = _SCALE[given["unit"].upper()]
                peak = (Spot(written, below, given.start("peak") + 1), written.value * scale)
        mfu = next((one for one in statements if number < one.line <= last and one.equation.is_percent), None)
        yield Example(
            line=number,
            text=match[0].strip(),
            dtype=dtype[0].lower(),
            gpus=int(match["gpus"]),
            accelerator=match["accelerator"],
            global_batch_size=int(batch) if batch else None,
            step_time=found.get("s"),
            peak=peak,
            model_flops=found.get("flops"),
            mfu=mfu,
        )


_ACCELERATOR = r"[A-Z]{1,3}\d{2,3}"
_STATED_PEAK = re.compile(
    rf"(?:(?P<accelerator>{_ACCELERATOR})\b[^.|]{{0,30}}?)?\b(?P<dtype>FP8|BF16|FP16|fp8|bf16|fp16)\b[^.|\d]{{0,12}}?"
    rf" is \**(?P<peak>{_NUMBER})\** ?(?P<unit>[TP])FLOPS"
)


def _peaks(lines: Sequence[str]) -> Iterator[Peak]:
    """Peaks such as in ``peak … for H100 FP8 is 1979 TFLOPS and for H100 BF16 is 989 TFLOPS``."""
    for number, line in enumerate(lines, 1):
        if "peak" not in line.lower() or "FLOPS" not in line:
            continue
        first = re.search(rf"\b{_ACCELERATOR}\b", line)
        accelerator = first[0] if first else ""
        for match in _STATED_PEAK.finditer(line):
            accelerator = match["accelerator"] or accelerator
            if accelerator:
                flops = Fraction(match["peak"]) * _SCALE[match["unit"]]
                yield Peak(accelerator, match["dtype"].lower(), flops, number)


_PERL_SETS = re.compile(rf"\$(\w{{1,30}}) {{0,3}}= {{0,3}}({_NUMBER}) {{0,3}};")
_PERL_PRINTS = re.compile(r"\bprint ([^;'\"]{3,300})")
_SHELL_SETS = re.compile(rf"^\s{{0,8}}(?:export )?([A-Za-z_]\w{{0,40}})=({_NUMBER})(?:\s{{0,8}}#.{{0,200}})?$")
_SHELL_PRINTS = re.compile(r"""\becho ["']([^"']{3,300})["'] ?\| ?bc\b""")
_ALONE = re.compile(rf"^\s{{0,8}}({_NUMBER}|\d{{1,12}}\.\d{{1,40}})\s{{0,8}}$")


def _scripts(lines: Sequence[str]) -> Iterator[Script]:
    for number, line in enumerate(lines, 1):
        printed = _PERL_PRINTS.search(line) if "perl" in line else None
        if printed is not None:
            sets = {match[1]: (match[2], number, match.start(2) + 1) for match in _PERL_SETS.finditer(line)}
        else:
            printed = _SHELL_PRINTS.search(line)
            if printed is None:
                continue
            sets = _shell_sets(lines, number)
        value = evaluate_text(printed[1], {f"${name}": text for name, (text, _, _) in sets.items()})
        if value is None or not sets:
            continue
        variables = {
            name.lower(): Spot(written, at, column)
            for name, (text, at, column) in sets.items()
            if (written := read_written(text)) is not None
        }
        yield Script(number, variables, printed[1].strip(), value, _alone(lines, number + 1))


def _shell_sets(lines: Sequence[str], number: int) -> dict[str, tuple[str, int, int]]:
    """The variables that the lines above set, up to the beginning of the code block."""
    sets: dict[str, tuple[str, int, int]] = {}
    for above in range(number - 1, max(0, number - _SCRIPT_LINES), -1):
        text = lines[above - 1]
        match = _SHELL_SETS.match(text)
        if match is not None:
            sets.setdefault(match[1], (match[2], above, match.start(2) + 1))
        elif text.lstrip().startswith(("```", "~~~")):
            break
    return sets


def _alone(lines: Sequence[str], number: int) -> Spot | None:
    """The number that is all there is on a line."""
    match = _ALONE.match(lines[number - 1]) if number <= len(lines) else None
    written = read_written(match[1]) if match is not None else None
    return None if match is None or written is None else Spot(written, number, match.start(1) + 1)


_TITLE_VALUE = re.compile(r"\b(TP|PP|CP|EP|DP|VP|MBS|GBS|GA|FSDP) ?= ?(\d{1,7})\b")


def _titled(lines: Sequence[str]) -> Iterator[TitledRow]:
    """Rows of a table about what its title says of all of it."""
    title: dict[str, str] = {}
    for number, line in enumerate(lines, 1):
        if "|" not in line:
            title = {}
            continue
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        below = lines[number] if number < len(lines) else ""
        if re.fullmatch(r"[\s|:-]{3,2000}", below) and "-" in below and "|" in below:
            title = dict(_TITLE_VALUE.findall(cells[0]))
        elif cells[0].upper() in title and len(cells) > 1:
            start = line.index("|", line.index(cells[0]))
            yield TitledRow(number, start + 2, cells[0].upper(), title[cells[0].upper()], tuple(cells[1:]))


_TERM = re.compile(r"\((\w[\w ]{0,30} flops)\)", re.IGNORECASE)
_DEFINED = re.compile(r"^[\s*-]{0,12}(\w[\w ]{0,30} flops) ?=", re.IGNORECASE)


def _undefined(lines: Sequence[str]) -> Iterator[tuple[int, int, str]]:
    defined = {match[1].lower() for line in lines if (match := _DEFINED.match(line)) is not None}
    for number, line in enumerate(lines, 1):
        if re.match(r"^[\s*-]{0,12}model flops ?= ?\(", line, re.IGNORECASE):
            for match in _TERM.finditer(line):
                if match[1].lower() not in defined:
                    yield number, match.start(1) + 1, match[1]
