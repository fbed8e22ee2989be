from __future__ import annotations

import math
import random
import statistics

import pytest

from pytest_gsw.performance.common import Common, common_of


def level_and_jobs(seed: int, count: int, share: float, decay: float) -> list[float]:
    """A level that wanders, with this share of the variance, under jobs that are independent."""
    rng = random.Random(seed)  # noqa: S311 - noise, not cryptography
    level, values = rng.gauss(0, 1), []
    for _ in range(count):
        level = decay * level + rng.gauss(0, math.sqrt(1 - decay**2))
        values.append(math.sqrt(share) * level + rng.gauss(0, math.sqrt(1 - share)))
    return values


@pytest.mark.parametrize(("share", "decay"), [(0.5, 0.8), (0.7, 0.8), (0.5, 0.9), (1.0, 0.5)])
def test_a_level_below_independent_jobs_is_seen(share: float, decay: float) -> None:
    found = [common_of([level_and_jobs(seed, 210, share, decay)], 0.0).inflation(30) for seed in range(40)]
    assert statistics.median(found) == pytest.approx(Common(0.0, share, decay).inflation(30), rel=0.25)


def test_independent_nights_have_next_to_nothing_in_common() -> None:
    found = [common_of([level_and_jobs(seed, 90, 0.0, 0.5)], 0.0).inflation(30) for seed in range(40)]
    assert statistics.median(found) == 1
    assert statistics.fmean(found) < 1.4


def test_parts_have_levels_of_their_own() -> None:
    values = level_and_jobs(1, 90, 0.0, 0.5)
    parts = values[:60], [value + 20 for value in values[60:]]
    assert common_of(parts, 0.0).inflation(30) < 2 < common_of([[*parts[0], *parts[1]]], 0.0).inflation(30)


def test_inflation_is_the_variance_of_a_mean() -> None:
    nights, decay = 10, 0.8
    exact = sum(decay ** abs(one - other) for one in range(nights) for other in range(nights)) / nights
    assert Common(decay).inflation(nights) == pytest.approx(exact)
    assert Common(0.0, 0.5, decay).inflation(nights) == pytest.approx(1 + 0.5 * (exact - 1))
    assert Common().inflation(nights) == 1


@pytest.mark.parametrize("values", [[], [1.0] * 60, [1.0, 2.0]])
def test_too_little_to_say(values: list[float]) -> None:
    assert common_of([values, []], 0.3) == Common(0.3)
