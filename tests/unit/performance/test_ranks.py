"""Rank tests against published figures, against scipy 1.16.3 (computed once), and against plain enumeration."""

from __future__ import annotations

import itertools
import math
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_gsw.performance.ranks import rank_sum, theil_sen

# Few different values, so that most samples have ties.
FEW = st.lists(st.integers(-3, 3).map(float), min_size=1, max_size=5)
VALUES = st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=12)

#: Tritium through human membranes at term and in weeks 12 to 26: M. Hollander and D. Wolfe, Nonparametric Statistical
#: Methods (1973), p. 69. Their exact answer for "less at weeks 12 to 26" is P = 0.1272.
TERM = [0.80, 0.83, 1.89, 1.04, 1.45, 1.38, 1.91, 1.64, 0.73, 1.46]
EARLY = [1.15, 0.88, 0.90, 0.74, 1.21]


def ranks(values: list[float]) -> list[float]:
    """Mean ranks by their definition."""
    return [sum(other < one for other in values) + (sum(other == one for other in values) + 1) / 2 for one in values]


def test_the_rank_sum_of_hollander_and_wolfe() -> None:
    test = rank_sum(TERM, EARLY)
    assert test.statistic == 15
    assert test.exact
    assert test.p_less == pytest.approx(0.1272061272061272, rel=1e-12)
    assert test.p_greater == pytest.approx(0.8967698967698967, rel=1e-12)
    assert test.p == pytest.approx(0.2544122544122544, rel=1e-12)


def test_a_large_rank_sum_with_ties_is_the_normal_approximation_of_scipy() -> None:
    first = [1.0, 2, 2, 3, 3, 3, 4, 5, 5, 6, 7, 7, 8]
    second = [3.0, 4, 4, 5, 6, 7, 7, 8, 9, 9, 9, 10]
    test = rank_sum(first, second)
    assert not test.exact
    assert test.statistic == 121.5
    assert test.p_greater == pytest.approx(0.009266464755306564, rel=1e-9)
    assert test.p_less == pytest.approx(0.992014063049947, rel=1e-9)
    assert test.z == pytest.approx(-statistics.NormalDist().inv_cdf(test.p_greater), rel=1e-9)


@pytest.mark.parametrize(
    ("m", "n", "u", "p"),
    # H. B. Mann and D. R. Whitney, Annals of Mathematical Statistics 18 (1947), table I: P(U <= u).
    [(3, 3, 0, 0.05), (3, 3, 1, 0.1), (4, 4, 0, 0.014), (4, 4, 1, 0.029), (5, 5, 4, 0.048), (6, 6, 7, 0.047)],
)
def test_the_table_of_mann_and_whitney(m: int, n: int, u: int, p: float) -> None:
    places = range(m + n)
    for chosen in itertools.combinations(places, n):
        second = [float(place) for place in chosen]
        first = [float(place) for place in places if place not in chosen]
        test = rank_sum(first, second)
        if test.statistic == u:
            # The table has three digits, cut or rounded.
            assert test.p_less == pytest.approx(p, abs=0.0006)
            return
    pytest.fail(f"no sample has U = {u}")


@given(FEW, FEW)
def test_an_exact_rank_sum_counts_all_ways_to_deal_the_values(first: list[float], second: list[float]) -> None:
    test = rank_sum(first, second)
    all_ranks = ranks([*first, *second])
    observed = sum(all_ranks[len(first) :])
    sums = [sum(chosen) for chosen in itertools.combinations(all_ranks, len(second))]
    assert test.exact
    assert test.p_greater == pytest.approx(sum(one >= observed - 1e-9 for one in sums) / len(sums))
    assert test.p_less == pytest.approx(sum(one <= observed + 1e-9 for one in sums) / len(sums))
    assert test.statistic == sum((y > x) + (y == x) / 2 for x in first for y in second)


@given(st.lists(st.integers(0, 6).map(float), min_size=2, max_size=7))
def test_the_variance_with_ties_is_that_of_all_ways(values: list[float]) -> None:
    split = len(values) // 2
    test = rank_sum(values[:split], values[split:])
    sums = [sum(chosen) for chosen in itertools.combinations(ranks(values), len(values) - split)]
    sd = statistics.pstdev(sums)
    away = sum(ranks(values)[split:]) - statistics.fmean(sums)
    expected = 0 if sd == 0 else math.copysign(max(abs(away) - 0.5, 0), away) / sd
    assert test.z == pytest.approx(expected, abs=1e-9)


@given(VALUES, VALUES)
def test_swapping_the_samples_turns_the_rank_sum_round(first: list[float], second: list[float]) -> None:
    one, other = rank_sum(first, second), rank_sum(second, first)
    assert one.z == pytest.approx(-other.z, abs=1e-9)
    assert one.p_greater == pytest.approx(other.p_less)
    assert one.p == pytest.approx(other.p)


@given(st.lists(st.integers(-1000, 1000).map(float), min_size=1, max_size=12), VALUES)
def test_ranks_do_not_care_for_the_scale(first: list[float], second: list[float]) -> None:
    whole = [float(round(value)) for value in second]
    scaled = rank_sum([8 * value + 3 for value in first], [8 * value + 3 for value in whole])
    assert rank_sum(first, whole) == scaled


def test_nothing_but_equal_values_says_nothing() -> None:
    equal = rank_sum([1.0] * 15, [1.0] * 15)
    assert (equal.z, equal.p_greater, equal.p_less) == (0, 1, 1)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_what_is_no_number_has_no_rank(bad: float) -> None:
    for call in (
        lambda: rank_sum([1.0], [bad]),
        lambda: rank_sum([bad], [1.0]),
        lambda: theil_sen([0.0, 1.0], [bad, 1.0]),
        lambda: theil_sen([bad, 1.0], [0.0, 1.0]),
    ):
        with pytest.raises(ValueError, match="has no rank"):
            call()


def test_an_empty_sample_has_no_ranks() -> None:
    with pytest.raises(ValueError, match="an empty sample has no ranks"):
        rank_sum([], [1.0])


def test_the_slope_of_theil_and_sen() -> None:
    # The example of P. K. Sen, JASA 63 (1968), p. 1387: the estimate is 4.
    assert theil_sen([1, 2, 3, 4, 10, 12, 18], [9, 15, 19, 20, 45, 55, 78]) == 4.0
    assert theil_sen([1, 2, 3, 4, 5, 6, 7, 8], [2.1, 3.9, 6.2, 8.1, 9.7, 50, 14.2, 15.8]) == pytest.approx(2.0)


@given(st.floats(-10, 10), st.floats(-10, 10), st.permutations(range(9)))
def test_a_line_has_its_slope_in_any_order_and_with_two_outliers(slope: float, height: float, order: list[int]) -> None:
    ys = {x: height + slope * x for x in order} | {0: 1e6, 4: -1e6}
    assert theil_sen(order, [ys[x] for x in order]) == pytest.approx(slope, abs=1e-6)


@pytest.mark.parametrize(
    ("xs", "ys", "message"),
    [
        ([1.0], [1.0], "a slope needs points at two different places"),
        ([1.0, 1.0], [1.0, 2.0], "a slope needs points at two different places"),
        ([1.0, 2.0], [1.0], "2 places have 1 values"),
    ],
)
def test_what_has_no_slope(xs: list[float], ys: list[float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        theil_sen(xs, ys)
