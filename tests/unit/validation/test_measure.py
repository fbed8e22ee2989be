"""From the steps of a log to a measurement."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from pytest_gsw.errors import LogError
from pytest_gsw.logs.model import Step, StepLog
from pytest_gsw.stats.measurement import TimedStep
from pytest_gsw.tables.model import Figures, Recipe
from pytest_gsw.validation.checks import check_job
from pytest_gsw.validation.measure import of_all_jobs, timed_steps
from tests.unit.rows import LLAMA2_FP8_X128
from tests.unit.validation.ended import IDENTITY, MEGATRON_ROW, REPLAYED, measured, megatron, refused, run, step_lines


def test_a_good_run_is_measured(log: Path) -> None:
    check_job(run(log))
    result = measured(log)
    assert (result.judged_s, result.steps, result.timing.first_s, result.timing.last_s, result.steady_s) == (
        4.56,
        50,
        4.56,
        4.56,
        4.56,
    )
    assert result.figures.tokens_per_s == pytest.approx(4096 * 256 / 4.56)
    assert result.figures.mfu == pytest.approx(256 * 1.82e15 / 4.56 / 128 / 1979e12)


def test_a_window_that_lacks_steps(tmp_path: Path) -> None:
    log = tmp_path / "megatron.out"
    log.write_text(megatron([*range(1, 35), *range(40, 51)]))
    assert refused(log, replace(MEGATRON_ROW, statistic="mean[35:44]")) == (
        "the log does not hold the steps that mean[35:44] needs: the window has 5 of 10 steps"
    )


def test_a_window_that_the_log_does_not_reach(tmp_path: Path) -> None:
    log = tmp_path / "megatron.out"
    log.write_text(megatron(range(1, 31)))
    row = replace(MEGATRON_ROW, statistic="mean[31:40]", min_steps=2, recipe=Recipe("x"))
    assert refused(log, row, REPLAYED) == (
        "the log does not hold the steps that mean[31:40] needs: no step lies in the window of mean[31:40]"
    )


@pytest.mark.parametrize(
    ("seconds", "fact"),
    [
        ("0.000", "0 s is no time of a step"),
        ("0.029", "MFU 6342.5 % is impossible: no hardware takes 0.029 s for a step"),
    ],
)
def test_what_cannot_be(log: Path, seconds: str, fact: str) -> None:
    log.write_text(IDENTITY + step_lines(range(50), seconds))
    assert refused(log) == fact


@pytest.mark.parametrize("statistic", ["last", "median", "mean[35:44]", "mean[-10:]"])
@pytest.mark.parametrize("zero", [0, 30, 48, 49])
def test_a_step_of_no_time_is_an_error_wherever_it_is(log: Path, statistic: str, zero: int) -> None:
    lines = (step_lines([n], "0.000" if n == zero else "6.500" if n == 49 else "4.560") for n in range(50))
    log.write_text(IDENTITY + "".join(lines))
    assert refused(log, replace(LLAMA2_FP8_X128, statistic=statistic)) == "0 s is no time of a step"


def test_of_several_jobs_each_has_its_steady_steps(log: Path) -> None:
    jobs = []
    for usual in ("4.560", "6.840", "4.600"):
        log.write_text(IDENTITY + step_lines(range(49), usual) + step_lines([49], "4.560"))
        jobs.append(measured(log))
    result = of_all_jobs(LLAMA2_FP8_X128, jobs, None)
    assert (result.jobs_s, result.steadies_s) == ((4.56, 4.56, 4.56), (4.56, 6.84, 4.6))


def test_rates_become_seconds_by_the_rows_batch() -> None:
    rates = StepLog(
        "any",
        (Step(1, seconds=2.0), Step(2, samples_per_s=64.0), Step(3, tokens_per_s_per_gpu=4096.0)),
        attempts=1,
    )
    assert timed_steps(LLAMA2_FP8_X128, rates) == (
        TimedStep(1, 2.0),
        TimedStep(2, 256 / 64),
        TimedStep(3, 256 * 4096 / 128 / 4096),
    )
    without_batch = replace(LLAMA2_FP8_X128, global_batch_size=None)
    assert timed_steps(without_batch, rates) == (TimedStep(1, 2.0),)


def test_rates_alone_need_what_makes_seconds_of_them(log: Path) -> None:
    said = [f"step: {n}  loss: {9 - n / 20:.4f}  tps: 4,096  tflops: 1.0  mfu: 1.00%" for n in range(1, 51)]
    log.write_text("\n".join(said) + "\n")
    row = replace(LLAMA2_FP8_X128, log_format="torchtitan", framework="torchtitan", sequence_length=None)
    with pytest.raises(LogError) as refused:
        measured(log, row)
    assert refused.value.fact == (
        "the log states rates and no step times, and the row has no batch or length that makes seconds of them"
    )
    assert refused.value.advice == f"write sequence_length and global_batch_size into the table: {row.location}"
    assert measured(log, replace(row, sequence_length=4096)).judged_s == 256 * 4096 / 128 / 4096


def test_a_checkpoint_row_is_judged_on_its_saves(tmp_path: Path) -> None:
    row = replace(
        MEGATRON_ROW,
        global_batch_size=None,
        metric="checkpoint_save_time",
        documented=Figures(checkpoint_save_time_s=17.96068),
        statistic="mean",
        min_steps=1,
        recipe=Recipe("x"),
    )
    log = tmp_path / "megatron.out"
    saves = "time (ms) | save-checkpoint: 18000.00\n" + "time (ms) | save-checkpoint: 17000.00\n"
    log.write_text(megatron(range(1, 4), total=3) + saves)
    result = measured(log, row)
    assert (result.judged_s, result.steps) == (17.5, 2)
    assert result.figures == Figures(checkpoint_save_time_s=17.5)
    log.write_text(megatron(range(1, 4), total=3))
    assert refused(log, row) == "the log holds 0 checkpoint saves, 1 needed"
    assert refused(log, replace(row, recipe=Recipe("x", steps=4))) == "the log holds 0 checkpoint saves, 1 needed"
    log.write_text(megatron(range(1, 4), total=3) + saves)
    assert measured(log, replace(row, recipe=Recipe("x", steps=3))).steps == 2
    assert refused(log, replace(row, recipe=Recipe("x", steps=4))) == "the log ends at step 3, the run's last step is 4"
    log.write_text(megatron(range(1, 4), total=5) + saves)
    assert refused(log, row) == "the log ends at step 3, and states 5 as its last step"


CORES = replace(
    LLAMA2_FP8_X128,
    accelerator="CPU",
    metric="calibrated_step_time",
    calibration_flops=1.0e15,
    documented=Figures(step_time_s=4.0, calibrated_step_time_s=4.0),
    model_flops_per_sample=1.0e14,
)


def calibrated(log: Path, flops: str) -> None:
    with log.open("a") as file:
        file.write(f"GSW: CALIBRATION_FLOPS={flops}\n")


def test_a_calibrated_row_is_judged_by_the_time_on_a_machine_like_the_documented_one(log: Path) -> None:
    calibrated(log, "0.5e+15")
    result = measured(log, CORES, peak_flops=None)
    assert (result.judged_s, result.calibration_flops) == (2.28, 0.5e15)
    assert result.figures.step_time_s == 4.56
    assert result.figures.calibrated_step_time_s == 2.28
    # All of the series is of that machine, so that what is said of it fits the figure.
    assert (result.timing.first_s, result.timing.last_s, result.steady_s, result.timing.series_s) == (
        2.28,
        2.28,
        2.28,
        (2.28,) * 50,
    )


def test_a_calibrated_row_whose_log_has_no_calibration_is_not_measured(log: Path) -> None:
    with pytest.raises(LogError) as caught:
        measured(log, CORES, peak_flops=None)
    assert caught.value.fact == "the log holds no calibration, on which the row's verdict rests"
    assert caught.value.advice == (
        "the recipe prints it when it has trained, as GSW: CALIBRATION_FLOPS=9.5e+10; did it end well?"
    )


def test_a_known_peak_is_what_the_mfu_of_other_rows_is_of_whatever_the_log_says(log: Path) -> None:
    calibrated(log, "1e+15")
    result = measured(log)
    assert result.calibration_flops is None
    assert result.figures.mfu == pytest.approx(256 * 1.82e15 / 4.56 / 128 / 1979e12)


def test_where_nobody_knows_the_peak_the_mfu_is_of_the_calibration(log: Path) -> None:
    calibrated(log, "2e+15")
    result = measured(log, peak_flops=None)
    assert (result.judged_s, result.calibration_flops) == (4.56, 2e15)
    assert result.figures.mfu == pytest.approx(256 * 1.82e15 / 4.56 / 128 / 2e15)


def test_several_jobs_of_a_calibrated_row(log: Path) -> None:
    text = log.read_text()
    jobs = []
    for flops in ("0.5e+15", "1e+15", "0.25e+15"):
        log.write_text(text)
        calibrated(log, flops)
        jobs.append(measured(log, CORES, peak_flops=None))
    result = of_all_jobs(CORES, jobs, None)
    assert (result.judged_s, result.jobs_s) == (2.28, (2.28, 4.56, 1.14))
    # As it would be at the speed of the last job.
    assert (result.figures.calibrated_step_time_s, result.figures.step_time_s) == (2.28, 9.12)


def test_an_mfu_above_a_measured_peak_is_the_calibrations_fault(log: Path) -> None:
    calibrated(log, "1e+13")
    with pytest.raises(LogError) as caught:
        measured(log, CORES, peak_flops=None)
    assert caught.value.fact == "MFU 438.6 % of the measured peak is impossible: 1e+13 FLOP/s are no peak"
    assert caught.value.advice == (
        "the machine was busier while it calibrated than while it trained: run it again, alone on the machine"
    )


def test_a_calibrated_row_whose_log_is_cut_is_told_in_steps(log: Path) -> None:
    log.write_text(IDENTITY + step_lines(range(30)))
    calibrated(log, "1e+15")
    assert refused(log, CORES, peak_flops=None) == "the log holds 30 steps, 45 of 50 needed"


def test_a_calibration_costs_a_row_that_is_judged_by_its_step_time_no_more_than_the_mfu(log: Path) -> None:
    calibrated(log, "1e+12")
    result = measured(log, peak_flops=None)
    assert (result.judged_s, result.figures.mfu, result.calibration_flops) == (4.56, None, None)
