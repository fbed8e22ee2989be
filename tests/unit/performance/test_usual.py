"""The spread of a reference without its spells and odd nights, by simulation with fixed seeds."""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Callable

import pytest

from pytest_gsw.performance.noise import spread, usual

RUNS = 60
Nights = Callable[[random.Random], list[float]]


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


def median_scale(nights: Nights) -> float:
    rng = random.Random(16)  # noqa: S311 - noise, not cryptography
    return statistics.median(scale(nights(rng)) for _ in range(RUNS))


@pytest.mark.parametrize(
    "nights",
    [
        normal,
        lambda rng: normal(rng, count=12),
        lambda rng: away(normal(rng), in_a_row(rng, 6), -0.18),  # six nights 20 % faster
        lambda rng: away(normal(rng), in_a_row(rng, 6), 0.1),
        lambda rng: away(normal(rng), rng.sample(range(30), 6), 0.15),
    ],
    ids=["quiet", "12 nights", "6 fast in a row", "6 slow in a row", "6 scattered"],
)
def test_a_fifth_of_odd_nights_is_no_noise(nights: Nights) -> None:
    assert median_scale(nights) == pytest.approx(0.02, rel=0.12)


def test_the_spread_alone_would_take_them_for_noise() -> None:
    rng = random.Random(16)  # noqa: S311 - noise, not cryptography
    found = [spread(away(normal(rng), in_a_row(rng, 6), -0.18)) for _ in range(RUNS)]
    assert statistics.median(found) > 0.08


@pytest.mark.parametrize("share", [0.5, 0.35])
def test_two_levels_that_alternate_are_noise(share: float) -> None:
    # 129, 217, 125, 225 s
    assert scale([math.log(one) for one in (129, 217, 125, 225)] * 7) > 0.3
    assert scale([math.log(one) for one in (129, 217, 125, 225)] * 2) > 0.3
    found = median_scale(lambda rng: [0.55 * (rng.random() < share) + rng.gauss(0, 0.02) for _ in range(30)])
    assert found > 0.3


@pytest.mark.parametrize(("rho", "sigma", "least"), [(0.5, 0.02, 0.9), (0.5, 0.03, 0.9), (0.8, 0.02, 0.75)])
def test_nights_that_hang_together_are_not_taken_for_steps(rho: float, sigma: float, least: float) -> None:
    # Thirty such nights do not show all of it: of 0.8, the median of what they show is 0.86.
    assert median_scale(lambda rng: wandering(rng, rho, sigma)) / sigma > least


def test_nights_that_all_rows_share_are_noise() -> None:
    found = median_scale(lambda rng: [a + b for a, b in zip(normal(rng, 0.03), normal(rng), strict=True)])
    assert found == pytest.approx(math.hypot(0.03, 0.02), rel=0.1)


def test_what_is_small_is_not_odd() -> None:
    values = [0.0] * 20 + [0.04] * 10
    assert usual(values) == values
    assert usual([0.0] * 20 + [0.06] * 10) == [0.0] * 20
    assert usual([0.0] * 19 + [0.06] * 11) == [0.0] * 19 + [0.06] * 11  # more than a third
    assert usual([]) == []


def test_a_scale_needs_two_values() -> None:
    with pytest.raises(ValueError, match="1 values have no spread"):
        spread([1.0])
    assert scale([1.0, 1.0]) == 0
