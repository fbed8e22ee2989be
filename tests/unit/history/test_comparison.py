from __future__ import annotations

import math
import random
from dataclasses import replace
from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_gsw.history.comparison import RowRatio, compare_runs, together
from pytest_gsw.history.model import series_key
from pytest_gsw.results.record import Record
from pytest_gsw.stats.noise import PRIOR, Noise, deviations_of, noise_of
from tests.messages import wording
from tests.unit.history.runs import KEY, key_of, run_record

TIMES_S = st.floats(1e-3, 1e4)


@cache
def row(index: int, number: int) -> Record:
    return run_record(number, row=f"row{index}", node_id=f"x::{index}")


def rows(times_s: list[float], number: int) -> list[Record]:
    whole = [(row(index, number), time_s) for index, time_s in enumerate(times_s)]
    return [replace(one, figures=replace(one.figures, measured={"step_time_s": time_s})) for one, time_s in whole]


@given(pairs=st.lists(st.tuples(TIMES_S, TIMES_S), max_size=8))
def test_the_other_way_round_is_the_reciprocal(pairs: list[tuple[float, float]]) -> None:
    before, after = (rows([pair[side] for pair in pairs], side) for side in (0, 1))
    there = {one.row: one for one in compare_runs(before, after).rows}
    back = {one.row: one for one in compare_runs(after, before).rows}
    assert there.keys() == back.keys()
    for name, one in there.items():
        assert one.ratio * back[name].ratio == pytest.approx(1)
        assert one.low * back[name].high == pytest.approx(1)
        assert one.low <= one.ratio <= one.high


@given(pairs=st.lists(st.tuples(TIMES_S, TIMES_S), max_size=8))
def test_the_worst_is_first_and_every_row_is_there(pairs: list[tuple[float, float]]) -> None:
    before, after = (rows([pair[side] for pair in pairs], side) for side in (0, 1))
    found = compare_runs(before, after)
    assert [one.ratio for one in found.rows] == sorted(one.ratio for one in found.rows)
    assert len(found.rows) + len(found.others) == len(pairs)


def test_the_interval_is_that_of_two_jobs_that_differ_by_noise() -> None:
    before, after = [run_record(0, 5.0)], [run_record(1, 5.0)]
    (one,) = compare_runs(before, after, {KEY: Noise(0.03, 0)}).rows
    assert one.high == pytest.approx(math.exp(1.959964 * 0.03 * math.sqrt(2)))
    (one,) = compare_runs(before, after, {KEY: Noise(0.03, 20)}).rows
    assert one.high == pytest.approx(math.exp(deviations_of(1.959964, 20) * 0.03 * math.sqrt(2)))
    assert one.noise == Noise(0.03, 20)


@pytest.mark.parametrize(
    ("z", "free", "t"), [(1.959964, 10, 2.2281), (1.959964, 30, 2.0423), (3.090232, 30, 3.3852), (2.575829, 20, 2.8453)]
)
def test_deviations_of_an_estimate_are_those_of_students_t(z: float, free: float, t: float) -> None:
    assert deviations_of(z, (free - 1) * 30 / 26) == pytest.approx(t, rel=1e-3)  # type: ignore[arg-type]
    assert deviations_of(z, 0) == z


def test_four_jobs_are_too_few_to_say_by_how_much_they_differ() -> None:
    with pytest.raises(ValueError, match=wording("few to differ", jobs="4 jobs")):
        deviations_of(2.0, 4)


def test_a_row_of_few_runs_that_is_surer_than_one_of_many_is_tested_first() -> None:
    # Of 30 rows the surest is told beyond 3.144 standard deviations that are known, and the next one beyond 3.134.
    few, many = Noise(0.01, 8), Noise(0.01, 30)
    sure, next_sure = (
        RowRatio(name, 1.0, 1.0, math.exp(-deviations_of(z, noise.jobs) * 0.01), 1.0, 1.0, noise, sd=0.01)
        for name, z, noise in (("few nights", 3.2, few), ("many nights", 3.139, many))
    )
    others = [RowRatio(f"row {number}", 1.0, 1.0, 1.0, 1.0, 1.0, many, sd=0.01) for number in range(28)]

    told = together([next_sure, *others, sure])

    assert [one.row for one in told if one.change != "same"] == ["few nights", "many nights"]


def test_the_noisier_of_two_clusters_counts() -> None:
    before, after = [run_record(0, 5.0)], [run_record(1, 5.0, cluster="jz")]
    noises = {series_key(before[0]): Noise(0.01, 9), series_key(after[0]): Noise(0.05, 9)}
    assert compare_runs(before, after, noises).rows[0].noise.sigma == 0.05
    assert compare_runs(before, after).rows[0].noise == PRIOR


@pytest.mark.parametrize("judged", [0.0, -1.0, math.nan, math.inf])
def test_what_is_no_time_is_not_compared(judged: float) -> None:
    after = run_record(1)
    after = replace(after, figures=replace(after.figures, measured={"step_time_s": judged}))
    found = compare_runs([run_record(0, 5.0)], [after])
    assert found.rows == ()
    assert found.others[0].lost


def test_two_equal_runs_of_thirty_rows_are_equal() -> None:
    # With an interval of 95 % for each row alone, 105 of 200 such pairs had a row that was slower.
    rng, sigma = random.Random(16), 0.02  # noqa: S311 - noise, not cryptography
    slower = changed = 0
    for _ in range(40):
        noises = {  # as thirty runs tell it
            key_of(record): noise_of([math.exp(rng.gauss(0, sigma)) for _ in range(30)])
            for record in rows([1.0] * 30, 0)
        }
        before, after = (rows([math.exp(rng.gauss(0, sigma)) for _ in range(30)], side) for side in (0, 1))
        words = {one.change for one in compare_runs(before, after, noises).rows}
        slower += "slower" in words
        changed += words != {"same"}
    assert slower <= 4  # of 1 that is expected
    assert changed <= 6  # of 2


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("usual_s", "digits", "sigma"), [(0.43, 2, 0.01), (0.86, 2, 0.01), (4.3, 1, 0.01), (0.43, 2, 0.02)]
)
def test_two_equal_runs_whose_times_have_few_digits_are_equal(usual_s: float, digits: int, sigma: float) -> None:
    # Where most runs show the same number, their distances alone say that jobs hardly differ: 80 to 100 of 100 pairs.
    rng, changed = random.Random(7), 0  # noqa: S311 - noise, not cryptography
    for _ in range(20):
        levels_s = [usual_s * rng.uniform(0.98, 1.02) for _ in range(30)]

        def printed(level_s: float) -> float:
            return round(level_s * math.exp(rng.gauss(0, sigma)), digits)

        before, after = (rows([printed(level_s) for level_s in levels_s], side) for side in (0, 1))
        noises = {
            key_of(record): noise_of([printed(level_s) for _ in range(30)])
            for record, level_s in zip(before, levels_s, strict=True)
        }
        changed += any(one.change != "same" for one in compare_runs(before, after, noises).rows)
    assert changed <= 3  # of 1 that is expected


def test_a_row_that_is_slower_is_found_among_thirty_all_the_same() -> None:
    noises = {key_of(record): Noise(0.01, 30) for record in rows([1.0] * 30, 0)}
    found = compare_runs(rows([1.0] * 30, 0), rows([1.1, 1.07, *[1.0] * 28], 1), noises)
    assert [one.change for one in found.rows] == ["slower", "slower", *["same"] * 28]
    levels = [math.log(one.high / one.low) / one.sd for one in found.rows]
    assert levels[0] > levels[1] > levels[2] == pytest.approx(levels[29])  # of 30, of 29, and of 28 rows
    assert found.rows[29].row == "row29"


def test_runs_of_two_images_are_compared_and_what_changed_is_named() -> None:
    old = run_record(0, 5.0, experiment="aaaaaaaaaaaa", environment={"driver": "550", "nccl": "2.21", "slurm": ""})
    new = run_record(
        1, 5.5, experiment="aaaaaaaaaaaa", definition="ffffffffffff", image="new",
        environment={"driver": "560", "nccl": "2.21", "slurm": "23.11"},
    )  # fmt: skip
    (one,) = compare_runs([old], [new]).rows
    assert one.changes == {"driver": ("550", "560"), "image": ("nvcr.io/nvidia/jax:24.12", "new")}
    other = run_record(1, 5.5, experiment="bbbbbbbbbbbb", definition="ffffffffffff")
    assert compare_runs([old], [other]).rows == ()
    assert compare_runs([run_record(0)], [run_record(1, definition="ffffffffffff")]).rows == ()


def test_what_makes_another_definition_of_a_row_is_named_where_its_jobs_had_it() -> None:
    old = run_record(0, variables={"TP": "4", "HF_TOKEN": "***"})
    new = run_record(1, variables={"TP": "8", "CP": "", "HF_TOKEN": "***"}, definition="ffffffffffff")
    (one,) = compare_runs([old], [new]).others
    assert one.why == "has another definition: 0123456789ab and then ffffffffffff (CP not set -> empty, TP 4 -> 8)"


@pytest.mark.parametrize(
    ("before", "after", "changes"),
    [
        ({}, {"NCCL_IB_DISABLE": "1"}, {"NCCL_IB_DISABLE": ("not set", "1")}),
        ({"NCCL_IB_DISABLE": "1", "TP": "4"}, {"TP": "4"}, {"NCCL_IB_DISABLE": ("1", "not set")}),
        ({"B": "1", "A": "x"}, {"A": "y", "B": ""}, {"A": ("x", "y"), "B": ("1", "empty")}),
        ({"HF_TOKEN": "***"}, {"HF_TOKEN": "***"}, {}),
        ({}, {"HF_TOKEN": "***"}, {"HF_TOKEN": ("not set", "***")}),
        # What an earlier release, or an import, has not written down may be what it was.
        (None, {"NCCL_IB_DISABLE": "1"}, {}),
        ({"NCCL_IB_DISABLE": "1"}, None, {}),
    ],
)
def test_a_variable_that_is_another_in_the_second_run_is_named(
    before: dict[str, str] | None, after: dict[str, str] | None, changes: dict[str, tuple[str, str]]
) -> None:
    (one,) = compare_runs([run_record(0, variables=before)], [run_record(1, 5.5, variables=after)]).rows
    assert one.changes == changes
