"""Rank tests against published figures, against scipy 1.16.3 (computed once), and against plain enumeration."""

from __future__ import annotations

import itertools
import math
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_gsw.performance.ranks import rank_sum, sign_test, signed_rank, theil_sen

# Few different values, so that most samples have ties.
FEW = st.lists(st.integers(-3, 3).map(float), min_size=1, max_size=5)
DIFFERENCES = st.lists(st.integers(-4, 4).map(float), max_size=8)
VALUES = st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=12)

#: Tritium through human membranes at term and in weeks 12 to 26: M. Hollander and D. Wolfe, Nonparametric Statistical
#: Methods (1973), p. 69. Their exact answer for "less at weeks 12 to 26" is P = 0.1272.
TERM = [0.80, 0.83, 1.89, 1.04, 1.45, 1.38, 1.91, 1.64, 0.73, 1.46]
EARLY = [1.15, 0.88, 0.90, 0.74, 1.21]

#: Hamilton depression scale, before less after: Hollander and Wolfe, p. 29. V = 40, P = 0.01953.
DEPRESSION = [0.952, -0.147, 1.022, 0.43, 0.62, 0.59, 0.49, -0.08, 0.01]

#: Darwin's maize, crossed less self-fertilized, eighths of an inch: R. A. Fisher, The Design of Experiments (1935), §15.
MAIZE = [6.0, 8, 14, 16, 23, 24, 28, 29, 41, -48, 49, 56, 60, -67, 75]


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


def test_the_signed_ranks_of_hollander_and_wolfe() -> None:
    test = signed_rank(DEPRESSION)
    assert (test.statistic, test.p_greater, test.exact) == (40, 0.01953125, True)


def test_darwins_maize() -> None:
    test = signed_rank(MAIZE)
    assert (test.statistic, test.p_greater, test.p_less, test.p) == (
        96,
        0.0206298828125,
        0.982330322265625,
        0.041259765625,
    )
    assert sign_test(MAIZE).p == 0.00738525390625


def test_many_signed_ranks_are_the_normal_approximation_of_scipy() -> None:
    differences = [float(value) if place % 3 else -float(value) for place, value in enumerate(range(1, 61))]
    test = signed_rank(differences)
    assert not test.exact
    assert test.statistic == 1240
    # scipy corrects a one-sided probability for continuity as we do, both to three digits and more.
    assert test.p_greater == pytest.approx(0.008450826637983766, rel=1e-6)
    assert test.p_less == pytest.approx(0.9917170159916606, rel=1e-6)


@given(DIFFERENCES)
def test_an_exact_signed_rank_counts_all_signs(differences: list[float]) -> None:
    test = signed_rank(differences)
    kept = [value for value in differences if value]
    all_ranks = ranks([abs(value) for value in kept])
    observed = sum(rank for rank, value in zip(all_ranks, kept, strict=True) if value > 0)
    sums = [
        sum(rank for rank, sign in zip(all_ranks, signs, strict=True) if sign)
        for signs in itertools.product((0, 1), repeat=len(kept))
    ]
    assert test.statistic == observed
    assert test.p_greater == sum(one >= observed - 1e-9 for one in sums) / len(sums)
    assert test.p_less == sum(one <= observed + 1e-9 for one in sums) / len(sums)


@given(DIFFERENCES)
def test_the_sign_test_counts_all_signs(differences: list[float]) -> None:
    test = sign_test(differences)
    kept = [value for value in differences if value]
    positive = sum(value > 0 for value in kept)
    heads = [sum(signs) for signs in itertools.product((0, 1), repeat=len(kept))]
    assert test.p_greater == sum(one >= positive for one in heads) / len(heads)
    assert test.p_less == sum(one <= positive for one in heads) / len(heads)


def test_six_of_six_pairs_on_one_side() -> None:
    # What paired runs of two settings rest on: 6 of 6 are p = 0.016 one-sided, 8 of 8 p = 0.004.
    assert sign_test([1.0] * 6).p_greater == 0.015625
    assert sign_test([-1.0] * 8).p_less == 0.00390625
    assert signed_rank([0.1, 0.2, 0.3, 0.4, 0.5, 0.6]).p_greater == 0.015625
    assert signed_rank([-0.1, -0.2, -0.3, -0.4, -0.5, -0.6]).p_less == 0.015625


def test_nothing_but_zeros_says_nothing() -> None:
    for test in (sign_test([0.0, 0.0]), signed_rank([0.0, 0.0]), signed_rank([]), sign_test([])):
        assert (test.z, test.p_greater, test.p_less, test.p) == (0, 1, 1, 1)
    equal = rank_sum([1.0] * 15, [1.0] * 15)
    assert (equal.z, equal.p_greater, equal.p_less) == (0, 1, 1)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_what_is_no_number_has_no_rank(bad: float) -> None:
    for call in (
        lambda: rank_sum([1.0], [bad]),
        lambda: rank_sum([bad], [1.0]),
        lambda: sign_test([bad]),
        lambda: signed_rank([1.0, bad]),
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
