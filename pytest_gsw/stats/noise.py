"""Noise between jobs when nothing has changed, and the limit that follows from it.

One job is one point: the steps of one job share its nodes, its network neighbours and its hour, and do not predict the
next job. All noise here is the standard deviation of the natural logarithm of the figure *between* jobs. In
logarithms twice as slow and twice as fast are equally far away, and for a few percent the figure is the relative one:
sigma = 0.03 is 3 %.

A tolerance and a limit are losses of *speed*, as a fraction: with ``x`` the logarithm of a time over its reference, or
of a reference over a throughput, the loss is ``1 - exp(-x)``.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

#: Number of jobs in the frozen reference. Later ones never join it: with a moving window, a loss first widens its own
#: limit and then becomes the reference.
REFERENCE_JOBS = 30

#: Fewest jobs whose spread is better than the prior: with eight, it has a relative standard error of 29 %.
FEWEST_JOBS = 8

#: Fewest jobs for an accepted figure: the error of their median is about half of one job's.
ACCEPTED_JOBS = 5

#: Standard deviations by which the median of a row's jobs may differ from its reference: with normal noise, 0.1 % of
#: runs are farther out on the slow side (0.097 %).
K = 3.1

#: Noise above which a few more jobs do not detect a loss as large as the tolerance: at 5 % it takes 28 of them.
NOISY = 0.05

#: Standard deviations beyond which the first jobs of such a noisy row are followed by more, and those of a row whose
#: usual figure is known: with normal noise, 7 and 2 % of runs are farther out on the slow side. A wider screen costs
#: power, a narrower one jobs (benchmarks/decisions.py). The last is for the newest runs together.
SCREEN, USUAL_SCREEN, NEWEST_SCREEN = 1.5, 2.0, 2.5

#: The 0.1 % quantile of Student's distribution by the number of jobs from which the standard deviation is estimated:
#: the spread of 8, 15 and 30 jobs has 6, 12 and 26 degrees of freedom.
_STUDENT = ((30, 3.4), (25, 3.5), (20, 3.7), (15, 3.9), (12, 4.2), (10, 4.6), (8, 5.2))

#: The quantile of all distances between two values that is the spread, and its factor to the standard deviation of
#: normal values: two of them differ by a normal value of sqrt(2) standard deviations.
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

#: The probability that all intervals of a table contain the true ratios, for normal noise.
CONFIDENCE = 0.95
#: Normal values whose standard deviation is as precise as the robust scale of one job.
_SHARPNESS = 26 / 30
#: Fewest degrees of freedom of the approximation.
_FEWEST_FREE = 5

#: Upper limit on computed job counts: a tolerance near zero would need more than any number.
_MOST_JOBS = 10**9


@dataclass(frozen=True)
class OwnLevel:
    """The level of a row's own runs, whatever its document, in its metric's unit."""

    #: The usual figure: the median of a complete reference.
    usual: float
    #: The figures of the newest two runs.
    newest: tuple[float, ...] = ()


@dataclass(frozen=True)
class Noise:
    """The noise between jobs of one row on one cluster."""

    #: Standard deviation of the natural logarithm of the figure, between jobs.
    sigma: float
    #: Number of jobs in the history behind it; 0 for the prior.
    jobs: int
    #: Standard deviation between runs of the part that all jobs of one run share. If unknown, it is part of sigma.
    shared: float = 0.0
    #: The level of the same jobs; ``None`` until the reference is complete.
    level: OwnLevel | None = None

    def __post_init__(self) -> None:
        """Noise that is no number would compare as quiet."""
        if not math.isfinite(self.sigma + self.shared) or min(self.sigma, self.shared, self.jobs) < 0:
            raise ValueError(f"noise of {self.sigma} from {self.jobs} jobs is none")

    def of_median(self, jobs: int) -> float:
        """The standard deviation of the median of ``jobs`` jobs of one run; a ValueError for 0."""
        return math.hypot(self.shared, self.sigma * median_sd(jobs))

    @property
    def noisy(self) -> bool:
        """True if a run has too few jobs to detect a loss as large as the tolerance."""
        return self.sigma > NOISY


#: The noise assumed until there is a history. Measured: of 1,189 step times that Megatron-LM's repository recorded anew
#: with the same numerics, half differ from the one before by more than 1.7 %; between two jobs of sigma s that median
#: is 0.95 s, so s = 1.8 %. The value is 1.65 %, for which the limit of one job stays the default tolerance: K times it
#: is 5.1 %, and 5 % less throughput is a logarithm of 5.13 %.
PRIOR = Noise(sigma=0.0165, jobs=0)

#: Weight of the prior, in jobs, next to a history. The spread of eight jobs alone is often far too wide, and the row
#: then misses a loss of a tenth; with the prior its power at sigma = 3 % is 95 % instead of 94 %
#: (benchmarks/decisions.py), and jobs that happen to be equal do not make a limit of zero. A larger weight would let
#: noisy rows fail too often.
PRIOR_JOBS = 2


def reference(points: Sequence[float]) -> Sequence[float]:
    """The frozen reference of a row: its first runs, never later ones, from jobs' figures, oldest first."""
    return points[:REFERENCE_JOBS]


def prior_for(tolerance: float) -> Noise:
    """The noise assumed until there is a history: :data:`PRIOR`, or less if that would exceed the tolerance.

    A tolerance of 2 % implies that jobs differ by less. The usual noise would override the row's tolerance.
    """
    _check(tolerance)
    if tolerance >= 1:
        return PRIOR
    return Noise(min(PRIOR.sigma, -math.log1p(-tolerance) / K), 0)


def noise_of(values: Sequence[float], prior: Noise = PRIOR, least_spell: float = LEAST_ODD) -> Noise:
    """The noise between the jobs of a reference, oldest first; the prior until there are :data:`FEWEST_JOBS`.

    The jobs' own scale is the :func:`spread` of the :func:`usual` ones. Figures that are rounded to q add q/sqrt(12),
    the standard deviation of the rounding, which is also the least scale. The prior's variance counts for
    :data:`PRIOR_JOBS` next to it.

    Raises:
        ValueError: A figure is not finite and above zero.
    """
    logs = logarithms(values)
    if len(logs) < FEWEST_JOBS:
        return prior
    rounded = _printed_grid(values) / math.sqrt(12) / statistics.median(values)
    sigma = max(spread(usual(logs, least_spell)), rounded) + rounded
    return Noise(pooled(sigma, len(logs), prior.sigma, PRIOR_JOBS), len(logs))


def usual(logs: Sequence[float], least_spell: float = LEAST_ODD) -> Sequence[float]:
    """Jobs without slow periods and odd ones, which are 5 % and four deviations away from the middle.

    ``least_spell`` replaces the 5 % for periods. At most a fifth of the jobs is odd, and with periods a third. If more
    are so far away none is odd: a row that takes 125 s on some runs and 220 s on others is noisy, whichever is in the
    majority.
    """
    if len(logs) < FEWEST_JOBS:
        return logs
    middle = statistics.median(logs)
    deviation = _ODD_DEVIATIONS * _MAD * statistics.median(abs(log - middle) for log in logs)
    # A job is in a period if the median of it and its neighbours is as far away as such a median is odd.
    near = (logs[at : at + 3] for at in (0, *range(len(logs) - 2), len(logs) - 3))
    in_spell = [abs(statistics.median(jobs) - middle) > max(least_spell, deviation * median_sd(3)) for jobs in near]
    is_odd = [abs(log - middle) > max(LEAST_ODD, deviation) for log in logs]
    kept = [log for log, odd, period in zip(logs, is_odd, in_spell, strict=True) if not (odd or period)]
    alone = sum(odd and not period for odd, period in zip(is_odd, in_spell, strict=True))
    return kept if 3 * len(kept) >= 2 * len(logs) and 5 * alone <= len(logs) else logs


def spread(values: Sequence[float]) -> float:
    """A robust standard deviation: 70 % of all distances between two values are within 1.466 of it.

    A sixth of the values can be anywhere before it breaks. A median absolute deviation takes half of them, and reports
    a row of two levels as quiet as soon as one of the two is in the majority. For 30 normal values it is as sharp as
    the standard deviation of 26, and within 1 % of it on average; for 8, of 6 and within 2 % (the tests simulate it).
    Spreads of this kind: P. J. Bickel and E. L. Lehmann, Descriptive statistics for nonparametric models IV,
    Contributions to Statistics (Hájek memorial volume, 1979), p. 33.

    Raises:
        ValueError: There are fewer than two.
    """
    if len(values) < 2:
        raise ValueError(f"{len(values)} values have no spread")
    distances = sorted(abs(value - other) for value, other in itertools.combinations(values, 2))
    return distances[math.ceil(_SHARE * len(distances) - 1e-9) - 1] / _NORMAL


def _printed_grid(values: Sequence[float]) -> float:
    """The rounding of figures: the last decimal of any, if neighbours differ by no less; else 0."""
    distinct = sorted(set(values))
    grid = 10.0 ** -max(len(str(value).partition(".")[2]) for value in distinct)
    nearest = min((later - earlier for earlier, later in itertools.pairwise(distinct)), default=0.0)
    return grid if math.isclose(grid, nearest, rel_tol=1e-6) else 0.0


def pooled(sigma: float, jobs: float, other: float, other_jobs: float) -> float:
    """The pooled standard deviation of two, each weighted by its number of jobs."""
    return math.sqrt((jobs * sigma**2 + other_jobs * other**2) / (jobs + other_jobs))


def ratio_sd(noise: Noise, jobs: int, other_jobs: int) -> float:
    """The standard deviation of the logarithm of the ratio of two medians, each of the given number of jobs."""
    return noise.sigma * math.hypot(median_sd(jobs), median_sd(other_jobs))


def median_sd(jobs: int) -> float:
    """The standard deviation of the median of ``jobs`` jobs, over that of one job; a ValueError for 0."""
    if jobs < 1:
        raise ValueError(f"{jobs} jobs have no median")
    if jobs <= len(_MEDIAN_SD):
        return _MEDIAN_SD[jobs - 1]
    # The asymptote sqrt(pi / 2n) with its next term for an odd n; an even one has the spread of the next odd one, as
    # the table shows. Both within half a percent.
    odd = jobs | 1
    return math.sqrt(math.pi / (2 * odd) * (1 - (4 - math.pi) / (2 * odd)))


def deviations_of(z: float, jobs: int) -> float:
    """Standard deviations, estimated from so many jobs, that are as rare as ``z`` known ones.

    A robust scale of 30 jobs is as precise as the standard deviation of 26. The usual noise, of no jobs, counts as
    known. The quantile of Student's t by that of the normal distribution: M. Abramowitz and I. A. Stegun, Handbook of
    Mathematical Functions (1964), 26.7.5, which is within a hundredth from five degrees of freedom on.

    Raises:
        ValueError: There are fewer degrees of freedom than that.
    """
    if not jobs:
        return z
    free = _SHARPNESS * jobs + PRIOR_JOBS - 1
    if free < _FEWEST_FREE:
        raise ValueError(f"{jobs} jobs say too little of how much they differ")
    return (
        z
        + (z**3 + z) / (4 * free)
        + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * free**2)
        + (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * free**3)
    )


def interval(ratio: float, sd: float, jobs: int, rows: int = 1) -> tuple[float, float]:
    """The interval of a ratio whose logarithm has this standard deviation: all of ``rows`` are in theirs at once."""
    wide = sd * deviations_of(-statistics.NormalDist().inv_cdf((1 - CONFIDENCE) / rows / 2), jobs)
    return ratio * math.exp(-wide), ratio * math.exp(wide)


# -- limits by a tolerance, a fraction: a ValueError if it is not finite and above zero, or without a job ----


def limit(tolerance: float, noise: Noise, jobs: int = 1, rows: int = 1) -> float:
    """The loss of throughput beyond which the median of ``jobs`` jobs is a regression, as a fraction.

    max(tolerance, 1 - exp(-K · sigma · c)) with c from :func:`median_sd`: never less than the tolerance, and noise
    alone exceeds it in at most one of a thousand runs. Of ``rows`` rows judged together, none does in 99 of a hundred.
    """
    return _bound(tolerance, deviations(rows, noise.jobs) * noise.of_median(jobs))


def deviations(rows: int, jobs: int = 0) -> float:
    """Standard deviations that noise alone exceeds for any of ``rows`` rows in 1 % of runs; at least K.

    More if a standard deviation is estimated from few jobs: at least Student's quantile.

    The first step of Holm's procedure (Scandinavian Journal of Statistics 6 (1979), p. 65), which applies to a row that
    is slow alone. The next steps, which differ if many rows are slow, would have to wait for the others.
    """
    student = next((factor for fewest, factor in _STUDENT if jobs >= fewest), K)
    return max(student, -statistics.NormalDist().inv_cdf(0.01 / rows))


def screen(
    tolerance: float, noise: Noise, jobs: int = 1, usual: float | None = None, wide: float = USUAL_SCREEN
) -> float:
    """The loss of throughput beyond which a row needs more jobs before it is judged, as a fraction.

    It is the tolerance, and for a noisy row :data:`SCREEN` standard deviations if those are more. If the usual speed is
    known, it is less: ``wide`` standard deviations below that, and at least half of the tolerance. A lucky first job
    then hides no loss.

    Args:
        tolerance: Accepted loss of throughput.
        noise: Noise between jobs.
        jobs: Number of jobs.
        usual: The usual speed, as a ratio to the reference; ``None`` if unknown. It counts if it is the slower one.
        wide: Standard deviations.
    """
    if usual is None or noise.noisy:
        return _bound(tolerance, SCREEN * noise.of_median(jobs) if noise.noisy else 0.0)
    return min(tolerance, 1 - min(1.0, usual) * (1 - _bound(tolerance / 2, wide * noise.of_median(jobs))))


def gain_limit(tolerance: float, noise: Noise, jobs: int = 1) -> float:
    """The gain of throughput beyond which the median of ``jobs`` jobs is an improvement, as a fraction."""
    _check(tolerance)
    return max(tolerance, math.expm1(K * noise.of_median(jobs)))


def jobs_to_resolve(tolerance: float, noise: Noise) -> int:
    """The number of jobs whose median detects a loss as large as the tolerance.

    The fewest n for which (z(0.001) + z(0.9)) · sigma · c(n) is at most -ln(1 - tolerance), a billion at most. The loss
    is detected in 90 % of runs, with false alarms in one of a thousand.

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


def median_interval(values: Sequence[float]) -> tuple[float, float, float]:
    """The ends and the confidence (a fraction) of the median's interval by order statistics, for any distribution.

    It goes from the k-th lowest to the k-th highest job, with the largest k that leaves 95 % of confidence or more.
    With fewer than six jobs no interval has as much; it goes from the lowest to the highest with the confidence that
    this has: 50 % of two jobs, 75 % of three, 87.5 % of four, 93.75 % of five, and none of a single one. The confidence
    is 1 - 2 · P(B < k), B binomial of n and one half.

    Raises:
        ValueError: There is no job, or a figure is not finite and above zero.
    """
    logarithms(values)
    if not values:
        raise ValueError("no jobs have no median")
    ordered, count = sorted(values), len(values)
    # Sequences of coin tosses with at most so many heads, in whole numbers: a float has no 2**1100.
    outside = [*itertools.accumulate(math.comb(count, heads) for heads in range((count + 1) // 2))]
    cut = max(0, sum(40 * tosses <= 2**count for tosses in outside) - 1)
    return ordered[cut], ordered[-1 - cut], 1 - 2 * outside[cut] / 2**count


def _bound(tolerance: float, log_time: float) -> float:
    _check(tolerance)
    return max(tolerance, -math.expm1(-log_time))


def _check(tolerance: float) -> None:
    if not math.isfinite(tolerance) or tolerance <= 0:
        raise ValueError(f"a tolerance of {tolerance} is none")


def logarithms(values: Sequence[float]) -> list[float]:
    """The logarithms of jobs' figures; a ValueError if one is not finite and above zero."""
    for value in values:
        if not math.isfinite(value) or value <= 0:
            raise ValueError(f"{value} is no figure of a job")
    return [math.log(value) for value in values]
