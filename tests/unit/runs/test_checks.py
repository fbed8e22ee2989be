"""From an ended job and its log to a measurement: everything that must hold before a number is judged."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_gsw.errors import JobError, LogError
from pytest_gsw.jobs.model import JobState, JobStatus
from pytest_gsw.logs.formats.registry import FORMATS
from pytest_gsw.logs.model import Step, StepLog
from pytest_gsw.performance.measurement import TimedStep
from pytest_gsw.runs.checks import (
    Run,
    check_job,
    measure,
    of_all_jobs,
    ran_out_of_memory,
    read_steps,
    timed_steps,
)
from pytest_gsw.tables.model import Baseline, Figures, Recipe
from tests.unit.rows import LLAMA2_FP8_X128

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


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "log-maxtext_llama2_70b_128_481221.out"
    path.write_text(IDENTITY + step_lines(range(50)))
    return path


def run(log: Path | None, status: JobStatus = GOOD, batch_output: Path | None = None) -> Run:
    return Run("481221", status, log, batch_output)


def measured(log: Path, row: Baseline = LLAMA2_FP8_X128, status: JobStatus = GOOD, peak_flops: float | None = 1979e12):  # type: ignore[no-untyped-def]
    of = run(log, status)
    log_format = FORMATS[row.log_format]
    steps = read_steps(row, of, log_format)
    return measure(row, of, steps, peak_flops=peak_flops, steps=row.recipe.steps, first_index=log_format.first_index)


def test_a_good_run_is_measured(log: Path) -> None:
    check_job(run(log))
    result = measured(log)
    assert (result.judged_s, result.steps, result.first_s, result.last_s, result.steady.median_s) == (
        4.56,
        50,
        4.56,
        4.56,
        4.56,
    )
    assert result.figures.tokens_per_s == pytest.approx(4096 * 256 / 4.56)
    assert result.figures.mfu == pytest.approx(256 * 1.82e15 / 4.56 / 128 / 1979e12)


@given(
    state=st.sampled_from([state for state in JobState if state is not JobState.REPLAYED]),
    exit_code=st.one_of(st.none(), st.integers(0, 255)),
    signal=st.integers(0, 64),
)
def test_only_completed_with_exit_code_0_goes_on(state: JobState, exit_code: int | None, signal: int) -> None:
    status = JobStatus(state, exit_code=exit_code, signal=signal)
    if (state, exit_code, signal) == (JobState.COMPLETED, 0, 0):
        check_job(run(None, status))
    else:
        with pytest.raises(JobError):
            check_job(run(None, status))


@pytest.mark.parametrize(
    ("status", "fact"),
    [
        (JobStatus(JobState.FAILED, exit_code=7), "job 481221 failed with exit code 7"),
        (JobStatus(JobState.COMPLETED, exit_code=7), "job 481221 ended with exit code 7"),
        (JobStatus(JobState.COMPLETED), "the exit code of job 481221 is not known"),
        (JobStatus(JobState.FAILED, exit_code=0, signal=9), "job 481221 failed by signal 9"),
        (JobStatus(JobState.TIMEOUT, exit_code=0), "job 481221 ended TIMEOUT"),
        (JobStatus(JobState.CANCELLED, exit_code=0), "job 481221 ended CANCELLED"),
        (JobStatus(JobState.NODE_FAIL, exit_code=0), "job 481221 ended NODE_FAIL"),
        (JobStatus(JobState.OUT_OF_MEMORY, exit_code=0, signal=125), "job 481221 ended OUT_OF_MEMORY by signal 125"),
        (JobStatus(JobState.UNKNOWN, reason="no answer"), "the end of job 481221 is not known: no answer"),
        (JobStatus(JobState.UNKNOWN, raw_state="BANANA"), "the end of job 481221 is not known: BANANA"),
    ],
)
def test_how_a_job_ended(status: JobStatus, fact: str) -> None:
    with pytest.raises(JobError) as caught:
        check_job(run(None, status))
    assert caught.value.fact == fact


def test_a_complete_log_does_not_save_a_cancelled_job(log: Path) -> None:
    with pytest.raises(JobError):
        check_job(run(log, replace(GOOD, state=JobState.CANCELLED)))


def test_the_whole_message_of_a_failed_job_with_a_cause(tmp_path: Path) -> None:
    path = tmp_path / "job.out"
    path.write_text(f"starting\n{OOM}")
    status = JobStatus(
        JobState.FAILED, exit_code=1, nodes="n[001-016]", start_s=0.0, end_s=72.0, reason="NonZeroExitCode"
    )
    with pytest.raises(JobError) as caught:
        check_job(run(path, status))
    assert str(caught.value) == (
        "job 481221 failed with exit code 1: CUDA out of memory\n"
        "\n"
        "job        481221 FAILED 1:0 after 1m12s on n[001-016]\n"
        "reason     NonZeroExitCode\n"
        f"log        {path}\n"
        f"cause      {OOM.strip()}\n"
        f"said at    {path}:2\n"
        "next       check that the GPUs were free, then batch size, parallelism and activation checkpointing of the row"
    )


def test_the_whole_message_of_a_completed_job_whose_log_tells_otherwise(log: Path) -> None:
    log.write_text(step_lines(range(50)) + OOM)
    with pytest.raises(LogError) as caught:
        measured(log)
    assert str(caught.value) == (
        "job 481221 completed, but its log tells of an end by CUDA out of memory\n"
        "\n"
        "job        481221 COMPLETED 0:0 after 11m02s on pool0-[0017-0032]\n"
        f"log        {log}\n"
        f"cause      {OOM.strip()}\n"
        f"said at    {log}:51\n"
        "next       check that the GPUs were free, then batch size, parallelism and activation checkpointing of the row"
    )


def test_a_completed_job_whose_batch_output_tells_otherwise(log: Path, tmp_path: Path) -> None:
    log.write_text(step_lines(range(50)))
    output = tmp_path / "slurm-481221.out"
    output.write_text("starting\nsrun: error: node7: task 3: Exited with exit code 1\n")
    of = replace(run(log), batch_output=output)
    with pytest.raises(LogError) as caught:
        read_steps(LLAMA2_FP8_X128, of, FORMATS["maxtext"])
    assert caught.value.fact == "job 481221 completed, but its batch output tells of an end by a failed task"
    assert ("said at", f"{output}:2") in caught.value.evidence
    output.write_text("starting\n")
    assert len(read_steps(LLAMA2_FP8_X128, of, FORMATS["maxtext"]).steps) == 50


def test_a_replayed_log_that_tells_of_a_bad_end(log: Path) -> None:
    log.write_text(step_lines(range(50)) + OOM)
    with pytest.raises(LogError) as caught:
        read_steps(LLAMA2_FP8_X128, run(log, JobStatus(JobState.REPLAYED)), FORMATS["maxtext"])
    assert caught.value.fact == "the log tells of an end by CUDA out of memory"


def test_the_whole_message_of_a_failed_job_without_a_cause(tmp_path: Path) -> None:
    batch = tmp_path / "slurm-481221.out"
    batch.write_text("one\ntwo\n")
    with pytest.raises(JobError) as caught:
        check_job(run(None, JobStatus(JobState.FAILED, exit_code=1), batch))
    assert str(caught.value) == (
        "job 481221 failed with exit code 1\n"
        "\n"
        "job        481221 FAILED 1:0\n"
        f"batch log  {batch}\n"
        "last       one\n"
        "           two\n"
        f"next       look at {batch}"
    )


@pytest.mark.parametrize(
    ("state", "line", "fact"),
    [
        (JobState.CANCELLED, "*** JOB 12 ON n1 CANCELLED AT 2031-02-03T04:05:06 ***", "ended CANCELLED"),
        (JobState.TIMEOUT, "*** JOB 12 ON n1 CANCELLED AT 2031-02-03T04:05:06 DUE TO TIME LIMIT ***", "ended TIMEOUT"),
        (
            JobState.PREEMPTED,
            "*** JOB 12 ON n1 CANCELLED AT 2031-02-03T04:05:06 DUE TO PREEMPTION ***",
            "ended PREEMPTED",
        ),
        (
            JobState.NODE_FAIL,
            "*** JOB 12 ON n1 CANCELLED AT 2031-02-03T04:05:06 DUE TO NODE FAILURE, SEE SLURMCTLD LOG FOR DETAILS ***",
            "ended NODE_FAIL",
        ),
        # These tell more than the state.
        (JobState.CANCELLED, "*** JOB 12 ON n1 CANCELLED AT 2031-02-03T04:05:06 DUE TO TIME LIMIT ***", "ended CANCELLED: time limit"),
        (JobState.FAILED, "*** STEP 12.0 ON n1 CANCELLED AT 2031-02-03T04:05:06 ***", "failed: cancelled"),
        (JobState.OUT_OF_MEMORY, "Detected 1 oom_kill event in StepId=12.0.", "ended OUT_OF_MEMORY: host out of memory"),
        (JobState.CANCELLED, OOM.strip(), "ended CANCELLED: CUDA out of memory"),
    ],
)  # fmt: skip
def test_a_cause_that_only_repeats_the_state_is_not_said_twice(
    tmp_path: Path, state: JobState, line: str, fact: str
) -> None:
    path = tmp_path / "job.out"
    path.write_text(f"slurmstepd: error: {line}\n")
    with pytest.raises(JobError) as caught:
        check_job(run(path, JobStatus(state, exit_code=0)))
    assert caught.value.fact == f"job 481221 {fact}"
    # What the log says of it, and what to do, is shown all the same.
    assert ("said at", f"{path}:1") in caught.value.evidence
    assert caught.value.advice


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


@pytest.mark.parametrize(
    ("said", "instead", "name", "line"),
    [
        ("MODEL=llama2", "MODEL=llama3", "model", "model      llama3 in the log, llama2 in the row"),
        ("MODEL_SIZE=70b", "MODEL_SIZE=13b", "model size", "model size 13b in the log, 70b in the row"),
        ("FRAMEWORK=maxtext", "FRAMEWORK=nemo", "framework", "framework  nemo in the log, maxtext in the row"),
        ("DTYPE=fp8", "DTYPE=bf16", "dtype", "dtype      bf16 in the log, fp8 in the row"),
        ("NODES=16", "NODES=32", "GPUs", "GPUs       256 in the log, 128 in the row"),
        ("JOB_ID=481221", "JOB_ID=481220", "job", "job        481220 in the log, 481221 wanted"),
    ],
)
def test_a_log_of_another_run(log: Path, said: str, instead: str, name: str, line: str) -> None:
    log.write_text(log.read_text().replace(said, instead))
    with pytest.raises(LogError) as caught:
        measured(log)
    assert caught.value.fact == f"the log belongs to another run, by its {name}"
    assert line in str(caught.value).splitlines()


ARGUMENTS = """\
using world size: 8, data-parallel-size: 8, tensor-model-parallel size: 1, pipeline-model-parallel size: 1
------------------------ arguments ------------------------
  bf16 ............................................ False
  fp16 ............................................ False
  num_layers ...................................... 2
  params_dtype .................................... torch.float32
  seq_length ...................................... 256
"""


def test_a_run_that_was_not_the_rows(tmp_path: Path) -> None:
    log = tmp_path / "megatron.out"
    log.write_text(ARGUMENTS + megatron(range(1, 51)))
    row = replace(MEGATRON_ROW, dtype="bf16", gpus=8, sequence_length=1024, layers=24)
    with pytest.raises(LogError) as caught:
        measured(log, row)
    assert str(caught.value) == (
        "the run was not the row's: sequence length 256 in the log, 1024 in the row; layers 2 in the log, 24 in the "
        "row; precision fp32 in the log, bf16 in the row\n\n"
        "sequence length 256 in the log, 1024 in the row\n"
        "layers     2 in the log, 24 in the row\n"
        "precision  fp32 in the log, bf16 in the row\n"
        f"said at    {log}:5, 6, 7\n"
        "baseline   baselines/maxtext/llama2_70b.yaml:41\n"
        "job        481221 COMPLETED 0:0 after 11m02s on pool0-[0017-0032]\n"
        f"log        {log}\n"
        "next       correct what the recipe is given (recipe.environment in the table, or the launch script), or the row"
    )
    log.write_text(
        ARGUMENTS.replace("256", "1024").replace(" 2\n", " 24\n").replace("32", "16") + megatron(range(1, 51))
    )
    assert len(read_steps(replace(row, dtype="fp16"), run(log), FORMATS["megatron"]).steps) == 50


def test_a_log_of_another_run_by_what_it_is_set_up_with_as_well(tmp_path: Path) -> None:
    log = tmp_path / "megatron.out"
    log.write_text(ARGUMENTS + megatron(range(1, 51)))
    with pytest.raises(LogError) as caught:
        measured(log, replace(MEGATRON_ROW, dtype="fp32", gpus=16, sequence_length=1024))
    assert caught.value.fact == "the log belongs to another run, by its GPUs"
    assert caught.value.evidence[:4] == (
        ("GPUs", "8 in the log, 16 in the row"),
        ("sequence length", "256 in the log, 1024 in the row"),
        ("said at", f"{log}:1, 7"),
        ("baseline", "baselines/maxtext/llama2_70b.yaml:41"),
    )


def test_names_are_compared_without_case(log: Path) -> None:
    log.write_text(log.read_text().replace("DTYPE=fp8", "DTYPE=FP8"))
    assert measured(log).steps == 50


def test_a_replayed_log_may_be_of_any_job(log: Path) -> None:
    log.write_text(log.read_text().replace("JOB_ID=481221", "JOB_ID=7"))
    # A log that bears no job's id in its name is told apart by that name.
    renamed = replace(run(log.rename(log.with_name("some.out")), JobStatus(JobState.REPLAYED)), job_id="some")
    assert len(read_steps(LLAMA2_FP8_X128, renamed, FORMATS["maxtext"]).steps) == 50
    with pytest.raises(LogError):  # an id of a site's own scheduler is one, too
        read_steps(LLAMA2_FP8_X128, replace(renamed, job_id="pod-abc"), FORMATS["maxtext"])
    with pytest.raises(LogError):  # a name that is a job's id has to be that of the job in the log
        read_steps(LLAMA2_FP8_X128, replace(renamed, job_id="481221"), FORMATS["maxtext"])


def test_a_log_that_does_not_say_whose_it_is_counts_as_the_jobs_own(log: Path) -> None:
    log.write_text(step_lines(range(50)))
    assert measured(log).steps == 50


def test_no_log_at_all() -> None:
    with pytest.raises(LogError) as caught:
        read_steps(LLAMA2_FP8_X128, run(None), FORMATS["maxtext"])
    assert str(caught.value) == (
        "job 481221 left no log\n\njob        481221 COMPLETED 0:0 after 11m02s on pool0-[0017-0032]"
    )


def test_a_loss_that_is_not_finite(log: Path) -> None:
    log.write_text(IDENTITY + step_lines(range(25)) + step_lines(range(25, 50), loss="nan"))
    with pytest.raises(LogError) as caught:
        measured(log)
    assert caught.value.fact == "the loss or a step time is not finite at step 25: loss: nan"


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
    with pytest.raises(LogError) as caught:
        measured(log)
    assert caught.value.fact == f"the log ends at step {last}, the run's last step is 49"


def test_a_last_line_that_is_cut_does_not_count(log: Path) -> None:
    text = IDENTITY + step_lines(range(50))
    log.write_text(text[: text.rindex("seconds: ") + len("seconds: 4.5")])
    with pytest.raises(LogError) as caught:
        measured(log)
    assert caught.value.fact == "the log ends at step 48, the run's last step is 49"


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
    with pytest.raises(LogError) as caught:
        measured(log, row)
    assert caught.value.fact == "the log holds 17 steps, 18 of 20 needed"


@pytest.mark.parametrize("kept", [[0, 25], [24, 49], [16, 33, 49], [0, 10, 20, 30, 40]])
def test_a_few_steps_are_not_taken_for_a_log_interval(log: Path, kept: list[int]) -> None:
    log.write_text(IDENTITY + step_lines(kept))
    with pytest.raises(LogError) as caught:
        measured(log)
    assert caught.value.fact == f"the log holds {len(kept)} steps, 45 of 50 needed"


def megatron(steps: Iterable[int], total: int = 50) -> str:
    return "".join(
        f" iteration {n:8d}/{total:8d} | consumed samples: {n * 256:12d} | elapsed time per iteration (ms): 4560.0 |"
        " learning rate: 1.500E-04 | global batch size:   256 | lm loss: 9.0E+00 | number of nan iterations:   0 |\n"
        for n in steps
    )


MEGATRON_ROW = replace(LLAMA2_FP8_X128, framework="megatron", log_format="megatron")


def test_the_last_line_of_a_log_interval_may_come_before_the_last_step(tmp_path: Path) -> None:
    log = tmp_path / "megatron.out"
    log.write_text(megatron(range(10, 51, 10)))
    assert measured(log, MEGATRON_ROW).steps == 5
    log.write_text(megatron(range(15, 50, 15)))  # steps 46 to 50 have no line
    assert measured(log, replace(MEGATRON_ROW)).steps == 3
    log.write_text(megatron(range(10, 41, 10)))
    with pytest.raises(LogError) as caught:
        measured(log, MEGATRON_ROW)
    assert caught.value.fact == "the log holds 40 steps, 45 of 50 needed"
    with pytest.raises(LogError) as caught:
        measured(log, replace(MEGATRON_ROW, min_steps=40))
    assert caught.value.fact == "the log ends at step 40, the run's last step is 50"


def test_one_line_of_a_log_interval_may_be_lost_where_the_last_is_there(tmp_path: Path) -> None:
    log = tmp_path / "megatron.out"
    log.write_text(megatron([10, 20, 30, 50]))
    assert measured(log, MEGATRON_ROW).steps == 4
    log.write_text(megatron([10, 20, 50]))
    with pytest.raises(LogError) as caught:
        measured(log, MEGATRON_ROW)
    assert caught.value.fact == "the log holds 3 steps, 45 of 50 needed"
    log.write_text(megatron([5, 10, 15, 35, 40, 45, 50]))
    with pytest.raises(LogError) as caught:
        measured(log, MEGATRON_ROW)
    assert caught.value.fact == "the log holds 35 steps, 45 of 50 needed"


#: A row whose document does not say how many steps there were.
ANY_STEPS = replace(MEGATRON_ROW, min_steps=2, recipe=Recipe("x"))


def test_a_log_must_reach_the_end_that_it_names_itself(tmp_path: Path) -> None:
    log = tmp_path / "megatron.out"
    log.write_text(megatron(range(1, 8), total=12))
    with pytest.raises(LogError) as caught:
        measured(log, ANY_STEPS)
    assert str(caught.value).splitlines() == [
        "the log ends at step 7, and says itself that the last one is 12",
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
    with pytest.raises(LogError) as caught:
        measured(log, replace(ANY_STEPS, min_steps=1))
    assert caught.value.fact == f"the log ends at step {lines[-1]}, and says itself that the last one is {total}"


def test_a_run_beyond_the_tables_last_step_must_reach_the_logs(tmp_path: Path) -> None:
    log = tmp_path / "megatron.out"
    row = replace(ANY_STEPS, recipe=Recipe("x", steps=7))
    log.write_text(megatron(range(1, 13), total=12))
    assert measured(log, row).steps == 12
    log.write_text(megatron(range(1, 10), total=12))
    with pytest.raises(LogError) as caught:
        measured(log, row)
    assert caught.value.fact == "the log ends at step 9, and says itself that the last one is 12"


def test_the_end_that_counts_is_the_one_of_the_last_attempt(tmp_path: Path) -> None:
    log = tmp_path / "megatron.out"
    log.write_text(megatron(range(1, 51), total=50) + megatron(range(1, 13), total=12))
    assert measured(log, ANY_STEPS).steps == 12
    log.write_text(megatron(range(1, 13), total=12) + megatron(range(1, 13), total=50))
    with pytest.raises(LogError) as caught:
        measured(log, ANY_STEPS)
    assert caught.value.fact == "the log ends at step 12, and says itself that the last one is 50"


def test_the_configuration_in_a_log_names_its_end(log: Path) -> None:
    row = replace(LLAMA2_FP8_X128, min_steps=2, recipe=Recipe("x"))
    log.write_text("Config param steps: 50\n" + step_lines(range(7)))
    with pytest.raises(LogError) as caught:
        measured(log, row)
    assert caught.value.fact == "the log ends at step 6, and says itself that the last one is 49"
    assert caught.value.advice.endswith("write 'recipe: {steps: 7}' in the table")
    log.write_text("Config param steps: 50\n" + step_lines(range(50)))
    assert measured(log, row).steps == 50


def test_a_window_that_lacks_steps(tmp_path: Path) -> None:
    log = tmp_path / "megatron.out"
    log.write_text(megatron([*range(1, 35), *range(40, 51)]))
    with pytest.raises(LogError) as caught:
        measured(log, replace(MEGATRON_ROW, statistic="mean[35:44]"))
    assert caught.value.fact == ("the log does not hold the steps that mean[35:44] needs: the window has 5 of 10 steps")


def test_another_global_batch_size_is_another_run(tmp_path: Path) -> None:
    log = tmp_path / "megatron.out"
    log.write_text(megatron(range(1, 51)))
    with pytest.raises(LogError) as caught:
        measured(log, replace(MEGATRON_ROW, global_batch_size=512))
    assert caught.value.fact == "the log belongs to another run, by its global batch size"


def test_a_window_that_the_log_does_not_reach(tmp_path: Path) -> None:
    log = tmp_path / "megatron.out"
    log.write_text(megatron(range(1, 31)))
    row = replace(MEGATRON_ROW, statistic="mean[31:40]", min_steps=2, recipe=Recipe("x"))
    with pytest.raises(LogError) as caught:
        measured(log, row, REPLAYED)
    assert caught.value.fact == (
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
    with pytest.raises(LogError) as caught:
        measured(log)
    assert caught.value.fact == fact


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


def test_a_mean_that_counts_the_steps_of_a_run_before(tmp_path: Path) -> None:
    row = replace(LLAMA2_FP8_X128, framework="huggingface", log_format="huggingface", min_steps=1, recipe=Recipe("x"))
    log = tmp_path / "hf.out"
    summary = "{'train_runtime': 30.0, 'train_samples_per_second': 56.0, 'train_loss': 1.5}\n"
    log.write_text(summary)
    assert measured(log, row).steps == 1
    log.write_text("  Continuing training from global step 800\n" + summary)
    with pytest.raises(LogError) as caught:
        measured(log, row)
    assert str(caught.value).splitlines() == [
        "the run went on from a checkpoint of step 800, and its mean counts the steps before it",
        "",
        f"log        {log}:2",
        "steps      1 read as huggingface",
        "job        481221 COMPLETED 0:0 after 11m02s on pool0-[0017-0032]",
        "next       remove the checkpoint, or do not resume from it, and run it again",
    ]


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
    with pytest.raises(LogError) as caught:
        measured(log, row)
    assert caught.value.fact == "the log holds 0 checkpoint saves, 1 needed"
    with pytest.raises(LogError) as caught:
        measured(log, replace(row, recipe=Recipe("x", steps=4)))
    assert caught.value.fact == "the log holds 0 checkpoint saves, 1 needed"
    log.write_text(megatron(range(1, 4), total=3) + saves)
    assert measured(log, replace(row, recipe=Recipe("x", steps=3))).steps == 2
    with pytest.raises(LogError) as caught:
        measured(log, replace(row, recipe=Recipe("x", steps=4)))
    assert caught.value.fact == "the log ends at step 3, the run's last step is 4"
    log.write_text(megatron(range(1, 4), total=5) + saves)
    with pytest.raises(LogError) as caught:
        measured(log, row)
    assert caught.value.fact == "the log ends at step 3, and says itself that the last one is 5"


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


@pytest.mark.parametrize("state", [JobState.TIMEOUT, JobState.CANCELLED])
def test_the_exit_code_of_a_batch_shell_that_slurm_ended_is_not_told(log: Path, state: JobState) -> None:
    with pytest.raises(JobError) as error:
        check_job(run(log, JobStatus(state, exit_code=143)))
    assert error.value.fact == f"job 481221 ended {state.value}"


# ---- Calibrated rows -----------------------------------------------------------------------------

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
    assert (result.first_s, result.last_s, result.steady.median_s, result.series_s) == (2.28, 2.28, 2.28, (2.28,) * 50)


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
    with pytest.raises(LogError) as caught:
        measured(log, CORES, peak_flops=None)
    assert caught.value.fact == "the log holds 30 steps, 45 of 50 needed"


def test_a_calibration_costs_a_row_that_is_judged_by_its_step_time_no_more_than_the_mfu(log: Path) -> None:
    calibrated(log, "1e+12")
    result = measured(log, peak_flops=None)
    assert (result.judged_s, result.figures.mfu, result.calibration_flops) == (4.56, None, None)


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
    with pytest.raises(LogError) as caught:
        measured(path, row)
    assert caught.value.fact == "the run was to do 2 steps, 50 needed"
