from __future__ import annotations

import itertools
import math
import random
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_gsw.performance.drift import Change, Common, change_in, normal_scores, rank_sum


def level_and_jobs(seed: int, count: int, share: float, decay: float) -> list[float]:
    """Jobs that differ from each other, about a level that wanders: together with a standard deviation of 1."""
    rng = random.Random(seed)  # noqa: S311 - noise, not cryptography
    level, values = rng.gauss(0, math.sqrt(share)), []
    for _ in range(count):
        values.append(level + rng.gauss(0, math.sqrt(1 - share)))
        level = decay * level + rng.gauss(0, math.sqrt(share * (1 - decay**2)))
    return values


def changed(seed: int, share: float, decay: float, step: float, nights: int = 160) -> Change:
    """What is said of nights of which the last half are more by a step."""
    half = nights // 2
    values = [value + step * (night >= half) for night, value in enumerate(level_and_jobs(seed, nights, share, decay))]
    return change_in(normal_scores(values), 30)


@pytest.mark.parametrize(("share", "decay"), [(0.0, 0.5), (1.0, 0.5), (0.5, 0.8), (1.0, 0.8)])
def test_what_nights_have_in_common_beside_a_change_is_about_right(share: float, decay: float) -> None:
    found = [changed(seed, share, decay, 3.0) for seed in range(30)]
    seen = [change.common.share * change.common.decay for change in found if change.is_believed]
    assert len(seen) >= 25
    assert statistics.median(seen) == pytest.approx(share * decay, abs=0.15)


def test_a_level_that_wanders_is_no_change() -> None:
    for share, decay in ((0.5, 0.8), (0.5, 0.85), (1.0, 0.5)):
        assert sum(changed(seed, share, decay, 0.0).is_believed for seed in range(100, 150)) <= 2


def test_a_change_to_less_is_none() -> None:
    assert changed(1, 0.0, 0.5, 2.0).common == Common()
    assert changed(1, 0.0, 0.5, 2.0).is_believed
    assert not changed(1, 0.0, 0.5, -2.0).is_believed


def test_a_creep_is_a_change() -> None:
    values = [value + max(0, night - 60) * 0.08 for night, value in enumerate(level_and_jobs(1, 100, 0.0, 0.5))]
    assert change_in(normal_scores(values), 30).is_believed


def test_the_last_few_nights_are_no_change() -> None:
    values = level_and_jobs(1, 60, 0.0, 0.5)
    assert not change_in(normal_scores([*values, 9.0, 9.0, 9.0, 9.0]), 30).is_believed
    assert change_in(normal_scores([*values, *[9.0] * 12]), 30).is_believed


def test_inflation_is_the_variance_of_a_mean() -> None:
    nights, decay = 10, 0.8
    exact = sum(decay ** abs(one - other) for one in range(nights) for other in range(nights)) / nights
    assert Common(1.0, decay).inflation(nights) == pytest.approx(exact)
    assert Common(0.5, decay).inflation(nights) == pytest.approx(1 + 0.5 * (exact - 1))
    assert Common().inflation(nights) == 1


@pytest.mark.parametrize("values", [[], [1.0] * 60, [1.0, 2.0], [1.0] * 30, [1.0] * 30 + [2.0] * 30])
def test_it_takes_nights_that_differ_and_enough_of_them(values: list[float]) -> None:
    found = change_in(normal_scores(values), 30)
    assert found.is_believed == (len(set(values)) == 2 and len(values) == 60)


def ranks(values: list[float]) -> list[float]:
    """Mean ranks by their definition."""
    return [sum(other < one for other in values) + (sum(other == one for other in values) + 1) / 2 for one in values]


def test_a_large_rank_sum_with_ties_is_the_normal_approximation_of_scipy() -> None:
    first = [1.0, 2, 2, 3, 3, 3, 4, 5, 5, 6, 7, 7, 8]
    second = [3.0, 4, 4, 5, 6, 7, 7, 8, 9, 9, 9, 10]
    assert rank_sum(first, second) == pytest.approx(-statistics.NormalDist().inv_cdf(0.009266464755306564), rel=1e-9)
    assert rank_sum(second, first) == pytest.approx(-rank_sum(first, second))
    assert rank_sum([1.0] * 15, [1.0] * 15) == 0


@given(st.lists(st.integers(0, 6).map(float), min_size=2, max_size=7))
def test_the_variance_with_ties_is_that_of_all_ways(values: list[float]) -> None:
    split = len(values) // 2
    sums = [sum(chosen) for chosen in itertools.combinations(ranks(values), len(values) - split)]
    sd = statistics.pstdev(sums)
    away = sum(ranks(values)[split:]) - statistics.fmean(sums)
    expected = 0 if sd == 0 else math.copysign(max(abs(away) - 0.5, 0), away) / sd
    assert rank_sum(values[:split], values[split:]) == pytest.approx(expected, abs=1e-9)
