"""A record's verdict as JSON has it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from pytest_gsw.performance.verdict import MetricVerdict, Outcome, Verdict
from pytest_gsw.results.json_shape import read, shapes, shown
from pytest_gsw.tables import metrics
from pytest_gsw.tables.metrics import Direction, Metric


@dataclass(frozen=True)
class MetricFacts:
    """What JSON keeps of one of a site's metrics: all that is shown of it where the site's plugin is not there."""

    key: str
    label: str
    unit: str
    direction: Direction
    #: In the unit.
    measured: float
    documented: float
    #: How much worse (and better) it may be, as a fraction of the documented value.
    tolerance: float
    #: The outcome by this metric alone.
    outcome: Outcome

    @classmethod
    def of(cls, verdict: MetricVerdict) -> MetricFacts:
        """What is kept of an outcome by a metric."""
        metric = verdict.metric
        numbers = (verdict.measured, verdict.documented, verdict.tolerance)
        return cls(metric.key, metric.label, metric.unit, metric.direction, *numbers, verdict.outcome)

    @property
    def verdict(self) -> MetricVerdict:
        """The outcome by the metric, but for what its plugin does."""
        metric = Metric(self.key, self.unit, self.direction, self.label)
        return MetricVerdict(metric, self.outcome, self.measured, self.documented, self.tolerance)

    def check(self, prefix: str) -> None:
        """Raise a ValueError where it is of no metric."""
        if re.fullmatch(metrics.METRIC_KEY, self.key) is None:
            raise ValueError(f"'{prefix}key' is {shown(self.key)}, which is no key of a metric")
        for name, value in (
            ("measured", self.measured),
            ("documented", self.documented),
            ("tolerance", self.tolerance),
        ):
            if value <= 0:
                raise ValueError(f"'{prefix}{name}' is {shown(value)}, wanted a number above 0")


@dataclass(frozen=True)
class _Decided:
    """The keys of a record that its verdict has."""

    verdict: Verdict | None
    #: The site's metrics that the row documents; the outcome is the worst of theirs and its own.
    metrics: tuple[MetricFacts, ...] = ()


#: The keys.
KEYS = frozenset(shapes(_Decided))


def to_json(verdict: Verdict | None) -> dict[str, Any]:
    """A verdict as JSON has it: the site's metrics, which it has beside it, by what is shown of them."""
    if verdict is None:
        return {"verdict": None, "metrics": []}
    whole = {name: getattr(verdict, name) for name in shapes(Verdict) if name != "metrics"}
    return {"verdict": whole, "metrics": [MetricFacts.of(one) for one in verdict.metrics]}


def of_json(content: Mapping[str, Any], *, strict: bool) -> Verdict | None:
    """The verdict of a record; a ValueError where it is none, or has a number that none has."""
    decided = read(_Decided, content, strict=strict)
    if decided.verdict is None:
        return None
    return replace(decided.verdict, metrics=tuple(one.verdict for one in decided.metrics))
