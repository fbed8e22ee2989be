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

#: Values, of both samples together, up to which a rank sum is exact; above it the approximation is good to a
#: thousandth, and the count would take long.
_EXACT_RANK_SUM = 20


@dataclass(frozen=True)
class RankTest:
    """What a rank test says."""

    #: Mann and Whitney's U of the second sample.
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


def rank_sum(first: Sequence[float], second: Sequence[float]) -> RankTest:
    """The Wilcoxon rank-sum (Mann-Whitney U) test: does the second sample tend to be larger than the first?

    Source: E. L. Lehmann, Nonparametrics (1975), chapter 1: the variance with ties is
    m n / 12 · (N + 1 - sum(t^3 - t) / (N (N - 1))).

    Raises:
        ValueError: One of them is empty, or a value is not finite.
    """
    _check(first, 1)
    _check(second, 1)
    values = [*first, *second]
    twice, ties = _twice_ranks(values)
    m, n, total = len(first), len(second), len(values)
    twice_sum = sum(twice[m:])
    u = (twice_sum - n * (n + 1)) / 2
    variance = m * n / 12 * (total + 1 - ties / (total * (total - 1)))
    z = _z(u - m * n / 2, variance)
    if total > _EXACT_RANK_SUM:
        return _approximate(u, u - m * n / 2, variance, z)
    counts = _sums_of(twice, n)
    greater, less, every = _tails(counts, twice_sum)
    return RankTest(u, z, greater / every, less / every, exact=True)


def theil_sen(xs: Sequence[float], ys: Sequence[float]) -> float:
    """The median of the slopes between any two points: 29 % of the points can be outliers before it breaks.

    Source: P. K. Sen, JASA 63 (1968), p. 1379.

    Raises:
        ValueError: There are not as many of one as of the other, a value is not finite, or there are no two
            different places.
    """
    if len(xs) != len(ys):
        raise ValueError(f"{len(xs)} places have {len(ys)} values")
    _check(xs, 0)
    _check(ys, 0)
    points = sorted(zip(xs, ys, strict=True))
    slopes = [
        (y - before_y) / (x - before_x)
        for position, (x, y) in enumerate(points)
        for before_x, before_y in points[:position]
        if x > before_x
    ]
    if not slopes:
        raise ValueError("a slope needs points at two different places")
    return statistics.median(slopes)


def normal_scores(values: Sequence[float]) -> list[float]:
    """The normal values that have the same ranks, so that one value that is twice as large is one large value.

    Source: B. L. van der Waerden, Indagationes Mathematicae 14 (1952), p. 453: the quantile of rank / (n + 1).

    Raises:
        ValueError: A value is not finite.
    """
    _check(values, 0)
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


def _sums_of(ranks: Sequence[int], size: int) -> dict[int, int]:
    """In how many ways so many of these ranks have each sum."""
    table: list[dict[int, int]] = [{0: 1}, *({} for _ in range(size))]
    for rank in ranks:
        for taken in range(size, 0, -1):
            for total, ways in table[taken - 1].items():
                table[taken][total + rank] = table[taken].get(total + rank, 0) + ways
    return table[size]


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
