"""Whether a row creeps away from what it was: its newest nights against a reference that never moves.

A loss of 1 % a week is within every tolerance for weeks, and a reference that follows the nights follows it. So the
reference is always the first nights after a figure was accepted, and the newest nights are compared with it by rank
sum, which knows no distribution and to which one slow night is one slow night. Nights are not independent, however:
a busy cluster stays busy. Their autocorrelation is estimated along the way, without any level, and the more there is
of it, the more nights it takes to say something, and the less each of them says.

What it finds is a warning, not a failure: it knows that the nights have become slower, not that the row is at fault.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from pytest_gsw.performance.noise import REFERENCE_JOBS, reference
from pytest_gsw.performance.ranks import rank_sum, theil_sen

#: How many of the newest nights are held against the reference; with autocorrelation, as many as say as much.
NEWEST = 10

#: Standard deviations of the rank sum beyond which the newest nights are slower. One night has a probability of 0.05 %
#: of being beyond it by chance; 180 nights that are tested one after another have 1 to 2 % (benchmarks/decisions.py).
Z = 3.3

#: Least change of the median step time, as a fraction, that is worth a warning.
LEAST_SHIFT = 0.02

#: Autocorrelation up to which nights are taken as independent: thirty nights cannot tell it from none.
_LEAST_RHO = 0.1

#: Autocorrelation that is taken at most: what is estimated above it stands for a level that wanders.
_MOST_RHO = 0.9

#: Median absolute deviations at which a night is cut off before its autocorrelation is taken, 2.5 standard deviations
#: of normal noise: a single slow night would hide what its neighbours have in common.
_CUT = 2.5 * 1.4826

_DAYS_PER_WEEK = 7

#: Nights between two that are tried first as the first suspect one, as a fraction of all that could be.
_TRIED_FIRST = 64


@dataclass(frozen=True)
class Drift:
    """The newest nights of a row are slower than its reference."""

    #: How far the rank sum of the newest nights is from none, in standard deviations, autocorrelation allowed for.
    z: float
    #: Change of the median step time, newest nights against reference, as a fraction: 0.03 is 3 % more time.
    shift: float
    #: Change of the step time a week since the first suspect night, as a fraction, by Theil and Sen; ``None`` where
    #: it is not said when the nights were, or they are at one time only.
    slope_per_week: float | None
    #: Index of the night from which on the row most likely became slower.
    first_suspect: int
    #: Lag-1 autocorrelation of the nights, 0 where none is to be seen.
    rho: float
    #: How many of the newest nights were held against the reference.
    newest: int


def drift(times_s: Sequence[float], start: int = 0, days: Sequence[float] | None = None) -> Drift | None:
    """What has become of a row since its reference, or ``None`` where nothing is to be seen.

    Args:
        times_s: The step time of each night, seconds, oldest first: that of the night's first job. (Those that
            confirm it ran because it was slow.)
        start: Index of the first night that counts: the first after a figure was accepted, or after what the row is
            defined by has changed.
        days: When each night was, in days since any one moment, for the slope.

    Raises:
        ValueError: A time is not finite and above zero, ``start`` is negative, or ``days`` are not as many as the
            nights, or not finite.
    """
    if days is not None and len(days) != len(times_s):
        raise ValueError(f"{len(times_s)} nights have {len(days)} days")
    for time_s in times_s:
        if not math.isfinite(time_s) or time_s <= 0:
            raise ValueError(f"a night cannot have {time_s} seconds a step")
    if not all(map(math.isfinite, days or ())):
        raise ValueError("a night cannot be at a time that is no number")
    logs = [math.log(time_s) for time_s in times_s]
    frozen = reference(logs, start)
    rho = autocorrelation(logs[start:])
    newest = min(REFERENCE_JOBS, math.ceil(NEWEST * _inflation(rho, REFERENCE_JOBS) - 1e-9))
    if len(logs) - start < REFERENCE_JOBS + newest:
        return None
    shift = math.expm1(statistics.median(logs[-newest:]) - statistics.median(frozen))
    if shift < LEAST_SHIFT:
        return None
    z = rank_sum(frozen, logs[-newest:]).z / _widening(rho, newest)
    if z <= Z:
        return None
    suspect = start + REFERENCE_JOBS + _split(logs[start:])
    slope = _slope_per_week(logs[suspect:], None if days is None else days[suspect:])
    return Drift(z, shift, slope, suspect, rho, newest)


def autocorrelation(logs: Sequence[float]) -> float:
    """The lag-1 autocorrelation of nights, from blocks of as many as the reference has, each without its own trend.

    A block's level and trend are taken out, so that neither a creep nor the level before or after a step counts as
    autocorrelation. What that takes along of the autocorrelation itself is given back: of n nights (1 + 3 rho) / n with
    a mean (M. G. Kendall, Biometrika 41 (1954), p. 403), and (2 + 4 rho) / n with a trend; the tests simulate it.
    ``logs`` are natural logarithms of step times, oldest first.

    Returns:
        From 0 to 0.9; 0 where it is too small to be told from none, or there is not one whole block.
    """
    products = squares = 0.0
    for begin in range(0, len(logs) - REFERENCE_JOBS + 1, REFERENCE_JOBS):
        rest = _without_trend(logs[begin : begin + REFERENCE_JOBS])
        products += sum(one * following for one, following in itertools.pairwise(rest))
        squares += sum(value * value for value in rest)
    if squares <= 0:
        return 0.0
    rho = (products / squares * REFERENCE_JOBS + 2) / (REFERENCE_JOBS - 4)
    return 0.0 if rho <= _LEAST_RHO else min(rho, _MOST_RHO)


def _without_trend(values: Sequence[float]) -> list[float]:
    """What is left of values, outliers cut off, when their line by least squares is taken out."""
    centre = statistics.median(values)
    cut = _CUT * statistics.median(abs(value - centre) for value in values)
    kept = [min(max(value - centre, -cut), cut) for value in values]
    mean, middle = statistics.fmean(kept), (len(kept) - 1) / 2
    spread = sum((place - middle) ** 2 for place in range(len(kept)))
    slope = sum((place - middle) * value for place, value in enumerate(kept)) / spread
    return [value - mean - slope * (place - middle) for place, value in enumerate(kept)]


def _inflation(rho: float, nights: int) -> float:
    """The variance of the mean of so many nights of an AR(1) process, over that of independent ones."""
    return (1 + rho) / (1 - rho) - 2 * rho * (1 - rho**nights) / (nights * (1 - rho) ** 2)


def _widening(rho: float, newest: int) -> float:
    """How many times wider a difference of levels is spread than with independent nights."""
    wide = _inflation(rho, newest) / newest + _inflation(rho, REFERENCE_JOBS) / REFERENCE_JOBS
    return math.sqrt(wide / (1 / newest + 1 / REFERENCE_JOBS))


def _split(logs: Sequence[float]) -> int:
    """After how many nights behind the reference these most likely became slower.

    Each night is tried as the first of a step, and of a creep that goes on to the end; the one that leaves the least
    sum of absolute deviations is taken (absolute, so that a single slow night moves nothing).
    """
    level = statistics.median(logs[:REFERENCE_JOBS])
    above = [value - level for value in logs[REFERENCE_JOBS:]]
    before = [0.0, *itertools.accumulate(abs(value) for value in above)]

    def left_over(split: int) -> float:
        return before[split] + min(_step_left_over(above[split:]), _creep_left_over(above[split:]))

    stride = max(1, len(above) // _TRIED_FIRST)
    best = min(range(0, len(above), stride), key=left_over)
    return min(range(max(0, best - stride + 1), min(len(above), best + stride)), key=left_over)


def _step_left_over(values: Sequence[float]) -> float:
    level = statistics.median(values)
    return sum(abs(value - level) for value in values)


def _creep_left_over(values: Sequence[float]) -> float:
    """The same about the line through the night before the first, whose slope is a weighted median."""
    slopes = sorted((value / night, night) for night, value in enumerate(values, 1))
    weights = itertools.accumulate(night for _, night in slopes)
    half = len(values) * (len(values) + 1) / 4
    slope = next(slope for (slope, _), weight in zip(slopes, weights, strict=True) if weight >= half)
    return sum(abs(value - slope * night) for night, value in enumerate(values, 1))


def _slope_per_week(logs: Sequence[float], days: Sequence[float] | None) -> float | None:
    if days is None or len(set(days)) < 2:
        return None
    return math.expm1(theil_sen(days, logs) * _DAYS_PER_WEEK)
