"""What a step's own line states holds for that step: a measured step of another batch is no step of the row."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_gsw.errors import LogError
from pytest_gsw.tables.model import Baseline, Recipe
from tests.unit.logs import lines
from tests.unit.rows import LLAMA2_FP8_X128
from tests.unit.validation.ended import of_bytes as measured

ROW = replace(LLAMA2_FP8_X128, log_format="megatron", recipe=Recipe("megatron", steps=50))
#: A ramp-up that ends with step 24.
RAMP = [(step, 128 if step < 25 else 256) for step in range(1, 51)]


def megatron(steps: Iterable[tuple[int, int]], rest: str = "") -> bytes:
    """A log of steps with their global batch sizes."""
    return b"".join(
        lines.megatron(step, "4556.0", total=50, rest=rest).replace(b"size:    96", f"size: {batch:5}".encode())
        for step, batch in steps
    )


def refused(baseline: Baseline, log: bytes, folder: Path) -> LogError:
    with pytest.raises(LogError) as caught:
        measured(baseline, log, folder)
    return caught.value


def test_a_batch_that_ramps_up_within_the_measured_steps(tmp_path: Path) -> None:
    error = refused(replace(ROW, statistic="mean"), megatron(RAMP), tmp_path)
    assert error.fact == (
        "24 of 50 measured steps were not the row's: global batch size 128 in the log, 256 in the row"
    )
    assert error.evidence == (
        ("log", f"{tmp_path}/run.log:50"),
        ("steps", "50 read as megatron"),
        ("job", "7 COMPLETED 0:0"),
        ("changes at", f"{tmp_path}/run.log:25, step 25: from 128 to 256"),
        ("baseline", "baselines/maxtext/llama2_70b.yaml:41"),
    )
    assert error.advice == (
        "write 'statistic: mean[25:]' in the table, which leaves those steps out, or run without a ramp-up"
    )


@pytest.mark.parametrize(
    ("statistic", "strays", "left"),
    [
        ("median", "24 of 50", "median[25:]"),
        ("mean[10:44]", "15 of 35", "mean[25:44]"),
        ("median[-40:]", "14 of 40", "median[25:]"),
        ("mean[:-2]", "24 of 49", "mean[25:-2]"),
        ("mean[24:50]", "1 of 27", "mean[25:50]"),
    ],
)
def test_whatever_the_statistic(tmp_path: Path, statistic: str, strays: str, left: str) -> None:
    error = refused(replace(ROW, statistic=statistic), megatron(RAMP), tmp_path)
    assert error.fact.startswith(f"{strays} measured steps w")
    assert f"'statistic: {left}'" in error.advice
    # What is to be typed next works.
    assert measured(replace(ROW, statistic=left), megatron(RAMP), tmp_path).judged_s == 4.556


@pytest.mark.parametrize("statistic", ["last", "mean[25:50]", "median[-10:]", "mean[25:]"])
def test_a_ramp_that_the_row_leaves_out_as_warm_up(tmp_path: Path, statistic: str) -> None:
    assert measured(replace(ROW, statistic=statistic), megatron(RAMP), tmp_path).judged_s == 4.556


def test_a_line_that_stands_for_ten_steps_states_its_last_ones(tmp_path: Path) -> None:
    """The ramp-up ends somewhere within the steps 21 to 30, and their line states what held at its end."""
    log = megatron((step, 128 if step < 30 else 256) for step in range(10, 51, 10))
    error = refused(replace(ROW, statistic="mean[21:50]"), log, tmp_path)
    assert error.fact == "1 of 3 measured lines was not the row's: global batch size 128 in the log, 256 in the row"
    assert ("changes at", f"{tmp_path}/run.log:3, step 30: from 128 to 256") in error.evidence
    assert "'statistic: mean[31:50]'" in error.advice
    assert measured(replace(ROW, statistic="mean[31:50]"), log, tmp_path).judged_s == 4.556


def test_a_batch_that_grows_beyond_the_rows(tmp_path: Path) -> None:
    """A last step of the row's own batch makes none of the others one."""
    log = megatron((step, 512 if 20 < step < 50 else 256) for step in range(1, 51))
    error = refused(replace(ROW, statistic="mean[:40]"), log, tmp_path)
    assert error.fact == (
        "20 of 40 measured steps were not the row's: global batch size 512 in the log, 256 in the row"
    )
    assert error.advice == (
        "correct what the recipe is given (recipe.environment in the table, or the launch script), or the row"
    )


def test_a_sequence_length_that_a_curriculum_raises(tmp_path: Path) -> None:
    steady = [(step, 256) for step in range(1, 51)]
    short = " actual seqlen:  1024 |"
    error = refused(ROW, megatron(steady, short), tmp_path)
    assert error.fact == "1 of 1 measured step was not the row's: sequence length 1024 in the log, 4096 in the row"
    assert ("said at", f"{tmp_path}/run.log:50") in error.evidence
    raised = megatron(steady[:20], short) + megatron(steady[20:], " actual seqlen:  4096 |")
    assert measured(ROW, raised, tmp_path).judged_s == 4.556
    error = refused(replace(ROW, statistic="median"), raised, tmp_path)
    assert ("changes at", f"{tmp_path}/run.log:21, step 21: from 1024 to 4096") in error.evidence


def test_nemo_prints_the_batch_of_each_step(tmp_path: Path) -> None:
    row = replace(ROW, log_format="nemo", statistic="mean", min_steps=18, recipe=Recipe("nemo", steps=20))
    log = b"".join(lines.printer(step, step, "4.556") for step in range(20))
    assert measured(row, log, tmp_path).judged_s == 4.556
    ramp = log.replace(b"global_batch_size: 256", b"global_batch_size: 128", 6)
    error = refused(row, ramp, tmp_path)
    assert error.fact == "6 of 20 measured steps were not the row's: global batch size 128 in the log, 256 in the row"
    assert ("changes at", f"{tmp_path}/run.log:7, step 6: from 128 to 256") in error.evidence


def test_a_row_without_a_batch_is_compared_with_none(tmp_path: Path) -> None:
    row = replace(ROW, statistic="mean", global_batch_size=None, micro_batch_size=None)
    assert measured(row, megatron(RAMP), tmp_path).judged_s == 4.556
