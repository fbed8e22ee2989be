"""Whether a row drifts away from what it was: its newest runs against a reference that never moves.

A loss of 1 % a week is within every tolerance for weeks, and a reference that follows the runs follows it. So the
reference is always the first runs after a figure was accepted, and the newest runs are compared with it by rank
sum, which knows no distribution and to which one slow run is one slow run.

Runs are not independent, however: a busy cluster stays busy. Runs may each have a part of what the one before had,
or a level that all jobs share wanders below their own noise. Both are a level that keeps a part of its deviation from
run to run, with a share of the variance (C. W. J. Granger and M. J. Morris, Journal of the Royal Statistical
Society A 139 (1976), p. 246). Such a level passes for a change, and a change passes for such a level. So neither is
estimated first: the likelihood of runs with a change is held against the one without, each with what runs have in
common where it is largest.

What it finds is a warning, not a failure: it knows that the runs have become slower, not that the row is at fault.
"""

from __future__ import annotations

import functools
import itertools
import math
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from pytest_gsw.stats.noise import REFERENCE_JOBS, logarithms, median_sd, reference, spread, usual

#: How many of the newest runs are held against the reference; and twice as many, which small changes take.
NEWEST = 10

#: Standard deviations of the rank sum beyond which the newest runs are slower. One run has a probability of 0.3 %
#: of being beyond it by chance: most of what keeps 180 runs from a false warning is what all runs say
#: (:func:`change_in`), and this is for odd runs.
Z = 2.8

#: Least change of the median step time, as a fraction, that is worth a warning.
LEAST_SHIFT = 0.02

#: Fewest runs that can say something.
_FEWEST = REFERENCE_JOBS + NEWEST

_LEAST_LOG = math.log1p(LEAST_SHIFT)

#: Standard deviations that the newest runs need before twice as many are asked.
_FIRST_Z = 2.0

#: Standard deviations of one run beyond which all but two of the newest are after a change that no level makes which
#: wanders: ranks of a few runs do not say how large it is.
_PLAIN = 3.0
_BUT = 2

#: Evidence that the level is back, as a logarithm of likelihoods: E. S. Page, Continuous inspection schemes,
#: Biometrika 41 (1954), p. 100. A slow level makes such a fast sum once in more than a thousand runs.
_BACK = 9.0

#: Standard errors that a level that is warned of may be faster than it looks.
_SURE = 2.0

#: Standard deviations that one run says at most of whether the level is back.
_FARTHEST = 2.5

#: Fewest runs that a change has lasted: of fewer, one odd run is a step.
_FEWEST_AFTER = 5

#: Logarithm of the likelihood ratio above which a change is believed. Found by simulation, as the two that follow
#: (benchmarks/drifts.py): less of it costs false warnings where a level wanders, more of it runs to a warning.
BELIEVED = 7.5

#: Runs that the fitted parameters take of all that there are: a ratio of few runs says less than its number does.
_TAKEN = 5.0

#: What it costs a change that runs with it still have something in common.
_COST = 1.5

#: Runs after which the gain of the filter no longer changes.
_SETTLED = 64

#: Squares that are as good as none.
_NOTHING = 1e-12

#: Of how many rows' runs the warnings are kept that were found last.
_KEPT = 2048


@dataclass(frozen=True)
class Drift:
    """The newest runs of a row are slower than its reference."""

    #: How far the rank sum of the newest runs is from none, in standard deviations.
    z: float
    #: Change of the median step time, newest runs against reference, as a fraction: 0.03 is 3 % more time.
    shift: float
    #: Index of the run from which on the row most likely became slower.
    first_suspect: int


def drift(times_s: Sequence[float]) -> Drift | None:
    """What has become of a row since its reference, or ``None`` where nothing is to be seen.

    Args:
        times_s: The step time of each run, seconds, oldest first: that of the run's first job. (Those that
            confirm it ran because it was slow.)

    Raises:
        ValueError: A time is not finite and above zero.
    """
    logs = logarithms(times_s)
    *_, warned = (None, *_warnings(tuple(logs)))
    if warned is None:
        return None
    frozen = usual(reference(logs))
    kept = [*warned.kept, *range(warned.kept[-1] + 1, len(logs))]
    values = [logs[run] for run in kept]
    newest = values[-warned.newest :]
    shift = math.expm1(statistics.median(newest) - statistics.median(frozen))
    first = _change_since(frozen, values).begin or warned.since
    return Drift(rank_sum(frozen, newest), shift, kept[first])


def warned_runs(times_s: Sequence[float]) -> tuple[int, ...]:
    """Indices of the runs after which :func:`drift` finds something, each asked with those up to it."""
    warnings = _warnings(tuple(logarithms(times_s)))
    return tuple(run for run, warned in enumerate(warnings, _FEWEST - 1) if warned is not None)


@dataclass(frozen=True)
class _Warned:
    """A warning on the run that it began."""

    #: How much slower the newest runs were, as a logarithm.
    slower: float
    common: Autocorrelation
    newest: int
    #: The runs up to then, by their indices, without those of warnings that are over; and how many of them were
    #: before the first suspect one.
    kept: Sequence[int]
    since: int


@functools.lru_cache(maxsize=_KEPT)
def _warnings(logs: tuple[float, ...]) -> tuple[_Warned | None, ...]:
    """The warnings of runs, which screen, pages and alarms ask for, one after another."""
    return tuple(_warnings_of(usual(reference(logs)), logs))


def _warnings_of(frozen: Sequence[float], logs: Sequence[float]) -> Iterator[_Warned | None]:
    """The warning that stands after each run: it began on some run, and the level has not come back since.

    Every run is asked as it was asked then. The newest runs alone say less of a row each time that a slow level
    fluctuates, and a warning that goes away by itself is read as good news. The runs of a warning that is over are
    left out from then on: they are explained, and their level would pass for what runs have in common.
    """
    if len(logs) < _FEWEST:
        return
    level, sigma = statistics.median(frozen), max(spread(frozen), LEAST_SHIFT / 10)
    uncertain = sigma * math.hypot(median_sd(NEWEST), median_sd(REFERENCE_JOBS))
    warned: _Warned | None = None
    evidence = 0.0
    kept = list(range(_FEWEST - 1))
    for count in range(_FEWEST, len(logs) + 1):
        kept.append(count - 1)
        slower = statistics.median(logs[run] for run in kept[-NEWEST:]) - level
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
                del kept[warned.since :]
                warned = None
        yield warned


def _warning(frozen: Sequence[float], all_logs: Sequence[float], kept: Sequence[int], sigma: float) -> _Warned | None:
    """The warning that begins with the last run that is kept, if one does."""
    logs = [all_logs[run] for run in kept]
    if len(logs) < _FEWEST or rank_sum(frozen, logs[-NEWEST:]) <= _FIRST_Z:
        return None
    compared = [count for count in (NEWEST, 2 * NEWEST) if len(logs) >= REFERENCE_JOBS + count]
    z, newest = max((rank_sum(frozen, logs[-count:]), count) for count in compared)
    if z <= Z:
        return None
    change, level = _change_since(frozen, logs), statistics.median(frozen)
    is_plain = sorted(logs[-NEWEST:])[_BUT] - level > _PLAIN * sigma
    if not (is_plain or change.is_believed):
        return None
    since = change.begin or len(logs) - NEWEST
    return _Warned(statistics.median(logs[-NEWEST:]) - level, change.common, newest, kept, since)


def _change_since(frozen: Sequence[float], logs: Sequence[float]) -> Change:
    """What runs say of a change since the reference, as it usually was."""
    found = change_in(normal_scores([*frozen, *logs[REFERENCE_JOBS:]]), len(frozen))
    return found if found.begin is None else replace(found, begin=found.begin + REFERENCE_JOBS - len(frozen))


@dataclass(frozen=True)
class Autocorrelation:
    """What runs have in common: a level that wanders under independent noise."""

    #: The share of the variance that is the level's.
    share: float = 0.0
    #: How much of its deviation the level keeps from run to run.
    decay: float = 0.0

    def inflation(self, runs: int) -> float:
        """The variance of the mean of so many runs, over that of independent ones."""
        kept, lost = self.decay, 1 - self.decay
        return 1 + self.share * ((1 + kept) / lost - 2 * kept * (1 - kept**runs) / (runs * lost**2) - 1)


#: What is tried. A level that keeps more is a drift.
_TRIED = (
    Autocorrelation(),
    *(Autocorrelation(share, decay) for decay in (0.5, 0.7, 0.85) for share in (0.25, 0.5, 1.0)),
)


@dataclass(frozen=True)
class Change:
    """What runs say of a change among them."""

    #: How much likelier they are with it than without, as a logarithm, allowing for what is fitted.
    evidence: float = 0.0
    #: What they have in common beside it.
    common: Autocorrelation = _TRIED[0]
    #: The run with which it most likely began, ``None`` where nothing looks like one.
    begin: int | None = None

    @property
    def is_believed(self) -> bool:
        """Whether a level that wanders is no explanation."""
        return self.evidence > BELIEVED


def change_in(scores: Sequence[float], first: int) -> Change:
    """What runs say of the likeliest change to more among them.

    Args:
        scores: A number of each run, normal if nothing changes: :func:`normal_scores`.
        first: Index of the first run that the change can have begun in.
    """
    course = _likeliest_change(scores, first)
    if course is None or len(scores) <= _TAKEN:
        return Change()
    begin = next(run for run, one in enumerate(course) if one)
    counts = 1 - _TAKEN / len(scores)
    quiet, changed = _log_likelihoods(scores, course, _TRIED[0])
    independent, common = counts * (changed - quiet), _TRIED[0]
    if independent <= BELIEVED:
        return Change(independent, begin=begin)
    for one in _TRIED[1:]:
        one_quiet, one_changed = _log_likelihoods(scores, course, one)
        quiet = max(quiet, one_quiet)
        if one_changed - _COST > changed:
            common, changed = one, one_changed - _COST
    return Change(min(counts * (changed - quiet), independent), common, begin)


def _likeliest_change(scores: Sequence[float], first: int) -> list[float] | None:
    """The course of a step to more, or of a slope that goes on to the end, that independent runs fit best.

    By least squares: the best is the one that correlates most with the scores.
    """
    runs = len(scores)
    mean = sum(scores) / runs if runs else 0.0
    best, begin, is_step = 0.0, runs, True
    step = slope = 0.0
    for run in range(runs - 1, first - 1, -1):
        after = runs - run
        step += scores[run] - mean
        slope += step
        if after < _FEWEST_AFTER or after == runs:
            continue
        as_step = step / math.sqrt(after - after**2 / runs)
        ramp = after * (after + 1) / 2
        as_slope = slope / math.sqrt(ramp * (2 * after + 1) / 3 - ramp**2 / runs)
        if max(as_step, as_slope) > best:
            best, begin, is_step = max(as_step, as_slope), run, as_step >= as_slope
    if best <= 0:
        return None
    return [0.0] * begin + [1.0 if is_step else run - begin + 1.0 for run in range(begin, runs)]


def _log_likelihoods(scores: Sequence[float], change: Sequence[float], common: Autocorrelation) -> tuple[float, float]:
    """The logarithm of the likelihood of runs with one mean, and with a change besides; the variance is fitted.

    By the innovations of a Kalman filter, which those of the mean and of the change are regressed on: A. C. Harvey,
    Forecasting, structural time series models and the Kalman filter (1989), p. 130.
    """
    filter_ = _filter(common)
    decay, runs = common.decay, len(scores)
    level = level_of_mean = level_of_change = 0.0
    yy = my = cy = mm = mc = cc = 0.0
    gains = itertools.chain(filter_, itertools.repeat(filter_[-1]))
    for score, course, (weight, gain) in zip(scores, change, gains, strict=False):
        y, mean, shift = score - level, 1 - level_of_mean, course - level_of_change
        level = decay * level + gain * y
        level_of_mean = decay * level_of_mean + gain * mean
        level_of_change = decay * level_of_change + gain * shift
        weighted_mean, weighted_shift = weight * mean, weight * shift
        yy += weight * y * y
        my += weighted_mean * y
        cy += weighted_shift * y
        mm += weighted_mean * mean
        mc += weighted_mean * shift
        cc += weighted_shift * shift
    quiet = max(yy - my * my / mm, _NOTHING)
    changed = max(quiet - (cy - mc * my / mm) ** 2 / max(cc - mc * mc / mm, _NOTHING), _NOTHING * quiet)
    wide = _log_variances(filter_, runs) / 2
    return -runs / 2 * math.log(quiet) - wide, -runs / 2 * math.log(changed) - wide


@functools.cache
def _filter(common: Autocorrelation) -> tuple[tuple[float, float], ...]:
    """Of each run the weight of its innovation, one over its variance, and how much of it the next run has."""
    found, uncertain = [], common.share
    for _ in range(_SETTLED):
        variance = uncertain + 1 - common.share
        found.append((1 / variance, common.decay * uncertain / variance))
        left = uncertain * (1 - uncertain / variance)
        uncertain = common.decay**2 * left + common.share * (1 - common.decay**2)
    return tuple(found)


def _log_variances(filter_: Sequence[tuple[float, float]], runs: int) -> float:
    """The sum of the logarithms of the variances of so many innovations."""
    settled = max(0, runs - len(filter_))
    return -sum(math.log(weight) for weight, _ in filter_[:runs]) - settled * math.log(filter_[-1][0])


# -- ranks --------------------------------------------------------------------------------------


def rank_sum(first: Sequence[float], second: Sequence[float]) -> float:
    """How far the rank sum of the second sample is from that of nothing different, in standard deviations.

    Corrected for ties and for continuity (E. L. Lehmann, Nonparametrics (1975), chapter 1); above zero, the second
    sample tends to be larger.
    """
    twice, ties = _twice_ranks([*first, *second])
    m, n, total = len(first), len(second), len(first) + len(second)
    away = (sum(twice[m:]) - n * (n + 1)) / 2 - m * n / 2
    variance = m * n / 12 * (total + 1 - ties / (total * (total - 1)))
    return math.copysign(max(abs(away) - 0.5, 0.0), away) / math.sqrt(variance) if variance > 0 else 0.0


def normal_scores(values: Sequence[float]) -> list[float]:
    """The normal values that have the same ranks, so that one value that is twice as large is one large value.

    Source: B. L. van der Waerden, Indagationes Mathematicae 14 (1952), p. 453: the quantile of rank / (n + 1).
    """
    normal, parts = statistics.NormalDist(), 2 * (len(values) + 1)
    return [normal.inv_cdf(twice / parts) for twice in _twice_ranks(values)[0]]


def _twice_ranks(values: Sequence[float]) -> tuple[list[int], int]:
    """Twice the mean rank of each value, a whole number, and the sum of t^3 - t over groups of t equal values."""
    order = sorted(range(len(values)), key=values.__getitem__)
    ranks, ties, position = [0] * len(values), 0, 0
    while position < len(order):
        end = position
        while end < len(order) and values[order[end]] == values[order[position]]:
            end += 1
        for index in order[position:end]:
            ranks[index] = position + 1 + end
        ties += (end - position) ** 3 - (end - position)
        position = end
    return ranks, ties
