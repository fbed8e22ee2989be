"""What a site's metrics read of a log, and what is an error."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pytest_gsw.errors import LogError
from pytest_gsw.logs.model import Step, StepLog
from pytest_gsw.tables.metrics import Direction, Metric, MetricStatistic
from pytest_gsw.tables.model import Documented
from pytest_gsw.validation.measure import MetricLog, read_metrics
from tests.unit.rows import LLAMA2_FP8_X128

ROW = replace(LLAMA2_FP8_X128, metrics={"peak_memory_gib": Documented(61.2, 0.05)})


def memory(log: MetricLog) -> Iterable[Any]:
    return [line.rpartition(b" ")[2] for line in log.lines(b"memory ")]


def read(path: Path, log: StepLog | None = None, statistic: MetricStatistic = "max", **changes: Any) -> float:
    metric = Metric(
        "peak_memory_gib", "GiB", Direction.LOWER_IS_BETTER, "peak memory", read=memory, statistic=statistic
    )
    log = log or StepLog("maxtext", (Step(0, 1.0, offset=0),), attempts=1)
    return read_metrics(ROW, path, log, {"peak_memory_gib": replace(metric, **changes)})["peak_memory_gib"]


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


def test_a_log_without_it_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(LogError) as caught:
        read(written(tmp_path))
    assert caught.value.fact == "the log holds no peak memory (peak_memory_gib), which the row documents"
    assert caught.value.advice == "look at whether the run prints it, and at the plugin that reads it"


@pytest.mark.parametrize("value", ["nan", "inf", "-inf", "0", "-3", "lots", "12GB"])
@pytest.mark.parametrize("statistic", ["last", "max", "min", "median", "mean"])
def test_one_number_that_is_none_makes_the_row_an_error(tmp_path: Path, value: str, statistic: MetricStatistic) -> None:
    with pytest.raises(LogError) as caught:
        read(written(tmp_path, "60", value, "61"), statistic=statistic)
    assert caught.value.fact == f"peak memory (peak_memory_gib) is {value} in the log, wanted a number above 0"


@pytest.mark.parametrize("value", [True, None, [1.0], "x"])
def test_what_is_no_number_is_an_error(tmp_path: Path, value: Any) -> None:
    with pytest.raises(LogError) as caught:
        read(written(tmp_path, "60"), read=lambda _: [value])
    assert caught.value.fact == f"peak memory (peak_memory_gib) is {value!r} in the log, wanted a number above 0"


def test_an_earlier_attempt_counts_for_nothing(tmp_path: Path) -> None:
    path = written(tmp_path, "90", "60")
    begin = path.read_bytes().rindex(b"step")
    log = StepLog("maxtext", (Step(0, 1.0, offset=begin),), attempts=2)
    assert read(path, log) == 60.0


def test_attempts_that_cannot_be_told_apart_are_an_error(tmp_path: Path) -> None:
    with pytest.raises(
        LogError, match="the log holds 2 attempts, and its format does not show where the last one begins"
    ):
        read(written(tmp_path, "60"), StepLog("own", (Step(0, 1.0),), attempts=2))


def test_a_log_that_is_gone_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(LogError, match="cannot be read"):
        read(tmp_path / "gone.log")
