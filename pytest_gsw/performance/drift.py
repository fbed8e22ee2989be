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
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from pytest_gsw.performance import levels
from pytest_gsw.performance.common import CUT, Common, common_of
from pytest_gsw.performance.noise import REFERENCE_JOBS, reference
from pytest_gsw.performance.ranks import rank_sum, theil_sen

#: How many of the newest nights are held against the reference; with autocorrelation, as many as say as much.
NEWEST = 10

#: Standard deviations of the rank sum beyond which the newest nights are slower. One night has a probability of 0.05 %
#: of being beyond it by chance; 180 nights that are tested one after another have 1 to 2 % (benchmarks/decisions.py).
Z = 3.3

#: Least change of the median step time, as a fraction, that is worth a warning.
LEAST_SHIFT = 0.02

#: Fewest nights that can say something.
_FEWEST = REFERENCE_JOBS + NEWEST

_LEAST_LOG = math.log1p(LEAST_SHIFT)

#: Standard deviations that the newest nights need before more is asked of them, autocorrelation not allowed for.
_FIRST_Z = 2.0

#: Evidence that the level is back, as a logarithm of likelihoods: E. S. Page, Continuous inspection schemes,
#: Biometrika 41 (1954), p. 100. A slow level makes such a fast sum once in more than a thousand nights.
_BACK = 7.0

#: Standard deviations that one night says at most of whether the level is back.
_FARTHEST = 2.5

#: Autocorrelation up to which nights are taken as independent: thirty nights cannot tell it from none.
_LEAST_RHO = 0.1

#: Autocorrelation that is taken at most: what is estimated above it stands for a level that wanders.
_MOST_RHO = 0.9

#: How much less likely than the best one a first suspect night may be, as a logarithm, and how many nights away.
_PLAUSIBLE = 3.0
_WINDOW = 21

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
    #: Index of the first and of the last night that it may be as well.
    suspects: tuple[int, int]
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
    if not all(map(math.isfinite, days or ())):
        raise ValueError("a night cannot be at a time that is no number")
    logs = _logs(times_s)
    counted = logs[start:]
    frozen = _usual(reference(logs, start))
    *_, warned = (None, *_warnings(frozen, counted))
    if warned is None:
        return None
    kept = [start + night for night in (*warned.kept, *range(warned.kept[-1] + 1, len(counted)))]
    values = [logs[night] for night in kept]
    newest = values[-warned.newest :]
    shift = math.expm1(statistics.median(newest) - statistics.median(frozen))
    z = rank_sum(frozen, newest).z / _widening(warned.common, warned.newest)
    split = _split(frozen, values)
    plausible = [kept[REFERENCE_JOBS + one] for one in _plausible(frozen, values, split)]
    since = kept[REFERENCE_JOBS + split :]
    slope = _slope_per_week(
        [logs[night] for night in since], None if days is None else [days[night] for night in since]
    )
    return Drift(z, shift, slope, since[0], (plausible[0], plausible[-1]), warned.common.rho, warned.newest)


def warned_nights(times_s: Sequence[float], start: int = 0) -> tuple[int, ...]:
    """Indices of the nights after which :func:`drift` finds something, each asked with those up to it."""
    logs = _logs(times_s)
    warnings = _warnings(_usual(reference(logs, start)), logs[start:])
    return tuple(night for night, warned in enumerate(warnings, start + _FEWEST - 1) if warned is not None)


def _logs(times_s: Sequence[float]) -> list[float]:
    for time_s in times_s:
        if not math.isfinite(time_s) or time_s <= 0:
            raise ValueError(f"a night cannot have {time_s} seconds a step")
    return [math.log(time_s) for time_s in times_s]


@dataclass(frozen=True)
class _Warned:
    """A warning on the night that it began."""

    #: How much slower the newest nights were, as a logarithm.
    slower: float
    common: Common
    newest: int
    #: The nights up to then, by their indices, without those of warnings that are over; and how many of them were
    #: before the first suspect one.
    kept: Sequence[int]
    before: int


def _usual(logs: Sequence[float]) -> list[float]:
    """The nights of a reference about the level that most of them have: a slow spell in it is no part of the level."""
    found = levels.levels_of(logs)
    most = max(found, key=len)
    level = statistics.median(most) if most else 0.0
    return [level + value - statistics.median(one) for one in found for value in one]


def _warnings(frozen: Sequence[float], logs: Sequence[float]) -> Iterator[_Warned | None]:
    """The warning that stands after each night: it began on some night, and the level has not come back since.

    Every night is asked as it was asked then. The newest nights alone say less of a row each time that a slow level
    fluctuates, and a warning that goes away by itself is read as good news. The nights of a warning that is over are
    left out from then on: they are explained, and their level would pass for what nights have in common.
    """
    if len(logs) < _FEWEST:
        return
    level, sigma = statistics.median(frozen), max(levels.spread(frozen), LEAST_SHIFT / 10)
    warned: _Warned | None = None
    evidence = 0.0
    kept = list(range(_FEWEST - 1))
    for count in range(_FEWEST, len(logs) + 1):
        kept.append(count - 1)
        slower = statistics.median(logs[night] for night in kept[-NEWEST:]) - level
        if warned is None:
            warned, evidence = (None if slower < _LEAST_LOG else _warning(frozen, logs, tuple(kept))), 0.0
        else:
            # The log likelihood of the reference's level over the slow one's, in a sum that never falls below none.
            apart = warned.slower / sigma
            above = min(max((logs[count - 1] - level) / sigma, -_FARTHEST), apart + _FARTHEST)
            evidence = max(0.0, evidence + apart * (apart / 2 - above))
            if slower < _LEAST_LOG / 2 and evidence > _BACK * warned.common.inflation(REFERENCE_JOBS):
                del kept[warned.before :]
                warned = None
        yield warned


def _warning(frozen: Sequence[float], all_logs: Sequence[float], kept: Sequence[int]) -> _Warned | None:
    """The warning that begins with the last night that is kept, if one does."""
    logs = [all_logs[night] for night in kept]
    if len(logs) < _FEWEST or rank_sum(frozen, logs[-NEWEST:]).z <= _FIRST_Z:
        return None
    split = REFERENCE_JOBS + _split(frozen, logs)
    parts = _without_change(frozen, logs, split)
    common = common_of(parts, autocorrelation([value for part in parts for value in part]))
    newest = min(REFERENCE_JOBS, math.ceil(NEWEST * common.inflation(REFERENCE_JOBS) - 1e-9))
    if len(logs) < REFERENCE_JOBS + newest:
        return None
    slower = statistics.median(logs[-newest:]) - statistics.median(frozen)
    z = rank_sum(frozen, logs[-newest:]).z / _widening(common, newest)
    if slower < _LEAST_LOG or z <= Z:
        return None
    return _Warned(slower, common, newest, kept, split)


def _without_change(frozen: Sequence[float], logs: Sequence[float], split: int) -> tuple[list[float], list[float]]:
    """The nights about the reference's level, and since the first suspect night about their own, or their creep.

    A step within a block of nights would pass for autocorrelation, and hide itself.
    """
    level = statistics.median(frozen)
    before, after = logs[REFERENCE_JOBS:split], logs[split:]
    above = [value - level for value in after]
    rest = min(_about_step(above), _about_creep(above), key=_size)
    return [value - level for value in (*frozen, *before)], rest


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
    cut = CUT * statistics.median(abs(value - centre) for value in values)
    kept = [min(max(value - centre, -cut), cut) for value in values]
    mean, middle = statistics.fmean(kept), (len(kept) - 1) / 2
    spread = sum((place - middle) ** 2 for place in range(len(kept)))
    slope = sum((place - middle) * value for place, value in enumerate(kept)) / spread
    return [value - mean - slope * (place - middle) for place, value in enumerate(kept)]


def _widening(common: Common, newest: int) -> float:
    """How many times wider a difference of levels is spread than with independent nights."""
    wide = common.inflation(newest) / newest + common.inflation(REFERENCE_JOBS) / REFERENCE_JOBS
    return math.sqrt(wide / (1 / newest + 1 / REFERENCE_JOBS))


def _split(frozen: Sequence[float], logs: Sequence[float]) -> int:
    """After how many nights behind the reference these most likely became slower.

    Each night is tried as the first of a step, and of a creep that goes on to the end; the one that leaves the least
    sum of absolute deviations is taken (absolute, so that a single slow night moves nothing).
    """
    left_over = _left_over(frozen, logs)
    later = len(logs) - REFERENCE_JOBS
    stride = max(1, later // _TRIED_FIRST)
    best = min(range(0, later, stride), key=left_over)
    return min(range(max(0, best - stride + 1), min(later, best + stride)), key=left_over)


def _plausible(frozen: Sequence[float], logs: Sequence[float], split: int) -> list[int]:
    """The splits about the best one that explain the nights next to as well, by the likelihood of Laplace noise.

    Its logarithm is that of the mean absolute deviation, times the number of nights.
    """
    left_over = _left_over(frozen, logs)
    later = len(logs) - REFERENCE_JOBS
    most = left_over(split) * math.exp(_PLAUSIBLE / later)
    near = range(max(0, split - _WINDOW), min(later, split + _WINDOW + 1))
    return [one for one in near if one == split or left_over(one) <= most]


def _left_over(frozen: Sequence[float], logs: Sequence[float]) -> Callable[[int], float]:
    """The sum of absolute deviations that is left of the nights behind the reference, by the first suspect one."""
    level = statistics.median(frozen)
    above = [value - level for value in logs[REFERENCE_JOBS:]]
    before = [0.0, *itertools.accumulate(abs(value) for value in above)]

    def left_over(split: int) -> float:
        return before[split] + min(_size(_about_step(above[split:])), _size(_about_creep(above[split:])))

    return left_over


def _size(rest: Sequence[float]) -> float:
    return sum(map(abs, rest))


def _about_step(values: Sequence[float]) -> list[float]:
    level = statistics.median(values)
    return [value - level for value in values]


def _about_creep(values: Sequence[float]) -> list[float]:
    """Values about the line through the night before the first, whose slope is a weighted median."""
    slopes = sorted((value / night, night) for night, value in enumerate(values, 1))
    weights = itertools.accumulate(night for _, night in slopes)
    half = len(values) * (len(values) + 1) / 4
    slope = next(slope for (slope, _), weight in zip(slopes, weights, strict=True) if weight >= half)
    return [value - slope * night for night, value in enumerate(values, 1)]


def _slope_per_week(logs: Sequence[float], days: Sequence[float] | None) -> float | None:
    if days is None or len(set(days)) < 2:
        return None
    return math.expm1(theil_sen(days, logs) * _DAYS_PER_WEEK)
