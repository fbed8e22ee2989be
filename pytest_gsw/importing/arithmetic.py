"""Checks of a row's figures against each other, and the documents' formulas of model FLOPs.

``24.7`` is any value from 24.65 to 24.8: it may have been rounded or cut. A figure contradicts its row if it follows
from no step time that has the documented digits and gives the row's documented throughput.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import cached_property
from typing import NamedTuple

from pytest_gsw.stats.figures import SECONDS_PER_DAY, peak_flops
from pytest_gsw.tables.metrics import THROUGHPUTS
from pytest_gsw.tables.stated_rows import StatedRow

#: Differences below this decide no verdict: a twentieth of the usual tolerance.
_SMALL = Fraction(25, 10_000)
_NUMBER = re.compile(r"([0-9]{1,40}(?:\.[0-9]{1,30})?(?:[eE][+-]?[0-9]{1,3})?) ?%?")
#: Each figure, by the quantities that are multiplied and those that divide the product; the first that are known count.
_EQUATIONS: Sequence[tuple[str, Sequence[str], Sequence[str]]] = (
    ("samples_per_s", ("global_batch_size",), ("step_time_s",)),
    ("tokens_per_s", ("sequence_length", "global_batch_size"), ("step_time_s",)),
    ("tokens_per_s_per_gpu", ("sequence_length", "global_batch_size"), ("step_time_s", "gpus")),
    ("mfu", ("percent", "global_batch_size", "model_flops"), ("step_time_s", "gpus", "peak")),
    ("mfu", ("percent", "trillion", "tflops_per_gpu"), ("peak",)),
    ("tflops_per_gpu", ("global_batch_size", "model_flops", "recomputed"), ("step_time_s", "gpus", "trillion")),
    ("days_to_train_1t_tokens", ("trillion", "step_time_s"), ("sequence_length", "global_batch_size", "day")),
    ("days_to_train_1t_tokens", ("trillion",), ("day", "tokens_per_s")),
)
#: Figures have been rounded or cut, other numbers are exact.
_FIGURES = frozenset({"step_time_s", *(figure for figure, _, _ in _EQUATIONS)})
#: Degrees of parallelism whose product is all GPUs.
_DEGREES = ("tp", "pp", "cp", "dp")
#: Units behind numbers in equations.
_UNITS = {"step_time_s": " s", "gpus": " GPUs", "model_flops": " FLOPs", "peak": " FLOP/s"}


@dataclass(frozen=True)
class Finding:
    """A figure that does not follow from the others of its row."""

    row: str
    file: str
    line: int
    key: str
    documented: str
    #: Its computation, in numbers: ``8192 * 2048 / 17.01 s``.
    formula: str
    computed: str
    #: True if it is off by so much that a verdict may depend on it.
    is_contradiction: bool
    #: Reason for keeping it, from the table or facts; empty if there is none.
    acknowledged: str

    @property
    def must_be_settled(self) -> bool:
        """True if it contradicts the others, and no reason for keeping it is given."""
        return self.is_contradiction and not self.acknowledged

    @property
    def text(self) -> str:
        """The figure and the equation that it contradicts."""
        return f"{self.key} is {self.documented}, and {self.formula} = {self.computed}"

    @property
    def line_to_add(self) -> str:
        """The line in facts of the row, or at the row in a table, that keeps the figure all the same."""
        return f'acknowledged: {{{self.key}: "WHY IT STAYS"}}'


class _Number(NamedTuple):
    """A number, and all values that its digits may have been."""

    text: str
    value: Fraction
    low: Fraction
    high: Fraction
    #: The value of a one in its last digit.
    unit: Fraction = Fraction(0)

    def overlaps(self, other: _Number) -> bool:
        return self.low <= other.high and other.low <= self.high


def _exact(value: Fraction, text: str) -> _Number:
    return _Number(text, value, value, value)


def findings(rows: Iterable[StatedRow]) -> Iterator[Finding]:
    """Every figure of the rows that others of its row contradict."""
    for row in rows:
        yield from _Row(row).findings()


@dataclass(frozen=True)
class _Row:
    """A stated row with its numbers parsed."""

    stated: StatedRow

    @cached_property
    def numbers(self) -> Mapping[str, _Number]:
        """Numbers above zero, by key, MFU in percent; and the constants of equations."""
        texts = {key: stated.text for key, stated in self.stated.values.items()}
        again = texts.get("activation_recomputation") == "true"
        peak = peak_flops(texts.get("accelerator", ""), texts.get("dtype", ""))
        found = {
            "percent": _exact(Fraction(100), ""),
            "trillion": _exact(Fraction(10**12), "1e12"),
            "day": _exact(Fraction(SECONDS_PER_DAY), str(SECONDS_PER_DAY)),
            # Forward, backward and a second forward pass, over forward and backward.
            "recomputed": _exact(Fraction(4, 3), "4 / 3") if again else _exact(Fraction(1), ""),
            **({"peak": _exact(Fraction(peak), _short(Fraction(peak)))} if peak else {}),
        }
        for key, text in texts.items():
            match = _NUMBER.fullmatch(text)
            if match is None or not 0 < float(match[1]) < math.inf:
                continue
            number, scale = Decimal(match[1]), 100 if key == "mfu" and not text.endswith("%") else 1
            value, unit = Fraction(number) * scale, Fraction(10) ** int(number.as_tuple().exponent) * scale
            found[key] = _exact(value, text)
            if key in _FIGURES:  # a time is never zero
                found[key] = _Number(text, value, max(value - unit / 2, value / 1000), value + unit, unit)
        return found

    def _compute(self, over: Iterable[str], under: Iterable[str], step: _Number | None = None) -> Iterator[_Number]:
        """The product of some quantities over that of others, if all are known."""
        known = {**self.numbers, "step_time_s": step} if step is not None else self.numbers
        if known.keys() >= {*over, *under}:
            above, below = ([known[key] for key in keys] for keys in (over, under))
            texts = [[f"{known[key].text}{_UNITS.get(key, '')}" for key in keys] for keys in (over, under)]
            yield _Number(
                " / ".join([" * ".join(filter(None, texts[0])), *texts[1]]),
                _multiply(one.value for one in above) / _multiply(one.value for one in below),
                _multiply(one.low for one in above) / _multiply(one.high for one in below),
                _multiply(one.high for one in above) / _multiply(one.low for one in below),
            )

    @cached_property
    def steps(self) -> Mapping[str, _Number]:
        """The step time by each figure that gives one, the stated one first."""
        stated = {"step_time_s": self.numbers["step_time_s"]} if "step_time_s" in self.numbers else {}
        derived = {
            key: step._replace(text=_short(step.value))
            for key, over, under in _EQUATIONS
            if key in THROUGHPUTS
            for step in self._compute(over, [key if one == "step_time_s" else one for one in under])
        }
        return {**stated, **derived}

    def findings(self) -> Iterator[Finding]:
        judged_by = next(iter(self.steps), "")
        for key in dict.fromkeys(figure for figure, _, _ in _EQUATIONS):
            number = self.numbers.get(key)
            if number is None or key == judged_by:
                continue
            step = self.steps.get(judged_by)
            for other, narrower in self.steps.items():
                if step is not None and other != key and narrower.overlaps(step):
                    step = step._replace(low=max(step.low, narrower.low), high=min(step.high, narrower.high))
            of_figure = [equation for equation in _EQUATIONS if equation[0] == key]
            computed = [one for _, over, under in of_figure for one in self._compute(over, under, step)]
            # Days may be computed from the documented throughput.
            equal = computed if key == "days_to_train_1t_tokens" else computed[:1]
            if any(abs(one.value - number.value) < number.unit for one in equal):
                continue
            for one in computed[:1]:
                if not one.overlaps(number):
                    text = f"{_short(one.value)}{'%' if key == 'mfu' else ''}"
                    small = abs(one.value - number.value) < _SMALL * number.value
                    yield self._finding(key, one.text, text, is_contradiction=not small)
        peak, rate = self.numbers.get("peak"), self.numbers.get("tflops_per_gpu")
        if peak is not None and rate is not None and rate.value * 10**12 > peak.value * Fraction(101, 100):
            of = f"the peak of a {self.stated.values['accelerator'].text}"
            yield self._finding("tflops_per_gpu", of, _short(peak.value / 10**12))
        yield from self._check_batch()
        yield from self._check_gpus()

    def _check_batch(self) -> Iterator[Finding]:
        """Global batch size = micro batch size * accumulation steps * ranks, for any way to count ranks."""
        known, of_rank, degrees = self.numbers.keys(), ("micro_batch_size", "gradient_accumulation_steps"), _DEGREES[:3]
        ways = []
        if "dp" in known:
            # EP is inside of DP (Megatron), or a factor of its own (Grok 1).
            ways = [self._product(*of_rank, "dp"), self._product(*of_rank, "ep", "dp")]
            is_factor = self._product("gpus")[0] == self._product(*_DEGREES, "ep")[0]
            ways = ways[::-1] if is_factor else ways
        if "gpus" in known and (known >= {"tp", "pp"} or "fsdp" in known):
            (total, text), (each, words) = self._product(*of_rank, "gpus"), self._product(*degrees)
            if (self.numbers["gpus"].value / each).denominator == 1:
                ways.append((total / each, f"{text} / ({words})" if words else text))
        if of_rank[0] in known:  # unstated steps may be any whole number
            yield from self._check_product("global_batch_size", ways, is_complete=of_rank[1] in known)

    def _check_gpus(self) -> Iterator[Finding]:
        """GPUs = TP * PP * CP * DP, with expert parallelism inside of DP or as a factor of its own."""
        known = self.numbers.keys()
        if "fsdp" in known:
            sharded = (self.numbers["fsdp"].value, "a multiple of fsdp")
            yield from self._check_product("gpus", [sharded], is_complete=False)
        if known & {*_DEGREES}:
            # A degree that a document omits may be any; the others must fit into the GPUs all the same.
            ways = [self._product(*_DEGREES), self._product(*_DEGREES, "ep")]
            yield from self._check_product("gpus", ways, is_complete=known >= {"tp", "pp", "dp"})

    def _product(self, *keys: str) -> tuple[Fraction, str]:
        """The product of those numbers that the row states, and its text."""
        known = {key: self.numbers[key].value for key in keys if key in self.numbers}
        return _multiply(known.values()), " * ".join(f"{key} {one}" for key, one in known.items())

    def _check_product(self, key: str, ways: Sequence[tuple[Fraction, str]], *, is_complete: bool) -> Iterator[Finding]:
        """A finding if a number is none of some products, or if these are incomplete, a multiple of none."""
        ratios = [self.numbers[key].value / value for value, _ in ways if key in self.numbers]
        if ratios and not any(ratio == 1 if is_complete else ratio.denominator == 1 for ratio in ratios):
            value, text = ways[0]
            yield self._finding(key, text, str(value))

    def _finding(self, key: str, formula: str, computed: str, *, is_contradiction: bool = True) -> Finding:
        row, stated = self.stated, self.stated.values[key]
        line = stated.line if stated.line > 0 else row.values.get("line", stated).line
        why = row.acknowledged.get(key, "")
        return Finding(row.id, row.file, line, key, stated.text, formula, computed, is_contradiction, why)


def _multiply(values: Iterable[Fraction]) -> Fraction:
    return math.prod(values, start=Fraction(1))


def _short(value: Fraction) -> str:
    """A number with six digits, or all digits of a count."""
    if value.denominator == 1 and value < 10**7:
        return str(value.numerator)
    return f"{float(value):.6g}"


# -- Model FLOPs of one sample, by the formulas of the documents -----------------------------------
# Each formula gives the floating-point operations of forward and backward pass for one sample (one sequence), without
# recomputation. Releases of a recipe have changed the formula, and so every row pins the *result* (``model_flops``);
# these functions compute it.


def gpt3(*, sequence_length: int, layers: int, hidden_size: int, vocabulary_size: int) -> int:
    """GPT-3 (dense attention, FFN of four times the hidden size).

    Source: the notes of the Paxml GPT-3 175B recipe.
    """
    attention = 24 * layers * hidden_size**2 + 12 * layers * hidden_size * sequence_length
    mlp = 48 * layers * hidden_size**2
    return sequence_length * (attention + mlp + _embedding(vocabulary_size, hidden_size))


def llama(
    *,
    sequence_length: int,
    layers: int,
    hidden_size: int,
    ffn_size: int,
    attention_heads: int,
    query_groups: int,
    vocabulary_size: int,
) -> float:
    """Llama (grouped-query attention, gated FFN).

    Source: the notes of the Llama 3.1 405B and the MaxText Llama 2 70B recipes. The
    405B document's own arithmetic takes 16 query groups.
    """
    attention = 12 * layers * hidden_size**2 * (1 + query_groups / attention_heads + sequence_length / hidden_size)
    mlp = 18 * layers * ffn_size * hidden_size
    return sequence_length * (attention + mlp + _embedding(vocabulary_size, hidden_size))


def grok(
    *,
    sequence_length: int,
    layers: int,
    hidden_size: int,
    ffn_size: int,
    attention_heads: int,
    query_groups: int,
    experts_top_k: int,
    vocabulary_size: int,
) -> float:
    """Grok (mixture of experts, ``experts_top_k`` of them for each token; causal attention counted as half).

    Source: the notes of the Grok 1 314B recipe.
    """
    attention = 12 * layers * hidden_size**2 * (1 + query_groups / attention_heads + sequence_length / hidden_size / 2)
    mlp = 18 * layers * ffn_size * hidden_size * experts_top_k
    return sequence_length * (attention + mlp + _embedding(vocabulary_size, hidden_size))


def gpt2(*, sequence_length: int, parameters: float) -> float:
    """GPT-2 by parameter count: two operations a parameter and token forward, four backward.

    Source: the GPT-2 document's TFLOP/s formula, which has 8 instead of 6 because its
    runs recompute activations; see ``activation_recomputation``.
    """
    return 6 * parameters * sequence_length


def _embedding(vocabulary_size: int, hidden_size: int) -> int:
    return 6 * vocabulary_size * hidden_size


#: By the names in ``architecture``; the names of their arguments are its other keys.
FORMULAS: Mapping[str, Callable[..., float]] = {"gpt3": gpt3, "llama": llama, "grok": grok, "gpt2": gpt2}
