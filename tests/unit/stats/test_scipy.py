"""Probabilities, quantiles and likelihoods are those of SciPy."""

from __future__ import annotations

import math
import random
from typing import Any

import pytest

from pytest_gsw.stats.drift import Autocorrelation, _log_likelihoods, normal_scores, rank_sum
from pytest_gsw.stats.noise import deviations, median_sd
from pytest_gsw.stats.slow_nodes import log_tail

stats: Any = pytest.importorskip("scipy.stats", exc_type=ImportError)
numpy: Any = pytest.importorskip("numpy", exc_type=ImportError)

pytestmark = pytest.mark.sampled(2)


def seeds(number: int) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("seed", range(number))


def near(expected: float, digits: int = 9) -> Any:
    return pytest.approx(float(expected), rel=10.0**-digits, abs=10.0**-digits)


@seeds(40)
def test_tail_of_a_binomial(seed: int) -> None:
    rng = random.Random(seed)  # noqa: S311
    of = rng.choice((1, 2, 7, 40, 300, 20_000))
    count, share = rng.randint(0, of), rng.random() ** rng.choice((1, 4))
    expected = stats.binom.logsf(count - 1, of, share)
    if math.isfinite(expected):
        assert log_tail(count, of, share) == near(expected, 6)
    else:  # SciPy takes the logarithm of what is too small for a float
        assert log_tail(count, of, share) < math.log(5e-324)


@seeds(20)
def test_normal_scores(seed: int) -> None:
    rng = random.Random(seed)  # noqa: S311
    values = [round(rng.gauss(0, 1), seed % 4) for _ in range(rng.randint(2, 80))]
    expected = stats.norm.ppf(stats.rankdata(values) / (len(values) + 1))
    assert normal_scores(values) == [near(one) for one in expected]


@seeds(20)
def test_rank_sum(seed: int) -> None:
    rng = random.Random(seed)  # noqa: S311
    first = [round(rng.gauss(0, 1), seed % 3) for _ in range(rng.randint(5, 40))]
    second = [round(rng.gauss(0.5, 1), seed % 3) for _ in range(rng.randint(5, 40))]
    found = stats.mannwhitneyu(second, first, method="asymptotic", alternative="two-sided")
    z = rank_sum(first, second)
    assert min(1.0, 2 * stats.norm.sf(abs(z))) == near(found.pvalue)
    if z:
        assert (z > 0) == (found.statistic > len(first) * len(second) / 2)


@seeds(30)
def test_likelihood_of_levels_that_wander(seed: int) -> None:
    rng = random.Random(seed)  # noqa: S311
    runs, common = rng.choice((8, 30, 70, 150)), Autocorrelation(rng.uniform(0, 0.9), rng.uniform(0.3, 0.97))
    begin = rng.randint(1, runs - 4)
    change = [0.0 if run < begin else 1.0 + (seed % 2) * (run - begin) for run in range(runs)]
    scores = [rng.gauss(0, 1) + 0.3 * course for course in change]
    apart = numpy.abs(numpy.subtract.outer(numpy.arange(runs), numpy.arange(runs)))
    covariance = common.share * common.decay**apart + (1 - common.share) * numpy.eye(runs)

    def fitted(*courses: list[float]) -> float:
        """The logarithm of the likelihood, less what is the same for each model of so many runs."""
        by = numpy.array(courses).T
        weights = numpy.linalg.inv(covariance)
        mean = by @ numpy.linalg.solve(by.T @ weights @ by, by.T @ weights @ numpy.array(scores))
        left = numpy.array(scores) - mean
        variance = left @ weights @ left / runs
        whole = stats.multivariate_normal.logpdf(scores, mean, variance * covariance)
        return float(whole + runs / 2 * (math.log(2 * math.pi / runs) + 1))

    quiet, changed = _log_likelihoods(scores, change, common)
    assert quiet == near(fitted([1.0] * runs), 6)
    assert changed == near(fitted([1.0] * runs, change), 6)


@pytest.mark.parametrize("jobs", [1, 3, 5, 7, 9, 11, 15, 25, 51, 101])
def test_spread_of_a_median(jobs: int) -> None:
    half = (jobs + 1) / 2
    variance = stats.beta(half, half).expect(lambda share: stats.norm.ppf(share) ** 2)
    assert median_sd(jobs) == pytest.approx(math.sqrt(variance), rel=0.005)


@pytest.mark.parametrize("rows", [1, 2, 10, 141, 5000])
def test_deviations_of_so_many_rows(rows: int) -> None:
    assert deviations(rows) == near(max(deviations(1), stats.norm.isf(0.01 / rows)))
