"""Drift of a row: its newest runs against a reference that never moves.

A loss of 1 % a week is within every tolerance for weeks, and a reference that follows the runs follows the loss. The
reference therefore is always the first runs after a figure was accepted. The newest runs are compared with it by rank
sum, which assumes no distribution and counts one slow run as one slow run.

Runs are not independent, however: a busy cluster stays busy. Runs may each keep a part of the previous one's deviation,
or a level that all jobs share wanders below their own noise. Both are a level that keeps a part of its deviation from
run to run, with a share of the variance (C. W. J. Granger and M. J. Morris, Journal of the Royal Statistical Society A
139 (1976), p. 246). Such a level looks like a change, and a change looks like such a level. Neither is estimated first:
the likelihood of the runs with a change is compared with the one without, each at its largest over what runs have in
common.

A drift is a warning, not a failure: the runs have become slower, but the row need not be at fault.
"""

from __future__ import annotations

import functools
import itertools
import math
import statistics
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from pytest_gsw.stats.noise import REFERENCE_JOBS, logarithms, median_sd, reference, spread, usual

#: Number of newest runs compared with the reference; twice as many for small changes.
NEWEST = 10

#: Standard deviations of the rank sum beyond which the newest runs are slower. One run has a probability of 0.3 % of
#: exceeding it by chance. The likelihood of all runs (:func:`change_in`) is what mostly prevents a false warning in 180
#: runs; this limit is for odd runs.
Z = 2.8

#: Least change of the median cost, as a fraction, for a warning.
LEAST_SHIFT = 0.02

#: Fewest runs with a result.
_FEWEST = REFERENCE_JOBS + NEWEST

_LEAST_LOG = math.log1p(LEAST_SHIFT)

#: Standard deviations of the newest runs required before twice as many are compared.
_FIRST_Z = 2.0

#: Standard deviations of one run beyond which all but two of the newest follow a change that no wandering level causes:
#: ranks of a few runs do not show how large it is.
_PLAIN = 3.0
_EXCEPT = 2

#: Evidence that the level is back, as a logarithm of likelihoods: E. S. Page, Continuous inspection schemes, Biometrika
#: 41 (1954), p. 100. A slow level makes such a fast sum once in more than a thousand runs.
_LEVEL_BACK = 9.0

#: Standard errors by which a level with a warning may be faster than it looks.
_MARGIN = 2.0

#: Upper limit on one run's evidence that the level is back, in standard deviations.
_CAP = 2.5

#: Fewest runs since a change: with fewer, one odd run is a step.
_FEWEST_AFTER = 5

#: Logarithm of the likelihood ratio above which a change is accepted. Found by simulation, as the two that follow
#: (benchmarks/drifts.py): a lower one costs false warnings if a level wanders, a higher one runs until a warning.
BELIEVED = 7.5

#: Runs that the fitted parameters use up: a ratio from few runs overstates the evidence.
_FITTED_RUNS = 5.0

#: Penalty on a change that needs autocorrelation besides.
_PENALTY = 1.5

#: Runs after which the gain of the filter no longer changes.
_FILTER_RUNS = 64

#: Least sum of squares.
_LEAST_SQUARES = 1e-12

#: Number of rows whose warnings are cached.
_CACHED_ROWS = 2048


@dataclass(frozen=True)
class Drift:
    """The newest runs of a row are slower than its reference."""

    #: Deviation of the newest runs' rank sum, in standard deviations.
    z: float
    #: Change of the median cost, newest runs against reference, as a fraction: 0.03 is 3 % more time.
    shift: float
    #: Index of the run at which the row most likely became slower.
    first_suspect: int


def drift(costs: Sequence[float]) -> Drift | None:
    """The drift of a row since its reference; ``None`` if there is no evidence of one.

    Args:
        costs: The cost (:meth:`~pytest_gsw.tables.metrics.Direction.cost`) of each run's first job, oldest first. (Its
            confirming jobs ran because it was slow.)

    Raises:
        ValueError: A cost is not finite and above zero.
    """
    logs = logarithms(costs)
    *_, warning = (None, *_warnings(tuple(logs)))
    if warning is None:
        return None
    frozen = usual(reference(logs))
    kept = [*warning.kept, *range(warning.kept[-1] + 1, len(logs))]
    values = [logs[run] for run in kept]
    newest = values[-warning.newest :]
    shift = math.expm1(statistics.median(newest) - statistics.median(frozen))
    first = _change_since(frozen, values).begin or warning.since
    return Drift(rank_sum(frozen, newest), shift, kept[first])


def log_likelihoods(found: Drift, costs: Sequence[float], runs: Iterable[int]) -> list[float]:
    """Logarithms of the likelihoods that a drift began at runs (indices), over that of its first suspect."""
    logs, slower, first = logarithms(costs), math.log1p(found.shift), found.first_suspect
    frozen = usual(reference(logs))
    middle, scale = statistics.median(frozen) + slower / 2, slower / _sigma(frozen) ** 2
    above = [scale * (log - middle) for log in logs]
    return [sum(above[run:first]) - sum(above[first:run]) for run in runs]


def _sigma(frozen: Sequence[float]) -> float:
    return max(spread(frozen), LEAST_SHIFT / 10)


def warned_runs(costs: Sequence[float]) -> tuple[int, ...]:
    """Indices of the runs after which :func:`drift` has a result, each from the runs up to it."""
    warnings = _warnings(tuple(logarithms(costs)))
    return tuple(run for run, warning in enumerate(warnings, _FEWEST - 1) if warning is not None)


@dataclass(frozen=True)
class _Warning:
    """A warning, from the run at which it began."""

    #: Slowdown of the newest runs, as a logarithm.
    slower: float
    common: Autocorrelation
    newest: int
    #: Indices of the runs up to then, without those of closed warnings; and the number of them before the first suspect
    #: one.
    kept: Sequence[int]
    since: int


@functools.lru_cache(maxsize=_CACHED_ROWS)
def _warnings(logs: tuple[float, ...]) -> tuple[_Warning | None, ...]:
    """The warning after each run, cached for screen, pages and alarms."""
    return tuple(_warnings_of(usual(reference(logs)), logs))


def _warnings_of(frozen: Sequence[float], logs: Sequence[float]) -> Iterator[_Warning | None]:
    """Yield the active warning after each run: it begins at some run, and ends when the level is back.

    Every run is evaluated with the data of its time. A slow level fluctuates, and the newest runs alone lose their
    evidence with each such run; a warning that disappears by itself is read as good news. The runs of a closed warning
    are left out from then on: they are explained, and their level would pass for autocorrelation.
    """
    if len(logs) < _FEWEST:
        return
    level, sigma = statistics.median(frozen), _sigma(frozen)
    uncertain = sigma * math.hypot(median_sd(NEWEST), median_sd(REFERENCE_JOBS))
    warning: _Warning | None = None
    evidence = 0.0
    kept = list(range(_FEWEST - 1))
    for count in range(_FEWEST, len(logs) + 1):
        kept.append(count - 1)
        slower = statistics.median([logs[run] for run in kept[-NEWEST:]]) - level
        if warning is None:
            warning, evidence = (None if slower < _LEAST_LOG else _warn(frozen, logs, tuple(kept), sigma)), 0.0
        else:
            # The log likelihood of the reference's level over the slow one's, in a sum that never falls below zero. The
            # slow level is its least plausible value: the warning selected it for looking slow.
            least = max(warning.slower - _MARGIN * uncertain * math.sqrt(warning.common.inflation(NEWEST)), _LEAST_LOG)
            apart = least / sigma
            above = min(max((logs[count - 1] - level) / sigma, -_CAP), apart + _CAP)
            evidence = max(0.0, evidence + apart * (apart / 2 - above))
            if slower < _LEAST_LOG / 2 and evidence > _LEVEL_BACK * warning.common.inflation(REFERENCE_JOBS):
                del kept[warning.since :]
                warning = None
        yield warning


def _warn(frozen: Sequence[float], all_logs: Sequence[float], kept: Sequence[int], sigma: float) -> _Warning | None:
    """The warning that begins at the last kept run, if one does."""
    logs = [all_logs[run] for run in kept]
    if len(logs) < _FEWEST or rank_sum(frozen, logs[-NEWEST:]) <= _FIRST_Z:
        return None
    compared = [count for count in (NEWEST, 2 * NEWEST) if len(logs) >= REFERENCE_JOBS + count]
    z, newest = max((rank_sum(frozen, logs[-count:]), count) for count in compared)
    if z <= Z:
        return None
    change, level = _change_since(frozen, logs), statistics.median(frozen)
    is_plain = sorted(logs[-NEWEST:])[_EXCEPT] - level > _PLAIN * sigma
    if not (is_plain or change.is_believed):
        return None
    since = change.begin or len(logs) - NEWEST
    return _Warning(statistics.median(logs[-NEWEST:]) - level, change.common, newest, kept, since)


def _change_since(frozen: Sequence[float], logs: Sequence[float]) -> LevelChange:
    """The change since the usual runs of the reference."""
    change = change_in(normal_scores([*frozen, *logs[REFERENCE_JOBS:]]), len(frozen))
    return change if change.begin is None else replace(change, begin=change.begin + REFERENCE_JOBS - len(frozen))


@dataclass(frozen=True)
class Autocorrelation:
    """Autocorrelation of runs: a level that wanders under independent noise."""

    #: The level's share of the variance.
    share: float = 0.0
    #: The part of its deviation that the level keeps from run to run.
    decay: float = 0.0

    def inflation(self, runs: int) -> float:
        """The variance of the mean of ``runs`` runs, over that of independent ones."""
        kept, lost = self.decay, 1 - self.decay
        return 1 + self.share * ((1 + kept) / lost - 2 * kept * (1 - kept**runs) / (runs * lost**2) - 1)


#: Values to try. A level that keeps more is a drift.
_CANDIDATES = (
    Autocorrelation(),
    *(Autocorrelation(share, decay) for decay in (0.5, 0.7, 0.85) for share in (0.25, 0.5, 1.0)),
)


@dataclass(frozen=True)
class LevelChange:
    """Evidence of a change among runs."""

    #: Log likelihood ratio with the change against without, corrected for fitted parameters.
    evidence: float = 0.0
    #: Autocorrelation besides the change.
    common: Autocorrelation = _CANDIDATES[0]
    #: The run with which it most likely began; ``None`` if there is no candidate.
    begin: int | None = None

    @property
    def is_believed(self) -> bool:
        """True if a wandering level is no explanation."""
        return self.evidence > BELIEVED


def change_in(scores: Sequence[float], first: int) -> LevelChange:
    """The likeliest increase among runs, with its evidence.

    Args:
        scores: A number of each run, normal if nothing changes: :func:`normal_scores`.
        first: Index of the first run at which the change can have begun.
    """
    course = _likeliest_change(scores, first)
    if course is None or len(scores) <= _FITTED_RUNS:
        return LevelChange()
    begin = next(run for run, level in enumerate(course) if level)
    counts = 1 - _FITTED_RUNS / len(scores)
    quiet, changed = _log_likelihoods(scores, course, _CANDIDATES[0])
    independent, common = counts * (changed - quiet), _CANDIDATES[0]
    if independent <= BELIEVED:
        return LevelChange(independent, begin=begin)
    for candidate in _CANDIDATES[1:]:
        one_quiet, one_changed = _log_likelihoods(scores, course, candidate)
        quiet = max(quiet, one_quiet)
        if one_changed - _PENALTY > changed:
            common, changed = candidate, one_changed - _PENALTY
    return LevelChange(min(counts * (changed - quiet), independent), common, begin)


def _likeliest_change(scores: Sequence[float], first: int) -> list[float] | None:
    """The course of a step up, or of a slope up to the end, that fits independent runs best.

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
    """The log likelihoods of runs with one mean, and with a change besides; the variance is fitted.

    By the innovations of a Kalman filter, regressed on those of the mean and of the change: A. C. Harvey, Forecasting,
    structural time series models and the Kalman filter (1989), p. 130.
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
    quiet = max(yy - my * my / mm, _LEAST_SQUARES)
    changed = max(quiet - (cy - mc * my / mm) ** 2 / max(cc - mc * mc / mm, _LEAST_SQUARES), _LEAST_SQUARES * quiet)
    # The sum of the log variances of all innovations.
    settled = max(0, runs - len(filter_))
    wide = (-sum(math.log(weight) for weight, _ in filter_[:runs]) - settled * math.log(filter_[-1][0])) / 2
    return -runs / 2 * math.log(quiet) - wide, -runs / 2 * math.log(changed) - wide


@functools.cache
def _filter(common: Autocorrelation) -> tuple[tuple[float, float], ...]:
    """For each run, the weight of its innovation (one over its variance), and the part that the next run keeps."""
    states, uncertain = [], common.share
    for _ in range(_FILTER_RUNS):
        variance = uncertain + 1 - common.share
        states.append((1 / variance, common.decay * uncertain / variance))
        left = uncertain * (1 - uncertain / variance)
        uncertain = common.decay**2 * left + common.share * (1 - common.decay**2)
    return tuple(states)


# -- ranks --------------------------------------------------------------------------------------


def rank_sum(first: Sequence[float], second: Sequence[float]) -> float:
    """Deviation of the second sample's rank sum from that of equal samples, in standard deviations.

    Corrected for ties and for continuity (E. L. Lehmann, Nonparametrics (1975), chapter 1); above zero, the second
    sample tends to be larger.
    """
    twice, ties = _twice_ranks([*first, *second])
    m, n, total = len(first), len(second), len(first) + len(second)
    away = (sum(twice[m:]) - n * (n + 1)) / 2 - m * n / 2
    variance = m * n / 12 * (total + 1 - ties / (total * (total - 1)))
    return math.copysign(max(abs(away) - 0.5, 0.0), away) / math.sqrt(variance) if variance > 0 else 0.0


def normal_scores(values: Sequence[float]) -> list[float]:
    """The normal values with the same ranks: a value twice as large is one large value.

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
