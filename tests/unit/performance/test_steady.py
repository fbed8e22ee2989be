from __future__ import annotations

import statistics
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_gsw.performance.steady import MIN_STEPS, Steady, p90, steady

SECONDS = st.floats(1e-3, 1e4)


def test_slow_first_steps_are_warm_up() -> None:
    assert steady([90.0, 7.0, 5.2, *[5.0] * 40]) == Steady(2, 41, 5.0, pytest.approx(5.0049, abs=1e-4), 5.0, 0.0)


def test_a_run_that_is_steady_from_its_first_step_has_no_warm_up() -> None:
    assert steady([5.0] * 20).warm_up_steps == 0


def test_two_even_steps_are_not_steady_yet() -> None:
    assert steady([5.0, 5.0, 9.0, *[5.0] * 30]).warm_up_steps == 3


def test_spikes_are_part_of_the_steady_state_and_counted() -> None:
    found = steady([*[5.0] * 18, 7.0, 6.1])
    assert (found.median_s, found.spike_fraction) == (5.0, 0.1)


def test_a_step_of_exactly_the_spikes_multiple_is_none() -> None:
    assert steady([*[5.0] * 19, 6.0]).spike_fraction == 0.0


def test_of_a_run_that_never_settles_the_last_steps_are_taken() -> None:
    found = steady([float(2**step) for step in range(20)])
    assert (found.warm_up_steps, found.steps) == (20 - MIN_STEPS, MIN_STEPS)


@pytest.mark.parametrize("steps", [1, 2, MIN_STEPS])
def test_a_run_of_few_steps_is_taken_whole(steps: int) -> None:
    assert steady([9.0, *[5.0] * (steps - 1)]).steps == steps


@pytest.mark.parametrize("slow", [11, 14])
def test_no_warm_up_is_most_of_a_run(slow: int) -> None:
    found = steady([7.5] * slow + [5.0] * (20 - slow))
    assert (found.warm_up_steps, found.median_s) == (0, 7.5)
    assert steady([7.5] * 60 + [5.0] * 40).median_s == 7.5
    assert steady([7.5] * 10 + [5.0] * 10).median_s == 5.0


def test_no_steps_have_no_steady_state() -> None:
    with pytest.raises(ValueError, match="there are no steps"):
        steady([])


def test_steps_whose_sum_is_no_number_have_a_mean() -> None:
    assert steady([1.5e308] * 12).mean_s == pytest.approx(1.5e308)


@given(st.lists(SECONDS, min_size=1, max_size=60))
def test_the_steady_state_is_the_end_of_the_run(series_s: Sequence[float]) -> None:
    found = steady(series_s)
    chosen = series_s[found.warm_up_steps :]
    assert found.steps == len(chosen) >= min(len(series_s), MIN_STEPS)
    assert found.median_s == statistics.median(chosen)
    assert found.p90_s == p90(chosen)
    assert min(chosen) * (1 - 1e-9) <= found.mean_s <= max(chosen) * (1 + 1e-9)


@given(st.lists(SECONDS, min_size=1, max_size=60), st.sampled_from([0.25, 2.0, 1024.0]))
def test_the_steady_state_does_not_depend_on_the_unit(series_s: Sequence[float], factor: float) -> None:
    found, scaled = steady(series_s), steady([seconds * factor for seconds in series_s])
    assert (scaled.warm_up_steps, scaled.median_s) == (found.warm_up_steps, found.median_s * factor)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([4.0], 4.0),
        ([1.0, 2.0], 2.0),
        ([float(n) for n in range(1, 11)], 9.0),
        ([float(n) for n in range(1, 12)], 10.0),
        ([float(n) for n in range(50, 0, -1)], 45.0),
    ],
)
def test_p90_is_a_value_that_was_measured(values: list[float], expected: float) -> None:
    assert p90(values) == expected


@given(st.lists(SECONDS, min_size=1))
def test_nine_tenths_of_the_values_are_not_above_p90(values: list[float]) -> None:
    assert p90(values) in values
    assert sum(value <= p90(values) for value in values) * 10 >= len(values) * 9
