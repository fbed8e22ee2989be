"""Figures of one row that contradict each other: which of them is wrong, before the row is written.

One change is looked for that makes all of the row's identities hold. Where only one cell can be the wrong one, it is
left out, or put right where two identities say what it is; where several can, all of them are in doubt.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction

from pytest_gsw.documents.audit import explain
from pytest_gsw.documents.audit.agreement import BySteps, Comparison, comparisons
from pytest_gsw.documents.audit.figures import DERIVED, Row, laws
from pytest_gsw.documents.audit.findings import Finding
from pytest_gsw.documents.audit.identities import identities
from pytest_gsw.documents.audit.written import Span, Written, about, swapped
from pytest_gsw.documents.importing.gpu_counts import proven_gpus
from pytest_gsw.documents.importing.identities import equation, numbers_of
from pytest_gsw.tables.metrics import DAYS_TO_TRAIN, MFU, STEP_TIME, TFLOPS_PER_GPU, THROUGHPUTS, TOKENS_PER_S
from pytest_gsw.tables.yamlfile import Stated

BATCH = "global_batch_size"
#: What rests on model FLOPs, and on a peak that documents round in several ways.
_OF_FLOPS = frozenset({MFU.key, TFLOPS_PER_GPU.key})
#: Figures of two runs differ by a percent, slips of the hand by more; formulas of model FLOPs by some percent.
TWO_RUNS, _ROUNDED_FLOPS = Fraction(1, 100), Fraction(5, 100)
_FACTORS = frozenset({"micro_batch_size", "gradient_accumulation_steps"})
#: A figure with fewer digits fits too much to prove anything.
_FINE = Fraction(1, 10_000)
#: Another batch or sequence length is not nearly the same.
_NEARLY = Span(Fraction(9, 10), Fraction(11, 10))
#: Sequences of training are a multiple of so many tokens.
_SEQUENCES = 128


@dataclass(frozen=True)
class Decision:
    """What is to be changed in a row, by key, each with the reason."""

    #: Values that are proven to be others: the text, and the proof.
    proven: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    #: Values that the others refute; the row does without them.
    refuted: Mapping[str, str] = field(default_factory=dict)
    #: Values one of which is wrong, and nothing says which.
    doubted: Mapping[str, str] = field(default_factory=dict)


def decided(values: Mapping[str, Stated], acknowledged: Collection[str]) -> Decision:
    """What the row's own identities say of its figures, batch and GPUs; those that are known to contradict stay."""
    row = numbers_of(values)
    gpus = proven_gpus(row) if "gpus" not in acknowledged else None
    if gpus is not None:
        found = decided({**values, "gpus": replace(values["gpus"], text=gpus[0])}, acknowledged)
        return replace(found, proven={"gpus": gpus, **found.proven})
    if not _wrong(row, acknowledged):
        return Decision()
    without_flops = _without(row, "model_flops")
    # Model FLOPs may be another model's: what is found without them is found all the same.
    for one in (row, without_flops):
        right = _put_right(one, acknowledged)
        suspects = _suspects(one, acknowledged)
        if right is not None:
            return right
        if suspects:
            return _left_out(one, suspects, acknowledged)
    return _in_doubt(without_flops, acknowledged)


def off(one: Comparison) -> Fraction:
    """How many times its documented value a figure is computed to be."""
    return one.value / one.written.value


def explained_by_peak(row: Row, one: Comparison) -> bool:
    """Whether an MFU is that of another peak, as of another dtype, and its FLOPs are right."""
    if one.key != MFU.key or not isinstance(one.source, BySteps):
        return False
    seconds = one.source.step.seconds
    laws_of = (laws(row, peak=peak).get(MFU.key) for peak, _ in explain.other_peaks(row))
    return any(law is not None and abs(law.at(seconds) / one.written.value - 1) < TWO_RUNS for law in laws_of)


def refuting(
    row: Row, acknowledged: Collection[str], *, own: bool = True, within: Fraction = _ROUNDED_FLOPS
) -> list[Comparison]:
    """The row's MFU and TFLOP/s that its model FLOPs cannot give; ``own`` are those that no other peak explains."""
    of_flops = _OF_FLOPS - set(acknowledged)
    found = (one for key, one in comparisons(row).items() if key in of_flops and isinstance(one.source, BySteps))
    far = (one for one in found if abs(off(one) - 1) > max(within, one.written.unit / one.written.value))
    return [one for one in far if not own or not explained_by_peak(row, one)]


def shown_by_figures(row: Row) -> bool:
    """Whether an MFU or TFLOP/s of the row tells what its model FLOPs are."""
    found = comparisons(row)
    return any(key in found and isinstance(found[key].source, BySteps) for key in _OF_FLOPS)


def swapped_digits(row: Row, one: Comparison) -> str:
    """A figure with two neighbouring digits swapped that fits exactly, and is then the right one; or nothing."""
    return next((text for text in swapped(one.written.text) if _fits(row, one.key, text)), "")


def _fits(row: Row, key: str, text: str) -> bool:
    other = comparisons(row.with_value(key, text)).get(key)
    return other is not None and other.severity is None


def _wrong(row: Row, acknowledged: Collection[str]) -> list[Comparison | Finding]:
    """What contradicts in a row, but for its model FLOPs: its figures, and its batch where no throughput is of it."""
    found = comparisons(row)
    wrong: list[Comparison | Finding] = []
    for key, one in found.items():
        close = key in _OF_FLOPS and (abs(off(one) - 1) <= _ROUNDED_FLOPS or explained_by_peak(row, one))
        if one.differs and not close and key not in acknowledged:
            wrong.append(one)
    arithmetic = [found[key] for key in (*THROUGHPUTS, DAYS_TO_TRAIN.key) if key in found]
    of_batch = _batch(row)
    if of_batch is not None and BATCH not in acknowledged:
        confirmed = any(isinstance(one.source, BySteps) and not one.differs for one in arithmetic)
        wrong += [] if confirmed else [of_batch]
    # Model FLOPs alone are decided where they come from.
    return wrong if any(_key(one) not in _OF_FLOPS for one in wrong) else []


def _key(one: Comparison | Finding) -> str:
    return one.key if isinstance(one, Comparison) else one.identity


def _batch(row: Row) -> Finding | None:
    """That the batch is not micro-batch * accumulation steps * data-parallel ranks."""
    return next((one for one in identities(row) if one is not None and one.identity == BATCH), None)


def _put_right(row: Row, acknowledged: Collection[str]) -> Decision | None:
    """One cell with other digits, where all else agrees with them, one figure to its last digit."""
    of_batch = _batch(row)
    product = of_batch.computed if of_batch is not None and not of_batch.formula.startswith("a multiple") else ""
    tried = [(BATCH, product)] if product else []
    cells = [key for key in (STEP_TIME.key, *DERIVED, BATCH) if key in row.numbers and key not in acknowledged]
    tried += [(key, text) for key in cells for text in swapped(row.text(key))]
    found: dict[str, tuple[str, str]] = {}
    for key, text in tried:
        other = row.with_value(key, text)
        proof = "" if _wrong(other, acknowledged) else _exact(other, key)
        if proof:
            by_product = f"{of_batch.formula} = {text}, and " if of_batch is not None and text == product else ""
            found.setdefault(key, (text, by_product + proof))
    if len(found) != 1:
        return None
    ((key, (text, proof)),) = found.items()
    if key == BATCH:
        return Decision(proven={key: (text, proof)})
    # No figure is written that the document does not have; the others say what it would be.
    return Decision(refuted={key: f"{row.text(key)}, two digits of it are swapped: {proof}"})


def _exact(row: Row, key: str) -> str:
    """The equation of a throughput that the row now gives to its last digit, where it rests on a key."""
    found = comparisons(row)
    of = (found[name] for name in (TOKENS_PER_S.key, *THROUGHPUTS) if name in found)
    fine = (one for one in of if one.severity is None and one.written.unit < one.written.value * _FINE)
    exact = (one for one in fine if isinstance(one.source, BySteps))
    return next((equation(one) for one in exact if key in {one.key, BATCH, STEP_TIME.key}), "")


def _suspects(row: Row, acknowledged: Collection[str]) -> list[tuple[str, ...]]:
    """The cells without which all others agree; days follow from the throughput. The batch is one of them."""
    wrong = _wrong(row, acknowledged)
    cells: list[tuple[str, ...]] = [(key,) for key in (STEP_TIME.key, *DERIVED) if key in row.numbers]
    suspects = [keys for keys in cells if _clears(row, keys, acknowledged)]
    pair = (TOKENS_PER_S.key, DAYS_TO_TRAIN.key)
    if not any(keys[0] in pair for keys in suspects) and _clears(row, pair, acknowledged):
        suspects.append(pair)
    other_batch = _implied(row, BATCH, wrong)
    others = {keys: _without(row, *keys) for keys in suspects}
    if other_batch is not None:
        others[BATCH,] = row.with_value(BATCH, str(other_batch))
        suspects.append((BATCH,))
    # The last digits of all others tell more than figures that are near each other.
    for agree in (_agree, _nearly_agree):
        fewer = [keys for keys in suspects if agree(others[keys])]
        if len(fewer) == 1:
            return fewer
    return suspects


def _left_out(row: Row, suspects: Collection[tuple[str, ...]], acknowledged: Collection[str]) -> Decision:
    wrong = _wrong(row, acknowledged)
    ((first, *more), *others) = suspects
    if others or first == BATCH:
        return _in_doubt(row, acknowledged)
    if not _matters(wrong):
        return Decision()
    return Decision(refuted={key: f"{row.text(key)}: {_disagreement(wrong)}" for key in (first, *more)})


def _clears(row: Row, keys: Collection[str], acknowledged: Collection[str]) -> bool:
    """Whether the others agree without these cells, and there is something left to agree."""
    other = _without(row, *keys)
    return not _wrong(other, acknowledged) and any(not one.differs for one in comparisons(other).values())


def _agree(row: Row) -> bool:
    return not any(one.differs for one in comparisons(row).values())


def _nearly_agree(row: Row) -> bool:
    return not any(one.differs and abs(off(one) - 1) > TWO_RUNS for one in comparisons(row).values())


def _in_doubt(row: Row, acknowledged: Collection[str]) -> Decision:
    """All cells of which one is wrong, where nothing says which; figures of two runs may differ a little."""
    wrong = _wrong(row, acknowledged)
    if not _matters(wrong):
        return Decision()
    keys = {_key(one) for one in wrong}
    found = comparisons(row)
    steps_hold = any(not one.differs for key, one in found.items() if key in THROUGHPUTS)
    keys |= {one.source for one in wrong if isinstance(one, Comparison) and isinstance(one.source, str)}
    by_steps = any(isinstance(one, Comparison) and isinstance(one.source, BySteps) for one in wrong)
    if by_steps and not steps_hold and row.step_time is not None:
        keys.add(row.step_time.key)
    keys |= {key for key in (BATCH, "sequence_length") if _implied(row, key, wrong) is not None}
    reason = _disagreement(wrong)
    ordered = [key for key in (STEP_TIME.key, *DERIVED, BATCH, "sequence_length") if key in keys & row.numbers.keys()]
    return Decision(doubted={key: f"{row.text(key)} is in doubt: {reason}" for key in ordered})


def _matters(wrong: Collection[Comparison | Finding]) -> bool:
    return any(isinstance(one, Finding) or abs(off(one) - 1) > TWO_RUNS for one in wrong)


def _implied(row: Row, key: str, wrong: Collection[Comparison | Finding]) -> int | None:
    """Another batch, or sequence length, that all wrong figures may be of; ``None`` where there is none.

    It is another whole number, and not nearly the same; a batch that is the product of its factors is no suspect.
    """
    figures = [one for one in wrong if isinstance(one, Comparison)]
    confirmed = key == BATCH and row.numbers.keys() >= _FACTORS and _batch(row) is None
    if key not in row.numbers or confirmed or not figures:
        return None
    unit = 1 if key == BATCH else _SEQUENCES
    low, high = Fraction(0), Fraction(10**12)
    for one in figures:
        if not isinstance(one.source, BySteps):
            return None
        law, step = one.source.law, one.source.step
        ends = sorted(value / law.at(at) for value in _ends(one.written) for at in (step.either.low, step.either.high))
        low, high = max(low, 1 / ends[-1] if law.grows else ends[0]), min(high, 1 / ends[0] if law.grows else ends[-1])
    whole = int(row.numbers[key].value * high / unit) * unit
    nearly_the_same = _NEARLY.low < low and high < _NEARLY.high
    return None if nearly_the_same or whole < row.numbers[key].value * low else whole


def _ends(written: Written) -> tuple[Fraction, Fraction]:
    return written.either.low, written.either.high


def _disagreement(wrong: Collection[Comparison | Finding]) -> str:
    """What contradicts what, as equations."""
    return "; ".join(map(told, wrong))


def told(one: Comparison | Finding) -> str:
    """One contradiction as an equation and what the row has instead."""
    if isinstance(one, Finding):
        return f"{one.formula} is {one.computed}, and the row has {one.documented}"
    if isinstance(one.source, str):
        return f"{one.source} gives {about(one.value)}, and {one.key} is {one.written.text}"
    given = one.written.written_like_this(one.value)
    return f"{equation(one).rpartition(' = ')[0]} = {given}, and {one.key} is {one.written.text}"


def _without(row: Row, *keys: str) -> Row:
    return numbers_of({name: stated for name, stated in row.stated.values.items() if name not in keys})
