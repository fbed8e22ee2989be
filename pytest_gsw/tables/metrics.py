"""Every figure of a row: its name, unit, direction, label and basis.

It is among the tables because their keys are its names; :mod:`pytest_gsw.stats.figures` computes derived figures.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import Any, ClassVar, Literal, get_args

from pytest_gsw.common.text import share


class Direction(enum.Enum):
    """The better direction of a figure."""

    LOWER_IS_BETTER = "lower is better"
    HIGHER_IS_BETTER = "higher is better"
    #: Of a figure to be met, such as a loss.
    EQUAL_IS_BEST = "equal is best"

    def speed(self, value: float, reference: float) -> float:
        """A value as a ratio to a reference, above 1 if it is better: a throughput, or the inverse of a time."""
        return reference / value if self is Direction.LOWER_IS_BETTER else value / reference

    def slowed(self, value: float, slowdown: float) -> float:
        """A value that is slower by the logarithm of a factor; faster if that is below 0."""
        return self.cost(self.cost(value) * math.exp(slowdown))

    def change_by(self, gain: float) -> float:
        """The change of a value by a gain of speed, or a loss below zero: 5 % less speed is 5.3 % more time."""
        return 1 / (1 + gain) - 1 if self is Direction.LOWER_IS_BETTER and gain > -1 else gain

    def cost(self, value: float) -> float:
        """A value on the scale of statistics over several rows, on which less is better: itself, or its inverse.

        It has no unit, and is for logarithms and ratios alone. The inverse of this function is itself; zero, which a
        damaged record may have, stays.
        """
        return 1 / value if value and self is Direction.HIGHER_IS_BETTER else value


class Series(enum.Enum):
    """The part of a log that a figure is taken over."""

    STEPS = "step"
    SAVES = "checkpoint save"
    #: Figures that a benchmark states, such as bandwidths and rates.
    FIGURES = "figure"


#: Statistic that reduces the numbers of a site's metric to one.
MetricStatistic = Literal["last", "median", "mean", "max", "min"]
STATISTICS: tuple[str, ...] = get_args(MetricStatistic)

#: Form of a metric's key.
METRIC_KEY = r"[a-z][a-z0-9_]{0,59}"

#: Accepted worsening of a figure, as a fraction, unless a table, a cluster or an option states another. The recipes'
#: acceptance criterion is "above 95 % of the baseline".
TOLERANCE = 0.05
#: The same of a latency: between 17 pairs of runs of one cluster, tokens/s differ by up to 1.5 %, times to the first
#: token by up to 7.4 %.
LATENCY_TOLERANCE = 0.10
#: Key of the figure that a row of :attr:`Series.FIGURES` documents.
VALUE = "value"
#: From here on, four digits are fewer than a figure has before its point.
_LARGE = 10_000

#: Further requirement of a metric: the FLOP/s of a matrix product in the same job.
CALIBRATION = "calibration"


def short(value: float, form: str = "{:.4g}") -> str:
    """A figure in four digits or more: ``355.1``, ``18,400``."""
    return f"{value:,.0f}" if value >= _LARGE else form.format(value)


@dataclass(frozen=True)
class MetricLabel:
    """The part of a metric that a record keeps: enough to show it without the plugin that reads it."""

    #: Its name in tables, records, JUnit and exports, unit included: ``step_time_s``.
    key: str
    unit: str
    direction: Direction
    #: Label for users.
    label: str


@dataclass(frozen=True)
class Metric(MetricLabel):
    """One figure that is measured, documented, or both."""

    #: Format of its numbers; ``None``: as a percentage of the fraction.
    format: str | None = "{:,.4g}"
    #: The series that a row judged by it is measured over; ``None`` if it follows from another figure.
    series: Series | None = None
    needs: frozenset[str] = frozenset()
    #: Table heading and unit behind a number, if they are not label and unit.
    heading: str = ""
    behind: str = ""
    #: Its name in Prometheus' units, and its meaning in half a sentence; without them it is not exported.
    exported: str = ""
    help: str = ""
    #: It is displayed if measured, even if undocumented: it follows from the step time.
    always_shown: bool = False
    #: For a site's metric: returns its numbers, as numbers or as the log's bytes, from a
    #: :class:`~pytest_gsw.validation.measure.MetricLog`; and their statistic.
    read: Callable[[Any], Iterable[Any]] | None = field(default=None, compare=False)
    statistic: MetricStatistic = "last"
    #: Its usual tolerance, see :data:`TOLERANCE`.
    tolerance: float = field(default=TOLERANCE, compare=False)

    #: Words for a change below zero and above, for what the best job did, and for what the log says of its settings.
    change_words: ClassVar[tuple[str, str]] = ("below", "above")
    did: ClassVar[str] = "reached"
    conditions: ClassVar[str] = "its settings"
    #: The name of its change in JSON and JUnit.
    change_key: ClassVar[str] = "change"

    @cached_property
    def name(self) -> str:
        """The value of a row's ``metric`` that is judged by it: ``step_time``, ``busbw_gbs``."""
        return self.key

    @cached_property
    def field(self) -> str:
        """Its name among the :class:`~pytest_gsw.tables.model.Figures` of a row, and in tables."""
        return VALUE

    @property
    def shown_with(self) -> tuple[Metric, ...]:
        """The metrics in the table of a row that is judged by it."""
        return (self,)

    def at(self, point: str | None) -> Metric:
        """The metric at a point of a benchmark, such as ``16 GiB``, which its texts then have; itself without one."""
        if point is None:
            return self
        return replace(self, heading=f"{self.label} at {point} ({self.unit})", behind=f"{self.unit} at {point}")

    def number(self, value: float) -> str:
        """One of its values in short, without the unit."""
        return short(value)

    def in_table(self, value: float) -> str:
        """One of its values in a table that has the unit in its heading."""
        return self.number(value)

    def in_column(self, value: float) -> str:
        """The same below others of its kind."""
        return self.number(value)

    def text(self, value: float) -> str:
        """One of its values in short: ``4.31 s``, ``355.1 GB/s``."""
        return f"{self.number(value)} {self.unit}"

    def in_words(self, value: float, of_jobs: str = "") -> str:
        """The same with its name and its point: ``bus bandwidth 355.1 GB/s at 16 GiB``."""
        return f"{self.label} {self.number(value)} {self.per_unit}{of_jobs}"

    def span(self, low: float, high: float) -> str:
        """Two of its values in short: ``4.31 to 4.4 s``."""
        return f"{self.number(low)} to {self.text(high)}"

    def change(self, value: float, reference: float) -> float:
        """The change of a value against a reference as every screen shows it, a fraction."""
        return self.change_by(self.direction.speed(value, reference) - 1)

    def change_by(self, gain: float) -> float:
        """The same by a gain of speed, or a loss below zero: that of the figure itself."""
        return self.direction.change_by(gain)

    @cached_property
    def change_label(self) -> str:
        """The name of the change of a row that is judged by it."""
        return self.label

    @property
    def title(self) -> str:
        """The heading of its numbers in a table."""
        return self.heading or f"{self.label} ({self.unit})"

    @property
    def per_unit(self) -> str:
        """The unit behind one of its numbers."""
        return self.behind or self.unit

    @cached_property
    def as_label(self) -> MetricLabel:
        """The part of it that a record keeps."""
        return MetricLabel(self.key, self.unit, self.direction, self.label)

    @cached_property
    def better(self) -> str:
        """The better direction in a word: ``lower``, ``higher``."""
        return self.direction.value.partition(" ")[0]


@dataclass(frozen=True)
class TrainingMetric(Metric):
    """A metric of training, whose changes are those of throughput."""

    change_words: ClassVar[tuple[str, str]] = ("slower than", "faster than")
    did: ClassVar[str] = "took"
    conditions: ClassVar[str] = "batch, sequence length and steps"
    change_key: ClassVar[str] = "throughput_change"

    @cached_property
    def name(self) -> str:
        """Its key without the unit: ``step_time``."""
        return self.key.removesuffix(f"_{self.unit}")

    @cached_property
    def field(self) -> str:
        """Its key."""
        return self.key

    @property
    def shown_with(self) -> tuple[Metric, ...]:
        """All that is known of training."""
        return METRICS

    def in_table(self, value: float) -> str:
        """The same by its format, and without one as a percentage."""
        return share(value) if self.format is None else self.format.format(value)

    def in_column(self, value: float) -> str:
        """Four digits, with zeros at the end: ``2.480``."""
        return f"{value:#.4g}".rstrip(".")

    def in_words(self, value: float, of_jobs: str = "") -> str:
        """Its unit says what it is, unless it needs more than a log's times."""
        return f"{f'{self.label} ' if self.needs else ''}{self.text(value)}{of_jobs}"

    def change(self, value: float, reference: float) -> float:
        """The change of throughput."""
        return reference / value - 1

    def change_by(self, gain: float) -> float:
        """The gain itself: that of throughput."""
        return gain

    @cached_property
    def change_label(self) -> str:
        """Throughput."""
        return TOKENS_PER_S.label


@dataclass(frozen=True, slots=True)
class Figure:
    """A value of a metric, in the metric's unit."""

    metric: Metric
    value: float

    @property
    def text(self) -> str:
        """In short, with its unit: ``355.1 GB/s``."""
        return self.metric.text(self.value)

    def speed(self, reference: float) -> float:
        """Its ratio to a reference, above 1 if it is better, see :meth:`Direction.speed`."""
        return self.metric.direction.speed(self.value, reference)

    def change(self, reference: float) -> float:
        """Its change against a reference as every screen shows it, a fraction."""
        return self.metric.change(self.value, reference)


@lru_cache(maxsize=256)
def metric_of(
    name: str, unit: str | None = None, better: str | None = None, at: str | None = None, label: str | None = None
) -> Metric:
    """A metric by the value of a row's ``metric``, at a point; unit, direction and label are of a table's own."""
    direction = _HIGHER if better == "higher" else _LOWER
    own = Metric(name, unit or "", direction, label or name.replace("_", " "), series=Series.FIGURES)
    return JUDGED.get(name, own).at(at)


def common_change_label(judged: Iterable[Metric]) -> str:
    """The name of the changes of rows that are judged by these metrics; empty if they have several."""
    labels = {metric.change_label for metric in judged}
    return labels.pop() if len(labels) == 1 else ""


def usual_tolerance(metric: MetricLabel) -> float:
    """The tolerance of a metric unless a row states another, by what a record keeps of it."""
    return FURTHER.get(metric.key, STEP_TIME).tolerance


_LOWER, _HIGHER = Direction.LOWER_IS_BETTER, Direction.HIGHER_IS_BETTER

STEP_TIME = TrainingMetric(
    *("step_time_s", "s", _LOWER, "step time", "{:,.3f}", Series.STEPS),
    behind="s/step",
    exported="step_time_seconds",
    help="time of a training step",
    always_shown=True,
)
CALIBRATED_STEP_TIME = TrainingMetric(
    *("calibrated_step_time_s", "s", _LOWER, "calibrated step time", "{:,.3f}", Series.STEPS),
    needs=frozenset({CALIBRATION}),
    behind="calibrated s/step",
    exported="calibrated_step_time_seconds",
    help="time of a training step on a machine that is as fast as the documented one",
)
SAVE_TIME = TrainingMetric(
    *("checkpoint_save_time_s", "s", _LOWER, "checkpoint save", "{:,.3f}", Series.SAVES),
    behind="s/save",
    exported="checkpoint_save_time_seconds",
    help="time of saving a checkpoint",
    always_shown=True,
)
TOKENS_PER_S = TrainingMetric(
    *("tokens_per_s", "tokens/s", _HIGHER, "throughput", "{:,.0f}"),
    exported="tokens_per_second",
    help="throughput in tokens per second",
    always_shown=True,
)
SAMPLES_PER_S = TrainingMetric("samples_per_s", "samples/s", _HIGHER, "throughput", heading="samples/s")
MFU = TrainingMetric(
    *("mfu", "", _HIGHER, "MFU", None),
    heading="MFU",
    exported="mfu_ratio",
    help="model FLOPS utilization, 0 to 1",
    always_shown=True,
)
TFLOPS_PER_GPU = TrainingMetric(
    *("tflops_per_gpu", "TFLOP/s", _HIGHER, "TFLOP/s per GPU", "{:,.1f}"), heading="TFLOP/s per GPU"
)
DAYS_TO_TRAIN = TrainingMetric(
    *("days_to_train_1t_tokens", "days", _LOWER, "days to train 1T tokens", "{:,.2f}"),
    heading="days to train 1T tokens",
)


def _figures(unit: str, direction: Direction, *labels: tuple[str, str], **more: Any) -> Iterator[Metric]:
    """Figures of one unit, each of a key and its label; ``more`` are further facts of all."""
    return (Metric(key, unit, direction, label, series=Series.FIGURES, **more) for key, label in labels)


#: Figures that benchmarks state, by the keys of :attr:`~pytest_gsw.logs.model.StepLog.figures`.
BENCHMARKS = (
    *_figures(
        *("GB/s", _HIGHER, ("busbw_gbs", "bus bandwidth"), ("busbw_in_place_gbs", "bus bandwidth in place")),
        *(("algbw_gbs", "algorithm bandwidth"), ("algbw_in_place_gbs", "algorithm bandwidth in place")),
        ("busbw_avg_gbs", "average bus bandwidth"),
    ),
    *_figures("us", _LOWER, ("time_us", "time"), ("time_in_place_us", "time in place")),
    *_figures("requests/s", _HIGHER, ("requests_per_s", "request throughput")),
    *_figures(
        *("tokens/s", _HIGHER, ("input_tokens_per_s", "input throughput")),
        *(("output_tokens_per_s", "output throughput"), ("total_tokens_per_s", "total throughput")),
    ),
    *(
        metric
        for name, label in (
            *(("ttft", "time to first token"), ("tpot", "time per output token")),
            *(("itl", "inter-token latency"), ("e2e", "end-to-end latency")),
        )
        for of in ("mean", "median", "p50", "p90", "p95", "p99")
        for metric in _figures("ms", _LOWER, (f"{name}_ms_{of}", f"{of} {label}"), tolerance=LATENCY_TOLERANCE)
    ),
    *_figures("min", _LOWER, ("time_to_train_min", "time to train")),
    *_figures("samples/s/GPU", _HIGHER, ("samples_per_s_per_gpu", "throughput of a GPU")),
    *_figures(
        *("tokens/s/GPU", _HIGHER, ("tokens_per_s_per_gpu", "throughput of a GPU")),
        ("training_tokens_per_s_per_gpu", "training throughput of a GPU"),
        ("logprob_tokens_per_s_per_gpu", "log-probability throughput of a GPU"),
        ("generation_tokens_per_s_per_gpu", "generation throughput of a GPU"),
    ),
)
SUCCESSFUL_REQUESTS = Metric("successful_requests", "", Direction.EQUAL_IS_BEST, "successful requests")
FINAL_LOSS = Metric("final_loss", "", _LOWER, "final loss")

#: All metrics of rows that train, in display order.
METRICS = (STEP_TIME, CALIBRATED_STEP_TIME, SAVE_TIME, TOKENS_PER_S, SAMPLES_PER_S, MFU, TFLOPS_PER_GPU, DAYS_TO_TRAIN)
#: Metrics that any row may document in ``metrics``, by key, besides those of the site.
FURTHER: Mapping[str, Metric] = {metric.key: metric for metric in (*BENCHMARKS, SUCCESSFUL_REQUESTS, FINAL_LOSS)}
#: The same by key.
BY_KEY: Mapping[str, Metric] = {metric.key: metric for metric in METRICS}
#: Metrics that a row may be judged by, by the value of its ``metric``.
JUDGED: Mapping[str, Metric] = {metric.name: metric for metric in (*METRICS, *BENCHMARKS) if metric.series}
#: Keys that a table writes as a percentage.
PERCENTAGES = frozenset(metric.key for metric in METRICS if metric.format is None)

#: Throughput for each GPU, which some documents state instead of the job's.
TOKENS_PER_S_PER_GPU = "tokens_per_s_per_gpu"
#: Keys of throughputs, each of which gives the step time if the document states none.
THROUGHPUTS = (SAMPLES_PER_S.key, TOKENS_PER_S.key, TOKENS_PER_S_PER_GPU)
#: Keys that a row's document may state, in the order of tables.
DOCUMENTED = (
    *(STEP_TIME.key, TOKENS_PER_S.key, TOKENS_PER_S_PER_GPU, SAMPLES_PER_S.key, MFU.key),
    *(DAYS_TO_TRAIN.key, TFLOPS_PER_GPU.key, SAVE_TIME.key),
)
