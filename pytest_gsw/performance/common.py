"""What nights have in common, and whether they say that a level has changed.

A busy cluster stays busy, in two ways. Nights may each have a part of what the one before had. Or jobs differ from each
other, and a level that all of them share wanders below: then a night has little in common with the next one, and as
much with the tenth. Both are a level that keeps a part of its deviation from night to night, with a share of the
variance: all of it is an AR(1) process, less of it an ARMA(1, 1) process (C. W. J. Granger and M. J. Morris, Journal of
the Royal Statistical Society A 139 (1976), p. 246).

Such a level passes for a change, and a change passes for such a level. So neither is estimated first: the likelihood
of nights with a change is held against the one without, each with what nights have in common where it is largest.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

#: Fewest nights that a change has lasted: of fewer, one odd night is a step.
_FEWEST_AFTER = 5

#: Logarithm of the likelihood ratio above which a change is believed. Found by simulation, as the two that follow
#: (benchmarks/drifts.py): less of it costs false warnings where a level wanders, more of it nights to a warning.
BELIEVED = 7.5

#: Nights that the fitted parameters take of all that there are: a ratio of few nights says less than its number does.
_TAKEN = 5.0

#: What it costs a change that nights with it still have something in common.
_COST = 1.5

#: Nights after which the gain of the filter no longer changes.
_SETTLED = 64

#: Squares that are as good as none.
_NOTHING = 1e-12


@dataclass(frozen=True)
class Common:
    """What nights have in common: a level that wanders under independent noise."""

    #: The share of the variance that is the level's.
    share: float = 0.0
    #: How much of its deviation the level keeps from night to night.
    decay: float = 0.0

    @property
    def rho(self) -> float:
        """Lag-1 autocorrelation."""
        return self.share * self.decay

    def inflation(self, nights: int) -> float:
        """The variance of the mean of so many nights, over that of independent ones."""
        kept, lost = self.decay, 1 - self.decay
        return 1 + self.share * ((1 + kept) / lost - 2 * kept * (1 - kept**nights) / (nights * lost**2) - 1)


#: What is tried. A level that keeps more is a drift.
_TRIED = (Common(), *(Common(share, decay) for decay in (0.5, 0.7, 0.85) for share in (0.25, 0.5, 1.0)))


@dataclass(frozen=True)
class Change:
    """What nights say of a change among them."""

    #: How much likelier they are with it than without, as a logarithm, allowing for what is fitted.
    evidence: float = 0.0
    #: What they have in common beside it.
    common: Common = _TRIED[0]

    @property
    def is_believed(self) -> bool:
        """Whether a level that wanders is no explanation."""
        return self.evidence > BELIEVED


def change_in(scores: Sequence[float], first: int) -> Change:
    """What nights say of the likeliest change to more among them.

    Args:
        scores: A number of each night, normal if nothing changes: :func:`~pytest_gsw.performance.ranks.normal_scores`.
        first: Index of the first night that the change can have begun in.
    """
    course = _likeliest_change(scores, first)
    if course is None or len(scores) <= _TAKEN:
        return Change()
    counts = 1 - _TAKEN / len(scores)
    quiet, changed = _log_likelihoods(scores, course, _TRIED[0])
    independent, common = counts * (changed - quiet), _TRIED[0]
    if independent <= BELIEVED:
        return Change(independent)
    for one in _TRIED[1:]:
        one_quiet, one_changed = _log_likelihoods(scores, course, one)
        quiet = max(quiet, one_quiet)
        if one_changed - _COST > changed:
            common, changed = one, one_changed - _COST
    return Change(min(counts * (changed - quiet), independent), common)


def _likeliest_change(scores: Sequence[float], first: int) -> list[float] | None:
    """The course of a step to more, or of a slope that goes on to the end, that independent nights fit best.

    By least squares: the best is the one that correlates most with the scores.
    """
    nights = len(scores)
    mean = sum(scores) / nights if nights else 0.0
    best, begin, is_step = 0.0, nights, True
    step = slope = 0.0
    for night in range(nights - 1, first - 1, -1):
        after = nights - night
        step += scores[night] - mean
        slope += step
        if after < _FEWEST_AFTER or after == nights:
            continue
        as_step = step / math.sqrt(after - after**2 / nights)
        ramp = after * (after + 1) / 2
        as_slope = slope / math.sqrt(ramp * (2 * after + 1) / 3 - ramp**2 / nights)
        if max(as_step, as_slope) > best:
            best, begin, is_step = max(as_step, as_slope), night, as_step >= as_slope
    if best <= 0:
        return None
    return [0.0] * begin + [1.0 if is_step else night - begin + 1.0 for night in range(begin, nights)]


def _log_likelihoods(scores: Sequence[float], change: Sequence[float], common: Common) -> tuple[float, float]:
    """The logarithm of the likelihood of nights with one mean, and with a change besides; the variance is fitted.

    By the innovations of a Kalman filter, which those of the mean and of the change are regressed on: A. C. Harvey,
    Forecasting, structural time series models and the Kalman filter (1989), p. 130.
    """
    filter_ = _filter(common)
    decay, nights = common.decay, len(scores)
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
    wide = _log_variances(filter_, nights) / 2
    return -nights / 2 * math.log(quiet) - wide, -nights / 2 * math.log(changed) - wide


@functools.cache
def _filter(common: Common) -> tuple[tuple[float, float], ...]:
    """Of each night the weight of its innovation, one over its variance, and how much of it the next night has."""
    found, uncertain = [], common.share
    for _ in range(_SETTLED):
        variance = uncertain + 1 - common.share
        found.append((1 / variance, common.decay * uncertain / variance))
        left = uncertain * (1 - uncertain / variance)
        uncertain = common.decay**2 * left + common.share * (1 - common.decay**2)
    return tuple(found)


def _log_variances(filter_: Sequence[tuple[float, float]], nights: int) -> float:
    """The sum of the logarithms of the variances of so many innovations."""
    settled = max(0, nights - len(filter_))
    return -sum(math.log(weight) for weight, _ in filter_[:nights]) - settled * math.log(filter_[-1][0])
