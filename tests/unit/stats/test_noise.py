from __future__ import annotations

import itertools
import math
import random
import statistics
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_gsw.stats import noise as noises
from pytest_gsw.stats.noise import (
    FEWEST_JOBS,
    NOISY,
    PRIOR,
    PRIOR_JOBS,
    REFERENCE_JOBS,
    Noise,
    deviations,
    gain_limit,
    jobs_to_resolve,
    limit,
    median_interval,
    median_sd,
    noise_of,
    pooled,
    prior_for,
    reference,
    screen,
    spread,
    usual,
)

TIMES = st.floats(1e-3, 1e6)
SIGMAS = st.floats(0, 0.5)
TOLERANCES = st.floats(1e-4, 0.9)
JOBS = st.integers(1, 40)
#: What the figures are stated for: the tolerance is 5 %, unless a row says something else.
TOLERANCE = 0.05


def jobs(sigma: float, count: int, seed: int) -> list[float]:
    rng = random.Random(seed)  # noqa: S311 - noise, not cryptography
    return [4.5 * math.exp(rng.gauss(0, sigma)) for _ in range(count)]


def test_the_prior_keeps_the_default_tolerance() -> None:
    assert limit(TOLERANCE, PRIOR) == screen(TOLERANCE, PRIOR) == TOLERANCE
    assert limit(TOLERANCE, PRIOR, 5) == TOLERANCE
    assert PRIOR.jobs == 0


@pytest.mark.parametrize("count", range(FEWEST_JOBS))
def test_a_short_history_gives_the_prior(count: int) -> None:
    assert noise_of(jobs(0.3, count, 1)) == PRIOR


@pytest.mark.sampled(2)
@pytest.mark.parametrize("sigma", [0.01, 0.03, 0.08])
@pytest.mark.parametrize("count", [FEWEST_JOBS, REFERENCE_JOBS])
def test_the_noise_is_about_right(sigma: float, count: int) -> None:
    found = [noise_of(jobs(sigma, count, seed)) for seed in range(200)]
    assert {one.jobs for one in found} == {count}
    weight = noises.PRIOR_JOBS / (noises.PRIOR_JOBS + count)
    pooled = math.sqrt(weight * PRIOR.sigma**2 + (1 - weight) * sigma**2)
    assert statistics.median(one.sigma for one in found) == pytest.approx(pooled, rel=0.07)


def test_a_tenth_of_outliers_does_not_make_a_quiet_row_noisy() -> None:
    times_s = jobs(0.01, REFERENCE_JOBS, 3)
    for place in (3, 14, 27):
        times_s[place] *= 3
    assert noise_of(times_s).sigma < 0.02
    assert statistics.stdev(map(math.log, times_s)) > 0.3
    assert 0 < noise_of([4.5] * REFERENCE_JOBS).sigma < PRIOR.sigma
    assert noise_of([4.5] * FEWEST_JOBS).sigma == pytest.approx(PRIOR.sigma / math.sqrt(5))


@pytest.mark.parametrize(
    ("times_s", "grid"),
    [
        ([0.43] * 25 + [0.44] * 3 + [0.42] * 2, 0.01),
        ([0.4] * 28 + [0.41] * 2, 0.01),
        ([0.43] * 30, 0.0),  # nobody knows
        ([5.0] * 29 + [5.5], 0.0),  # an odd run, and no grid
        ([0.43 + number / 7000 for number in range(30)], 0.0),
    ],
)
def test_what_is_rounded_off_is_part_of_the_noise(times_s: list[float], grid: float) -> None:
    rounded = grid / math.sqrt(12) / statistics.median(times_s)
    scale = spread(usual([math.log(time_s) for time_s in times_s]))
    expected = pooled(max(scale, rounded) + rounded, 30, PRIOR.sigma, PRIOR_JOBS)
    assert noise_of(times_s).sigma == pytest.approx(expected)


@pytest.mark.parametrize("slow", [3, 4, 5, 6])
def test_a_row_of_two_levels_is_noisy(slow: int) -> None:
    # 52B on 64 GPUs in the GPT-2 document, on four days: 129, 217, 125, 225 s. Of as many slow runs as quick ones, and
    # of fewer, the median absolute deviation would see none, and every slow run would fail.
    times_s = [129.0, 125.0] * 5
    for number in range(slow):  # between the others: runs in a row are a spell
        times_s.insert(number * 13 // slow, [217.0, 225.0][number % 2])
    assert noise_of(times_s).sigma > 0.3
    assert noise_of(times_s).noisy


@given(st.lists(TIMES, min_size=FEWEST_JOBS, max_size=40), st.floats(1e-3, 1e3))
def test_noise_does_not_depend_on_the_unit_nor_a_spread_on_the_order(times_s: list[float], unit: float) -> None:
    found = noise_of(times_s)
    assert noise_of([time_s * unit for time_s in times_s]).sigma == pytest.approx(found.sigma, abs=1e-6)
    assert spread(sorted(times_s)) == spread(times_s)


@given(st.lists(st.integers(0, 50).map(float), min_size=2, max_size=12))
def test_the_spread_is_that_of_its_definition(values: list[float]) -> None:
    distances = [abs(one - other) for one, other in itertools.combinations(values, 2)]
    found = spread(values) * 1.46574
    within = sum(distance <= found * (1 + 1e-4) for distance in distances)
    less = sum(distance < found * (1 - 1e-4) for distance in distances)
    assert within >= 0.7 * len(distances) - 1e-6
    assert less < 0.7 * len(distances) + 1e-6


@pytest.mark.sampled(2)
@pytest.mark.parametrize("count", [8, 9, 10, 15, 30])
def test_the_spread_of_normal_values_is_their_standard_deviation_on_average(count: int) -> None:
    rng = random.Random(count)  # noqa: S311 - noise, not cryptography
    found = [spread([rng.gauss(7, 2) for _ in range(count)]) for _ in range(2000 if count < 30 else 400)]
    assert statistics.fmean(found) == pytest.approx(2, rel=0.05)


def test_no_jobs_have_no_median() -> None:
    with pytest.raises(ValueError, match="0 jobs have no median"):
        median_sd(0)
    with pytest.raises(ValueError, match="no jobs have no median"):
        median_interval([])


@given(TOLERANCES, SIGMAS, JOBS)
def test_the_limit_is_never_less_than_the_tolerance(tolerance: float, sigma: float, count: int) -> None:
    noise = Noise(sigma, 30)
    assert tolerance <= screen(tolerance, noise, count) <= limit(tolerance, noise, count) < 1
    assert gain_limit(tolerance, noise, count) >= tolerance


@given(TOLERANCES, SIGMAS, SIGMAS, JOBS)
def test_more_noise_allows_more_and_more_jobs_less(tolerance: float, one: float, other: float, count: int) -> None:
    low, high = sorted((one, other))
    assert limit(tolerance, Noise(low, 30), count) <= limit(tolerance, Noise(high, 30), count)
    assert limit(tolerance, Noise(high, 30), count + 1) <= limit(tolerance, Noise(high, 30), count)


def test_a_limit_is_one_of_throughput() -> None:
    # Of a sigma of 10 % in log time, 3.4 are 0.34: such a job takes exp(0.34) = 1.405 of the time, and has lost 28.8 %.
    assert limit(TOLERANCE, Noise(0.1, 30)) == pytest.approx(1 - math.exp(-0.34))
    assert gain_limit(TOLERANCE, Noise(0.1, 30)) == pytest.approx(math.exp(0.31) - 1)
    assert limit(TOLERANCE, Noise(0.1, 30), 3) == pytest.approx(1 - math.exp(-0.34 * 0.66983))
    assert screen(TOLERANCE, Noise(0.1, 30)) == pytest.approx(1 - math.exp(-0.15))


@pytest.mark.parametrize(("jobs", "factor"), [(0, noises.K), (8, 5.2), (14, 4.2), (15, 3.9), (29, 3.5), (30, 3.4)])
def test_a_limit_by_few_jobs_is_wide(jobs: int, factor: float) -> None:
    assert deviations(1, jobs) == factor
    assert deviations(10**6, jobs) == max(factor, deviations(10**6))
    assert limit(TOLERANCE, Noise(0.1, jobs)) == pytest.approx(1 - math.exp(-0.1 * factor))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("jobs", [8, 15, 30])
def test_one_job_of_a_sound_row_is_seldom_beyond_the_limit_of_few(jobs: int) -> None:
    rng = random.Random(jobs)  # noqa: S311 - noise, not cryptography
    beyond = 0
    for _ in range(2000):
        noise = noise_of([math.exp(rng.gauss(0, 0.05)) for _ in range(jobs)])
        beyond += sum(-math.expm1(-rng.gauss(0, 0.05)) > limit(TOLERANCE, noise) for _ in range(10))

    assert beyond <= 40  # of 20,000


@given(st.floats(0.001, NOISY), st.floats(0.9, 1.1), st.integers(1, 9))
def test_a_screen_is_within_the_tolerance_and_not_below_half_of_it(sigma: float, usual: float, count: int) -> None:
    noise = Noise(sigma, 30)
    own = screen(TOLERANCE, noise, count, usual)

    assert screen(TOLERANCE, noise, count) == TOLERANCE
    assert TOLERANCE / 2 <= own <= TOLERANCE
    assert screen(TOLERANCE, noise, count, 1.0) <= own
    if usual >= 1:
        wide = 1 - math.exp(-noises.USUAL_SCREEN * noise.of_median(count))
        assert own == pytest.approx(min(TOLERANCE, max(TOLERANCE / 2, wide)))


@pytest.mark.parametrize("count", [1, 3, 5])
def test_noise_alone_is_beyond_the_limit_in_one_of_a_thousand_runs(count: int) -> None:
    away = noises.K * median_sd(count)
    beyond = statistics.NormalDist().cdf(-away)
    most = sum(math.comb(count, k) * beyond**k * (1 - beyond) ** (count - k) for k in range(count // 2 + 1, count + 1))
    assert most == pytest.approx(0.001, rel=0.2)


@pytest.mark.parametrize("tolerance", [0.0, -0.05, math.nan, math.inf])
def test_a_tolerance_that_is_none(tolerance: float) -> None:
    for rule in (limit, screen, gain_limit, jobs_to_resolve):
        with pytest.raises(ValueError, match=r"a tolerance of .* is none"):
            rule(tolerance, PRIOR)


@pytest.mark.parametrize(("sigma", "count"), [(math.nan, 8), (math.inf, 8), (-0.01, 8), (0.01, -1)])
def test_noise_that_is_none(sigma: float, count: int) -> None:
    with pytest.raises(ValueError, match="noise of"):
        Noise(sigma, count)


@pytest.mark.parametrize("bad", [math.nan, math.inf, 0.0, -1.0])
def test_a_time_that_is_none(bad: float) -> None:
    for rule in (noise_of, median_interval):
        with pytest.raises(ValueError, match="is no figure of a job"):
            rule([1.0] * 10 + [bad])


def test_the_reference_never_moves() -> None:
    points = list(map(float, range(100)))
    assert reference(points) == reference(points[:50]) == points[:30]
    assert reference(points[:10]) == points[:10]


@given(st.lists(TIMES, min_size=40, max_size=60), st.lists(TIMES, max_size=20))
def test_later_runs_do_not_change_the_noise(times_s: list[float], later: list[float]) -> None:
    assert noise_of(reference([*times_s, *later])) == noise_of(reference(times_s))


@pytest.mark.parametrize(
    ("loss", "sigma", "expected"),
    # (z(0.001) + z(0.9)) = 4.372 sigma of the median, whose spread c(n) * sigma falls as 1.25 / sqrt(n).
    [(0.05, 0.0, 1), (0.05, 0.01, 1), (0.05, 0.02, 4), (0.05, 0.03, 10), (0.05, 0.13, 192), (0.10, 0.13, 46)],
)
def test_how_many_jobs_it_takes(loss: float, sigma: float, expected: int) -> None:
    assert jobs_to_resolve(loss, Noise(sigma, 30)) == expected


@pytest.mark.parametrize(("loss", "sigma"), [(1e-6, 0.03), (2e-313, 1e7), (0.05, 1e300)])
def test_more_jobs_than_anybody_runs(loss: float, sigma: float) -> None:
    assert jobs_to_resolve(loss, Noise(sigma, 30)) == 10**9


@given(st.floats(0.001, 0.9), st.floats(0.001, 0.3))
def test_so_many_jobs_are_enough_and_one_less_is_not(loss: float, sigma: float) -> None:
    needed = jobs_to_resolve(loss, Noise(sigma, 30))
    distance = (3.0902323 + 1.2815516) * sigma / -math.log1p(-loss)
    assert distance * median_sd(needed) <= 1 + 1e-6
    assert needed == 1 or distance * median_sd(needed - 1) > 1 - 1e-6


def test_a_loss_of_everything_needs_no_jobs() -> None:
    with pytest.raises(ValueError, match="no job is needed to find a loss of 100%"):
        jobs_to_resolve(1.0, PRIOR)


@pytest.mark.parametrize(
    ("count", "low", "high", "confidence"),
    # The last ones as in W. J. Conover, Practical Nonparametric Statistics, table A3 (binomial, p = 0.5).
    [
        (1, 1, 1, 0.0),
        (2, 1, 2, 0.5),
        (3, 1, 3, 0.75),
        (4, 1, 4, 0.875),
        (5, 1, 5, 0.9375),
        (8, 1, 8, 0.9921875),
        (20, 6, 15, 0.9586105346679688),
    ],
)
def test_the_interval_of_a_median(count: int, low: int, high: int, confidence: float) -> None:
    times_s = [float(number) for number in range(count, 0, -1)]
    assert median_interval(times_s) == (low, high, confidence)


@given(st.integers(6, 60))
def test_the_interval_is_the_narrowest_that_has_so_much(count: int) -> None:
    low, high, confidence = median_interval([float(number) for number in range(1, count + 1)])
    assert high == count + 1 - low
    assert confidence >= 0.95
    next_one = 1 - 2 * sum(math.comb(count, k) for k in range(int(low) + 1)) / 2**count
    assert next_one < 0.95


@pytest.mark.parametrize("tolerance", [0.005, 0.01, 0.02, 0.04, 0.05, 0.1, 0.5])
def test_a_tolerance_is_not_taken_away_by_the_usual_noise(tolerance: float) -> None:
    # A tolerance of 2 % was one of 5 % on a row's runs 2 to 8.
    prior = prior_for(tolerance)
    assert limit(tolerance, prior) == pytest.approx(tolerance)
    assert noise_of([4.5] * (FEWEST_JOBS - 1), prior) == prior
    assert prior.sigma <= PRIOR.sigma
    assert limit(tolerance, noise_of([4.5] * FEWEST_JOBS, prior)) == pytest.approx(tolerance)


def test_a_tolerance_beyond_that_of_the_prior_keeps_it() -> None:
    assert prior_for(0.05) == prior_for(0.2) == prior_for(2.0) == PRIOR


RUNS = 60
Runs = Callable[[random.Random], list[float]]


def normal(rng: random.Random, sigma: float = 0.02, count: int = 30) -> list[float]:
    return [rng.gauss(0, sigma) for _ in range(count)]


def wandering(rng: random.Random, rho: float, sigma: float, count: int = 30) -> list[float]:
    """An AR(1) process."""
    values = [rng.gauss(0, sigma)]
    while len(values) < count:
        values.append(rho * values[-1] + rng.gauss(0, sigma * math.sqrt(1 - rho * rho)))
    return values


def away(values: list[float], places: list[int], by: float) -> list[float]:
    return [value + by * (place in places) for place, value in enumerate(values)]


def in_a_row(rng: random.Random, count: int) -> list[int]:
    begin = rng.randrange(30 - count + 1)
    return [*range(begin, begin + count)]


def scale(values: list[float]) -> float:
    return spread(usual(values))


def median_scale(runs: Runs) -> float:
    rng = random.Random(16)  # noqa: S311 - noise, not cryptography
    return statistics.median(scale(runs(rng)) for _ in range(RUNS))


@pytest.mark.parametrize(
    "runs",
    [
        normal,
        lambda rng: normal(rng, count=12),
        lambda rng: away(normal(rng), in_a_row(rng, 6), -0.18),  # six runs 20 % faster
        lambda rng: away(normal(rng), in_a_row(rng, 6), 0.1),
        lambda rng: away(normal(rng), rng.sample(range(30), 6), 0.15),
    ],
    ids=["quiet", "12 nights", "6 fast in a row", "6 slow in a row", "6 scattered"],
)
def test_a_fifth_of_odd_runs_is_no_noise(runs: Runs) -> None:
    assert median_scale(runs) == pytest.approx(0.02, rel=0.12)


@pytest.mark.parametrize(("rho", "sigma", "least"), [(0.5, 0.02, 0.9), (0.5, 0.03, 0.9), (0.8, 0.02, 0.75)])
def test_runs_that_hang_together_are_not_taken_for_steps(rho: float, sigma: float, least: float) -> None:
    # Thirty such runs do not show all of it: of 0.8, the median of what they show is 0.86.
    assert median_scale(lambda rng: wandering(rng, rho, sigma)) / sigma > least


def test_what_is_small_is_not_odd() -> None:
    values = [0.0] * 20 + [0.04] * 10
    assert usual(values) == values
    assert usual([0.0] * 20 + [0.06] * 10) == [0.0] * 20
    assert usual([0.0] * 19 + [0.06] * 11) == [0.0] * 19 + [0.06] * 11  # more than a third
    assert usual([]) == []
    with pytest.raises(ValueError, match="1 values have no spread"):
        spread([1.0])
    assert scale([1.0, 1.0]) == 0
