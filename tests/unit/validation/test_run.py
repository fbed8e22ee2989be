"""An ended job: why it failed, and what is shown of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_gsw.errors import JobError
from pytest_gsw.jobs.model import JobState, JobStatus
from pytest_gsw.validation.checks import check_job
from pytest_gsw.validation.run import ran_out_of_memory
from tests.unit.validation.ended import GOOD, OOM, run


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


def test_each_file_of_a_job_has_one_name(tmp_path: Path) -> None:
    log, errors, batch = (tmp_path / name for name in ("log_1.out", "log_1.err", "slurm-1.out"))
    of = run(log, GOOD, batch, (errors,))
    assert of.outputs == (("log", log), ("stderr", errors), ("batch log", batch))
    assert of.others == (errors, batch)
    # A recipe that leaves its log to the batch shell; NeMo-Run's shell writes beside the log.
    assert run(batch, GOOD, batch).outputs == (("log", batch),)
    assert run(log, GOOD, batch, (batch,)).outputs == (("log", log), ("output", batch))
    assert run(None).outputs == ()


PYXIS = "slurmstepd: error: pyxis: child 4711 failed with error code: 1\n"


def test_the_whole_message_of_a_cause_that_went_to_stderr(tmp_path: Path) -> None:
    log, errors, batch = (tmp_path / name for name in ("log_1.out", "log_1.err", "slurm-1.out"))
    log.write_text("")
    errors.write_text(f"importing\n{PYXIS}")
    batch.write_text("srun: error: n1: task 0: Exited with exit code 1\n")
    with pytest.raises(JobError) as error:
        check_job(run(log, JobStatus(JobState.FAILED, exit_code=1), batch, (errors,)))
    assert str(error.value) == (
        "job 481221 failed with exit code 1: container import\n"
        "\n"
        "job        481221 FAILED 1:0\n"
        f"log        {log}\n"
        f"stderr     {errors}\n"
        f"batch log  {batch}\n"
        f"cause      {PYXIS.strip()}\n"
        f"said at    {errors}:2\n"
        "next       check the image's name and mounts, the registry's credentials (~/.config/enroot/.credentials), "
        "and that enroot's cache and run directories can be written"
    )


def test_without_a_cause_the_first_file_that_holds_anything_is_named(tmp_path: Path) -> None:
    log, errors, batch = (tmp_path / name for name in ("log_1.out", "log_1.err", "slurm-1.out"))
    log.write_text("")
    errors.write_text("ValueError: wrong\n")
    batch.write_text("bye\n")
    failed = JobStatus(JobState.FAILED, exit_code=1)
    with pytest.raises(JobError) as error:
        check_job(run(log, failed, batch, (errors,)))
    assert error.value.tail == ("-- stderr:", "ValueError: wrong", "-- batch log:", "bye")
    assert error.value.advice == f"look at {errors}"
    errors.write_text("")
    with pytest.raises(JobError) as error:
        check_job(run(log, failed, batch, (errors,)))
    assert error.value.advice == f"look at {batch}"
    assert ("stderr", str(errors)) not in error.value.evidence
    log.write_text("step 1\n")
    with pytest.raises(JobError) as error:
        check_job(run(log, failed, batch, (errors,)))
    assert error.value.advice == f"look at {log}"
    errors.write_text("launch.sh: line 7: PYTHONPATH: unbound variable\n")
    with pytest.raises(JobError) as error:
        check_job(run(log, failed, batch, (errors,)))
    assert error.value.advice == f"look at {errors}"


def test_out_of_memory_that_went_to_stderr(log: Path, tmp_path: Path) -> None:
    errors = tmp_path / "log_1.err"
    errors.write_text(OOM)
    assert ran_out_of_memory(run(log, JobStatus(JobState.FAILED, exit_code=1), beside=(errors,)))
