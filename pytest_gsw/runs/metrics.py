"""What a site's metrics read of an ended run: a number for each, or the reason why there is none."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_gsw.errors import LogError
from pytest_gsw.logs.model import Step, StepLog
from pytest_gsw.logs.reader import reading
from pytest_gsw.logs.scan import matching_records
from pytest_gsw.tables.metrics import Metric
from pytest_gsw.tables.model import Baseline

_STATISTICS: Mapping[str, Callable[[Sequence[float]], float]] = {
    "last": lambda values: values[-1],
    "median": statistics.median,
    "mean": statistics.fmean,
    "max": max,
    "min": min,
}


@dataclass(frozen=True)
class MetricLog:
    """What a metric is read from: the last attempt in a run's log."""

    baseline: Baseline
    #: Its steps, as the row's log format has read them.
    steps: Sequence[Step]
    path: Path
    #: Byte offset from which on the last attempt's lines stand.
    begin: int = 0

    def lines(self, *markers: bytes) -> Iterator[bytes]:
        """The whole lines that hold one of these texts, without line ends, in order.

        Args:
            markers: What is searched for; the log is not looked at otherwise, however large it is.
        """
        return (line for _, line in matching_records(self.path, markers, start=self.begin))


def read_metrics(baseline: Baseline, path: Path, log: StepLog, known: Mapping[str, Metric]) -> dict[str, float]:
    """The number of each metric that a row documents, by key.

    Args:
        baseline: The row.
        path: The log.
        log: What the row's format has read of it.
        known: The site's metrics, by key; those of the row are among them.

    Raises:
        LogError: One is not there, or is no number above zero.
    """
    if not baseline.metrics:
        return {}
    source = MetricLog(baseline, log.steps, path, _begin(path, log))
    with reading(path):
        return {key: _number(known[key], source) for key in baseline.metrics}


def _begin(path: Path, log: StepLog) -> int:
    """Where the last attempt begins; what is printed before its first step may be an earlier attempt's.

    Raises:
        LogError: There are several, and nothing says where the last one begins.
    """
    if log.attempts < 2:
        return 0
    offset = log.steps[0].offset if log.steps else None
    if offset is None:
        raise LogError(
            f"the log holds {log.attempts} attempts, and its format does not say where the last one begins",
            evidence=(("log", str(path)),),
            advice="the row documents further metrics, which are those of the last attempt: "
            "let the format's parser give each Step its offset",
        )
    return offset


def _number(metric: Metric, source: MetricLog) -> float:
    assert metric.read is not None  # what a hook returned was checked
    values = [_finite(metric, value, source.path) for value in metric.read(source)]
    if not values:
        raise LogError(
            f"the log holds no {metric.label} ({metric.key}), which the row documents",
            evidence=(("log", str(source.path)), ("baseline", str(source.baseline.location))),
            advice="look at whether the run prints it, and at the plugin that reads it",
        )
    return _STATISTICS[metric.statistic](values)


def _finite(metric: Metric, value: Any, path: Path) -> float:
    """A number that was read, which may be the log's own bytes.

    Raises:
        LogError: It is none, or not finite and above zero.
    """
    try:
        number = math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError):
        number = math.nan
    if 0 < number < math.inf:
        return number
    shown = value.decode("utf-8", "replace") if isinstance(value, bytes) else repr(value)
    raise LogError(
        f"{metric.label} ({metric.key}) is {shown[:40]} in the log, wanted a number above 0",
        evidence=(("log", str(path)),),
        advice="find out why before measuring: a figure that is not finite says that the run was not sound",
    )
