"""An ended job: why it failed, and what is shown of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_gsw.errors import JobError
from pytest_gsw.jobs.model import JobState, JobStatus
from pytest_gsw.runs.checks import check_job
from pytest_gsw.runs.run import ran_out_of_memory
from tests.unit.runs.ended import GOOD, OOM, run


def test_a_cause_is_looked_for_in_the_batch_shells_output_as_well(log: Path, tmp_path: Path) -> None:
    batch = tmp_path / "slurm-481221.out"
    batch.write_text("slurmstepd: error: Detected 1 oom_kill event in StepId=481221.0.\n")
    status = JobStatus(JobState.FAILED, exit_code=137)
    assert ran_out_of_memory(run(log, status, batch))
    assert not ran_out_of_memory(run(log, status))


def test_out_of_memory(tmp_path: Path) -> None:
    path = tmp_path / "job.out"
    path.write_text(OOM)
    assert ran_out_of_memory(run(path, JobStatus(JobState.FAILED, exit_code=1)))
    assert ran_out_of_memory(run(None, JobStatus(JobState.OUT_OF_MEMORY, exit_code=0)))
    # A run that recovered from one and completed did not run out of memory.
    assert not ran_out_of_memory(run(path, GOOD))
    path.write_text("ValueError: wrong\n")
    assert not ran_out_of_memory(run(path, JobStatus(JobState.FAILED, exit_code=1)))


def test_the_last_lines_of_both_the_log_and_the_batch_shell_are_shown(log: Path, tmp_path: Path) -> None:
    batch = tmp_path / "slurm-481221.out"
    batch.write_text("+ srun train.sh\nbash: line 1: train.sh: oops\n")
    log.write_text("one\ntwo\n")
    failed = JobStatus(JobState.FAILED, exit_code=1)
    with pytest.raises(JobError) as error:
        check_job(run(log, failed, batch))
    assert error.value.tail == (
        *("-- log:", "one", "two"),
        *("-- batch log:", "+ srun train.sh", "bash: line 1: train.sh: oops"),
    )
    with pytest.raises(JobError) as error:
        check_job(run(None, failed, batch))
    assert error.value.tail == ("+ srun train.sh", "bash: line 1: train.sh: oops")
