"""A log must hold enough steps, and the last one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from pytest_gsw.errors import LogError
from pytest_gsw.tables.model import Recipe
from tests.unit.rows import LLAMA2_FP8_X128
from tests.unit.validation.ended import IDENTITY, MEGATRON_ROW, REPLAYED, measured, megatron, refused, step_lines


def test_too_few_steps(log: Path) -> None:
    log.write_text(IDENTITY + step_lines(range(44)))
    with pytest.raises(LogError) as caught:
        measured(log)
    assert str(caught.value).splitlines() == [
        "the log holds 44 steps, 45 of 50 needed",
        "",
        f"log        {log}:45",
        "steps      44 read as maxtext",
        "job        481221 COMPLETED 0:0 after 11m02s on pool0-[0017-0032]",
        *[
            f"{'last' if n == 39 else '':<10} completed step: {n}, seconds: 4.560, TFLOP/s/device: 797.5, "
            "Tokens/s/device: 1796.5, loss: 9.021"
            for n in range(39, 44)
        ],
        "next       the run stopped early or its log was cut; look at the last lines",
    ]


@pytest.mark.parametrize("last", [45, 48])
def test_the_last_step_must_be_there(log: Path, last: int) -> None:
    log.write_text(IDENTITY + step_lines(range(last + 1)))
    assert refused(log) == f"the log ends at step {last}, the run's last step is 49"


def test_a_last_line_that_is_cut_does_not_count(log: Path) -> None:
    text = IDENTITY + step_lines(range(50))
    log.write_text(text[: text.rindex("seconds: ") + len("seconds: 4.5")])
    assert refused(log) == "the log ends at step 48, the run's last step is 49"


def test_a_few_lost_lines_do_no_harm(log: Path) -> None:
    kept = [line for n, line in enumerate(step_lines(range(50)).splitlines(keepends=True)) if n not in {7, 8, 30}]
    log.write_text(IDENTITY + "".join(kept))
    assert measured(log).steps == 47


def test_only_the_last_run_in_the_file_counts(log: Path) -> None:
    log.write_text(IDENTITY + step_lines(range(50), "9.000") + step_lines(range(50)))
    assert measured(log).judged_s == 4.56
    log.write_text(IDENTITY + step_lines(range(50)) + step_lines(range(20)))
    with pytest.raises(LogError):
        measured(log)


def test_steps_without_numbers_are_counted(tmp_path: Path) -> None:
    row = replace(
        LLAMA2_FP8_X128,
        framework="paxml",
        log_format="paxml",
        min_steps=18,
        recipe=Recipe("paxml", steps=100, logged_steps=20),
    )
    log = tmp_path / "paxml.out"
    line = "I0411 15:03:26.866614 140737350317184 programs.py:366] [PAX STATUS]: train_step() took 7.470000 seconds.\n"
    log.write_text(line * 20)
    assert measured(log, row).judged_s == 7.47
    log.write_text(line * 17)
    assert refused(log, row) == "the log holds 17 steps, 18 of 20 needed"


@pytest.mark.parametrize("kept", [[0, 25], [24, 49], [16, 33, 49], [0, 10, 20, 30, 40]])
def test_a_few_steps_are_not_taken_for_a_log_interval(log: Path, kept: list[int]) -> None:
    log.write_text(IDENTITY + step_lines(kept))
    assert refused(log) == f"the log holds {len(kept)} steps, 45 of 50 needed"


def test_the_last_line_of_a_log_interval_may_come_before_the_last_step(tmp_path: Path) -> None:
    log = tmp_path / "megatron.out"
    log.write_text(megatron(range(10, 51, 10)))
    assert measured(log, MEGATRON_ROW).steps == 5
    log.write_text(megatron(range(15, 50, 15)))  # steps 46 to 50 have no line
    assert measured(log, replace(MEGATRON_ROW)).steps == 3
    log.write_text(megatron(range(10, 41, 10)))
    assert refused(log, MEGATRON_ROW) == "the log holds 40 steps, 45 of 50 needed"
    assert refused(log, replace(MEGATRON_ROW, min_steps=40)) == "the log ends at step 40, the run's last step is 50"


def test_one_line_of_a_log_interval_may_be_lost_where_the_last_is_there(tmp_path: Path) -> None:
    log = tmp_path / "megatron.out"
    log.write_text(megatron([10, 20, 30, 50]))
    assert measured(log, MEGATRON_ROW).steps == 4
    log.write_text(megatron([10, 20, 50]))
    assert refused(log, MEGATRON_ROW) == "the log holds 3 steps, 45 of 50 needed"
    log.write_text(megatron([5, 10, 15, 35, 40, 45, 50]))
    assert refused(log, MEGATRON_ROW) == "the log holds 35 steps, 45 of 50 needed"


#: A row whose document does not say how many steps there were.
ANY_STEPS = replace(MEGATRON_ROW, min_steps=2, recipe=Recipe("x"))


def test_a_log_must_reach_the_end_that_it_names_itself(tmp_path: Path) -> None:
    log = tmp_path / "megatron.out"
    log.write_text(megatron(range(1, 8), total=12))
    with pytest.raises(LogError) as caught:
        measured(log, ANY_STEPS)
    assert str(caught.value).splitlines() == [
        "the log ends at step 7, and states 12 as its last step",
        "",
        f"log        {log}:7",
        "steps      7 read as megatron",
        "job        481221 COMPLETED 0:0 after 11m02s on pool0-[0017-0032]",
        *[
            f"{'last' if n == 3 else '':<10} {line.strip()}"
            for n, line in enumerate(megatron(range(3, 8), total=12).splitlines(), start=3)
        ],
        (
            "next       the run stopped early or its log was cut; if its script ends the run there on purpose, "
            "write 'recipe: {steps: 7}' in the table"
        ),
    ]
    log.write_text(megatron(range(1, 13), total=12))
    assert measured(log, ANY_STEPS).steps == 12


def test_a_published_log_may_stop_before_the_end_that_it_names(tmp_path: Path) -> None:
    log = tmp_path / "megatron.out"
    log.write_text(megatron(range(1, 8), total=12))
    assert measured(log, ANY_STEPS, REPLAYED).steps == 7


def test_the_table_knows_better_than_the_log_where_a_run_ends(tmp_path: Path) -> None:
    log = tmp_path / "megatron.out"
    log.write_text(megatron(range(1, 8), total=1000))
    assert measured(log, replace(ANY_STEPS, recipe=Recipe("x", steps=7))).steps == 7


@pytest.mark.parametrize(
    ("lines", "total"),
    [([5, 10], 12), ([10, 20, 30], 39), ([1, 10, 20], 25), ([1, 10, 20, 30], 39), ([10, 30, 40], 49), ([7], 7)],
)
def test_a_log_interval_may_leave_out_the_last_steps(tmp_path: Path, lines: list[int], total: int) -> None:
    log = tmp_path / "megatron.out"
    log.write_text(megatron(lines, total))
    assert measured(log, replace(ANY_STEPS, min_steps=1)).steps == len(lines)


@pytest.mark.parametrize(
    ("lines", "total"), [([5, 10], 15), ([10, 20, 30], 40), ([1, 10, 20, 30], 40), ([7], 12), ([1, 2, 3, 5], 6)]
)
def test_a_log_interval_leaves_out_no_line(tmp_path: Path, lines: list[int], total: int) -> None:
    log = tmp_path / "megatron.out"
    log.write_text(megatron(lines, total))
    assert (
        refused(log, replace(ANY_STEPS, min_steps=1))
        == f"the log ends at step {lines[-1]}, and states {total} as its last step"
    )


def test_a_run_beyond_the_tables_last_step_must_reach_the_logs(tmp_path: Path) -> None:
    log = tmp_path / "megatron.out"
    row = replace(ANY_STEPS, recipe=Recipe("x", steps=7))
    log.write_text(megatron(range(1, 13), total=12))
    assert measured(log, row).steps == 12
    log.write_text(megatron(range(1, 10), total=12))
    assert refused(log, row) == "the log ends at step 9, and states 12 as its last step"


def test_the_end_that_counts_is_the_one_of_the_last_attempt(tmp_path: Path) -> None:
    log = tmp_path / "megatron.out"
    log.write_text(megatron(range(1, 51), total=50) + megatron(range(1, 13), total=12))
    assert measured(log, ANY_STEPS).steps == 12
    log.write_text(megatron(range(1, 13), total=12) + megatron(range(1, 13), total=50))
    assert refused(log, ANY_STEPS) == "the log ends at step 12, and states 50 as its last step"


def test_the_configuration_in_a_log_names_its_end(log: Path) -> None:
    row = replace(LLAMA2_FP8_X128, min_steps=2, recipe=Recipe("x"))
    log.write_text("Config param steps: 50\n" + step_lines(range(7)))
    with pytest.raises(LogError) as caught:
        measured(log, row)
    assert caught.value.fact == "the log ends at step 6, and states 49 as its last step"
    assert caught.value.advice.endswith("write 'recipe: {steps: 7}' in the table")
    log.write_text("Config param steps: 50\n" + step_lines(range(50)))
    assert measured(log, row).steps == 50


def test_a_run_of_fewer_steps_than_the_rows_is_not_measured_though_it_logs_one_figure(tmp_path: Path) -> None:
    path = tmp_path / "log-huggingface_llama2_70b_128_481221.out"
    row = replace(LLAMA2_FP8_X128, log_format="huggingface", framework="huggingface", statistic="mean", min_steps=1)
    for steps in (50, 2):
        path.write_text(
            f"***** Running training *****\n  Total optimization steps = {steps}\n"
            "{'train_runtime': 228.0, 'train_samples_per_second': 56.14, 'train_loss': 9.1, 'epoch': 1.0}\n"
        )
        if steps == 50:
            assert measured(path, row).judged_s == pytest.approx(256 / 56.14)
    assert refused(path, row) == "the run was to do 2 steps, 50 needed"
