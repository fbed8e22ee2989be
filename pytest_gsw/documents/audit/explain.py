"""What may have happened to a figure that its formula does not give.

Nothing is guessed: each explanation changes one thing (a digit, a peak, a row) and computes the figure again.
Only a change that gives the documented digits is an explanation.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction

from pytest_gsw.documents.audit.agreement import BySteps, Comparison, throughputs_beside
from pytest_gsw.documents.audit.copies import INPUTS, columns, copies, gives, inputs_of
from pytest_gsw.documents.audit.figures import DERIVED, Row, above_zero, flops_of, laws
from pytest_gsw.documents.audit.findings import SMALL, Explanation, Kind
from pytest_gsw.documents.audit.written import (
    Span,
    Written,
    decimals,
    read_written,
    scientific,
    short,
    slips,
    spelt,
    swapped,
)
from pytest_gsw.performance.peaks import PEAKS
from pytest_gsw.tables.metrics import MFU, STEP_TIME, TFLOPS_PER_GPU

NOTHING = "no single change of what it is computed from gives it"
UNKNOWN = Explanation(Kind.UNKNOWN, NOTHING)
LAST_DIGIT = Explanation(Kind.LAST_DIGIT, "less than one unit of the last digit away")

#: Factors that slip in: a batch counted twice, a forward pass left out, thousands, the two billions.
_FACTORS: Mapping[Fraction, str] = {
    Fraction(2): "twice what the formula gives",
    Fraction(1, 2): "half of what the formula gives",
    Fraction(4): "four times what the formula gives",
    Fraction(1, 4): "a quarter of what the formula gives",
    Fraction(4, 3): "4/3 of what the formula gives",
    Fraction(3, 4): "3/4 of what the formula gives",
    Fraction(10): "ten times what the formula gives",
    Fraction(1, 10): "a tenth of what the formula gives",
    Fraction(100): "100 times what the formula gives",
    Fraction(1, 100): "1/100 of what the formula gives",
    Fraction(1000): "1000 times what the formula gives",
    Fraction(1, 1000): "1/1000 of what the formula gives",
    Fraction(10**9, 2**30): "10**9 / 2**30 of what the formula gives",
    Fraction(2**30, 10**9): "2**30 / 10**9 of what the formula gives",
}
#: LoRA computes two of the three parts of a step: forward, and backward through the activations.
_LORA: Mapping[Fraction, str] = {
    Fraction(2, 3): "2/3 of what the formula gives, as for LoRA",
    Fraction(3, 2): "3/2 of what the formula gives, as for full fine-tuning in place of LoRA",
}
#: Figures that are computed from model FLOPs.
_OF_FLOPS = frozenset({MFU.key, TFLOPS_PER_GPU.key, "model_flops"})
#: Other digits fit a span by chance, unless the difference is so many times the span.
_LITTLE = 4
#: Explanations that are told for one figure; the likeliest come first.
_TOLD = 3


def cut(longer: str) -> Explanation:
    """A number that was cut, shown with more of its digits."""
    return Explanation(Kind.CUT, f"{longer} was cut, not rounded")


def figure(row: Row, others: Sequence[Row], one: Comparison, by: BySteps) -> tuple[Explanation, ...]:
    """Why a figure may be other than its law gives from the row's step time."""
    # Where the row's throughput follows from its step time, that is no slip.
    beside = next(throughputs_beside(row, one.key, by.step), None)
    slipped = by.step.key == STEP_TIME.key and (beside is None or not beside[1].may_give(beside[0], by.step))
    found = _told(
        _lora(row, one.key, one.written, one.value),
        _step_time_swapped(one, by) if slipped else iter(()),
        _inputs_swapped(row, one),
        _value_swapped(one.written, one.value, _narrow(one, by)),
        _peaks(row, one, by),
        _formulas(row, one, by),
        columns(row, others, one, by),
        copies(row, others, one, by),
        _factors(_FACTORS, one.written, one.value),
    )
    # With so many digits to choose from, one that fits says little where something else explains the figure.
    typed = (_step_time_typed(one, by) if slipped else iter(()), _value_typed(one.written, one.value))
    return found or _told(*typed, _nearly_swapped(one))[:1] or (_unknown(one.written, by),)


def _narrow(one: Comparison, by: BySteps) -> Span | None:
    """What the figure may be as the step time is rounded, where that is little beside the difference."""
    span = by.law.span(by.pinned)
    return span if (span.high - span.low) * _LITTLE < abs(one.written.value - one.value) else None


def value(written: Written, computed: Fraction) -> Explanation | None:
    """Why a number may be other than it was computed, by the number alone."""
    found = (_value_swapped(written, computed), _factors(_FACTORS, written, computed), _value_typed(written, computed))
    return next(itertools.chain(*found), None)


def _told(*found: Iterator[Explanation]) -> tuple[Explanation, ...]:
    """The first explanation of each sort, one of each kind, and a few of them at most."""
    first: dict[Kind, Explanation] = {}
    for explanation in filter(None, (next(explanations, None) for explanations in found)):
        first.setdefault(explanation.kind, explanation)
    return tuple(first.values())[:_TOLD]


def _unknown(written: Written, by: BySteps) -> Explanation:
    if by.step.key != STEP_TIME.key:
        return UNKNOWN
    span = by.law.seconds_span(Span(max(written.rounded.low, written.value / 2), written.rounded.high))
    needed = short(by.law.seconds(written.value), span, decimals(by.step.written))
    return Explanation(Kind.UNKNOWN, f"{NOTHING}; a step time of {needed} s would")


def _step_time_swapped(one: Comparison, by: BySteps) -> Iterator[Explanation]:
    documented = by.step.written.text
    for text, other in _readable(swapped(documented)):
        gives = by.law.span(above_zero(other.either)).overlap(one.written.either) is not None
        if gives or one.written.is_rounding_of(by.law.at(other.value)):
            yield swap(f"{text} s", f"{documented} s")


def _inputs_swapped(row: Row, one: Comparison) -> Iterator[Explanation]:
    # Model FLOPs have so many digits that two of them, swapped, explain too much.
    for name in (name for name in inputs_of(one) if name != "model_flops"):
        documented = row.text(name)
        for text, _ in _readable(swapped(documented)):
            if gives(row, one, name, text):
                yield swap(f"{name} {text}", documented)


def _step_time_typed(one: Comparison, by: BySteps) -> Iterator[Explanation]:
    documented = by.step.written.text
    # Another last digit makes another step time of nearly any, and explains too much.
    *_, last = (n for n, letter in enumerate(documented) if letter.isdigit())
    for text, other in _readable(slips(documented)):
        if text[:last] != documented[:last] and one.written.is_rounding_of(by.law.at(other.value)):
            yield typo(f"{text} s", f"{documented} s")


def _readable(texts: Iterable[str]) -> Iterator[tuple[str, Written]]:
    """Those of the texts that are numbers above zero."""
    for text in texts:
        written = read_written(text)
        if written is not None and written.value > 0:
            yield text, written


def swap(right: str, documented: str) -> Explanation:
    """A number that gives the figure once two of its digits are swapped."""
    return Explanation(Kind.DIGITS_SWAPPED, f"{right} gives it: two digits of {documented} are swapped")


def typo(right: str, documented: str) -> Explanation:
    """A number that gives the figure once one of its digits is another."""
    return Explanation(Kind.TYPO, f"{right} gives it: one digit of {documented} is wrong")


def _value_swapped(written: Written, computed: Fraction, span: Span | None = None) -> Iterator[Explanation]:
    """The figure with two digits swapped, where it is what was computed, or within the ``span`` of what may be."""
    for text, other in _readable(swapped(written.text)):
        within = span is not None and other.either.overlap(span) is not None
        if other.unit == written.unit and (within or other.states(computed)):
            yield Explanation(Kind.DIGITS_SWAPPED, f"{text} would fit: two digits of {written.text} are swapped")


def _nearly_swapped(one: Comparison) -> Iterator[Explanation]:
    """The figure with two digits swapped, but for a discrepancy that all figures of its table may have."""
    little = one.value * SMALL
    if abs(one.written.value - one.value) < little * _LITTLE:
        return
    for text, other in _readable(swapped(one.written.text)):
        if abs(other.value - one.value) < little:
            words = f"{text} would nearly fit: two digits of {one.written.text} are swapped"
            yield Explanation(Kind.DIGITS_SWAPPED, words)


def _value_typed(written: Written, computed: Fraction) -> Iterator[Explanation]:
    for text, other in _readable(slips(written.text)):
        if other.unit == written.unit and other.is_rounding_of(computed):
            yield Explanation(Kind.TYPO, f"{text} would fit: one digit of {written.text} is wrong")


def _peaks(row: Row, one: Comparison, by: BySteps) -> Iterator[Explanation]:
    if one.key != MFU.key:
        return
    for peak, words in other_peaks(row):
        law = laws(row, peak=peak).get(MFU.key)
        if law is not None and one.written.states(law.at(by.step.seconds)):
            yield Explanation(Kind.WRONG_PEAK, f"{words} gives it")


def other_peaks(row: Row) -> Iterator[tuple[Fraction, str]]:
    """Peaks that the row's MFU may have been computed with, and whose they are; those of its accelerator come first.

    They are those of its accelerator in another dtype, and of others in its own: some peak fits almost every figure.
    """
    if row.peak is None:
        return
    own = (row.text("accelerator"), row.text("dtype").lower())
    near = sorted(PEAKS.items(), key=lambda entry: (entry[0][0] != own[0], entry[0]))
    for (accelerator, dtype), peak in near:
        if accelerator != own[0] and dtype != own[1]:
            continue
        whose = peak_words(accelerator, dtype)
        told = {Fraction(peak.flops): whose}
        if accelerator == own[0]:
            told[Fraction(peak.flops) / 2] = f"half of {whose}"
        for flops, words in told.items():
            if flops != row.peak:
                yield flops, f"{scientific(flops)} FLOP/s, {words},"


def peak_words(accelerator: str, dtype: str) -> str:
    """Whose peak it is."""
    return f"the peak of {accelerator} {dtype.upper()}"


def _formulas(row: Row, one: Comparison, by: BySteps) -> Iterator[Explanation]:
    """Model FLOPs in another form: before they were rounded, of the full model, without recomputation."""
    if one.key not in INPUTS["model_flops"]:
        return
    forms: list[tuple[Fraction, str]] = []
    stated, exact = row.value("model_flops"), row.computed_flops
    if stated is not None and exact is not None and exact != stated:
        text = f"{scientific(exact)} model FLOPs, before they were rounded to {row.text('model_flops')}, give it"
        forms.append((exact, text))
    full = _full_flops(row)
    if full is not None:
        forms.append((full[0], f"the model FLOPs of {full[1]} give it"))
    for work, words in forms:
        law = laws(row, model_flops=work).get(one.key)
        if law is not None and one.written.states(law.at(by.step.seconds)):
            yield Explanation(Kind.FORMULA, words)


def _full_flops(row: Row) -> tuple[Fraction, str] | None:
    """Model FLOPs of the full model, where the row has fewer layers, and its layers in words."""
    layers = row.value("architecture.layers")
    full = None if layers is None or row.value("layers") in {None, layers} else flops_of(row, layers=layers)
    return None if full is None else (full, f"all {layers} layers")


def factors(row: Row, key: str) -> Mapping[Fraction, str]:
    """Factors that may have slipped into a figure, and the figure with them in words; the likeliest come first."""
    return {**_LORA, **_FACTORS} if row.is_lora and key in _OF_FLOPS else _FACTORS


def _lora(row: Row, key: str, written: Written, computed: Fraction) -> Iterator[Explanation]:
    if row.is_lora and key in _OF_FLOPS:
        yield from _factors(_LORA, written, computed)


def _factors(known: Mapping[Fraction, str], written: Written, computed: Fraction) -> Iterator[Explanation]:
    for factor, words in known.items():
        if written.states(computed * factor):
            yield Explanation(Kind.FACTOR, f"it is {words}")


def inputs(
    row: Row, documented: Fraction, computed: Fraction, parts: Mapping[str, Fraction | None], *, multiple: bool
) -> tuple[Explanation, ...]:
    """What would make a product right, and which of the two the row's figures are for.

    ``multiple``: any multiple of what is computed would be right.
    """
    needed = {key: part * documented / computed for key, part in parts.items() if part is not None}
    fits = [f"{key} {factor}" for key, factor in needed.items() if factor.denominator == 1]
    text = f"{' or '.join(fits)} would fit" if fits else NOTHING
    agreeing = _figures_of_batch(row, documented) if "micro_batch_size" in parts else []
    if agreeing:
        text += f"; {', '.join(agreeing)} {'is' if len(agreeing) == 1 else 'are'} of {documented}"
    one_input = Explanation(Kind.ONE_INPUT if fits else Kind.UNKNOWN, text)
    slips_of_hand = list(_counts_swapped(documented, computed, needed, parts, multiple=multiple))
    return (*slips_of_hand, one_input) if fits or not slips_of_hand else tuple(slips_of_hand)


def _counts_swapped(
    documented: Fraction,
    computed: Fraction,
    needed: Mapping[str, Fraction],
    parts: Mapping[str, Fraction | None],
    *,
    multiple: bool,
) -> Iterator[Explanation]:
    """Two neighbouring digits of the product, or of one of its factors."""
    for text, other in _readable(swapped(str(documented))):
        ratio = other.value / computed
        if ratio == 1 or (multiple and ratio.denominator == 1):
            yield Explanation(Kind.DIGITS_SWAPPED, f"{text} would fit: two digits of {documented} are swapped")
    for key, factor in needed.items():
        if str(factor) in swapped(str(parts[key])):
            yield swap(f"{key} {factor}", str(parts[key]))


def _figures_of_batch(row: Row, batch: Fraction) -> list[str]:
    """The documented figures that come out right with the documented batch."""
    step = row.step_time
    if step is None or row.value("global_batch_size") != batch:
        return []
    known = ((key, row.numbers.get(key), row.laws.get(key)) for key in DERIVED if key != step.key)
    return [
        key for key, written, law in known if written is not None and law is not None and law.may_give(written, step)
    ]


def model_flops(row: Row, written: Written, computed: Fraction) -> tuple[Explanation, ...]:
    """Why pinned model FLOPs may be others than the formula gives."""
    if abs(written.value - computed) < written.unit:
        more = spelt(computed, written.unit / 100, written.text)
        return (cut(more) if written.is_cut_of(computed) else LAST_DIGIT,)
    full = _full_flops(row)
    whole = Explanation(Kind.FORMULA, f"it is that of {full[1]}") if full and written.states(full[0]) else None
    alone = next(_lora(row, "model_flops", written, computed), None) or value(written, computed)
    return tuple(one for one in (whole, alone) if one is not None) or (UNKNOWN,)
