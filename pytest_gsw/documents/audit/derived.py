"""Figures that follow from others of their row: what does not agree, as findings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction

from pytest_gsw.documents.audit import explain
from pytest_gsw.documents.audit.agreement import BySteps, Comparison, comparisons
from pytest_gsw.documents.audit.figures import Row, above_zero, seconds_text
from pytest_gsw.documents.audit.findings import Explanation, Finding, Kind, Uses
from pytest_gsw.documents.audit.written import Written, decimals, read_written, short, spelt
from pytest_gsw.tables.metrics import STEP_TIME


def derived(row: Row, others: Sequence[Row], shared: Mapping[str, Explanation]) -> Iterator[Finding | None]:
    """Every figure that follows from others of its row: ``None`` where it agrees.

    A figure may have been copied from one of the other rows, or be ``shared``: one change makes it right in all rows.
    """
    for key, one in comparisons(row).items():
        if one.severity is None:
            yield None
            continue
        if isinstance(one.source, str):
            formula, uses = f"from {one.source} {row.text(one.source)}", Uses.NEITHER
            explanations: tuple[Explanation, ...] = (_of_another(one, one.source),)
        else:
            law, uses = one.source.law, Uses.COMPUTED
            formula = f"{law.text} {'*' if law.grows else '/'} {seconds_text(one.source.step)} s"
            if not one.differs:
                explanations = (_rounding(one, one.source),)
            else:
                explanations = (shared[key],) if key in shared else explain.figure(row, others, one, one.source)
        computed = one.written.written_like_this(one.value)
        yield row.finding(key, one.written.text, computed, formula, *explanations, severity=one.severity, uses=uses)


def _rounding(compared: Comparison, steps: BySteps) -> Explanation:
    """How rounding explains a figure."""
    written, value = compared.written, compared.value
    step, law, fits = steps.step, steps.law, steps.fits
    if written.is_cut_of(value) and (step.seconds in steps.pinned or fits is None):
        return explain.cut(_more_digits(value, written))
    if fits is None:
        return explain.LAST_DIGIT
    if step.key != STEP_TIME.key:
        return Explanation(Kind.STEP_TIME_ROUNDED, f"the rounding of {step.key} explains it")
    # A step time that rounds to the documented one and gives the figure rounded, where there is one, reads best.
    best = fits
    for span in (step.rounded, law.seconds_span(above_zero(written.rounded))):
        best = best.overlap(span) or best
    exact = law.seconds(written.value)
    if exact not in best:
        exact = (best.low + best.high) / 2
    how = "which rounds to it" if exact in step.rounded else "which was cut to it"
    return Explanation(Kind.STEP_TIME_ROUNDED, f"{short(exact, best, decimals(step.written))} s gives it, {how}")


def _of_another(compared: Comparison, source: str) -> Explanation:
    """How a figure may be other than another one of its row gives."""
    written, value = compared.written, compared.value
    if written.is_cut_of(value):
        return explain.cut(_more_digits(value, written))
    if not compared.differs:
        return Explanation(Kind.LAST_DIGIT, f"the rounding of {source} explains it")
    return explain.value(written, value) or explain.UNKNOWN


def _more_digits(value: Fraction, written: Written) -> str:
    """A value with one or a few more digits than are written, so that the cut can be seen."""
    for more in range(1, 6):
        text = spelt(value, written.unit / 10**more, written.text)
        longer = read_written(text)
        if longer is not None and written.value < longer.value < written.value + written.unit:
            return text
    return spelt(value, written.unit / 10**6, written.text)
