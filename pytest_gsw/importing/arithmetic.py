"""Checks of a row's figures against each other: step time, throughput, batch, length, MFU, days, GPUs.

``24.7`` is any value from 24.65 to 24.8: it may have been rounded or cut. A figure contradicts its row if it follows
from no step time that has the documented digits and gives the row's documented throughput.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import cached_property
from typing import NamedTuple

from pytest_gsw.stats.figures import SECONDS_PER_DAY, peak_flops
from pytest_gsw.tables.load import StatedRow
from pytest_gsw.tables.metrics import (
    DAYS_TO_TRAIN,
    MFU,
    SAMPLES_PER_S,
    STEP_TIME,
    TFLOPS_PER_GPU,
    THROUGHPUTS,
    TOKENS_PER_S,
    TOKENS_PER_S_PER_GPU,
)

#: Differences below this decide no verdict: a twentieth of the usual tolerance.
_SMALL = Fraction(25, 10_000)
_TRILLION = 10**12
#: Forward, backward and a second forward pass, over forward and backward.
_RECOMPUTED = Fraction(4, 3)
_NUMBER = re.compile(r"([0-9]{1,40}(?:\.[0-9]{1,30})?(?:[eE][+-]?[0-9]{1,3})?) ?%?")
_DERIVED = (*THROUGHPUTS, MFU.key, TFLOPS_PER_GPU.key, DAYS_TO_TRAIN.key)


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


class _Span(NamedTuple):
    low: Fraction
    high: Fraction

    def overlap(self, other: _Span) -> _Span | None:
        low, high = max(self.low, other.low), min(self.high, other.high)
        return _Span(low, high) if low <= high else None


class _Number(NamedTuple):
    """A number as written, and the value of a one in its last digit."""

    text: str
    value: Fraction
    unit: Fraction

    @property
    def span(self) -> _Span:
        """The values with these digits, rounded or cut; a time is never zero."""
        return _Span(max(self.value - self.unit / 2, self.value / 1000), self.value + self.unit)


class _Law(NamedTuple):
    """The dependence of a figure on the step time: a coefficient over seconds, or times seconds."""

    coefficient: Fraction
    text: str
    behind: str = ""
    grows: bool = False

    def at(self, value: Fraction) -> Fraction:
        return self.coefficient * value if self.grows else self.coefficient / value

    def seconds(self, value: Fraction) -> Fraction:
        return value / self.coefficient if self.grows else self.coefficient / value

    def span(self, seconds: _Span) -> _Span:
        return _Span(*sorted(map(self.at, seconds)))

    def seconds_span(self, figures: _Span) -> _Span:
        return _Span(*sorted(map(self.seconds, figures)))


class _Step(NamedTuple):
    """The step time behind a row's figures: stated, or derived from a throughput."""

    key: str
    text: str
    seconds: Fraction
    span: _Span


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
        """Numbers above zero, by key; MFU in percent."""
        found = {}
        for key, stated in self.stated.values.items():
            match = _NUMBER.fullmatch(stated.text)
            if match is None or not float(match[1]) or math.isinf(float(match[1])):
                continue
            number = Decimal(match[1])
            exponent = number.as_tuple().exponent
            assert isinstance(exponent, int)  # the pattern has neither NaN nor infinity
            scale = 100 if key == MFU.key and not stated.text.endswith("%") else 1
            found[key] = _Number(stated.text, Fraction(number) * scale, Fraction(10) ** exponent * scale)
        return found

    def value(self, key: str) -> Fraction | None:
        """A number; ``None`` if the row states none."""
        number = self.numbers.get(key)
        return None if number is None else number.value

    def text(self, key: str) -> str:
        """A text; empty if the row states none."""
        return self.stated.values[key].text if key in self.stated.values else ""

    @cached_property
    def peak(self) -> Fraction | None:
        """Peak FLOP/s of one GPU at the row's dtype."""
        flops = peak_flops(self.text("accelerator"), self.text("dtype"))
        return None if flops is None else Fraction(flops)

    @cached_property
    def laws(self) -> Mapping[str, _Law]:
        """Dependence on the step time, by figure."""
        batch, length, gpus = (self.value(key) for key in ("global_batch_size", "sequence_length", "gpus"))
        flops, peak, found = self.value("model_flops"), self.peak, {}
        if batch is None:
            return {}
        found[SAMPLES_PER_S.key] = _Law(batch, _short(batch))
        if length is not None:
            tokens = f"{_short(length)} * {_short(batch)}"
            found[TOKENS_PER_S.key] = _Law(length * batch, tokens)
            days = Fraction(_TRILLION) / (length * batch) / SECONDS_PER_DAY
            found[DAYS_TO_TRAIN.key] = _Law(days, f"1e12 / ({tokens}) / {SECONDS_PER_DAY}", grows=True)
            if gpus is not None:
                found[TOKENS_PER_S_PER_GPU] = _Law(length * batch / gpus, tokens, f" / {_short(gpus)} GPUs")
        if flops is not None and gpus is not None:
            work, each = f"{_short(batch)} * {_short(flops)} FLOPs", f" / {_short(gpus)} GPUs"
            again = _RECOMPUTED if self.text("activation_recomputation") == "true" else Fraction(1)
            more = " * 4 / 3" if again != 1 else ""
            found[TFLOPS_PER_GPU.key] = _Law(
                batch * flops / gpus / _TRILLION * again, f"{work}{more}", f"{each} / 1e12"
            )
            if peak is not None:
                share = f"{each} / {_short(peak)} FLOP/s"
                found[MFU.key] = _Law(100 * batch * flops / gpus / peak, work, share)
        return found

    @cached_property
    def step(self) -> _Step | None:
        """The step time; ``None`` if the row states nothing that gives one."""
        for key in (STEP_TIME.key, *THROUGHPUTS):
            number, law = self.numbers.get(key), self.laws.get(key)
            if number is not None and key == STEP_TIME.key:
                return _Step(key, number.text, number.value, number.span)
            if number is not None and law is not None:
                seconds = law.seconds(number.value)
                return _Step(key, _short(seconds), seconds, law.seconds_span(number.span))
        return None

    def findings(self) -> Iterator[Finding]:
        for key in _DERIVED:
            number, law = self.numbers.get(key), self.laws.get(key)
            if number is None or (self.step is not None and self.step.key == key):
                continue
            if self.step is not None and law is not None:
                yield from self._by_step_time(key, number, law, self.step)
            elif key == DAYS_TO_TRAIN.key and (tokens := self.numbers.get(TOKENS_PER_S.key)) is not None:
                days = Fraction(_TRILLION) / SECONDS_PER_DAY
                law = _Law(days, f"1e12 / {SECONDS_PER_DAY}")
                yield from self._compare(key, number, law, tokens.value, tokens.span, f"{law.text} / {tokens.text}")
            elif key == MFU.key and (rate := self.numbers.get(TFLOPS_PER_GPU.key)) is not None and self.peak:
                law = _Law(Fraction(100 * _TRILLION) / self.peak, "", grows=True)
                formula = f"{rate.text} TFLOP/s / {_short(self.peak)} FLOP/s"
                yield from self._compare(key, number, law, rate.value, rate.span, formula)
        rate = self.numbers.get(TFLOPS_PER_GPU.key)
        if rate is not None and self.peak and rate.value * _TRILLION > self.peak * Fraction(101, 100):
            most = _short(self.peak / _TRILLION)
            yield self._finding(rate, TFLOPS_PER_GPU.key, f"the peak of a {self.text('accelerator')}", most)
        yield from self._check_batch()
        yield from self._check_gpus()

    def _by_step_time(self, key: str, number: _Number, law: _Law, step: _Step) -> Iterator[Finding]:
        seconds = step.span
        for other in THROUGHPUTS:
            if other != key and other in self.numbers and other in self.laws:
                seconds = self.laws[other].seconds_span(self.numbers[other].span).overlap(seconds) or seconds
        tokens = self.numbers.get(TOKENS_PER_S.key)
        if key == DAYS_TO_TRAIN.key and tokens is not None:
            # They may be computed from the documented throughput.
            days = Fraction(_TRILLION) / SECONDS_PER_DAY / tokens.value
            if abs(days - number.value) < number.unit:
                return
        formula = f"{law.text} {'*' if law.grows else '/'} {step.text} s{law.behind}"
        yield from self._compare(key, number, law, step.seconds, seconds, formula)

    def _compare(
        self, key: str, number: _Number, law: _Law, value: Fraction, span: _Span, formula: str
    ) -> Iterator[Finding]:
        computed = law.at(value)
        if abs(computed - number.value) >= number.unit and law.span(span).overlap(number.span) is None:
            small = abs(computed - number.value) < _SMALL * number.value
            percent = "%" if key == MFU.key else ""
            yield self._finding(number, key, formula, f"{_short(computed)}{percent}", is_contradiction=not small)

    def _check_batch(self) -> Iterator[Finding]:
        """Global batch size = micro batch size * accumulation steps * ranks, for any way to count ranks."""
        number, micro = self.numbers.get("global_batch_size"), self.value("micro_batch_size")
        ranks = self._ranks()
        if number is None or micro is None or not ranks:
            return
        steps = self.value("gradient_accumulation_steps")
        ratios = [number.value / (micro * (steps or 1) * count) for count, _ in ranks]
        # Unstated steps may be any whole number.
        if not any(ratio == 1 if steps else ratio.denominator == 1 for ratio in ratios):
            count, words = ranks[0]
            of_steps = f" * gradient_accumulation_steps {steps}" if steps else ""
            formula = f"micro_batch_size {micro}{of_steps} * {words}"
            yield self._finding(number, "global_batch_size", formula, str(micro * (steps or 1) * count))

    def _ranks(self) -> list[tuple[Fraction, str]]:
        """Replicas that share a batch, by each way to count them, with words for each."""
        dp, ep, gpus = self.value("dp"), self.value("ep"), self.value("gpus")
        degrees = self._degrees("tp", "pp", "cp")
        found = [] if dp is None else [(dp, f"dp {dp}")]
        if dp is not None and ep is not None:
            # A factor of its own (Grok 1), or inside of DP (Megatron).
            is_factor = gpus == math.prod(self._degrees("tp", "pp", "cp", "ep", "dp").values())
            found.insert(0 if is_factor else 1, (dp * ep, f"ep {ep} * dp {dp}"))
        if gpus is not None and ({"tp", "pp"} <= degrees.keys() or self.value("fsdp") is not None):
            count = gpus / math.prod(degrees.values(), start=Fraction(1))
            words = f"{gpus} GPUs / ({_product(degrees)})" if degrees else f"{gpus} GPUs"
            found += [(count, words)] if count.denominator == 1 else []
        return found

    def _check_gpus(self) -> Iterator[Finding]:
        """GPUs = TP * PP * CP * DP, with expert parallelism inside of DP or as a factor of its own."""
        number, fsdp = self.numbers.get("gpus"), self.value("fsdp")
        degrees = self._degrees("tp", "pp", "cp", "dp")
        if number is None:
            return
        if fsdp is not None and (number.value / fsdp).denominator != 1:
            yield self._finding(number, "gpus", "a multiple of fsdp", str(fsdp))
        if not degrees:
            return
        total, ep = math.prod(degrees.values(), start=Fraction(1)), self.value("ep") or Fraction(1)
        # A degree that a document omits may be any; the others must fit into the GPUs all the same.
        whole = {"tp", "pp", "dp"} <= degrees.keys()
        ratios = [number.value / count for count in (total, total * ep)]
        if not any(ratio == 1 if whole else ratio.denominator == 1 for ratio in ratios):
            yield self._finding(number, "gpus", _product(degrees), str(total))

    def _degrees(self, *keys: str) -> dict[str, Fraction]:
        return {key: degree for key in keys if (degree := self.value(key)) is not None}

    def _finding(
        self, number: _Number, key: str, formula: str, computed: str, *, is_contradiction: bool = True
    ) -> Finding:
        row = self.stated
        place = row.values.get("line") or row.values[key]
        line = row.values[key].line if row.values[key].line > 0 else place.line
        why = row.acknowledged.get(key, "")
        return Finding(row.id, row.file, line, key, number.text, formula, computed, is_contradiction, why)


def _product(degrees: Mapping[str, Fraction]) -> str:
    return " * ".join(f"{key} {degree}" for key, degree in degrees.items())


def _short(value: Fraction) -> str:
    """A number with six digits, or all digits of a count."""
    if value.denominator == 1 and value < 10**7:
        return str(value.numerator)
    return f"{float(value):.6g}"
