"""From the steps of a log to a measurement, a site's metrics included, and what cannot be."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pytest_gsw.errors import LogError, TableError
from pytest_gsw.logs.model import Step, StepLog
from pytest_gsw.stats.measurement import TimedStep
from pytest_gsw.tables.metrics import Direction, Metric, MetricStatistic
from pytest_gsw.tables.model import Documented, Figures, Recipe
from pytest_gsw.validation.job_end import check_job
from pytest_gsw.validation.measure import (
    MetricLog,
    impossible_measurement,
    impossible_table,
    of_all_jobs,
    read_metrics,
    timed_steps,
)
from tests.messages import wording
from tests.unit.rows import LLAMA2_FP8_X128
from tests.unit.validation.ended import (
    IDENTITY,
    MEGATRON_ROW,
    REPLAYED,
    measured,
    megatron,
    raised,
    refused,
    run,
    step_lines,
)


def test_a_good_run_is_measured(log: Path) -> None:
    check_job(run(log))
    result = measured(log)
    assert (result.steps, result.judged) == (50, 4.56)
    assert {result.timing.first_s, result.timing.last_s, result.steady_s} == {4.56}
    assert result.figures.tokens_per_s == pytest.approx(4096 * 256 / 4.56)
    assert result.figures.mfu == pytest.approx(256 * 1.82e15 / 4.56 / 128 / 1979e12)


def test_a_window_of_steps_that_are_not_there(tmp_path: Path) -> None:
    # A window that lacks steps.
    log = tmp_path / "megatron.out"
    log.write_text(megatron([*range(1, 35), *range(40, 51)]))
    assert refused(log, replace(MEGATRON_ROW, criterion=replace(MEGATRON_ROW.criterion, statistic="mean[35:44]"))) == (
        wording("window", statistic="mean[35:44]", why=wording("few in the window", few=5, steps=10))
    )
    # A window that the log does not reach.
    log = tmp_path / "megatron.out"
    log.write_text(megatron(range(1, 31), total=30))
    row = replace(
        MEGATRON_ROW,
        criterion=replace(MEGATRON_ROW.criterion, statistic="mean[31:40]", min_steps=2),
        recipe=Recipe("x"),
    )
    assert refused(log, row, REPLAYED) == (
        wording("window", statistic="mean[31:40]", why=wording("not in the window", statistic="mean[31:40]"))
    )


@pytest.mark.parametrize("statistic", ["last", "median", "mean[35:44]", "mean[-10:]"])
@pytest.mark.parametrize("zero", [0, 30, 48, 49])
def test_a_step_of_no_time_is_an_error_wherever_it_is(log: Path, statistic: str, zero: int) -> None:
    lines = (step_lines([n], "0.000" if n == zero else "6.500" if n == 49 else "4.560") for n in range(50))
    log.write_text(IDENTITY + "".join(lines))
    assert (
        refused(log, replace(LLAMA2_FP8_X128, criterion=replace(LLAMA2_FP8_X128.criterion, statistic=statistic)))
        == "0 s is no time of a step"
    )


def test_of_several_jobs_each_has_its_steady_steps(log: Path) -> None:
    jobs = []
    for usual in ("4.560", "6.840", "4.600"):
        log.write_text(IDENTITY + step_lines(range(49), usual) + step_lines([49], "4.560"))
        jobs.append(measured(log))
    result = of_all_jobs(LLAMA2_FP8_X128, jobs, None)
    assert (result.jobs, result.steadies_s) == ((4.56, 4.56, 4.56), (4.56, 6.84, 4.6))


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
    without_batch = replace(LLAMA2_FP8_X128, batch=replace(LLAMA2_FP8_X128.batch, global_batch_size=None))
    assert timed_steps(without_batch, rates) == (TimedStep(1, 2.0),)


def test_rates_alone_need_what_makes_seconds_of_them(log: Path) -> None:
    said = [f"step: {n}  loss: {9 - n / 20:.4f}  tps: 4,096  tflops: 1.0  mfu: 1.00%" for n in range(1, 51)]
    log.write_text("\n".join(said) + "\n")
    row = replace(
        LLAMA2_FP8_X128,
        workload=replace(
            LLAMA2_FP8_X128.workload, log_format="torchtitan", framework="torchtitan", sequence_length=None
        ),
    )
    error = raised(LogError, measured, log, row)
    assert error.fact == (wording("rates alone"))
    assert error.advice == f"write sequence_length and global_batch_size into the table: {row.location}"
    assert (
        measured(log, replace(row, workload=replace(row.workload, sequence_length=4096))).judged
        == 256 * 4096 / 128 / 4096
    )


def test_a_checkpoint_row_is_judged_on_its_saves(tmp_path: Path) -> None:
    row = replace(
        MEGATRON_ROW,
        batch=replace(MEGATRON_ROW.batch, global_batch_size=None),
        criterion=replace(MEGATRON_ROW.criterion, metric="checkpoint_save_time", statistic="mean", min_steps=1),
        documented=Figures(checkpoint_save_time_s=17.96068),
        recipe=Recipe("x"),
    )
    log = tmp_path / "megatron.out"
    saves = "time (ms) | save-checkpoint: 18000.00\n" + "time (ms) | save-checkpoint: 17000.00\n"
    log.write_text(megatron(range(1, 4), total=3) + saves)
    result = measured(log, row)
    assert (result.judged, result.steps) == (17.5, 2)
    assert result.figures == Figures(checkpoint_save_time_s=17.5)
    log.write_text(megatron(range(1, 4), total=3))
    assert refused(log, row) == wording("few saves", saves=0, needed=1)
    assert refused(log, replace(row, recipe=Recipe("x", steps=4))) == wording("few saves", saves=0, needed=1)
    log.write_text(megatron(range(1, 4), total=3) + saves)
    assert measured(log, replace(row, recipe=Recipe("x", steps=3))).steps == 2
    assert refused(log, replace(row, recipe=Recipe("x", steps=4))) == wording("ended before its last", step=3, last=4)
    log.write_text(megatron(range(1, 4), total=5) + saves)
    assert refused(log, row) == wording("ended before its total", step=3, last=5)


CORES = replace(
    LLAMA2_FP8_X128,
    accelerator="CPU",
    criterion=replace(LLAMA2_FP8_X128.criterion, metric="calibrated_step_time"),
    calibration_flops=1.0e15,
    documented=Figures(step_time_s=4.0, calibrated_step_time_s=4.0),
    workload=replace(LLAMA2_FP8_X128.workload, model_flops_per_sample=1.0e14),
)


def calibrated(log: Path, flops: str) -> None:
    with log.open("a") as file:
        file.write(f"GSW: CALIBRATION_FLOPS={flops}\n")


def test_a_calibrated_row_is_judged_by_the_time_on_a_machine_like_the_documented_one(log: Path) -> None:
    calibrated(log, "0.5e+15")
    result = measured(log, CORES, peak_flops=None)
    assert (result.judged, result.calibration_flops) == (2.28, 0.5e15)
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
    error = raised(LogError, measured, log, CORES, peak_flops=None)
    assert error.fact == wording("no calibration")
    assert error.advice.startswith(wording("next calibration"))


def test_a_known_peak_is_what_the_mfu_of_other_rows_is_of_whatever_the_log_says(log: Path) -> None:
    calibrated(log, "1e+15")
    result = measured(log)
    assert result.calibration_flops is None
    assert result.figures.mfu == pytest.approx(256 * 1.82e15 / 4.56 / 128 / 1979e12)


def test_where_nobody_knows_the_peak_the_mfu_is_of_the_calibration(log: Path) -> None:
    calibrated(log, "2e+15")
    result = measured(log, peak_flops=None)
    assert (result.judged, result.calibration_flops) == (4.56, 2e15)
    assert result.figures.mfu == pytest.approx(256 * 1.82e15 / 4.56 / 128 / 2e15)


def test_several_jobs_of_a_calibrated_row(log: Path) -> None:
    text = log.read_text()
    jobs = []
    for flops in ("0.5e+15", "1e+15", "0.25e+15"):
        log.write_text(text)
        calibrated(log, flops)
        jobs.append(measured(log, CORES, peak_flops=None))
    result = of_all_jobs(CORES, jobs, None)
    assert (result.judged, result.jobs) == (2.28, (2.28, 4.56, 1.14))
    # As it would be at the speed of the last job.
    assert (result.figures.calibrated_step_time_s, result.figures.step_time_s) == (2.28, 9.12)


def test_an_mfu_above_a_measured_peak_is_the_calibrations_fault(log: Path) -> None:
    calibrated(log, "1e+13")
    error = raised(LogError, measured, log, CORES, peak_flops=None)
    assert error.fact == wording("impossible peak", mfu="438.6 %", flops="1e+13")
    assert error.advice.startswith(wording("next busy"))


def test_a_calibrated_row_whose_log_is_cut_is_told_in_steps(log: Path) -> None:
    log.write_text(IDENTITY + step_lines(range(30)))
    calibrated(log, "1e+15")
    assert refused(log, CORES, peak_flops=None) == wording("few steps", steps=30, needed=45, wanted=50)


def test_a_calibration_costs_a_row_that_is_judged_by_its_step_time_no_more_than_the_mfu(log: Path) -> None:
    calibrated(log, "1e+12")
    result = measured(log, peak_flops=None)
    assert (result.judged, result.figures.mfu, result.calibration_flops) == (4.56, None, None)


# ---- An MFU above one: whose fault it is ---------------------------------------------------------

PEAK = 1979e12
LOG = (("log", "/stage/log.out:120"),)
DOCUMENTED = replace(LLAMA2_FP8_X128.documented, mfu=0.4037)
ROW = replace(LLAMA2_FP8_X128, documented=DOCUMENTED)


def test_a_table_whose_own_figures_agree() -> None:
    assert impossible_table(ROW, PEAK) is None
    assert impossible_table(ROW, None) is None
    assert impossible_table(replace(ROW, workload=replace(ROW.workload, model_flops_per_sample=None)), PEAK) is None


def test_a_table_whose_flops_are_those_of_another_model() -> None:
    error = impossible_table(replace(ROW, workload=replace(ROW.workload, model_flops_per_sample=2.17e16)), PEAK)
    assert isinstance(error, TableError)
    assert error.fact == "the table contradicts itself: MFU 481.3 % is impossible, and its own 4.556 s gives it"
    assert error.evidence == (
        ("baseline", str(ROW.location)),
        ("document", f"{ROW.source.document}:{ROW.source.line}"),
        ("documented", "4.556 s a step, an MFU of 40.37 %"),
        ("computed", "256 * 2.17e+16 FLOPs / 4.556 s / 128 GPUs / 1.979e+15 FLOP/s = 481.3 %"),
    )
    assert error.advice == "correct model_flops there, or leave it out: the verdict does not rest on it"


def test_a_table_whose_tflops_are_beyond_its_peak() -> None:
    documented = replace(DOCUMENTED, mfu=None, tflops_per_gpu=2474.0)
    error = impossible_table(
        replace(ROW, workload=replace(ROW.workload, model_flops_per_sample=None), documented=documented), PEAK
    )
    assert isinstance(error, TableError)
    assert error.fact == "the table contradicts itself: MFU 125.0 % is impossible, and its own 4.556 s gives it"
    assert error.evidence[-1] == (
        "computed",
        "256 * 5.636e+15 FLOPs / 4.556 s / 128 GPUs / 1.979e+15 FLOP/s = 125.0 %",
    )
    assert error.advice == "correct tflops_per_gpu there, or leave it out: the verdict does not rest on it"


@pytest.mark.parametrize(
    ("flops", "judged", "kind", "fact"),
    [
        (1.82e15, 0.029, LogError, "MFU 6342.5 % is impossible: no hardware takes 0.029 s for a step"),
        (2.17e16, 4.6, TableError, "the table contradicts itself: MFU 481.3 % is impossible, and its own 4.556 s*"),
        (
            3.64e15,
            3.0,
            TableError,
            "the table contradicts itself: 3 s is an MFU of 61.3 % by its mfu, and of 122.6 % by its model_flops",
        ),
    ],
)
def test_whose_fault_a_measured_mfu_is(flops: float, judged: float, kind: type, fact: str) -> None:
    row = replace(ROW, workload=replace(ROW.workload, model_flops_per_sample=flops))
    mfu = 256 * flops / judged / 128 / PEAK
    error = impossible_measurement(row, mfu, judged, PEAK, LOG)
    assert type(error) is kind
    assert error.fact == fact or (fact.endswith("*") and error.fact.startswith(fact[:-1]))


def test_without_a_documented_mfu_only_the_documented_step_time_tells() -> None:
    row = replace(
        ROW, workload=replace(ROW.workload, model_flops_per_sample=3.64e15), documented=replace(DOCUMENTED, mfu=None)
    )
    assert isinstance(impossible_measurement(row, 1.226, 3.0, PEAK, LOG), LogError)


# ---- What a site's metrics read of a log, and what is an error -----------------------------------

MEMORY_ROW = replace(LLAMA2_FP8_X128, metrics={"peak_memory_gib": Documented(61.2, 0.05)})


def memory(log: MetricLog) -> Iterable[Any]:
    return [line.rpartition(b" ")[2] for line in log.lines(b"memory ")]


def read(path: Path, log: StepLog | None = None, statistic: MetricStatistic = "max", **changes: Any) -> float:
    metric = Metric(
        "peak_memory_gib", "GiB", Direction.LOWER_IS_BETTER, "peak memory", read=memory, statistic=statistic
    )
    log = log or StepLog("maxtext", (Step(0, 1.0, offset=0),), attempts=1)
    return read_metrics(MEMORY_ROW, path, log, {"peak_memory_gib": replace(metric, **changes)})["peak_memory_gib"]


def written(directory: Path, *values: str) -> Path:
    path = directory / "run.log"
    path.write_text("".join(f"step\nmemory {value}\n" for value in values))
    return path


@pytest.mark.parametrize(
    ("statistic", "value"), [("last", 3.0), ("median", 3.0), ("mean", 4.0), ("max", 8.0), ("min", 1.0)]
)
def test_numbers_become_one(tmp_path: Path, statistic: MetricStatistic, value: float) -> None:
    assert read(written(tmp_path, "1", "8", "3"), statistic=statistic) == value


def test_a_row_that_documents_none_reads_none(tmp_path: Path) -> None:
    log = StepLog("maxtext", (), attempts=2)
    assert read_metrics(LLAMA2_FP8_X128, tmp_path / "none", log, {}) == {}


def test_a_log_without_a_metric_is_an_error(tmp_path: Path) -> None:
    # A log without it is an error.
    error = raised(LogError, read, written(tmp_path))
    assert error.fact == wording("with the metric", name="peak memory", key="peak_memory_gib")
    assert error.advice == wording("metric of the plugin")
    # A log that is gone is an error.
    assert "cannot be read" in raised(LogError, read, tmp_path / "gone.log").fact


@pytest.mark.parametrize("value", ["nan", "inf", "-inf", "0", "-3", "lots", "12GB"])
@pytest.mark.parametrize("statistic", ["last", "max", "min", "median", "mean"])
def test_one_number_that_is_none_makes_the_row_an_error(tmp_path: Path, value: str, statistic: MetricStatistic) -> None:
    error = raised(LogError, read, written(tmp_path, "60", value, "61"), statistic=statistic)
    assert error.fact == wording("wrong metric", name="peak memory", key="peak_memory_gib", value=value)


@pytest.mark.parametrize("value", [True, None, [1.0], "x"])
def test_what_is_no_number_is_an_error(tmp_path: Path, value: Any) -> None:
    error = raised(LogError, read, written(tmp_path, "60"), read=lambda _: [value])
    assert error.fact == wording("wrong metric", name="peak memory", key="peak_memory_gib", value=f"{value!r}")


def test_an_earlier_attempt_counts_for_nothing(tmp_path: Path) -> None:
    path = written(tmp_path, "90", "60")
    begin = path.read_bytes().rindex(b"step")
    log = StepLog("maxtext", (Step(0, 1.0, offset=begin),), attempts=2)
    assert read(path, log) == 60.0
    # Attempts that cannot be told apart are an error.
    error = raised(LogError, read, written(tmp_path, "60"), StepLog("own", (Step(0, 1.0),), attempts=2))
    assert error.fact == wording("attempts", attempts=2)
