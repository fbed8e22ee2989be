"""A record's verdict as JSON has it, and as records of schema 1 had it: spread over their own keys."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from pytest_gsw.performance.noise import Noise
from pytest_gsw.performance.verdict import MetricVerdict, Outcome, Reason, Verdict, compare
from pytest_gsw.results import outcomes
from pytest_gsw.results.facts import FigureFacts, Jobs, RowFacts, Timing, judged_metric
from pytest_gsw.results.json_shape import read, shapes, shown
from pytest_gsw.tables import metrics
from pytest_gsw.tables.metrics import Direction, Metric

_REASONS = {reason.value: reason for reason in Reason}


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
        _check_above_0(self, ("measured", "documented", "tolerance"), prefix)


@dataclass(frozen=True)
class VerdictKeys:
    """What a record's own keys say of its verdict: all that schema 1 has of it; since then, for other readers."""

    reason: str = ""
    #: Loss of throughput beyond which it was a regression, a fraction: the tolerance, or more where noise alone goes
    #: beyond that; of an improvement the gain.
    limit: float | None = None
    #: Gain of throughput beyond which nothing was believed, a fraction.
    max_gain: float | None = None
    #: Standard deviation of the step time between jobs, a fraction, and how many jobs of the history tell it;
    #: 0 where it is the one that is assumed without a history.
    sigma: float | None = None
    sigma_jobs: int = 0
    #: What the outcome rests on: ``documented``, or ``accepted``, the cluster's own figure beside it.
    reference: str = "documented"
    #: The site's metrics that the row documents; the outcome is the worst of theirs and its own.
    metrics: tuple[MetricFacts, ...] = ()
    #: The outcome by the row's own metric, where one of those is worse.
    own_outcome: str = ""


@dataclass(frozen=True)
class _Decided:
    """The key of a record that schema 1 had not."""

    verdict: Verdict | None


def _check_above_0(holder: object, names: tuple[str, ...], prefix: str) -> None:
    """Raise a ValueError where a number that is known cannot be divided by."""
    for name in names:
        value = getattr(holder, name)
        wrong = [one for one in (value if isinstance(value, tuple) else (value,)) if one is not None and one <= 0]
        if wrong:
            raise ValueError(f"'{prefix}{name}' is {shown(wrong[0])}, wanted a number above 0")


def _checked(verdict: Verdict) -> Verdict:
    """A verdict of which all texts can be made; a ValueError where it has a number that none has."""
    _check_above_0(verdict, ("measured_s", "documented_s", "tolerance", "accepted_s", "jobs_s"), "verdict.")
    return verdict


def to_json(verdict: Verdict) -> dict[str, Any]:
    """A verdict as JSON has it, without the site's metrics, which a record has beside it."""
    return {name: getattr(verdict, name) for name in shapes(Verdict) if name != "metrics"}


def of_json(content: Mapping[str, Any], keys: VerdictKeys, *, strict: bool) -> Verdict | None:
    """The verdict of a record of schema 2; a ValueError where it is none."""
    verdict = read(_Decided, content, strict=strict).verdict
    return verdict and replace(_checked(verdict), metrics=tuple(one.verdict for one in keys.metrics))


def of_keys(
    keys: VerdictKeys, outcome: str, row: RowFacts, jobs: Jobs, figures: FigureFacts, timing: Timing
) -> Verdict | None:
    """The verdict of a record of schema 1, as far as its keys tell it; ``None`` where nothing was measured.

    Of one whose outcome is not the verdict's, as of a profiled run, the verdict's is what its numbers come to.
    """
    judged = judged_metric(row, figures).key
    measured_s, documented_s = figures.measured.get(judged), figures.documented.get(judged)
    if not measured_s or not documented_s:
        return None
    accepted_s = figures.accepted.get(judged) or None
    limit = keys.limit if keys.limit is not None and keys.limit > row.tolerance else None
    is_judged = outcome in outcomes.JUDGED
    verdict = Verdict(
        Outcome(outcome) if is_judged else compare(measured_s, accepted_s or documented_s, limit or row.tolerance),
        measured_s,
        documented_s,
        row.tolerance,
        accepted_s,
        limit=limit,
        noise=None if keys.sigma is None else Noise(keys.sigma, keys.sigma_jobs),
        jobs_s=tuple(job.judged_s for job in jobs.measured(measured_s) if job.judged_s is not None),
        steady_s=timing.median_s,
        given_reason=_REASONS.get(keys.reason),
        max_gain=keys.max_gain,
        own_outcome=Outcome(keys.own_outcome) if keys.own_outcome in outcomes.JUDGED else None,
        metrics=tuple(one.verdict for one in keys.metrics),
    )
    try:
        return _checked(verdict)
    except ValueError:  # nothing rests on such numbers
        return None
