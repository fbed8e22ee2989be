"""Figures that follow from others of their row: what does not agree, as findings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction

from pytest_gsw.documents.audit import explain
from pytest_gsw.documents.audit.agreement import BySteps, Comparison, comparisons
from pytest_gsw.documents.audit.figures import Row, StepTime, above_zero
from pytest_gsw.documents.audit.model import Explanation, Finding, Kind, Severity, Uses
from pytest_gsw.documents.audit.written import Written, about, decimals, read_written, short, spelt
from pytest_gsw.tables.metrics import STEP_TIME


def derived(row: Row, others: Sequence[Row], shared: Mapping[str, Explanation]) -> Iterator[Finding | None]:
    """Every figure that follows from others of its row: ``None`` where it agrees.

    Args:
        row: The row.
        others: All rows of its file, for figures that were copied from one to another.
        shared: By figure, the change that makes it right in all rows of the workload.
    """
    for key, compared in comparisons(row).items():
        if compared.severity is None:
            yield None
        elif isinstance(compared.source, BySteps):
            steps = compared.source
            formula = f"{steps.law.text} {'*' if steps.law.grows else '/'} {_step_text(steps.step)}"
            if not compared.contradicts:
                explanations = _roundings(compared, steps)
            elif key in shared:
                explanations = (shared[key],)
            else:
                explanations = explain.figure(row, others, key, compared.written, steps.step, steps.law)
            yield _finding(row, compared, formula, explanations, Uses.COMPUTED)
        else:
            formula = f"from {compared.source} {row.text(compared.source)}"
            yield _finding(row, compared, formula, (_of_another(compared, compared.source),), Uses.NEITHER)


def _finding(
    row: Row, compared: Comparison, formula: str, explanations: tuple[Explanation, ...], uses: Uses
) -> Finding:
    assert compared.severity is not None
    return Finding(
        identity=compared.key,
        severity=compared.severity,
        row=row.id,
        file=row.stated.file,
        line=row.place(compared.key).line,
        column=row.place(compared.key).column,
        documented=compared.written.text,
        computed=compared.written.written_like_this(compared.value),
        formula=formula,
        explanations=explanations,
        uses=uses,
        verdict=row.rests_on,
        source=row.source,
    )


def _roundings(compared: Comparison, steps: BySteps) -> tuple[Explanation, ...]:
    """How rounding explains a figure, best first."""
    written, value = compared.written, compared.value
    step, law, fits = steps.step, steps.law, steps.fits
    if written.is_cut_of(value) and (step.seconds in steps.pinned or fits is None):
        return (Explanation(Kind.CUT, f"{_more_digits(value, written)} was cut, not rounded"),)
    if fits is None:
        return (Explanation(Kind.LAST_DIGIT, explain.LESS_THAN_A_UNIT),)
    if step.key != STEP_TIME.key:
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


def _of_another(compared: Comparison, source: str) -> Explanation:
    """How a figure may be other than another one of its row gives."""
    written, value = compared.written, compared.value
    if written.is_cut_of(value):
        return Explanation(Kind.CUT, f"{_more_digits(value, written)} was cut, not rounded")
    if compared.severity is Severity.ROUNDING:
        return Explanation(Kind.LAST_DIGIT, f"the rounding of {source} explains it")
    return explain.value(written, value) or Explanation(Kind.UNKNOWN, explain.NOTHING)


def _step_text(step: StepTime) -> str:
    return f"{step.written.text} s" if step.key == STEP_TIME.key else f"{about(step.seconds)} s"


def _more_digits(value: Fraction, written: Written) -> str:
    """A value with one or a few more digits than are written, so that the cut can be seen."""
    for more in range(1, 6):
        text = spelt(value, written.unit / 10**more, written.text)
        longer = read_written(text)
        if longer is not None and written.value < longer.value < written.value + written.unit:
            return text
    return spelt(value, written.unit / 10**6, written.text)
