"""How much jobs differ from each other when nothing has changed, and the limit that follows from it.

One job is one point: the steps of one job share its nodes, its network neighbours and its hour, and say nothing about
how the next job will be. All noise here is the standard deviation of the natural logarithm of the step time *between*
jobs. In logarithms twice as slow and twice as fast are equally far away, and for a few percent the figure is the
relative one: sigma = 0.03 is 3 %.

A tolerance and a limit are losses of *throughput*, as a fraction: with ``x`` the logarithm of the step time over its
reference, the loss is ``1 - exp(-x)``.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

#: How many jobs make the frozen reference. Later ones never join it: with a window that moves along, a loss first
#: widens its own limit and then becomes the reference.
REFERENCE_JOBS = 30

#: Fewest jobs whose spread says more than the prior does: of eight, it has a relative standard error of 29 %.
FEWEST_JOBS = 8

#: Fewest jobs behind a figure that a cluster accepts: their median is off by about half of what one job is off by.
ACCEPTED_JOBS = 5

#: Standard deviations that the median of a row's jobs may be away from its reference: of normal noise, 0.1 % of runs
#: are farther out on the slow side (0.097 %).
K = 3.1

#: Noise above which a few more jobs do not tell a loss of the tolerance's size from none: at 5 % it takes 28 of them.
NOISY = 0.05

#: Standard deviations beyond which the first jobs of such a noisy row are followed by more: of normal noise, 7 % of
#: runs are farther out on the slow side. A wider screen costs power, a narrower one jobs (benchmarks/decisions.py).
SCREEN = 1.5

#: The share of all distances between two values that the spread is not beyond, and what makes it the standard
#: deviation of normal values: two of them are a normal value of sqrt(2) standard deviations apart.
_SHARE = 0.7
_NORMAL = math.sqrt(2) * statistics.NormalDist().inv_cdf((1 + _SHARE) / 2)

#: Jobs of a reference are odd beyond this, and beyond so many standard deviations, by the median absolute deviation.
LEAST_ODD = 0.05
_ODD_DEVIATIONS = 4.0
_MAD = 1 / statistics.NormalDist().inv_cdf(0.75)

#: The standard deviation of the median of n independent normal values over that of one, for n = 1 to 10, by numerical
#: integration over the order statistics (the tests repeat it; the squares are those of D. Teichroew, Annals of
#: Mathematical Statistics 27 (1956), p. 410, table I).
_MEDIAN_SD = (1.0, 0.70711, 0.66983, 0.54609, 0.53557, 0.46343, 0.45874, 0.41015, 0.40756, 0.37200)

#: More jobs than are ever run; what a tolerance of next to nothing needs is beyond all numbers.
_MOST_JOBS = 10**9


@dataclass(frozen=True)
class Noise:
    """How much the jobs of one row on one cluster differ when nothing has changed."""

    #: Standard deviation of the natural logarithm of the step time, between jobs.
    sigma: float
    #: Jobs of the history that it comes from; 0: it is the prior.
    jobs: int
    #: What all jobs of one run have in common, beside that: its standard deviation between runs. Where it is not
    #: known, it is part of what jobs differ by.
    shared: float = 0.0

    def __post_init__(self) -> None:
        """Noise that is no number would compare as quiet."""
        if not math.isfinite(self.sigma + self.shared) or min(self.sigma, self.shared, self.jobs) < 0:
            raise ValueError(f"noise of {self.sigma} from {self.jobs} jobs is none")

    def of_median(self, jobs: int) -> float:
        """The standard deviation of the median of so many jobs of one run; a ValueError for none."""
        return math.hypot(self.shared, self.sigma * median_sd(jobs))

    @property
    def noisy(self) -> bool:
        """Whether it takes more jobs than a run has to tell a loss of the tolerance's size from none."""
        return self.sigma > NOISY


#: What is taken until there is a history. Measured: of 1,189 step times that Megatron-LM's repository recorded anew
#: with the same numerics, half differ from the one before by more than 1.7 %; between two jobs of sigma s that median
#: is 0.95 s, so s = 1.8 %. Taken is 1.65 %, so that the limit of one job stays the default tolerance: K times it is
#: 5.1 %, and 5 % less throughput is a logarithm of 5.13 %.
PRIOR = Noise(sigma=0.0165, jobs=0)

#: How many jobs the prior counts for beside those of a history. The spread of eight jobs alone is often far too wide,
#: and the row then misses a loss of a tenth; with the prior its power at sigma = 3 % is 95 % instead of 94 %
#: (benchmarks/decisions.py), and jobs that happen to be all alike do not make a limit of nothing. More of it would let
#: noisy rows fail too often.
PRIOR_JOBS = 2


@dataclass(frozen=True)
class Interval:
    """An interval that holds the median of the jobs that could have run."""

    low_s: float
    high_s: float
    #: The probability with which such an interval does, whatever the distribution, as a fraction.
    confidence: float


def reference(points_s: Sequence[float]) -> Sequence[float]:
    """The frozen reference of a row: its first runs, and never any later ones, from jobs' seconds, oldest first."""
    return points_s[:REFERENCE_JOBS]


def prior_for(tolerance: float) -> Noise:
    """What is taken until there is a history: :data:`PRIOR`, and less where that would go beyond the tolerance.

    Who allows 2 % says that jobs differ by less. The usual noise would take the row's tolerance away.
    """
    _check(tolerance)
    if tolerance >= 1:
        return PRIOR
    return Noise(min(PRIOR.sigma, -math.log1p(-tolerance) / K), 0)


def noise_of(reference_s: Sequence[float], prior: Noise = PRIOR, least_spell: float = LEAST_ODD) -> Noise:
    """The noise between the jobs of a reference, oldest first; the prior until there are :data:`FEWEST_JOBS`.

    The jobs' own scale is the :func:`spread` of the :func:`usual` ones. Times that are rounded to q add q/sqrt(12), the
    standard deviation of what is rounded off, and no scale is less. The prior's variance counts for :data:`PRIOR_JOBS`
    beside it.

    Raises:
        ValueError: A time is not finite and above zero.
    """
    logs = logarithms(reference_s)
    if len(logs) < FEWEST_JOBS:
        return prior
    rounded = _printed_grid(reference_s) / math.sqrt(12) / statistics.median(reference_s)
    sigma = max(spread(usual(logs, least_spell)), rounded) + rounded
    return Noise(pooled(sigma, len(logs), prior.sigma, PRIOR_JOBS), len(logs))


def usual(logs: Sequence[float], least_spell: float = LEAST_ODD) -> Sequence[float]:
    """Jobs without spells and odd ones, which are 5 % and four deviations away from the middle; spells may be less.

    A fifth of them at most is odd, and with spells a third. Where more are so far away none is odd: a row that takes
    125 s on some runs and 220 s on others is noisy, whichever is in the majority.
    """
    if len(logs) < FEWEST_JOBS:
        return logs
    middle = statistics.median(logs)
    deviation = _ODD_DEVIATIONS * _MAD * statistics.median(abs(log - middle) for log in logs)
    # A job is in a spell where the median of it and its neighbours is as far away as such a median is odd.
    near = (logs[at : at + 3] for at in (0, *range(len(logs) - 2), len(logs) - 3))
    in_spell = [abs(statistics.median(jobs) - middle) > max(least_spell, deviation * median_sd(3)) for jobs in near]
    is_odd = [abs(log - middle) > max(LEAST_ODD, deviation) for log in logs]
    kept = [log for log, odd, spell in zip(logs, is_odd, in_spell, strict=True) if not (odd or spell)]
    alone = sum(odd and not spell for odd, spell in zip(is_odd, in_spell, strict=True))
    return kept if 3 * len(kept) >= 2 * len(logs) and 5 * alone <= len(logs) else logs


def spread(values: Sequence[float]) -> float:
    """A robust standard deviation: 70 % of all distances between two values are within 1.466 of it.

    A sixth of the values can be anywhere before it breaks. A median absolute deviation takes half of them, and calls a
    row of two levels quiet as soon as one of the two is in the majority. For 30 normal values it is as sharp as the
    standard deviation of 26, and within 1 % of it on average; for 8, of 6 and within 2 % (the tests simulate it).
    Spreads of this kind: P. J. Bickel and E. L. Lehmann, Descriptive statistics for nonparametric models IV,
    Contributions to Statistics (Hájek memorial volume, 1979), p. 33.

    Raises:
        ValueError: There are fewer than two.
    """
    if len(values) < 2:
        raise ValueError(f"{len(values)} values have no spread")
    distances = sorted(abs(one - other) for one, other in itertools.combinations(values, 2))
    return distances[math.ceil(_SHARE * len(distances) - 1e-9) - 1] / _NORMAL


def _printed_grid(times_s: Sequence[float]) -> float:
    """What times are rounded to, the last decimal of any, where neighbours differ by no less; 0 where they do not."""
    distinct = sorted(set(times_s))
    grid = 10.0 ** -max(len(str(time_s).partition(".")[2]) for time_s in distinct)
    nearest = min((later - earlier for earlier, later in itertools.pairwise(distinct)), default=0.0)
    return grid if math.isclose(grid, nearest, rel_tol=1e-6) else 0.0


def pooled(sigma: float, jobs: float, other: float, other_jobs: float) -> float:
    """One standard deviation of two, each counting for so many jobs."""
    return math.sqrt((jobs * sigma**2 + other_jobs * other**2) / (jobs + other_jobs))


def ratio_sd(noise: Noise, jobs: int, other_jobs: int) -> float:
    """The standard deviation of the logarithm of the ratio of two medians, each of so many jobs."""
    return noise.sigma * math.hypot(median_sd(jobs), median_sd(other_jobs))


def median_sd(jobs: int) -> float:
    """The standard deviation of the median of so many jobs, over that of one job; a ValueError for none."""
    if jobs < 1:
        raise ValueError(f"{jobs} jobs have no median")
    if jobs <= len(_MEDIAN_SD):
        return _MEDIAN_SD[jobs - 1]
    # The asymptote sqrt(pi / 2n) with its next term for an odd n; an even one has the spread of the next odd one, as
    # the table shows. Both within half a percent.
    odd = jobs | 1
    return math.sqrt(math.pi / (2 * odd) * (1 - (4 - math.pi) / (2 * odd)))


# -- limits by a tolerance, a fraction: a ValueError where it is not finite and above zero, or there is no job ----


def limit(tolerance: float, noise: Noise, jobs: int = 1, rows: int = 1) -> float:
    """The loss of throughput beyond which the median of so many jobs is a regression, as a fraction.

    max(tolerance, 1 - exp(-K · sigma · c)) with c from :func:`median_sd`: never less than the tolerance, and never so
    little that noise alone goes beyond it more often than in one of a thousand runs. Of so many rows that are judged
    together, none does in 99 of a hundred.
    """
    return _bound(tolerance, deviations(rows) * noise.of_median(jobs))


def deviations(rows: int) -> float:
    """How many standard deviations noise alone goes beyond for any of so many rows in 1 % of runs, at least K.

    The first step of Holm's procedure (Scandinavian Journal of Statistics 6 (1979), p. 65), at which a row is tested
    that is slow alone. The others are not waited for to take the next ones, which differ where many rows are slow.
    """
    return max(K, -statistics.NormalDist().inv_cdf(0.01 / rows))


def screen(tolerance: float, noise: Noise, jobs: int = 1) -> float:
    """The loss of throughput beyond which a row needs more jobs before it is judged, as a fraction.

    It is the tolerance, and for a noisy row :data:`SCREEN` standard deviations where those are more.
    """
    return _bound(tolerance, SCREEN * noise.of_median(jobs) if noise.noisy else 0.0)


def gain_limit(tolerance: float, noise: Noise, jobs: int = 1) -> float:
    """The gain of throughput beyond which the median of so many jobs is an improvement, as a fraction."""
    _check(tolerance)
    return max(tolerance, math.expm1(K * noise.of_median(jobs)))


def jobs_to_resolve(tolerance: float, noise: Noise) -> int:
    """How many jobs it takes until their median tells a loss as large as the tolerance from none.

    The fewest n for which (z(0.001) + z(0.9)) · sigma · c(n) is at most -ln(1 - tolerance), a billion at most: it is
    found in 90 % of runs, and in one of a thousand where there is none.

    Raises:
        ValueError: The tolerance is not between 0 and 1.
    """
    _check(tolerance)
    if tolerance >= 1:
        raise ValueError(f"no job is needed to find a loss of {tolerance:.0%}")
    normal = statistics.NormalDist()
    needed = (normal.inv_cdf(0.9) - normal.inv_cdf(0.001)) * noise.sigma / -math.log1p(-tolerance)
    if math.pi / 2 * min(needed, _MOST_JOBS) ** 2 > _MOST_JOBS:
        return _MOST_JOBS
    # c(n) falls as 1.2533 / sqrt(n); from a little below the n of the asymptote, go up to the first that is enough.
    jobs = max(1, math.floor(math.pi / 2 * needed**2) - 8)
    while needed * median_sd(jobs) > 1:
        jobs += 1
    return jobs


def median_interval(times_s: Sequence[float]) -> Interval:
    """The interval of the median by order statistics, whatever the distribution.

    It goes from the k-th fastest to the k-th slowest job, with the largest k that leaves 95 % of confidence or more;
    with fewer than six jobs no interval has as much, and it goes from the fastest to the slowest with the confidence
    that this has: 50 % of two jobs, 75 % of three, 87.5 % of four, 93.75 % of five, and none of a single one.
    The confidence is 1 - 2 · P(B < k), B binomial of n and one half.

    Raises:
        ValueError: There is no job, or a time is not finite and above zero.
    """
    logarithms(times_s)
    if not times_s:
        raise ValueError("no jobs have no median")
    ordered = sorted(times_s)
    count = len(ordered)
    # In whole numbers: a float has no 2**1100.
    halves, cut = 2**count, 0
    outside = 1  # sequences of coin tosses with at most `cut` heads
    while True:
        further = outside + math.comb(count, cut + 1)
        if cut + 1 > (count - 1) // 2 or 40 * further > halves:
            break
        outside, cut = further, cut + 1
    return Interval(ordered[cut], ordered[-1 - cut], 1 - (2 * outside) / halves)


def _bound(tolerance: float, log_time: float) -> float:
    _check(tolerance)
    return max(tolerance, -math.expm1(-log_time))


def _check(tolerance: float) -> None:
    if not math.isfinite(tolerance) or tolerance <= 0:
        raise ValueError(f"a tolerance of {tolerance} is none")


def logarithms(times_s: Sequence[float]) -> list[float]:
    """The logarithms of jobs' seconds; a ValueError where one is not finite and above zero."""
    for time_s in times_s:
        if not math.isfinite(time_s) or time_s <= 0:
            raise ValueError(f"a job cannot take {time_s} seconds a step")
    return [math.log(time_s) for time_s in times_s]
