"""Figures that follow from a row's step time, each computed again.

Two questions decide. Is the figure what the formula gives from the step time as written, to the last digit? If not, do
rounding and cutting explain it: is there a step time that is written like the documented one, that also gives the row's
documented throughput, and that gives the figure?
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction

from pytest_gsw.audit import explain
from pytest_gsw.audit.figures import DERIVED, THROUGHPUTS, TRILLION, Law, Row, StepTime, above_zero
from pytest_gsw.audit.model import Explanation, Finding, Kind, Severity, Uses
from pytest_gsw.audit.written import Span, Written, about, decimals, read_written, short, spelt
from pytest_gsw.performance.figures import SECONDS_PER_DAY


def derived(row: Row, others: Sequence[Row]) -> Iterator[Finding | None]:
    """Every figure that follows from the step time: ``None`` where it agrees.

    Args:
        row: The row.
        others: All rows of its file, for figures that were copied from one to another.
    """
    step = row.step_time
    for key in DERIVED:
        written = row.numbers.get(key)
        if written is None or row.value(key) is None or (step is not None and step.key == key):
            continue
        if step is not None and key in row.laws:
            yield _figure(row, others, key, written, step, row.laws[key])
        elif key == "days_to_train_1t_tokens" and (tokens := row.value("tokens_per_s")) is not None:
            yield _of_another(row, key, written, TRILLION / tokens / SECONDS_PER_DAY, "tokens_per_s")
        elif key == "mfu" and (tflops := row.value("tflops_per_gpu")) is not None and row.peak is not None:
            yield _of_another(row, key, written, 100 * tflops * TRILLION / row.peak, "tflops_per_gpu")


def _figure(row: Row, others: Sequence[Row], key: str, written: Written, step: StepTime, law: Law) -> Finding | None:
    value = law.at(step.seconds)
    if written.is_rounding_of(value) or _follows_from_throughput(row, key, written):
        return None
    pinned = _pinned(row, key, step)
    fits = law.seconds_span(above_zero(written.either)).overlap(pinned)
    close = abs(written.value - value) < written.unit
    if close or fits is not None:
        severity = Severity.ROUNDING
        explanations = _roundings(written, step, law, pinned, fits)
    else:
        severity = Severity.CONTRADICTION
        explanations = explain.figure(row, others, key, written, step, law)
    return Finding(
        identity=key,
        severity=severity,
        row=row.id,
        file=row.stated.file,
        line=row.place(key).line,
        column=row.place(key).column,
        documented=written.text,
        computed=written.written_like_this(value),
        formula=f"{law.text} {'*' if law.grows else '/'} {_step_text(step)}",
        explanations=explanations,
        uses=Uses.COMPUTED,
        verdict=row.rests_on,
        source=row.source,
    )


def _follows_from_throughput(row: Row, key: str, written: Written) -> bool:
    """Days may have been computed from the documented throughput, which was rounded before."""
    tokens = row.value("tokens_per_s")
    if key != "days_to_train_1t_tokens" or tokens is None:
        return False
    return written.is_rounding_of(TRILLION / tokens / SECONDS_PER_DAY)


def _pinned(row: Row, key: str, step: StepTime) -> Span:
    """The step times that the documented one stands for, less those that the row's throughput rules out."""
    for other in THROUGHPUTS:
        written = row.numbers.get(other)
        if other in {key, step.key} or written is None or row.value(other) is None or other not in row.laws:
            continue
        both = row.laws[other].seconds_span(above_zero(written.either)).overlap(step.either)
        if both is not None:
            return both
    return step.either


def _roundings(written: Written, step: StepTime, law: Law, pinned: Span, fits: Span | None) -> tuple[Explanation, ...]:
    """How rounding explains a figure, best first."""
    value = law.at(step.seconds)
    if written.is_cut_of(value) and (step.seconds in pinned or fits is None):
        return (Explanation(Kind.CUT, f"{_more_digits(value, written)} was cut, not rounded"),)
    if fits is None:
        return (Explanation(Kind.LAST_DIGIT, explain.LESS_THAN_A_UNIT),)
    if step.key != "step_time_s":
        return (Explanation(Kind.STEP_TIME_ROUNDED, f"the rounding of {step.key} explains it"),)
    # A step time that rounds to the documented one and gives the figure rounded, where there is one, reads best.
    best = fits
    for span in (step.rounded, law.seconds_span(above_zero(written.rounded))):
        best = best.overlap(span) or best
    exact = law.seconds(written.value)
    if exact not in best:
        exact = (best.low + best.high) / 2
    how = "which rounds to it" if exact in step.rounded else "which was cut to it"
    return (Explanation(Kind.STEP_TIME_ROUNDED, f"{short(exact, best, decimals(step.written))} s gives it, {how}"),)


def _of_another(row: Row, key: str, written: Written, value: Fraction, source_key: str) -> Finding | None:
    """A figure that follows from another one of the row, where no step time says more."""
    if written.is_rounding_of(value):
        return None
    of = row.numbers[source_key]
    ends = sorted(value * of.value / end for end in (above_zero(of.either).low, of.either.high))
    if source_key == "tflops_per_gpu":
        ends = sorted(value * end / of.value for end in (above_zero(of.either).low, of.either.high))
    fits = written.either.overlap(Span(*ends))
    close = abs(written.value - value) < written.unit
    if written.is_cut_of(value):
        first = Explanation(Kind.CUT, f"{_more_digits(value, written)} was cut, not rounded")
    elif close or fits is not None:
        first = Explanation(Kind.LAST_DIGIT, f"the rounding of {source_key} explains it")
    else:
        first = explain.value(written, value) or Explanation(Kind.UNKNOWN, explain.NOTHING)
    return Finding(
        identity=key,
        severity=Severity.ROUNDING if close or fits is not None else Severity.CONTRADICTION,
        row=row.id,
        file=row.stated.file,
        line=row.place(key).line,
        column=row.place(key).column,
        documented=written.text,
        computed=written.written_like_this(value),
        formula=f"from {source_key} {of.text}",
        explanations=(first,),
        uses=Uses.NEITHER,
        verdict=row.rests_on,
        source=row.source,
    )


def _step_text(step: StepTime) -> str:
    return f"{step.written.text} s" if step.key == "step_time_s" else f"{about(step.seconds)} s"


def _more_digits(value: Fraction, written: Written) -> str:
    """A value with one or a few more digits than are written, so that the cut can be seen."""
    for more in range(1, 6):
        text = spelt(value, written.unit / 10**more, written.text)
        longer = read_written(text)
        if longer is not None and written.value < longer.value < written.value + written.unit:
            return text
    return spelt(value, written.unit / 10**6, written.text)
