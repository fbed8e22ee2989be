"""What may have happened to a figure that its formula does not give.

Nothing is guessed: each explanation changes one thing (a digit, a peak, a row) and computes the figure again.
Only a change that gives the documented digits is an explanation.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction

from pytest_gsw.documents.audit.agreement import wrong
from pytest_gsw.documents.audit.figures import DERIVED, THROUGHPUTS, Law, Row, StepTime, above_zero, flops_of, laws
from pytest_gsw.documents.audit.model import Explanation, Kind
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
from pytest_gsw.tables.metrics import (
    DAYS_TO_TRAIN,
    MFU,
    SAMPLES_PER_S,
    STEP_TIME,
    TFLOPS_PER_GPU,
    TOKENS_PER_S,
    TOKENS_PER_S_PER_GPU,
)

LESS_THAN_A_UNIT = "less than one unit of the last digit away"
NOTHING = "no single change of what it is computed from gives it"

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
#: Explanations that are told for one figure; the likeliest come first.
_TOLD = 3


def figure(
    row: Row, others: Sequence[Row], key: str, written: Written, step: StepTime, law: Law
) -> tuple[Explanation, ...]:
    """Why a figure may be other than its law gives from the row's step time."""
    slipped = not _throughput_agrees(row, key, step)
    value = law.at(step.seconds)
    found = _told(
        _lora(row, key, written, value),
        _step_time_swapped(written, step, law) if slipped else iter(()),
        _value_swapped(written, value),
        _peaks(row, key, written, step),
        _formulas(row, key, written, step),
        _columns(row, others, key, written, step),
        _copies(row, others, key, written, law),
        _factors(_FACTORS, written, value),
    )
    # With so many digits to choose from, one that fits says little where something else explains the figure.
    typed = (_step_time_typed(written, step, law) if slipped else iter(()), _value_typed(written, value))
    return found or _told(*typed)[:1] or (_unknown(written, step, law),)


def _throughput_agrees(row: Row, key: str, step: StepTime) -> bool:
    """Whether the row's throughput follows from its step time, which then is no slip."""
    for other in THROUGHPUTS:
        written, law = row.numbers.get(other), row.laws.get(other)
        if other in {key, step.key} or written is None or law is None:
            continue
        return written.either.overlap(law.span(step.either)) is not None
    return False


def value(written: Written, computed: Fraction) -> Explanation | None:
    """Why a number may be other than it was computed, by the number alone."""
    found = (
        _value_swapped(written, computed),
        _factors(_FACTORS, written, computed),
        _value_typed(written, computed),
    )
    return next(itertools.chain(*found), None)


def _told(*found: Iterator[Explanation]) -> tuple[Explanation, ...]:
    """The first explanation of each sort, one of each kind, and a few of them at most."""
    first: dict[Kind, Explanation] = {}
    for explanations in found:
        for explanation in explanations:
            first.setdefault(explanation.kind, explanation)
            break
    return tuple(first.values())[:_TOLD]


def _unknown(written: Written, step: StepTime, law: Law) -> Explanation:
    needed = law.seconds(written.value)
    span = law.seconds_span(Span(max(written.rounded.low, written.value / 2), written.rounded.high))
    text = f"{NOTHING}; a step time of {short(needed, span, decimals(step.written))} s would"
    return Explanation(Kind.UNKNOWN, text if step.key == STEP_TIME.key else NOTHING)


def _step_time_swapped(written: Written, step: StepTime, law: Law) -> Iterator[Explanation]:
    for text in _step_times(written, step, law, swapped(step.written.text)):
        yield Explanation(Kind.DIGITS_SWAPPED, f"{text} s gives it: two digits of {step.written.text} s are swapped")


def _step_time_typed(written: Written, step: StepTime, law: Law) -> Iterator[Explanation]:
    # Another last digit makes another step time of nearly any, and explains too much.
    *_, last = (n for n, letter in enumerate(step.written.text) if letter.isdigit())
    texts = (text for text in slips(step.written.text) if text[:last] != step.written.text[:last])
    for text in _step_times(written, step, law, texts, exactly=True):
        yield Explanation(Kind.TYPO, f"{text} s gives it: one digit of {step.written.text} s is wrong")


def _step_times(
    written: Written, step: StepTime, law: Law, texts: Iterable[str], *, exactly: bool = False
) -> Iterator[str]:
    """Those of these step times that give the figure: as written, or as any value that is written so."""
    if step.key != STEP_TIME.key:
        return
    for text in texts:
        other = read_written(text)
        if other is None or other.value <= 0:
            continue
        by_rounding = not exactly and law.span(above_zero(other.either)).overlap(written.either) is not None
        if by_rounding or written.is_rounding_of(law.at(other.value)):
            yield text


def _value_swapped(written: Written, computed: Fraction) -> Iterator[Explanation]:
    for text in _values(written, computed, swapped(written.text)):
        yield Explanation(Kind.DIGITS_SWAPPED, f"{text} would fit: two digits of {written.text} are swapped")


def _value_typed(written: Written, computed: Fraction) -> Iterator[Explanation]:
    for text in _values(written, computed, slips(written.text), exactly=True):
        yield Explanation(Kind.TYPO, f"{text} would fit: one digit of {written.text} is wrong")


def _values(written: Written, computed: Fraction, texts: Iterable[str], *, exactly: bool = False) -> Iterator[str]:
    """Those of these figures that the computation gives, rounded or cut, with digits as fine as the documented ones."""
    for text in texts:
        other = read_written(text)
        if other is None or other.unit != written.unit:
            continue
        if other.is_rounding_of(computed) or (other.is_cut_of(computed) and not exactly):
            yield text


def _peaks(row: Row, key: str, written: Written, step: StepTime) -> Iterator[Explanation]:
    if key != MFU.key:
        return
    for peak, words in other_peaks(row):
        law = laws(row, peak=peak).get(MFU.key)
        if law is not None and written.states(law.at(step.seconds)):
            yield Explanation(Kind.WRONG_PEAK, f"{words} gives it")


def other_peaks(row: Row) -> Iterator[tuple[Fraction, str]]:
    """Peaks that the row's MFU may have been computed with, and whose they are; those of its accelerator come first."""
    if row.peak is None:
        return
    own = (row.text("accelerator"), row.text("dtype").lower())
    near = sorted(PEAKS.items(), key=lambda entry: (entry[0][0] != own[0], entry[0]))
    for (accelerator, dtype), peak in near:
        whose = f"the peak of {accelerator} {dtype.upper()}"
        told = {Fraction(peak.flops): whose}
        if accelerator == own[0]:
            told[Fraction(peak.flops) / 2] = f"half of {whose}"
        for flops, words in told.items():
            if flops != row.peak:
                yield flops, f"{scientific(flops)} FLOP/s, {words},"


def _formulas(row: Row, key: str, written: Written, step: StepTime) -> Iterator[Explanation]:
    """Model FLOPs in another form: before they were rounded, of the full model, without recomputation."""
    if key not in {MFU.key, TFLOPS_PER_GPU.key}:
        return
    stated, exact = row.value("model_flops"), row.computed_flops
    if stated is not None and exact is not None and exact != stated:
        text = f"{scientific(exact)} model FLOPs, before they were rounded to {row.text('model_flops')}, give it"
        yield from _work(row, key, written, step, exact, text)
    layers = row.value("architecture.layers")
    if layers is not None and row.value("layers") not in {None, layers}:
        full = flops_of(row, layers=layers)
        if full is not None:
            yield from _work(row, key, written, step, full, f"the model FLOPs of all {layers} layers give it")


def _work(
    row: Row, key: str, written: Written, step: StepTime, model_flops: Fraction, words: str
) -> Iterator[Explanation]:
    law = laws(row, model_flops=model_flops).get(key)
    if law is not None and written.states(law.at(step.seconds)):
        yield Explanation(Kind.FORMULA, words)


def _columns(row: Row, others: Sequence[Row], key: str, written: Written, step: StepTime) -> Iterator[Explanation]:
    """A figure that belongs into another cell: of a row of the same workload, or of the same row."""
    for other in _alike(row, others):
        theirs, law = other.numbers.get(key), other.laws.get(key)
        if theirs is None or law is None or other.step_time is None:
            continue
        if theirs.text != written.text and written.is_rounding_of(law.at(other.step_time.seconds)):
            both = theirs.is_rounding_of(row.laws[key].at(step.seconds))
            words = "the two are swapped" if both else f"which has {theirs.text}"
            yield Explanation(Kind.SWAPPED_COLUMN, f"it is the figure of {other.id}, {words}")
    for name in DERIVED:
        law = row.laws.get(name)
        if name != key and law is not None and written.is_rounding_of(law.at(step.seconds)):
            yield Explanation(Kind.SWAPPED_COLUMN, f"it is the row's {name}")


def _copies(row: Row, others: Sequence[Row], key: str, written: Written, law: Law) -> Iterator[Explanation]:
    """A figure, or an input of it, that was left from another row of the same workload."""
    for other in _alike(row, others):
        theirs, step = other.numbers.get(key), other.step_time
        if step is None:
            continue
        if theirs is not None and theirs.text == written.text and _is_right(other, key):
            gives = law.span(step.either).overlap(written.either) is not None
            with_time = f" with {_time(step)}, which gives it here, too" if gives else ""
            yield Explanation(Kind.STALE_COPY, f"{other.id} has it{with_time}")
    for other in _alike(row, others):
        if other.step_time is None:
            continue
        for name in ("global_batch_size", "gpus", "sequence_length", "model_flops"):
            mine, theirs_value = row.value(name), other.value(name)
            if mine is None or theirs_value is None or mine == theirs_value:
                continue
            ratio = theirs_value / mine if name != "gpus" else mine / theirs_value
            if name == "gpus" and key in {TOKENS_PER_S.key, SAMPLES_PER_S.key, DAYS_TO_TRAIN.key}:
                continue
            if key == DAYS_TO_TRAIN.key:
                ratio = 1 / ratio
            if name == "sequence_length" and key not in {TOKENS_PER_S.key, TOKENS_PER_S_PER_GPU}:
                continue
            if name == "model_flops" and key not in {MFU.key, TFLOPS_PER_GPU.key}:
                continue
            assert row.step_time is not None
            if written.is_rounding_of(law.scaled(ratio).at(row.step_time.seconds)) and _is_right(other, key):
                yield Explanation(Kind.STALE_COPY, f"with {name} {other.text(name)}, as {other.id} has it, it fits")


def _alike(row: Row, others: Sequence[Row]) -> Iterator[Row]:
    """The other rows of the same workload, the nearest by their place first."""
    name = ("model", "size", "dtype", "accelerator")
    mine = tuple(row.text(key) for key in name)
    line = row.place("gpus").line
    alike = [other for other in others if other.id != row.id and tuple(other.text(key) for key in name) == mine]
    yield from sorted(alike, key=lambda other: (abs(other.place("gpus").line - line), other.id))


def _is_right(row: Row, key: str) -> bool:
    """Whether a figure may be copied from the row: its own is right, or it has none."""
    return key not in wrong(row)


def _time(step: StepTime) -> str:
    return f"{step.written.text} s" if step.key == STEP_TIME.key else f"{step.key} {step.written.text}"


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
    row: Row, documented: Fraction, computed: Fraction, degrees: Mapping[str, Fraction | None]
) -> tuple[Explanation, ...]:
    """Which one of the factors of a product would make it right, and which of the two the row's figures are for.

    Args:
        row: The row.
        documented: The product as documented.
        computed: The product of the factors.
        degrees: The factors by key; those that are ``None`` are left out.
    """
    ratio = documented / computed
    fits = [
        f"{key} {degree * ratio}"
        for key, degree in degrees.items()
        if degree is not None and (degree * ratio).denominator == 1
    ]
    text = f"{' or '.join(fits)} would fit" if fits else NOTHING
    kind = Kind.ONE_INPUT if fits else Kind.UNKNOWN
    agreeing = _figures_of_batch(row, documented) if "micro_batch_size" in degrees else []
    if agreeing:
        text += f"; {', '.join(agreeing)} {'is' if len(agreeing) == 1 else 'are'} of {documented}"
    return (Explanation(kind, text),)


def _figures_of_batch(row: Row, batch: Fraction) -> list[str]:
    """The documented figures that come out right with the documented batch."""
    step = row.step_time
    if step is None or row.value("global_batch_size") != batch:
        return []
    return [
        key
        for key in DERIVED
        if key != step.key
        and (written := row.numbers.get(key)) is not None
        and (law := row.laws.get(key)) is not None
        and law.span(step.either).overlap(written.either) is not None
    ]


def model_flops(row: Row, written: Written, computed: Fraction) -> tuple[Explanation, ...]:
    """Why pinned model FLOPs may be others than the formula gives."""
    if abs(written.value - computed) < written.unit:
        more = spelt(computed, written.unit / 100, written.text)
        cut = Explanation(Kind.CUT, f"{more} was cut, not rounded")
        return (cut if written.is_cut_of(computed) else Explanation(Kind.LAST_DIGIT, LESS_THAN_A_UNIT),)
    found = []
    layers = row.value("architecture.layers")
    if layers is not None and row.value("layers") not in {None, layers}:
        full = flops_of(row, layers=layers)
        if full is not None and written.states(full):
            found.append(Explanation(Kind.FORMULA, f"it is that of all {layers} layers"))
    alone = next(_lora(row, "model_flops", written, computed), None) or value(written, computed)
    if alone is not None:
        found.append(alone)
    return tuple(found) or (Explanation(Kind.UNKNOWN, NOTHING),)
