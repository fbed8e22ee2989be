"""The figures of one row that follow from its step time, and the formulas by which they do.

The formulas are those of :func:`pytest_gsw.performance.figures.figures`, in exact arithmetic: each figure is a
coefficient over the step time, or times it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from inspect import signature

from pytest_gsw.documents.audit.findings import Explanation, Finding, Severity, Uses
from pytest_gsw.documents.audit.written import Span, Written, about, read_written
from pytest_gsw.performance.figures import SECONDS_PER_DAY
from pytest_gsw.performance.flops import FORMULAS
from pytest_gsw.performance.peaks import peak_flops
from pytest_gsw.tables import metrics
from pytest_gsw.tables.stated import StatedRow
from pytest_gsw.tables.yamlfile import Stated

TRILLION = 10**12
#: Forward, backward and the forward pass once more, over forward and backward.
RECOMPUTATION = Fraction(4, 3)

#: Figures from which a step time follows, the one with the most digits first.
THROUGHPUTS = metrics.THROUGHPUTS
#: Every figure that follows from a step time, in the order in which findings list them.
DERIVED = (*THROUGHPUTS, metrics.MFU.key, metrics.TFLOPS_PER_GPU.key, metrics.DAYS_TO_TRAIN.key)

_NUMBERS = frozenset(
    {
        *DERIVED,
        metrics.STEP_TIME.key,
        "model_flops",
        *("gpus", "gpus_per_node", "sequence_length", "global_batch_size", "micro_batch_size"),
        *("gradient_accumulation_steps", "layers", "tp", "pp", "cp", "ep", "dp", "vp", "fsdp"),
    }
)


@dataclass(frozen=True)
class Law:
    """How a figure follows from the step time: ``coefficient / seconds``, or ``coefficient * seconds``."""

    coefficient: Fraction
    #: The formula in words and numbers, without the step time.
    text: str
    grows: bool = False

    def at(self, seconds: Fraction) -> Fraction:
        """The figure at a step time."""
        return self.coefficient * seconds if self.grows else self.coefficient / seconds

    def seconds(self, value: Fraction) -> Fraction:
        """The step time at which the figure has this value."""
        return value / self.coefficient if self.grows else self.coefficient / value

    def span(self, seconds: Span) -> Span:
        """The figures that a span of step times gives."""
        return Span(*sorted((self.at(seconds.low), self.at(seconds.high))))

    def seconds_span(self, values: Span) -> Span:
        """The step times that give a span of figures."""
        return Span(*sorted((self.seconds(values.low), self.seconds(values.high))))

    def may_give(self, written: Written, step: StepTime) -> bool:
        """Whether a step time that is written like this one gives the figure, however both were rounded."""
        return self.span(step.either).overlap(written.either) is not None


@dataclass(frozen=True)
class StepTime:
    """The step time that a row's figures are computed from."""

    #: The key that states it: ``step_time_s``, or a throughput that it follows from.
    key: str
    written: Written
    seconds: Fraction
    #: The step times that these digits stand for if they were rounded.
    rounded: Span
    #: The same if they were rounded or cut.
    either: Span


@dataclass(frozen=True, eq=False)
class Row:
    """A stated row with its numbers read. No two are equal."""

    stated: StatedRow
    numbers: Mapping[str, Written] = field(repr=False)

    @property
    def id(self) -> str:
        """As the plugin names it."""
        return self.stated.id

    def text(self, key: str, default: str = "") -> str:
        """A value as written."""
        return self.stated.values[key].text if key in self.stated.values else default

    def place(self, key: str) -> Stated:
        """A value with its place; the row's first value where the row does not have it."""
        values = self.stated.values
        return values.get(key) or values.get("gpus") or next(iter(values.values()), Stated("", 1, 1))

    def value(self, key: str) -> Fraction | None:
        """A number above zero, ``None`` where there is none."""
        number = self.numbers.get(key)
        return number.value if number is not None and number.value > 0 else None

    @cached_property
    def computed_flops(self) -> Fraction | None:
        """Model FLOPs of one sample by the architecture's formula, ``None`` where it is not known in full."""
        return flops_of(self)

    @property
    def peak(self) -> Fraction | None:
        """Peak FLOP/s of one of the row's accelerators at its dtype."""
        return peak_of(self.text("accelerator"), self.text("dtype").lower())

    @cached_property
    def laws(self) -> Mapping[str, Law]:
        """By figure, how it follows from the step time as the row states everything."""
        return laws(self)

    @property
    def source(self) -> str | None:
        """The document and line of the row, where the row's file is a table that names them."""
        document, line = self.text("document"), self.text("line")
        if not document or not self.stated.file.endswith((".yaml", ".yml")):
            return None
        return f"{document}:{line}" if line else document

    @cached_property
    def workload(self) -> tuple[str, ...]:
        """What rows of one table have in common: their cases may differ in numbers, as of a line or of a date."""
        named = (self.text(key) for key in ("model", "size", "dtype", "accelerator", "variant"))
        words = (word for word in self.text("case").lower().split("-") if not re.search(r"\d", word))
        return (*named, *words)

    @property
    def is_lora(self) -> bool:
        """Whether the row is of low-rank adaptation, which computes no gradients of most weights."""
        return any("lora" in self.text(key).lower() for key in ("case", "variant", "model"))

    def with_value(self, key: str, text: str) -> Row:
        """The row with another value in place of one of its own."""
        values = {**self.stated.values, key: replace(self.stated.values[key], text=text)}
        return read_row(replace(self.stated, values=values))

    @property
    def rests_on(self) -> str:
        """What a verdict of the row rests on, in words."""
        if self.text("metric") == metrics.SAVE_TIME.name:
            return f"the save time, {self.text(metrics.SAVE_TIME.key)} s"
        step = self.step_time
        if step is None:
            return "no figure of this row"
        if step.key == metrics.STEP_TIME.key:
            return f"the step time, {seconds_text(step)} s"
        return f"{step.key} {step.written.text}, which is {seconds_text(step)} s"

    def finding(
        self,
        key: str,
        documented: str,
        computed: str,
        formula: str,
        *explanations: Explanation,
        severity: Severity = Severity.CONTRADICTION,
        uses: Uses = Uses.NEITHER,
        identity: str = "",
        verdict: str = "",
    ) -> Finding:
        """A finding at one of the row's values."""
        return Finding(
            identity=identity or key,
            severity=severity,
            row=self.id,
            file=self.stated.file,
            line=self.place(key).line,
            column=self.place(key).column,
            documented=documented,
            computed=computed,
            formula=formula,
            explanations=explanations,
            uses=uses,
            verdict=verdict or self.rests_on,
            source=self.source,
        )

    @cached_property
    def step_time(self) -> StepTime | None:
        """What the row's figures are computed from, ``None`` where it states no such thing."""
        for key in (metrics.STEP_TIME.key, *THROUGHPUTS):
            written = self.numbers.get(key)
            if written is None or self.value(key) is None:
                continue
            if key == metrics.STEP_TIME.key:
                return StepTime(key, written, written.value, above_zero(written.rounded), above_zero(written.either))
            law = self.laws.get(key)
            if law is not None:
                spans = (law.seconds_span(above_zero(span)) for span in (written.rounded, written.either))
                return StepTime(key, written, law.seconds(written.value), *spans)
        return None


def peak_of(accelerator: str, dtype: str) -> Fraction | None:
    """Peak FLOP/s of one accelerator at a dtype, ``None`` where it is not known."""
    found = peak_flops(accelerator, dtype)
    return None if found is None else Fraction(found)


def seconds_text(step: StepTime) -> str:
    """A step time as the row states it, or as it follows from a throughput."""
    return step.written.text if step.key == metrics.STEP_TIME.key else about(step.seconds)


def read_row(stated: StatedRow) -> Row:
    """The row with its numbers read; what is no number is left out."""
    numbers = {}
    for key, value in stated.values.items():
        if key in _NUMBERS or key.startswith("architecture."):
            written = read_written(value.text)
            if written is not None:
                # MFU is a percentage, also where it is written as a fraction (``0.4254``).
                is_fraction = key == metrics.MFU.key and not written.text.endswith("%") and written.value <= 1
                scale = 100 if is_fraction else 1
                numbers[key] = Written(written.text, written.value * scale, written.unit * scale)
    return Row(stated, numbers)


def above_zero(span: Span) -> Span:
    """``0.4`` may stand for a little less, but a time is never zero."""
    return Span(max(span.low, span.high / 1000), span.high)


def laws(row: Row, *, model_flops: Fraction | None = None, peak: Fraction | None = None) -> dict[str, Law]:
    """By figure, how it follows from the step time; other model FLOPs or another peak may stand in for the row's."""
    batch, sequence, gpus = (row.value(key) for key in ("global_batch_size", "sequence_length", "gpus"))
    work = model_flops or row.value("model_flops") or row.computed_flops
    peak = peak or row.peak
    found: dict[str, Law] = {}
    if batch is None:
        return found
    found[metrics.SAMPLES_PER_S.key] = Law(batch, f"{_plain(batch)}")
    if sequence is not None:
        tokens = f"{_plain(sequence)} * {_plain(batch)}"
        found[metrics.TOKENS_PER_S.key] = Law(sequence * batch, tokens)
        days = TRILLION / (sequence * batch) / SECONDS_PER_DAY
        found[metrics.DAYS_TO_TRAIN.key] = Law(days, f"1e12 / ({tokens})", grows=True)
        if gpus is not None:
            found[metrics.TOKENS_PER_S_PER_GPU] = Law(sequence * batch / gpus, f"{tokens} / {_plain(gpus)} GPUs")
    if work is not None and gpus is not None:
        share = f"{_plain(batch)} * {_plain(work)} FLOPs / {_plain(gpus)} GPUs"
        again = RECOMPUTATION if row.text("activation_recomputation") == "true" else Fraction(1)
        shown = f"{share} * 4 / 3" if again != 1 else share
        found[metrics.TFLOPS_PER_GPU.key] = Law(batch * work / gpus / TRILLION * again, f"{shown} / 1e12")
        if peak is not None:
            found[metrics.MFU.key] = Law(100 * batch * work / gpus / peak, f"{share} / {_plain(peak)} FLOP/s")
    return found


def _plain(value: Fraction) -> str:
    """A count or a number of FLOPs, as short as it can be said."""
    return str(value.numerator) if value.denominator == 1 and value < 10**7 else about(value)


def flops_of(row: Row, *, layers: Fraction | None = None, other: Mapping[str, int] | None = None) -> Fraction | None:
    """Model FLOPs of one sample by the formula of the row's architecture, ``None`` where a number of it is missing.

    Other layers, and other numbers such as ``query_groups``, may take the place of the row's own.
    """
    formula, sequence = row.text("architecture.formula"), row.value("sequence_length")
    if sequence is None:
        return None
    if formula == "gpt2":
        billions = re.fullmatch(r"(\d{1,6}(?:\.\d{1,6})?)[bB]", row.text("size"))
        return None if billions is None else 6 * Fraction(billions[1]) * 10**9 * sequence
    depth = layers or row.value("layers") or row.value("architecture.layers")
    if formula not in FORMULAS or depth is None:
        return None
    numbers = {"sequence_length": sequence, "layers": depth}
    for key in signature(FORMULAS[formula]).parameters:
        value = numbers.get(key) or (other or {}).get(key) or row.value(f"architecture.{key}")
        if value is None:
            return None
        numbers[key] = Fraction(value)
    try:
        return Fraction(FORMULAS[formula](**{key: int(value) for key, value in numbers.items()}))
    except OverflowError:  # no model has such numbers
        return None
