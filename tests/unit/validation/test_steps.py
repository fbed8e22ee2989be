"""A log must hold enough steps, and the last one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_gsw.errors import LogError
from pytest_gsw.tables.model import Baseline, Recipe
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


#: A row whose document does not say how many steps there were.
ANY_STEPS = replace(MEGATRON_ROW, min_steps=2, recipe=Recipe("x"))


def of(steps: int | None = None) -> Baseline:
    """One of which a line is enough, and whose table may state its steps."""
    return replace(ANY_STEPS, min_steps=1, recipe=Recipe("x", steps=steps))


FEW = "the log holds {} steps, 45 of 50 needed".format
ENDS_BEFORE = "the log ends at step {}, the run's last step is {}".format
NAMES_ITS_END = "the log ends at step {}, and states {} as its last step".format


@pytest.mark.parametrize(
    ("row", "lines", "total", "found"),
    [
        # The last line of a log interval may come before the last step.
        (MEGATRON_ROW, range(10, 51, 10), 50, 5),
        (MEGATRON_ROW, range(15, 50, 15), 50, 3),  # steps 46 to 50 have no line
        (MEGATRON_ROW, range(10, 41, 10), 50, FEW(40)),
        (replace(MEGATRON_ROW, min_steps=40), range(10, 41, 10), 50, ENDS_BEFORE(40, 50)),
        # One line may be lost where the last is there.
        (MEGATRON_ROW, [10, 20, 30, 50], 50, 4),
        (MEGATRON_ROW, [10, 20, 50], 50, FEW(3)),
        (MEGATRON_ROW, [5, 10, 15, 35, 40, 45, 50], 50, FEW(35)),
        # The table knows better than the log where a run ends; beyond that step it must reach the log's end.
        (of(steps=7), range(1, 8), 1000, 7),
        (of(steps=7), range(1, 13), 12, 12),
        (of(steps=7), range(1, 10), 12, NAMES_ITS_END(9, 12)),
        # A log interval may leave out the last steps, and no line.
        *((of(), lines, total, len(lines)) for lines, total in (([5, 10], 12), ([10, 20, 30], 39), ([1, 10, 20], 25))),
        *((of(), lines, total, len(lines)) for lines, total in (([1, 10, 20, 30], 39), ([10, 30, 40], 49), ([7], 7))),
        (of(), [5, 10], 15, NAMES_ITS_END(10, 15)),
        (of(), [10, 20, 30], 40, NAMES_ITS_END(30, 40)),
        (of(), [1, 10, 20, 30], 40, NAMES_ITS_END(30, 40)),
        (of(), [7], 12, NAMES_ITS_END(7, 12)),
        (of(), [1, 2, 3, 5], 6, NAMES_ITS_END(5, 6)),
    ],
)
def test_lines_of_a_log_interval(
    tmp_path: Path, row: Baseline, lines: Sequence[int], total: int, found: int | str
) -> None:
    log = tmp_path / "megatron.out"
    log.write_text(megatron(lines, total))
    assert (measured(log, row).steps if isinstance(found, int) else refused(log, row)) == found


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
