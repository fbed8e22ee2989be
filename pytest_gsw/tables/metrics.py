"""Every figure of a row: its name, unit, direction, label and basis.

It is among the tables because their keys are its names; :mod:`pytest_gsw.stats.figures` computes derived figures.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args


class Direction(enum.Enum):
    """The better direction of a figure."""

    LOWER_IS_BETTER = "lower is better"
    HIGHER_IS_BETTER = "higher is better"


class Series(enum.Enum):
    """The part of a log that a figure is taken over."""

    STEPS = "step"
    SAVES = "checkpoint save"


#: Statistic that reduces the numbers of a site's metric to one.
MetricStatistic = Literal["last", "median", "mean", "max", "min"]
STATISTICS: tuple[str, ...] = get_args(MetricStatistic)

#: Form of a metric's key.
METRIC_KEY = r"[a-z][a-z0-9_]{0,59}"

#: Further requirement of a metric: the FLOP/s of a matrix product in the same job.
CALIBRATION = "calibration"


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

    @property
    def name(self) -> str:
        """The value of a row's ``metric`` that is judged by it: ``step_time``."""
        return self.key.removesuffix(f"_{self.unit}")

    @property
    def title(self) -> str:
        """The heading of its numbers in a table."""
        return self.heading or f"{self.label} ({self.unit})"

    @property
    def per_unit(self) -> str:
        """The unit behind one of its numbers."""
        return self.behind or self.unit


_LOWER, _HIGHER = Direction.LOWER_IS_BETTER, Direction.HIGHER_IS_BETTER

STEP_TIME = Metric(
    *("step_time_s", "s", _LOWER, "step time", "{:,.3f}", Series.STEPS),
    behind="s/step",
    exported="step_time_seconds",
    help="time of a training step",
    always_shown=True,
)
CALIBRATED_STEP_TIME = Metric(
    *("calibrated_step_time_s", "s", _LOWER, "calibrated step time", "{:,.3f}", Series.STEPS),
    needs=frozenset({CALIBRATION}),
    behind="calibrated s/step",
    exported="calibrated_step_time_seconds",
    help="time of a training step on a machine that is as fast as the documented one",
)
SAVE_TIME = Metric(
    *("checkpoint_save_time_s", "s", _LOWER, "checkpoint save", "{:,.3f}", Series.SAVES),
    behind="s/save",
    exported="checkpoint_save_time_seconds",
    help="time of saving a checkpoint",
    always_shown=True,
)
TOKENS_PER_S = Metric(
    *("tokens_per_s", "tokens/s", _HIGHER, "throughput", "{:,.0f}"),
    exported="tokens_per_second",
    help="throughput in tokens per second",
    always_shown=True,
)
SAMPLES_PER_S = Metric("samples_per_s", "samples/s", _HIGHER, "throughput", heading="samples/s")
MFU = Metric(
    *("mfu", "", _HIGHER, "MFU", None),
    heading="MFU",
    exported="mfu_ratio",
    help="model FLOPS utilization, 0 to 1",
    always_shown=True,
)
TFLOPS_PER_GPU = Metric(
    *("tflops_per_gpu", "TFLOP/s", _HIGHER, "TFLOP/s per GPU", "{:,.1f}"), heading="TFLOP/s per GPU"
)
DAYS_TO_TRAIN = Metric(
    *("days_to_train_1t_tokens", "days", _LOWER, "days to train 1T tokens", "{:,.2f}"),
    heading="days to train 1T tokens",
)

#: All metrics of pytest-gsw, in display order.
METRICS = (
    *(STEP_TIME, CALIBRATED_STEP_TIME, SAVE_TIME),
    *(TOKENS_PER_S, SAMPLES_PER_S, MFU, TFLOPS_PER_GPU, DAYS_TO_TRAIN),
)
#: The same by key.
BY_KEY: Mapping[str, Metric] = {metric.key: metric for metric in METRICS}
#: Metrics that a row may be judged by, by the value of its ``metric``.
JUDGED: Mapping[str, Metric] = {metric.name: metric for metric in METRICS if metric.series is not None}
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
