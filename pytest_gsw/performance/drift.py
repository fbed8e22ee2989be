"""Whether a row drifts away from what it was: its newest nights against a reference that never moves.

A loss of 1 % a week is within every tolerance for weeks, and a reference that follows the nights follows it. So the
reference is always the first nights after a figure was accepted, and the newest nights are compared with it by rank
sum, which knows no distribution and to which one slow night is one slow night. Nights are not independent, however:
a busy cluster stays busy. So all nights have to say as well that a change is likelier than a level that wanders.

What it finds is a warning, not a failure: it knows that the nights have become slower, not that the row is at fault.
"""

from __future__ import annotations

import functools
import itertools
import math
import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from pytest_gsw.performance import levels
from pytest_gsw.performance.common import Common, change_in
from pytest_gsw.performance.noise import REFERENCE_JOBS, median_sd, reference
from pytest_gsw.performance.onset import PLAUSIBLE, WINDOW
from pytest_gsw.performance.ranks import normal_scores, rank_sum, theil_sen

#: How many of the newest nights are held against the reference; and twice as many, which small changes take.
NEWEST = 10

#: Standard deviations of the rank sum beyond which the newest nights are slower. One night has a probability of 0.3 %
#: of being beyond it by chance: most of what keeps 180 nights from a false warning is what all nights say
#: (:func:`~pytest_gsw.performance.common.change_in`), and this is for odd nights.
Z = 2.8

#: Least change of the median step time, as a fraction, that is worth a warning.
LEAST_SHIFT = 0.02

#: Fewest nights that can say something.
_FEWEST = REFERENCE_JOBS + NEWEST

_LEAST_LOG = math.log1p(LEAST_SHIFT)

#: Standard deviations that the newest nights need before twice as many are asked.
_FIRST_Z = 2.0

#: Standard deviations of one night beyond which all but two of the newest are after a change that no level makes which
#: wanders: ranks of a few nights do not say how large it is.
_PLAIN = 3.0
_BUT = 2

#: Evidence that the level is back, as a logarithm of likelihoods: E. S. Page, Continuous inspection schemes,
#: Biometrika 41 (1954), p. 100. A slow level makes such a fast sum once in more than a thousand nights.
_BACK = 9.0

#: Standard errors that a level that is warned of may be faster than it looks.
_SURE = 2.0

#: Standard deviations that one night says at most of whether the level is back.
_FARTHEST = 2.5

_DAYS_PER_WEEK = 7

#: Of how many rows' nights the warnings are kept that were found last.
_KEPT = 2048

#: Nights between two that are tried first as the first suspect one, as a fraction of all that could be.
_TRIED_FIRST = 64


@dataclass(frozen=True)
class Drift:
    """The newest nights of a row are slower than its reference."""

    #: How far the rank sum of the newest nights is from none, in standard deviations.
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
    #: Lag-1 autocorrelation of the nights beside the change, 0 where none is to be seen.
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
        raise ValueError(f"{len(times_s)} runs have {len(days)} days")
    if not all(map(math.isfinite, days or ())):
        raise ValueError("a run cannot be at a time that is no number")
    logs = _logs(times_s)
    *_, warned = (None, *_warnings(tuple(logs), start))
    if warned is None:
        return None
    frozen = _usual(reference(logs, start))
    kept = [start + night for night in (*warned.kept, *range(warned.kept[-1] + 1, len(logs) - start))]
    values = [logs[night] for night in kept]
    newest = values[-warned.newest :]
    shift = math.expm1(statistics.median(newest) - statistics.median(frozen))
    z = rank_sum(frozen, newest).z
    split = _split(frozen, values)
    plausible = [kept[REFERENCE_JOBS + one] for one in _plausible(frozen, values, split)]
    since = kept[REFERENCE_JOBS + split :]
    slope = _slope_per_week(
        [logs[night] for night in since], None if days is None else [days[night] for night in since]
    )
    return Drift(z, shift, slope, since[0], (plausible[0], plausible[-1]), warned.common.rho, warned.newest)


def warned_nights(times_s: Sequence[float], start: int = 0) -> tuple[int, ...]:
    """Indices of the nights after which :func:`drift` finds something, each asked with those up to it."""
    warnings = _warnings(tuple(_logs(times_s)), start)
    return tuple(night for night, warned in enumerate(warnings, start + _FEWEST - 1) if warned is not None)


def _logs(times_s: Sequence[float]) -> list[float]:
    for time_s in times_s:
        if not math.isfinite(time_s) or time_s <= 0:
            raise ValueError(f"a run cannot have {time_s} seconds a step")
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


@functools.lru_cache(maxsize=_KEPT)
def _warnings(logs: tuple[float, ...], start: int) -> tuple[_Warned | None, ...]:
    """The warnings of nights, which screen, pages and alarms ask for, one after another."""
    return tuple(_warnings_of(_usual(reference(logs, start)), logs[start:]))


def _warnings_of(frozen: Sequence[float], logs: Sequence[float]) -> Iterator[_Warned | None]:
    """The warning that stands after each night: it began on some night, and the level has not come back since.

    Every night is asked as it was asked then. The newest nights alone say less of a row each time that a slow level
    fluctuates, and a warning that goes away by itself is read as good news. The nights of a warning that is over are
    left out from then on: they are explained, and their level would pass for what nights have in common.
    """
    if len(logs) < _FEWEST:
        return
    level, sigma = statistics.median(frozen), max(levels.spread(frozen), LEAST_SHIFT / 10)
    uncertain = sigma * math.hypot(median_sd(NEWEST), median_sd(REFERENCE_JOBS))
    warned: _Warned | None = None
    evidence = 0.0
    kept = list(range(_FEWEST - 1))
    for count in range(_FEWEST, len(logs) + 1):
        kept.append(count - 1)
        slower = statistics.median(logs[night] for night in kept[-NEWEST:]) - level
        if warned is None:
            warned, evidence = (None if slower < _LEAST_LOG else _warning(frozen, logs, tuple(kept), sigma)), 0.0
        else:
            # The log likelihood of the reference's level over the slow one's, in a sum that never falls below none. The
            # slow one is the least that it may be: what is warned of looks slower than it is, since it was warned of.
            least = max(warned.slower - _SURE * uncertain * math.sqrt(warned.common.inflation(NEWEST)), _LEAST_LOG)
            apart = least / sigma
            above = min(max((logs[count - 1] - level) / sigma, -_FARTHEST), apart + _FARTHEST)
            evidence = max(0.0, evidence + apart * (apart / 2 - above))
            if slower < _LEAST_LOG / 2 and evidence > _BACK * warned.common.inflation(REFERENCE_JOBS):
                del kept[warned.before :]
                warned = None
        yield warned


def _warning(frozen: Sequence[float], all_logs: Sequence[float], kept: Sequence[int], sigma: float) -> _Warned | None:
    """The warning that begins with the last night that is kept, if one does."""
    logs = [all_logs[night] for night in kept]
    if len(logs) < _FEWEST or rank_sum(frozen, logs[-NEWEST:]).z <= _FIRST_Z:
        return None
    newest = max(_compared(len(logs)), key=lambda count: rank_sum(frozen, logs[-count:]).z)
    if rank_sum(frozen, logs[-newest:]).z <= Z:
        return None
    change = change_in(normal_scores([*frozen, *logs[REFERENCE_JOBS:]]), REFERENCE_JOBS)
    level = statistics.median(frozen)
    is_plain = sorted(logs[-NEWEST:])[_BUT] - level > _PLAIN * sigma
    if not (is_plain or change.is_believed):
        return None
    return _Warned(
        statistics.median(logs[-NEWEST:]) - level, change.common, newest, kept, REFERENCE_JOBS + _split(frozen, logs)
    )


def _compared(nights: int) -> list[int]:
    """Of how many newest nights each of the rank sums is."""
    return [count for count in (NEWEST, 2 * NEWEST) if nights >= REFERENCE_JOBS + count]


def _split(frozen: Sequence[float], logs: Sequence[float]) -> int:
    """After how many nights behind the reference these most likely became slower.

    Each night is tried as the first of a step, and of a slope that goes on to the end; the one that leaves the least
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
    most = left_over(split) * math.exp(PLAUSIBLE / later)
    near = range(max(0, split - WINDOW), min(later, split + WINDOW + 1))
    return [one for one in near if one == split or left_over(one) <= most]


def _left_over(frozen: Sequence[float], logs: Sequence[float]) -> Callable[[int], float]:
    """The sum of absolute deviations that is left of the nights behind the reference, by the first suspect one."""
    level = statistics.median(frozen)
    above = [value - level for value in logs[REFERENCE_JOBS:]]
    before = [0.0, *itertools.accumulate(abs(value) for value in above)]

    def left_over(split: int) -> float:
        return before[split] + min(_size(_about_step(above[split:])), _size(_about_slope(above[split:])))

    return left_over


def _size(rest: Sequence[float]) -> float:
    return sum(map(abs, rest))


def _about_step(values: Sequence[float]) -> list[float]:
    level = statistics.median(values)
    return [value - level for value in values]


def _about_slope(values: Sequence[float]) -> list[float]:
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
