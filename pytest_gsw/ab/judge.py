"""What pairs of turns say of two settings: a value, from which text is made elsewhere."""

from __future__ import annotations

import enum
import itertools
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from pytest_gsw.performance.ranks import sign_test, signed_rank

#: A difference is shown where chance alone would show one as large, in either direction, this seldom or less.
ALPHA = 0.05
#: With fewer pairs, not even one that is the same in every pair is that seldom: five of one sign have p = 2/32.
LEAST_PAIRS = 6
#: Up to this number the test counts all cases; beyond it, it would approximate.
MOST_PAIRS = 50

#: What the logarithms of two equal ratios may differ by.
_DIGITS = 12


class Result(enum.Enum):
    """How side B compares with side A."""

    SLOWER = "slower"
    FASTER = "faster"
    NO_DIFFERENCE = "no_difference"
    NOT_MEASURED = "not_measured"


@dataclass(frozen=True)
class Comparison:
    """The result, and the numbers it rests on. Ratios are of throughput, B over A: 0.95 is 5 % less."""

    result: Result
    pairs: int
    #: ``None`` without a pair.
    median_ratio: float | None = None
    #: Between these lies the true ratio in at least 95 of 100 such comparisons.
    interval: tuple[float, float] | None = None
    #: Two-sided p of the exact Wilcoxon signed-rank test, which decides, and of the sign test.
    p_signed_rank: float | None = None
    p_sign: float | None = None
    #: The least difference of throughput, as a fraction, that so many pairs with this noise show.
    smallest_shown: float | None = None


def least_p(pairs: int) -> float:
    """The smallest two-sided p that so many pairs can have: all of one sign."""
    return min(1.0, math.ldexp(2.0, -pairs))


def compare(times_s: Sequence[tuple[float, float]]) -> Comparison:
    """Compare two sides by the judged seconds of A and of B in each pair."""
    logs = [round(math.log(a_s / b_s), _DIGITS) for a_s, b_s in times_s]
    median_ratio = math.exp(statistics.median(logs)) if logs else None
    if len(logs) < LEAST_PAIRS:
        return Comparison(Result.NOT_MEASURED, len(logs), median_ratio)
    ranks = signed_rank(logs)
    result = Result.NO_DIFFERENCE
    if ranks.p <= ALPHA:
        result = Result.SLOWER if ranks.p_less < ranks.p_greater else Result.FASTER
    low, high = _interval(logs)
    return Comparison(
        result,
        len(logs),
        median_ratio,
        interval=(math.exp(low), math.exp(high)),
        p_signed_rank=ranks.p,
        p_sign=sign_test(logs).p,
        smallest_shown=1 - math.exp(-(high - low) / 2),
    )


def _interval(logs: Sequence[float]) -> tuple[float, float]:
    """The shifts that the signed-rank test does not reject.

    Source: M. Hollander, D. A. Wolfe and E. Chicken, Nonparametric Statistical Methods (2014), section 3.3: the
    bounds are order statistics of the means of all pairs of values, each with itself too.
    """
    means = sorted((one + other) / 2 for one, other in itertools.combinations_with_replacement(logs, 2))
    rejected = _rejected_sums(len(logs))
    return means[rejected - 1], means[len(means) - rejected]


def _rejected_sums(count: int) -> int:
    """How many of the lowest rank sums 0, 1, 2 … are rejected, by a test that rejects as many of the highest."""
    ways = [1] + [0] * (count * (count + 1) // 2)
    for rank in range(1, count + 1):
        for total in range(len(ways) - 1, rank - 1, -1):
            ways[total] += ways[total - rank]
    tail = list(itertools.accumulate(ways))
    return sum(2 * below <= ALPHA * 2**count for below in tail)
