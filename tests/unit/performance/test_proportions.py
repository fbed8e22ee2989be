from __future__ import annotations

import itertools
import math
import random
from fractions import Fraction

import pytest

from pytest_gsw.performance.proportions import clopper_pearson, log_tail


def tail(count: int, of: int, share: Fraction) -> Fraction:
    """How likely so many or more are, in whole numbers."""
    return sum((math.comb(of, k) * share**k * (1 - share) ** (of - k) for k in range(count, of + 1)), Fraction(0))


@pytest.mark.parametrize(("count", "of"), [(0, 5), (1, 5), (5, 5), (3, 40), (40, 40), (25, 300)])
@pytest.mark.parametrize("share", [Fraction(1, 1000), Fraction(1, 20), Fraction(1, 2), Fraction(9, 10)])
def test_the_tail_is_that_of_whole_numbers(count: int, of: int, share: Fraction) -> None:
    exact = tail(count, of, share)
    log_exact = math.log(exact.numerator) - math.log(exact.denominator)
    assert log_tail(count, of, float(share)) == pytest.approx(log_exact, abs=1e-9)


def test_the_tail_at_the_ends() -> None:
    assert log_tail(0, 9, 0.0) == log_tail(3, 9, 1.0) == 0.0
    assert log_tail(1, 9, 0.0) == -math.inf


@pytest.mark.parametrize(
    ("count", "of", "interval"),
    [
        (0, 10, (0.0, 0.3085)),  # 1 - 0.025 ** 0.1
        (10, 10, (0.6915, 1.0)),
        (1, 10, (0.0025, 0.4450)),
        (5, 10, (0.1871, 0.8129)),
        (81, 263, (0.2527, 0.3676)),
        (0, 0, (0.0, 1.0)),
    ],
)
def test_intervals_of_the_literature(count: int, of: int, interval: tuple[float, float]) -> None:
    assert clopper_pearson(count, of) == pytest.approx(interval, abs=1e-4)


def test_the_limits_are_where_the_tails_are_as_unlikely_as_asked() -> None:
    for count, of in itertools.combinations(range(1, 12), 2):
        low, high = clopper_pearson(count, of, 0.9)
        assert float(tail(count, of, Fraction(low))) == pytest.approx(0.05)
        assert float(1 - tail(count + 1, of, Fraction(high))) == pytest.approx(0.05)


def test_an_interval_holds_the_share_as_often_as_it_says() -> None:
    rng = random.Random(1)  # noqa: S311 - noise, not cryptography
    held = 0
    for _ in range(1000):
        share, of = rng.uniform(0.01, 0.3), rng.randrange(5, 60)
        low, high = clopper_pearson(sum(rng.random() < share for _ in range(of)), of)
        held += low <= share <= high
    assert held >= 940
