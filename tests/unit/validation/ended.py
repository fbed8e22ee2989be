"""Ended jobs of one row and what their logs hold, to vary."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import pytest

from pytest_gsw.errors import LogError, RunError
from pytest_gsw.jobs.states import JobState, JobStatus
from pytest_gsw.logs.formats.registry import FORMATS
from pytest_gsw.logs.model import LogFormat, StepLog
from pytest_gsw.stats.figures import peak_flops
from pytest_gsw.stats.measurement import Measurement
from pytest_gsw.tables.model import Baseline
from pytest_gsw.validation.checks import read_steps
from pytest_gsw.validation.measure import measure
from pytest_gsw.validation.run import Run
from tests.unit.rows import LLAMA2_FP8_X128

Error = TypeVar("Error", bound=RunError)
GOOD = JobStatus(JobState.COMPLETED, exit_code=0, nodes="pool0-[0017-0032]", start_s=1000.0, end_s=1662.0)
REPLAYED = JobStatus(JobState.REPLAYED)
IDENTITY = (
    "GSW: MODEL=llama2 FRAMEWORK=maxtext MODEL_SIZE=70b JOB_NUM_NODES=16 GPUS_PER_NODE=8 DTYPE=fp8 "
    "SYNTHETIC_DATA=True GSW_VERSION=24.11 JOB_ID=481221 JOB_MODE=training\n"
)
OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n"


def step_lines(steps: Iterable[int], seconds: str = "4.560", loss: str = "9.021") -> str:
    return "".join(
        f"completed step: {n}, seconds: {seconds}, TFLOP/s/device: 797.5, Tokens/s/device: 1796.5, loss: {loss}\n"
        for n in steps
    )


def run(
    log: Path | None, status: JobStatus = GOOD, batch_output: Path | None = None, other_files: tuple[Path, ...] = ()
) -> Run:
    return Run("481221", status, log, batch_output, other_files=other_files)


def measured(log: Path, row: Baseline = LLAMA2_FP8_X128, status: JobStatus = GOOD, peak_flops: float | None = 1979e12):  # type: ignore[no-untyped-def]
    of = run(log, status)
    log_format = FORMATS[row.log_format]
    steps = read_steps(row, of, log_format)[0]
    return measure(row, of, steps, peak_flops=peak_flops, steps=row.recipe.steps, first_index=log_format.first_index)


def raised(kind: type[Error], call: Callable[..., object], *arguments: Any, **named: Any) -> Error:
    """The error of this kind that a call raises."""
    with pytest.raises(kind) as caught:
        call(*arguments, **named)
    return caught.value


def refused(
    log: Path, row: Baseline = LLAMA2_FP8_X128, status: JobStatus = GOOD, peak_flops: float | None = 1979e12
) -> str:
    """Why a log is not measured."""
    return raised(LogError, measured, log, row, status, peak_flops).fact


def measure_as_documented(baseline: Baseline, of: Run, log: StepLog, log_format: LogFormat) -> Measurement:
    """The row's statistic over the steps of a log, from its table alone."""
    peak = peak_flops(baseline.accelerator, baseline.dtype)
    steps, first = baseline.recipe.steps, log_format.first_index
    return measure(baseline, of, log, peak_flops=peak, steps=steps, first_index=first)


def of_bytes(baseline: Baseline, log: bytes, folder: Path) -> Measurement:
    """The measurement of a job that ended well with this log."""
    path = folder / "run.log"
    path.write_bytes(log)
    of = Run("7", JobStatus(JobState.COMPLETED, exit_code=0), path)
    log_format = FORMATS[baseline.log_format]
    return measure_as_documented(baseline, of, read_steps(baseline, of, log_format)[0], log_format)


def megatron(steps: Iterable[int], total: int = 50) -> str:
    return "".join(
        f" iteration {n:8d}/{total:8d} | consumed samples: {n * 256:12d} | elapsed time per iteration (ms): 4560.0 |"
        " learning rate: 1.500E-04 | global batch size:   256 | lm loss: 9.0E+00 | number of nan iterations:   0 |\n"
        for n in steps
    )


MEGATRON_ROW = replace(LLAMA2_FP8_X128, framework="megatron", log_format="megatron")
