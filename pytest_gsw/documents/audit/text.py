"""What a document says beside its tables, as values: equations, step times in examples and logs, peaks.

Each of them knows its place. Patterns are bounded, and longer lines than prose has are left out.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TypeVar

from pytest_gsw.documents.audit.arithmetic import LONGEST_LINE, Equation, Token, equations
from pytest_gsw.documents.audit.findings import Explanation, Finding, Severity, Uses
from pytest_gsw.documents.audit.written import Written, read_written

#: A number in patterns of text.
NUMBER = r"\d{1,12}(?:\.\d{1,12})?"
#: Lines that an example goes on for at most.
_EXAMPLE_LINES = 14

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

    def column_of(self, token: Token) -> int:
        """Where a part of the equation stands; the line's beginning where that is on the line above."""
        return max(1, self.column - (self.equation.result_start - token.start))


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
    dtype: str
    gpus: int
    accelerator: str
    global_batch_size: int | None
    step_time: Spot | None
    #: Peak FLOP/s of one GPU as the example says.
    peak: tuple[Spot, Fraction] | None
    model_flops: Spot | None
    #: The equation of MFU computed from these.
    mfu: Statement | None


@dataclass(frozen=True)
class Peak:
    """A peak that a document states for an accelerator and a dtype, FLOP/s."""

    accelerator: str
    dtype: str
    flops: Fraction
    line: int


@dataclass(frozen=True)
class Text:
    """A document's text: its lines, and what they state."""

    file: str
    #: One that is longer than prose has is empty here.
    lines: tuple[str, ...]
    statements: tuple[Statement, ...]
    logs: tuple[LogLine, ...]
    examples: tuple[Example, ...]
    peaks: tuple[Peak, ...]

    def finding(
        self,
        line: int,
        column: int,
        documented: str,
        computed: str,
        formula: str,
        *explanations: Explanation,
        severity: Severity = Severity.CONTRADICTION,
    ) -> Finding:
        """A finding at a line of the text."""
        return Finding(
            identity=f"line_{line}",
            severity=severity,
            row=None,
            file=self.file,
            line=line,
            column=column,
            documented=documented,
            computed=computed,
            formula=formula,
            explanations=explanations,
            uses=Uses.NEITHER,
            verdict="the tables' figures",
        )


def read_text(file: str, lines: Sequence[str]) -> Text:
    """What a document says beside its tables."""
    kept = tuple(line if len(line) <= LONGEST_LINE else "" for line in lines)
    statements = first(_statements(kept), _MOST_STATEMENTS)
    return Text(file, kept, statements, first(_logs(kept)), first(_examples(kept, statements)), first(_peaks(kept)))


def first(found: Iterator[Found], most: int = _MOST) -> tuple[Found, ...]:
    """As many of them as a README has."""
    return tuple(itertools.islice(found, most))


def spot(match: re.Match[str], group: str | int, line: int) -> Spot | None:
    """The number that a pattern has found in a line, ``None`` where it is none."""
    written = read_written(match[group])
    return None if written is None else Spot(written, line, match.start(group) + 1)


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
        rf"train_step_timing in s ?[=:] ?(?P<s>{NUMBER})",
        rf"train_step\(\) took (?P<s>{NUMBER}) seconds",
        rf"completed step: \d{{1,9}}, seconds: (?P<s>{NUMBER})",
        rf"elapsed time per iteration \(ms\): (?P<ms>{NUMBER})",
    )
)
_CONSUMED = re.compile(rf"consumed_samples ?[=:] ?({NUMBER})")
_GLOBAL_STEP = re.compile(rf"global_step ?[=:] ?({NUMBER})")
_LOGGED_BATCH = re.compile(r"global[_ ]batch[_ ]size ?[=:] {0,6}(\d{1,9})")


def _logs(lines: Sequence[str]) -> Iterator[LogLine]:
    for number, line in enumerate(lines, 1):
        for pattern in _LOG_TIMES:
            match = pattern.search(line)
            time = spot(match, str(match.lastgroup), number) if match is not None else None
            if match is None or time is None:
                continue
            if match.lastgroup == "ms":
                written = time.written
                time = replace(time, written=Written(written.text, written.value / 1000, written.unit / 1000))
            yield LogLine(time, tuple(_logged_batches(line)))
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
_EXAMPLE_TIME = re.compile(rf"^\s{{0,8}}training step time ?[=:] ?(?P<number>{NUMBER})", re.IGNORECASE)
_EXAMPLE_PEAK = re.compile(
    rf"^\s{{0,8}}peak .{{0,40}}?FLOPS .{{0,40}}?[=:] ?(?P<number>{NUMBER}) ?(?P<unit>[TP])FLOPS", re.IGNORECASE
)
_EXAMPLE_FLOPS = re.compile(rf"^\s{{0,8}}model flops ?[=:] ?(?P<number>{NUMBER}[eE]\+?\d{{1,2}})\s*$", re.IGNORECASE)
_SCALE = {"T": 10**12, "P": 10**15}


def _examples(lines: Sequence[str], statements: Sequence[Statement]) -> Iterator[Example]:
    for number, line in enumerate(lines, 1):
        match = _EXAMPLE.match(line)
        dtype = _DTYPE.search(match["name"]) if match is not None else None
        if match is None or dtype is None:
            continue
        below = tuple(itertools.takewhile(_goes_on, lines[number : number + _EXAMPLE_LINES]))
        patterns = (_EXAMPLE_TIME, _EXAMPLE_PEAK, _EXAMPLE_FLOPS)
        time, peak, flops = (_given(pattern, below, number + 1) for pattern in patterns)
        mfu = (one for one in statements if number < one.line <= number + len(below) and one.equation.is_percent)
        yield Example(
            line=number,
            dtype=dtype[0].lower(),
            gpus=int(match["gpus"]),
            accelerator=match["accelerator"],
            global_batch_size=int(match["batch"]) if match["batch"] else None,
            step_time=time[0] if time else None,
            peak=(peak[0], peak[0].written.value * _SCALE[peak[1]["unit"].upper()]) if peak else None,
            model_flops=flops[0] if flops else None,
            mfu=next(mfu, None),
        )


def _goes_on(line: str) -> bool:
    """Whether a line belongs to the example above it."""
    return _EXAMPLE.match(line) is None and not line.lstrip().startswith(("|", "#"))


def _given(pattern: re.Pattern[str], lines: Sequence[str], number: int) -> tuple[Spot, re.Match[str]] | None:
    """The first number that a pattern finds in lines, of which the first has this number."""
    for at, line in enumerate(lines, number):
        match = pattern.match(line)
        found = spot(match, "number", at) if match is not None else None
        if match is not None and found is not None:
            return found, match
    return None


_ACCELERATOR = r"[A-Z]{1,3}\d{2,3}"
_STATED_PEAK = re.compile(
    rf"(?:(?P<accelerator>{_ACCELERATOR})\b[^.|]{{0,30}}?)?\b(?P<dtype>FP8|BF16|FP16|fp8|bf16|fp16)\b[^.|\d]{{0,12}}?"
    rf" is \**(?P<peak>{NUMBER})\** ?(?P<unit>[TP])FLOPS"
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
