"""With which night a loss may have begun."""

from __future__ import annotations

import math
import random

import pytest

from pytest_gsw.performance.onset import onset

QUIET = [0.0, 0.01, -0.01] * 10


@pytest.mark.parametrize(
    ("since", "nights"),
    [
        ([0.12], (30, 30)),
        ([0.12, 0.11, 0.13], (30, 30)),
        ([0.01, 0.12, 0.11], (31, 31)),
        ([0.06, 0.12, 0.11], (30, 31)),
        ([0.10, 0.09, 0.12, 0.11], (30, 32)),
    ],
)
def test_the_nights_with_which_a_loss_may_have_begun(since: list[float], nights: tuple[int, int]) -> None:
    found = nights[1] if len(since) != 4 else 32
    assert onset([*QUIET, *since], found, 0.01) == nights


def test_nothing_is_said_where_little_is_known() -> None:
    assert onset([0.0, 0.1, 0.12], 2, 0.01) == (2, 2)
    assert onset([*QUIET, 0.1, 0.12], 31, 0.0) == (31, 31)
    assert onset([*QUIET, 0.1, 0.12], 31, 0.01, earliest=31) == (31, 31)


def test_a_figure_that_is_stricter_tells_no_night() -> None:
    assert onset([*QUIET, 0.005], 30, 0.01) == (30, 30)


@pytest.mark.parametrize(("sigma", "exact"), [(0.02, 0.86), (0.03, 0.78)])
def test_the_window_holds_the_night_that_the_first_slow_one_often_is_not(sigma: float, exact: float) -> None:
    rng = random.Random(3)  # noqa: S311 - noise, not cryptography
    named = held = 0
    for _ in range(300):
        begin = 40
        logs = [rng.gauss(0, sigma) + (-math.log(0.93) if night >= begin else 0.0) for night in range(begin + 6)]
        found = next(night for night in range(begin, len(logs)) if logs[night] > -math.log(0.95))
        first, last = onset(logs, found, sigma)
        named += found == begin
        held += first <= begin <= last
    assert named / 300 < exact
    assert held / 300 > 0.95
