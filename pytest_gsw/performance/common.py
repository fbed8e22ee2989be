"""What nights have in common: how much wider the mean of nights is spread than that of independent ones.

A busy cluster stays busy, in two ways. Nights may each have a part of what the one before had, AR(1). Or jobs differ
from each other, and a level that all of them share wanders below: then a night has little in common with the next one,
and as much with the tenth. One autocorrelation tells the first alone.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

#: How many nights apart two nights are, at most, that are held against each other.
_MOST_APART = 20

#: How much of its deviation a level keeps from one night to the next: those that are tried. More is a creep.
_DECAYS = (0.5, 0.6, 0.7, 0.8, 0.9)

#: Standard errors within which a share is none: less of them costs creeps, more of them false alarms.
_SEEN = 1.5

#: Most of a night's deviation from the mean of all that is taken as lost with this mean.
_MOST_LOST = 0.5

#: Estimates that begin with what the one before said is lost.
_ROUNDS = 3

#: Median absolute deviations at which a night is cut off, 2.5 standard deviations of normal noise: a single slow night
#: would hide what its neighbours have in common.
CUT = 2.5 * 1.4826


@dataclass(frozen=True)
class Common:
    """What nights have in common."""

    #: Lag-1 autocorrelation of an AR(1) process.
    rho: float = 0.0
    #: The share of the variance that is a level's, and how much of its deviation this keeps from night to night.
    share: float = 0.0
    decay: float = 0.0

    def inflation(self, nights: int) -> float:
        """The variance of the mean of so many nights, over that of independent ones: the larger of the two ways'."""
        return max(_inflation(self.rho, nights), 1 + self.share * (_inflation(self.decay, nights) - 1))


def _inflation(rho: float, nights: int) -> float:
    return (1 + rho) / (1 - rho) - 2 * rho * (1 - rho**nights) / (nights * (1 - rho) ** 2)


def common_of(parts: Sequence[Sequence[float]], rho: float) -> Common:
    """What nights have in common, of parts with a level each; ``rho`` is their lag-1 autocorrelation.

    The autocorrelations of a level under independent noise are share · decay**k (an ARMA(1, 1) process: C. W. J.
    Granger and M. J. Morris, Journal of the Royal Statistical Society A 139 (1976), p. 246). The two are fitted to
    those of 1 to 20 nights by least squares. A share within 1.5 standard errors of none is none. What all nights have
    in common is lost with their mean: the inflation over the number of nights (M. G. Kendall, Biometrika 41 (1954),
    p. 403).
    """
    rest = _about_mean([value - statistics.median(part) for part in parts if part for value in part])
    count, squares = len(rest), sum(value * value for value in rest)
    if squares <= 0 or count <= _MOST_APART:
        return Common(rho)
    seen = [
        sum(one * other for one, other in zip(rest, rest[lag:], strict=False)) / (count - lag) * count / squares
        for lag in range(1, _MOST_APART + 1)
    ]
    share, decay = 0.0, _DECAYS[0]
    for _ in range(_ROUNDS):
        lost = min(_MOST_LOST, (1 + share * (_inflation(decay, count) - 1)) / count)
        share, decay = _fitted([value * (1 - lost) + lost for value in seen], count)
    return Common(rho, share, decay)


def _about_mean(values: Sequence[float]) -> list[float]:
    """Values, outliers cut off, about their mean."""
    cut = CUT * statistics.median(map(abs, values)) if values else 0.0
    kept = [min(max(value, -cut), cut) for value in values]
    mean = statistics.fmean(kept) if kept else 0.0
    return [value - mean for value in kept]


def _fitted(autocorrelations: Sequence[float], nights: int) -> tuple[float, float]:
    best, found = math.inf, (0.0, _DECAYS[0])
    for decay in _DECAYS:
        powers = [decay**lag for lag in range(1, len(autocorrelations) + 1)]
        size = sum(power * power for power in powers)
        share = sum(one * power for one, power in zip(autocorrelations, powers, strict=True)) / size
        share = min(max(share, 0.0), 1.0)
        left = sum((one - share * power) ** 2 for one, power in zip(autocorrelations, powers, strict=True))
        if left < best:
            best, found = left, (share if share * math.sqrt(nights * size) > _SEEN else 0.0, decay)
    return found
