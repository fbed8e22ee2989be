"""Rank tests against published figures, against scipy 1.16.3 (computed once), and against plain enumeration."""

from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_gsw.performance.ranks import sign_test, signed_rank

DIFFERENCES = st.lists(st.integers(-4, 4).map(float), max_size=8)

#: Hamilton depression scale, before less after: Hollander and Wolfe, p. 29. V = 40, P = 0.01953.
DEPRESSION = [0.952, -0.147, 1.022, 0.43, 0.62, 0.59, 0.49, -0.08, 0.01]

#: Darwin's maize, crossed less self-fertilized, eighths of an inch: R. A. Fisher, The Design of Experiments (1935), §15.
MAIZE = [6.0, 8, 14, 16, 23, 24, 28, 29, 41, -48, 49, 56, 60, -67, 75]


def ranks(values: list[float]) -> list[float]:
    """Mean ranks by their definition."""
    return [sum(other < one for other in values) + (sum(other == one for other in values) + 1) / 2 for one in values]


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


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_what_is_no_number_has_no_rank(bad: float) -> None:
    for call in (
        lambda: sign_test([bad]),
        lambda: signed_rank([1.0, bad]),
    ):
        with pytest.raises(ValueError, match="has no rank"):
            call()
