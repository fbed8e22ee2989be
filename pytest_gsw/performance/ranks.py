"""Tests by ranks, which assume no distribution: one job that took twice as long counts as one slow job.

All are exact for small samples, ties included: the distribution is that over all ways in which the observed values
could have been dealt, counted and not sampled. Larger samples take the normal approximation with correction for ties
and for continuity.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

#: Pairs up to which the signed-rank test is exact.
_EXACT_SIGNED_RANK = 50


@dataclass(frozen=True)
class RankTest:
    """What a rank test says."""

    #: Mann and Whitney's U of the second sample, Wilcoxon's sum of positive ranks, or the number of positive signs.
    statistic: float
    #: Its distance from what is expected if nothing differs, in standard deviations, corrected for ties and for
    #: continuity; above zero: the second sample, or the differences, are larger.
    z: float
    #: Probability of a statistic as large as this one or larger if nothing differs.
    p_greater: float
    #: Probability of one as small or smaller.
    p_less: float
    #: Whether these two are counted, not approximated.
    exact: bool

    @property
    def p(self) -> float:
        """Both directions: twice the smaller probability, at most 1."""
        return min(1.0, 2 * min(self.p_greater, self.p_less))


def sign_test(differences: Sequence[float]) -> RankTest:
    """The exact sign test: do the pairs' differences tend to be positive? Those that are zero are left out.

    Raises:
        ValueError: A value is not finite.
    """
    _check(differences, 0)
    positive = sum(difference > 0 for difference in differences)
    count = positive + sum(difference < 0 for difference in differences)
    ways = [math.comb(count, heads) for heads in range(count + 1)]
    z = _z(positive - count / 2, count / 4)
    greater, less = sum(ways[positive:]), sum(ways[: positive + 1])
    return RankTest(float(positive), z, greater / 2**count, less / 2**count, exact=True)


def signed_rank(differences: Sequence[float]) -> RankTest:
    """The Wilcoxon signed-rank test: do the pairs' differences tend to be positive, by their size too?

    Differences of zero are left out before ranking, as Wilcoxon did; equal sizes share their mean rank, and the exact
    distribution is that over all signs of these very ranks.

    Raises:
        ValueError: A value is not finite.
    """
    _check(differences, 0)
    kept = [difference for difference in differences if difference != 0]
    twice, ties = _twice_ranks([abs(difference) for difference in kept])
    count = len(kept)
    twice_sum = sum(rank for rank, difference in zip(twice, kept, strict=True) if difference > 0)
    away = twice_sum / 2 - count * (count + 1) / 4
    variance = count * (count + 1) * (2 * count + 1) / 24 - ties / 48
    z = _z(away, variance)
    if count > _EXACT_SIGNED_RANK:
        return _approximate(twice_sum / 2, away, variance, z)
    counts: dict[int, int] = {0: 1}
    for rank in twice:
        more = dict(counts)
        for total, ways in counts.items():
            more[total + rank] = more.get(total + rank, 0) + ways
        counts = more
    greater, less, every = _tails(counts, twice_sum)
    return RankTest(twice_sum / 2, z, greater / every, less / every, exact=True)


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


def _tails(counts: dict[int, int], observed: int) -> tuple[int, int, int]:
    greater = sum(ways for total, ways in counts.items() if total >= observed)
    less = sum(ways for total, ways in counts.items() if total <= observed)
    return greater, less, sum(counts.values())


def _z(away: float, variance: float) -> float:
    """Standard deviations from what is expected, half a step less: the statistic moves in whole steps."""
    if variance <= 0:
        return 0.0  # all values are equal
    return math.copysign(max(abs(away) - 0.5, 0.0), away) / math.sqrt(variance)


def _approximate(statistic: float, away: float, variance: float, z: float) -> RankTest:
    if variance <= 0:
        return RankTest(statistic, z, 1.0, 1.0, exact=False)
    normal, sd = statistics.NormalDist(), math.sqrt(variance)
    p_greater, p_less = normal.cdf(-(away - 0.5) / sd), normal.cdf((away + 0.5) / sd)
    return RankTest(statistic, z, p_greater, p_less, exact=False)


def _check(values: Sequence[float], fewest: int) -> None:
    if len(values) < fewest:
        raise ValueError("an empty sample has no ranks")
    for value in values:
        if not math.isfinite(value):
            raise ValueError(f"{value} has no rank")
