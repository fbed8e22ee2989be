from __future__ import annotations

import random
import statistics
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_gsw.stats.measurement import (
    MIN_STEPS,
    TimedStep,
    Timing,
    apply,
    log_interval,
    p90,
    ranks_s,
    select,
    slowest_third_s,
    timing_of,
)
from pytest_gsw.tables.model import parse_statistic
from tests.messages import wording

SECONDS = st.floats(1e-3, 1e4)


def steps(*seconds: float, first: int = 0, every: int = 1) -> list[TimedStep]:
    return [TimedStep(first + every * position, value) for position, value in enumerate(seconds)]


def numbered(count: int, first: int = 0, every: int = 1) -> list[TimedStep]:
    """Steps whose seconds are their number."""
    return [TimedStep(number, float(number)) for number in range(first, first + every * count, every)]


def chosen(statistic: str, given_steps: list[TimedStep]) -> list[float]:
    return list(select(parse_statistic(statistic), given_steps))


@pytest.mark.parametrize(
    ("statistic", "expected"),
    [
        ("last", [49]),
        ("mean", list(range(50))),
        ("mean[35:44]", list(range(35, 45))),
        ("mean[44:44]", [44]),
        ("mean[:2]", [0, 1, 2]),
        ("mean[48:]", [48, 49]),
        ("mean[0:49]", list(range(50))),
        ("median[-3:]", [47, 48, 49]),
        ("median[-3:-2]", [47, 48]),
        ("median[:-49]", [0, 1]),
        ("median[-50:]", list(range(50))),
        ("mean[45:-2]", [45, 46, 47, 48]),
        ("mean[-5:46]", [45, 46]),
    ],
)
def test_windows_include_both_ends(statistic: str, expected: list[float]) -> None:
    assert chosen(statistic, numbered(50)) == expected


def test_windows_count_as_the_log_does() -> None:
    assert chosen("mean[35:44]", numbered(50, first=1)) == list(range(35, 45))
    assert chosen("mean[-2:]", numbered(50, first=1)) == [49, 50]
    unnumbered = [TimedStep(None, step.seconds) for step in numbered(50)]
    assert chosen("mean[35:44]", unnumbered) == list(range(35, 45))
    assert chosen("mean[-2:]", unnumbered) == [48, 49]
    assert chosen("last", unnumbered) == [49]


def test_a_log_of_every_tenth_step_has_one_entry_in_a_window_of_ten() -> None:
    assert chosen("mean[31:40]", numbered(10, first=10, every=10)) == [40]
    assert chosen("mean[31:40]", numbered(4, first=10, every=10)) == [40]


def without(lost: set[int], given_steps: list[TimedStep]) -> list[TimedStep]:
    return [step for step in given_steps if step.index not in lost]


def test_a_tenth_of_a_window_of_more_than_ten_steps_may_be_lost() -> None:
    assert chosen("mean[34:44]", without({40}, numbered(50))) == [34, 35, 36, 37, 38, 39, 41, 42, 43, 44]
    assert chosen("mean[0:49]", numbered(50, first=1)) == list(range(1, 50))


@pytest.mark.parametrize(
    ("statistic", "given_steps", "message"),
    [
        ("mean[35:44]", without({35, 36, 37, 38, 39}, numbered(50)), "the window has 5 of 10 steps"),
        ("mean[35:44]", without({36, 44}, numbered(50)), "the window has 8 of 10 steps"),
        ("mean[35:44]", without({40}, numbered(50)), "the window has 9 of 10 steps"),
        ("mean[38:42]", without({40}, numbered(50)), "the window has 4 of 5 steps"),
        ("median[31:40]", [TimedStep(10, 1.0), TimedStep(40, 1.0)], "the window has 1 of 10 steps"),
        ("mean[35:36]", [TimedStep(35, 1.0), TimedStep(35, 1.0), TimedStep(37, 1.0)], "the window has 1 of 2 steps"),
        ("mean[11:50]", without({30}, numbered(6, first=10, every=10)), "the window has 30 of 40 steps"),
    ],
)
def test_a_window_that_lacks_steps(statistic: str, given_steps: list[TimedStep], message: str) -> None:
    with pytest.raises(ValueError, match="window") as error:
        chosen(statistic, given_steps)
    assert str(error.value) == message


@pytest.mark.parametrize("window", ["35:44", "31:44", "35:40", "31:42"])
def test_lines_for_several_steps_must_tile_the_window(window: str) -> None:
    with pytest.raises(
        ValueError, match=r"the line of step \d0 covers steps \d1 to \d0, not all in the window of mean"
    ):
        chosen(f"mean[{window}]", numbered(5, first=10, every=10))


def test_lines_for_several_steps_that_tile_the_window() -> None:
    assert chosen("mean[21:40]", numbered(5, first=10, every=10)) == [30, 40]
    assert chosen("mean[31:40]", numbered(10, first=5, every=5)) == [35, 40]
    every_tenth = numbered(5, first=0, every=10)
    assert list(select(parse_statistic("mean[1:10]"), every_tenth)) == [10]
    with pytest.raises(ValueError, match="^" + wording("few in the window", few=1, steps=10) + "$"):
        select(parse_statistic("mean[1:10]"), every_tenth, first_index=0)
    with pytest.raises(ValueError, match="^" + wording("few in the window", few=1, steps=10) + "$"):
        apply(parse_statistic("mean[1:10]"), every_tenth, first_index=0)


def test_only_windows_of_step_numbers_must_be_filled() -> None:
    thinned = without(set(range(35, 45)), numbered(50))
    assert chosen("mean[30:]", thinned) == [30, 31, 32, 33, 34, 45, 46, 47, 48, 49]
    assert chosen("mean[-7:]", thinned) == [33, 34, 45, 46, 47, 48, 49]
    assert chosen("mean[33:-4]", thinned) == [33, 34, 45, 46]


@pytest.mark.parametrize(
    ("numbers", "first_index", "interval"),
    [
        ([10, 20, 30, 40, 50], 1, 10),
        ([9, 19, 29], 0, 10),
        ([10, 20, 40, 50], 1, 10),  # one line lost
        ([110, 120, 130], None, 10),
        ([10, 20, 40], 1, 1),  # is it one line in two that was lost, or in four?
        ([20, 30, 40, 50], 1, 1),
        ([10, 20, 30], 0, 1),
        ([0, 25], 0, 1),
        ([24, 49], 0, 1),
        ([16, 33, 49], 0, 1),
        ([1, 2, 4], 1, 1),
        ([2, 5, 9, 11, 13], 1, 1),
        ([30, 20, 10], None, 1),
        ([5, 5, 5], 5, 1),
        ([5], 5, 1),
        ([], 0, 1),
    ],
)
def test_how_many_steps_a_line_stands_for(numbers: list[int], first_index: int | None, interval: int) -> None:
    assert log_interval(numbers, first_index) == interval


def test_lines_without_numbers_stand_for_one_step() -> None:
    assert log_interval([None] * 3) == 1
    assert log_interval([10, 20, 30, None]) == 1


@pytest.mark.parametrize(
    ("statistic", "given_steps", "message"),
    [
        ("last", [], "there are no steps"),
        ("mean", [], "there are no steps"),
        ("mean[35:44]", numbered(20), "no step lies in the window of mean[35:44]"),
        ("mean[35:]", numbered(35), "no step lies in the window of mean[35:]"),
        ("mean[35:44]", numbered(40), "the steps end at 39, before the window of mean[35:44]"),
        ("mean[31:40]", numbered(3, first=10, every=10), "no step lies in the window of mean[31:40]"),
        ("mean[21:40]", numbered(3, first=10, every=10), "the steps end at 30, before the window of mean[21:40]"),
        ("median[-10:]", numbered(9), "there are 9 steps, fewer than the window of median[-10:]"),
        ("median[:-10]", numbered(9), "no step lies in the window of median[:-10]"),
        ("mean[5:-8]", numbered(9), "no step lies in the window of mean[5:-8]"),
    ],
)
def test_a_window_that_the_steps_do_not_reach(statistic: str, given_steps: list[TimedStep], message: str) -> None:
    with pytest.raises(ValueError, match="step") as error:
        apply(parse_statistic(statistic), given_steps)
    assert str(error.value) == message


@pytest.mark.parametrize(
    ("statistic", "expected"), [("last", 9.0), ("mean", 4.0), ("median", 2.5), ("mean[1:2]", 2.5), ("median[:2]", 2.0)]
)
def test_the_number_that_steps_become(statistic: str, expected: float) -> None:
    assert apply(parse_statistic(statistic), steps(2.0, 2.0, 3.0, 9.0)) == expected


@given(st.lists(SECONDS, min_size=1), st.sampled_from(["last", "mean", "median"]))
def test_a_statistic_lies_between_the_fastest_and_the_slowest_step(values: list[float], kind: str) -> None:
    assert min(values) * (1 - 1e-12) <= apply(parse_statistic(kind), steps(*values)) <= max(values) * (1 + 1e-12)


@given(st.lists(SECONDS, min_size=1), st.integers(0, 60), st.integers(0, 60))
def test_a_window_is_a_slice(values: list[float], first: int, length: int) -> None:
    last = first + length
    window = parse_statistic(f"mean[{first}:{last}]")
    if last < len(values):
        assert apply(window, steps(*values)) == pytest.approx(statistics.fmean(values[first : last + 1]))
    else:
        with pytest.raises(ValueError, match="window"):
            apply(window, steps(*values))


def test_an_interval_is_seen_behind_a_first_step_that_is_always_printed() -> None:
    numbers = [1, 10, 20, 30, 40, 50]
    assert log_interval(numbers, 1) == 10
    assert log_interval(numbers[:4], 1) == 10
    assert log_interval(numbers[:3], 1) == 1


@pytest.mark.parametrize("jitter", [0.002, 0.015, 0.03])
def test_many_ranks_without_labels_that_differ_by_chance_alone(jitter: float) -> None:
    chance = random.Random(7)  # noqa: S311 - noise, not cryptography
    printed = [[(None, 4.0 * (1 + chance.gauss(0, jitter))) for _ in range(64)] for _ in range(20)]
    found = ranks_s(printed)
    assert found["slowest of 64"] / found["fastest of 64"] < 1.03


def test_a_slow_node_among_ranks_without_labels() -> None:
    chance = random.Random(7)  # noqa: S311 - noise, not cryptography
    printed = [
        [(None, (4.8 if rank < 8 else 4.0) * (1 + chance.gauss(0, 0.015))) for rank in range(64)] for _ in range(20)
    ]
    found = ranks_s(printed)
    assert found["slowest of 64"] / found["fastest of 64"] > 1.08
    assert found["middle of 64"] == found["fastest of 64"]


def test_slow_first_steps_are_warm_up_and_spikes_are_counted() -> None:
    series_s = (90.0, 7.0, 5.2, *[5.0] * 40)
    mean_s = pytest.approx(5.0049, abs=1e-4)
    assert timing_of(series_s, "last") == Timing("last", 43, 90.0, 5.0, 5.0, mean_s, 5.0, 0.0, 41, 2, series_s)
    assert timing_of([5.0, 5.0, 9.0, *[5.0] * 30]).warm_up_steps == 3
    found = timing_of([*[5.0] * 18, 7.0, 6.1])
    assert (found.median_s, found.spike_fraction) == (5.0, 0.1)
    assert timing_of([*[5.0] * 19, 6.0]).spike_fraction == 0.0
    found = timing_of([float(2**step) for step in range(20)])
    assert (found.warm_up_steps, found.steady_steps) == (20 - MIN_STEPS, MIN_STEPS)
    with pytest.raises(ValueError, match="there are no steps"):
        timing_of([])
    assert timing_of([1.5e308] * 12).mean_s == pytest.approx(1.5e308)


@pytest.mark.parametrize("steps", [1, 2, MIN_STEPS])
def test_a_run_of_few_steps_is_taken_whole(steps: int) -> None:
    assert timing_of([9.0, *[5.0] * (steps - 1)]).steady_steps == steps


@pytest.mark.parametrize("slow", [11, 14])
def test_no_warm_up_is_most_of_a_run(slow: int) -> None:
    found = timing_of([7.5] * slow + [5.0] * (20 - slow))
    assert (found.warm_up_steps, found.median_s) == (0, 7.5)
    assert timing_of([7.5] * 60 + [5.0] * 40).median_s == 7.5
    assert timing_of([7.5] * 10 + [5.0] * 10).median_s == 5.0


@given(st.lists(SECONDS, min_size=1, max_size=60))
def test_the_steady_state_is_the_end_of_the_run(series_s: Sequence[float]) -> None:
    found = timing_of(series_s)
    chosen = series_s[found.warm_up_steps :]
    assert found.steady_steps == len(chosen) >= min(len(series_s), MIN_STEPS)
    assert found.median_s == statistics.median(chosen)
    assert found.p90_s == p90(chosen)
    assert min(chosen) * (1 - 1e-9) <= found.mean_s <= max(chosen) * (1 + 1e-9)


@given(st.lists(SECONDS, min_size=1))
def test_nine_tenths_of_the_values_are_not_above_p90(values: list[float]) -> None:
    assert p90(values) in values
    assert sum(value <= p90(values) for value in values) * 10 >= len(values) * 9


@pytest.mark.parametrize(
    ("series_s", "interval", "third_s"),
    [
        ([2.0] * 16 + [1.0] * 34, 1, 2.0),
        ([2.0] * 15 + [1.0] * 35, 1, 1.0),
        ([1.0] * 10 + [2.0] * 20 + [1.0] * 20, 1, 2.0),
        ([1.0, 2.0, 1.0] * 10, 1, 1.0),  # a checkpoint every third step
        ([30.0, 6.0, 2.0, *[1.0] * 17], 1, 1.0),  # warm-up
        ([2.0, 2.0, 1.0, 1.0, 1.0], 10, 2.0),  # lines of ten steps
        ([2.0, 2.0, 1.0, 1.0, 1.0], 1, None),
        ([2.0, 1.0, 1.0, 1.0, 1.0], 10, 1.0),
        ([2.0, 2.0, 1.0], 10, None),
    ],
)
def test_the_slowest_third(series_s: list[float], interval: int, third_s: float | None) -> None:
    assert slowest_third_s(series_s, interval) == third_s
