"""Figures and inputs that were left from another row, or that belong into another cell."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction

from pytest_gsw.documents.audit.agreement import BySteps, Comparison, comparisons, contradicted, wrong
from pytest_gsw.documents.audit.figures import DERIVED, Row, above_zero
from pytest_gsw.documents.audit.findings import Explanation, Kind, Severity
from pytest_gsw.documents.audit.written import Span, decimals, short
from pytest_gsw.tables.metrics import MFU, STEP_TIME, TFLOPS_PER_GPU, TOKENS_PER_S, TOKENS_PER_S_PER_GPU

#: What figures are computed from beside the step time, and the figures that it changes.
INPUTS: Mapping[str, Sequence[str]] = {
    "global_batch_size": DERIVED,
    "gpus": (TOKENS_PER_S_PER_GPU, MFU.key, TFLOPS_PER_GPU.key),
    "sequence_length": (TOKENS_PER_S.key, TOKENS_PER_S_PER_GPU),
    "model_flops": (MFU.key, TFLOPS_PER_GPU.key),
}


def columns(row: Row, others: Sequence[Row], one: Comparison, by: BySteps) -> Iterator[Explanation]:
    """A figure that belongs into another cell: of a row of the same workload, or of the same row."""
    written, beside = one.written, _beside(row, others, one)
    for other in _alike(row, others):
        theirs, law, step = other.numbers.get(one.key), other.laws.get(one.key), other.step_time
        if theirs is None or law is None or step is None or theirs.text == written.text:
            continue
        fits = law.may_give(written, step)
        both = fits and row.laws[one.key].may_give(theirs, by.step)
        if both or written.is_rounding_of(law.at(step.seconds)) or (fits and other in beside):
            words = "the two are swapped" if both else f"which has {theirs.text}"
            yield Explanation(Kind.SWAPPED_COLUMN, f"it is the figure of {other.id}, {words}")
    for name in DERIVED:
        law = row.laws.get(name)
        if name != one.key and law is not None and law.may_give(written, by.step):
            yield Explanation(Kind.SWAPPED_COLUMN, f"it is the row's {name}")


def copies(row: Row, others: Sequence[Row], one: Comparison, by: BySteps) -> Iterator[Explanation]:
    """A figure, a step time or an input that was left from another row of the same workload."""
    yield from _figures(row, others, one, by)
    yield from _own_step_time(row, others, one, by)
    yield from _step_times(row, others, one, by)
    yield from _inputs(row, others, one)


def _figures(row: Row, others: Sequence[Row], one: Comparison, by: BySteps) -> Iterator[Explanation]:
    for other in _alike(row, others):
        theirs, step = other.numbers.get(one.key), other.step_time
        if step is None or theirs is None or theirs.text != one.written.text or one.key in contradicted(other):
            continue
        time = f"{step.written.text} s" if step.key == STEP_TIME.key else f"{step.key} {step.written.text}"
        with_time = f" with {time}, which gives it here, too" if by.law.may_give(one.written, step) else ""
        yield Explanation(Kind.STALE_COPY, f"{other.id} has it{with_time}")


def _own_step_time(row: Row, others: Sequence[Row], one: Comparison, by: BySteps) -> Iterator[Explanation]:
    """The step time is another row's, where several figures of the row agree on one that it does not have."""
    agreed = _agreed(row)
    if agreed is None:
        return
    step = by.step.written
    needed = short(by.law.seconds(one.written.value), agreed, decimals(step))
    for other in _alike(row, others):
        if other.text(STEP_TIME.key) == step.text and not wrong(other):
            yield Explanation(Kind.STALE_COPY, f"{step.text} s is the step time of {other.id}; {needed} s would fit")


def _agreed(row: Row) -> Span | None:
    """The step times that all wrong figures of a row have in common; nothing of one alone."""
    keys, agreed = wrong(row), Span(Fraction(0), Fraction(10**12))
    for one in (comparisons(row)[key] for key in keys):
        if not isinstance(one.source, BySteps) or one.source.step.key != STEP_TIME.key:
            return None
        both = agreed.overlap(one.source.law.seconds_span(above_zero(one.written.either)))
        if both is None:
            return None
        agreed = both
    return agreed if len(keys) > 1 else None


def _step_times(row: Row, others: Sequence[Row], one: Comparison, by: BySteps) -> Iterator[Explanation]:
    """Computed with the step time of the row beside it."""
    for other in _beside(row, others, one):
        step = other.step_time
        if step is not None and step.key == STEP_TIME.key == by.step.key and by.law.may_give(one.written, step):
            yield Explanation(Kind.STALE_COPY, f"{step.written.text} s, the step time of {other.id}, gives it")


def _inputs(row: Row, others: Sequence[Row], one: Comparison) -> Iterator[Explanation]:
    """Computed with an input of another row whose own figure is right."""
    tried = set()
    for other in _alike(row, others):
        for name in inputs_of(one):
            theirs = other.text(name)
            if (name, theirs) in tried or other.step_time is None or one.key in contradicted(other):
                continue
            tried.add((name, theirs))
            if gives(row, one, name, theirs):
                yield Explanation(Kind.STALE_COPY, f"with {name} {theirs}, as {other.id} has it, it fits")


def inputs_of(one: Comparison) -> list[str]:
    """What a figure is computed from beside the step time."""
    return [name for name, keys in INPUTS.items() if one.key in keys]


def gives(row: Row, one: Comparison, name: str, text: str) -> bool:
    """Whether another input in place of the row's own gives a figure."""
    if name not in row.numbers:
        return False
    changed = row.with_value(name, text)
    law, step, value = changed.laws.get(one.key), changed.step_time, changed.value(name)
    if law is None or step is None or value in {None, row.value(name)}:
        return False
    return law.may_give(one.written, step)


def _beside(row: Row, others: Sequence[Row], one: Comparison) -> Sequence[Row]:
    """The rows right before and behind it; none for a figure that is a little off, which rows alike may give."""
    if one.severity is not Severity.CONTRADICTION:
        return ()
    series = [other for other in others if other.workload == row.workload]
    at = next((place for place, other in enumerate(series) if other is row), None)
    return () if at is None else (*series[max(0, at - 1) : at], *series[at + 1 : at + 2])


def _alike(row: Row, others: Sequence[Row]) -> Iterator[Row]:
    """The other rows of the same workload, the nearest by their place first."""
    name = ("model", "size", "dtype", "accelerator")
    mine = tuple(row.text(key) for key in name)
    line = row.place("gpus").line
    alike = [other for other in others if other.id != row.id and tuple(other.text(key) for key in name) == mine]
    yield from sorted(alike, key=lambda other: (abs(other.place("gpus").line - line), other.id))
