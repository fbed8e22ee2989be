"""Whether a figure is what the others of its row give: to the last digit, by rounding, or not at all.

Two questions decide. Is the figure what the formula gives from the step time as written, to the last digit? If not, do
rounding and cutting explain it: is there a step time that is written like the documented one, that also gives the row's
documented throughput, and that gives the figure?
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from pytest_gsw.documents.audit.figures import DERIVED, THROUGHPUTS, TRILLION, Law, Row, StepTime, above_zero
from pytest_gsw.documents.audit.findings import Severity
from pytest_gsw.documents.audit.written import Span, Written
from pytest_gsw.performance.figures import SECONDS_PER_DAY
from pytest_gsw.tables.metrics import DAYS_TO_TRAIN, MFU, TFLOPS_PER_GPU, TOKENS_PER_S


@dataclass(frozen=True)
class BySteps:
    """What a figure was computed from: the step time, by a law."""

    step: StepTime
    law: Law
    #: The step times that the documented one stands for, less those that the row's throughput rules out.
    pinned: Span
    #: Those of them that give the documented figure.
    fits: Span | None


@dataclass(frozen=True)
class Comparison:
    """A documented figure and what it was computed to be."""

    key: str
    written: Written
    value: Fraction
    #: ``None`` where the two agree.
    severity: Severity | None
    #: What it was computed from: the step time, or the figure of this key.
    source: BySteps | str

    @property
    def differs(self) -> bool:
        """Whether no rounding explains the difference."""
        return self.severity in {Severity.CONTRADICTION, Severity.DISCREPANCY}


@lru_cache(maxsize=4096)
def comparisons(row: Row) -> Mapping[str, Comparison]:
    """Every figure of the row that follows from others, in the order in which findings list them."""
    found = {key: compare(row, key) for key in DERIVED}
    return {key: one for key, one in found.items() if one is not None}


def wrong(row: Row) -> frozenset[str]:
    """The row's figures that no rounding explains."""
    return differing(comparisons(row))


def differing(found: Mapping[str, Comparison]) -> frozenset[str]:
    """Those of the figures that no rounding explains."""
    return frozenset(key for key, one in found.items() if one.differs)


def contradicted(row: Row) -> frozenset[str]:
    """The row's figures that are wrong by more than a little."""
    return frozenset(key for key, one in comparisons(row).items() if one.severity is Severity.CONTRADICTION)


def compare(row: Row, key: str, law: Law | None = None) -> Comparison | None:
    """One figure by a law, its own by default; ``None`` where nothing is documented or says what it should be."""
    written, step = row.numbers.get(key), row.step_time
    if written is None or row.value(key) is None or (step is not None and step.key == key):
        return None
    law = law or row.laws.get(key)
    if step is not None and law is not None:
        return _by_step_time(row, key, written, step, law)
    if key == DAYS_TO_TRAIN.key and (tokens := row.value(TOKENS_PER_S.key)) is not None:
        return _by_figure(row, key, written, _days(tokens), TOKENS_PER_S.key)
    if key == MFU.key and (tflops := row.value(TFLOPS_PER_GPU.key)) is not None and row.peak is not None:
        return _by_figure(row, key, written, 100 * tflops * TRILLION / row.peak, TFLOPS_PER_GPU.key)
    return None


def _by_step_time(row: Row, key: str, written: Written, step: StepTime, law: Law) -> Comparison:
    value = law.at(step.seconds)
    pinned = _pinned(row, key, step)
    fits = law.seconds_span(above_zero(written.either)).overlap(pinned)
    values, tokens = [value], row.value(TOKENS_PER_S.key)
    # Days may have been computed from the documented throughput, which was rounded before.
    values += [_days(tokens)] if key == DAYS_TO_TRAIN.key and tokens is not None else []
    severity = None if any(map(written.is_rounding_of, values)) else _severity(written, value, fits)
    return Comparison(key, written, value, severity, BySteps(step, law, pinned, fits))


def _by_figure(row: Row, key: str, written: Written, value: Fraction, source: str) -> Comparison:
    """A figure that follows from another one of the row, where no step time says more."""
    of = row.numbers[source]
    ends = [above_zero(of.either).low, of.either.high]
    # Days fall with the throughput, MFU grows with TFLOP/s.
    values = sorted(value * end / of.value if key == MFU.key else value * of.value / end for end in ends)
    fits = written.either.overlap(Span(*values))
    severity = None if written.is_rounding_of(value) else _severity(written, value, fits)
    return Comparison(key, written, value, severity, source)


def _severity(written: Written, value: Fraction, fits: Span | None) -> Severity:
    close = abs(written.value - value) < written.unit
    return Severity.ROUNDING if close or fits is not None else Severity.by_size(written.value, value)


def _days(tokens_per_s: Fraction) -> Fraction:
    """Days in which 1e12 tokens are trained."""
    return TRILLION / tokens_per_s / SECONDS_PER_DAY


def throughputs_beside(row: Row, key: str, step: StepTime) -> Iterator[tuple[Written, Law]]:
    """The row's throughputs that say something of its step time beside a figure, each with its law."""
    for other in THROUGHPUTS:
        law = row.laws.get(other)
        if other not in {key, step.key} and law is not None and row.value(other) is not None:
            yield row.numbers[other], law


def _pinned(row: Row, key: str, step: StepTime) -> Span:
    """The step times that the documented one stands for, less those that the row's throughput rules out."""
    for written, law in throughputs_beside(row, key, step):
        both = law.seconds_span(above_zero(written.either)).overlap(step.either)
        if both is not None:
            return both
    return step.either
