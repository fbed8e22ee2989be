"""One job of a training that lasts longer than a job: it may begin at a checkpoint and end by a failure, and is measured."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from pytest_gsw.errors import JobError, LogError
from pytest_gsw.jobs.model import EarlyStop
from pytest_gsw.jobs.states import JobState, JobStatus
from pytest_gsw.logs.formats.registry import FORMATS
from pytest_gsw.tables.model import Baseline
from pytest_gsw.validation.checks import read_steps
from pytest_gsw.validation.job_end import check_job
from pytest_gsw.validation.measure import measure
from pytest_gsw.validation.run import Run
from tests.messages import wording
from tests.unit.rows import LLAMA2_FP8_X128
from tests.unit.validation.ended import GOOD, IDENTITY, OOM, raised, step_lines

#: A row with the steps of a long time, judged by all of them.
ROW = replace(
    LLAMA2_FP8_X128,
    recipe=replace(LLAMA2_FP8_X128.recipe, steps=900),
    criterion=replace(LLAMA2_FP8_X128.criterion, statistic="median"),
)
FAILED = replace(GOOD, state=JobState.FAILED, exit_code=1)
CANCELLED = replace(GOOD, state=JobState.CANCELLED, signal=15)
ENDS = [FAILED, CANCELLED, replace(GOOD, state=JobState.NODE_FAIL), replace(GOOD, state=JobState.TIMEOUT)]
RESTORED = "restored from the checkpoint of step 200\n"


def measured(log: Path, text: str, status: JobStatus, row: Baseline = ROW, *, is_part: bool = True) -> int:
    log.write_text(IDENTITY + text)
    part = Run("481221", status, log, stopped=EarlyStop("over") if status is CANCELLED else None, is_part=is_part)
    check_job(part)
    steps = read_steps(row, part, FORMATS["maxtext"])[0]
    return measure(row, part, steps, peak_flops=1979e12, steps=row.recipe.steps, first_index=0).steps


@pytest.mark.parametrize("status", ENDS, ids=lambda status: status.state.value)
def test_a_job_that_ended_by_a_failure_is_measured_up_to_there(status: JobStatus, tmp_path: Path) -> None:
    log, cut = tmp_path / "run.log", OOM + "completed step: 120, seco"
    assert measured(log, step_lines(range(120)) + cut, status) == 120
    assert measured(log, RESTORED + step_lines(range(200, 320)) + cut, status) == 120
    raised(JobError, measured, log, step_lines(range(900)), status, is_part=False)


def test_one_that_ended_well_is_whole(tmp_path: Path) -> None:
    log = tmp_path / "run.log"
    assert measured(log, RESTORED + step_lines(range(200, 900)), GOOD) == 700
    for text in (step_lines(range(120)), step_lines(range(900)) + OOM, step_lines(range(900)) + "completed st"):
        raised(LogError, measured, log, text, GOOD)
    fact = raised(LogError, measured, log, RESTORED + step_lines(range(200, 900)), GOOD, is_part=False).fact
    assert fact == wording("began again", step=200)


@pytest.mark.parametrize("status", ENDS, ids=lambda status: status.state.value)
def test_too_few_steps_or_wrong_ones_are_none(status: JobStatus, tmp_path: Path) -> None:
    log = tmp_path / "run.log"
    fewest = ROW.criterion.min_steps
    assert measured(log, step_lines(range(fewest)), status) == fewest
    assert raised(LogError, measured, log, step_lines(range(fewest - 1)), status).fact.endswith(f"{fewest} needed")
    raised(LogError, measured, log, step_lines(range(120), loss="nan"), status)
    log.write_text(IDENTITY.replace("70b", "8b") + step_lines(range(120)))
    raised(LogError, read_steps, ROW, Run("481221", status, log, is_part=True), FORMATS["maxtext"])
