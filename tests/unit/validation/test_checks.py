"""Everything that must hold before a log is measured."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_gsw.errors import JobError, LogError
from pytest_gsw.jobs.model import JobState, JobStatus
from pytest_gsw.logs.formats.registry import FORMATS
from pytest_gsw.tables.model import Recipe
from pytest_gsw.validation.checks import check_job, read_steps
from tests.unit.rows import LLAMA2_FP8_X128
from tests.unit.validation.ended import GOOD, IDENTITY, MEGATRON_ROW, OOM, measured, megatron, refused, run, step_lines


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


def test_a_job_that_a_federation_has_moved() -> None:
    with pytest.raises(JobError) as caught:
        check_job(run(None, JobStatus(JobState.REVOKED, exit_code=0)))
    assert str(caught.value) == (
        "job 481221 ended REVOKED\n\n"
        "job        481221 REVOKED 0:0\n"
        "next       a federation of clusters has moved the job, which may run on: scancel 481221; "
        "keep jobs on one cluster with --clusters=NAME under `sbatch` of the cluster"
    )


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


STEP_CANCELLED = "slurmstepd: error: *** STEP 481221.0 ON n001 CANCELLED AT 2031-02-03T04:05:06 ***\n"


@pytest.mark.parametrize("cancelled", [STEP_CANCELLED, ""])
def test_the_first_ranks_reason_is_told_and_not_that_srun_ended_the_others(tmp_path: Path, cancelled: str) -> None:
    path, output = tmp_path / "log.out", tmp_path / "slurm.out"
    path.write_text(f"0: /usr/bin/bash: line 1: numactl: command not found\n{cancelled}")
    output.write_text(
        "srun: error: n001: task 0: Exited with exit code 127\nsrun: error: n002: task 1: Terminated\n"
        "srun: Force Terminated StepId=481221.0\n"
    )
    with pytest.raises(JobError) as caught:
        check_job(run(path, JobStatus(JobState.FAILED, exit_code=15), output))
    assert caught.value.fact == "job 481221 failed with exit code 15: command not found"
    assert ("cause", "0: /usr/bin/bash: line 1: numactl: command not found") in caught.value.evidence
    assert ("said at", f"{path}:1") in caught.value.evidence
    path.write_text(cancelled)
    with pytest.raises(JobError) as caught:
        check_job(run(path, JobStatus(JobState.FAILED, exit_code=15), output))
    assert ("said at", f"{output}:1") in caught.value.evidence


def test_a_cancelled_step_is_told_where_nothing_says_more(tmp_path: Path) -> None:
    path, output = tmp_path / "log.out", tmp_path / "slurm.out"
    path.write_text(STEP_CANCELLED)
    output.write_text("srun: error: n001: task 0: Exited with exit code 1\n")
    for state, cause in ((JobState.FAILED, " with exit code 15: cancelled"), (JobState.CANCELLED, "")):
        with pytest.raises(JobError) as caught:
            check_job(run(path, JobStatus(state, exit_code=15), output))
        assert caught.value.fact.endswith(f"{'failed' if cause else 'ended CANCELLED'}{cause}")
        assert ("said at", f"{path}:1") in caught.value.evidence


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


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("RuntimeError: NCCL error in: ProcessGroupNCCL.cpp:911, unhandled system error", "NCCL error"),
        (OOM.strip(), "CUDA out of memory"),
        ("NVRM: Xid (PCI:0000:41:00): 79, pid=42, GPU has fallen off the bus.", "GPU error (Xid)"),
        ("slurmstepd: error: *** STEP 12.0 ON n1 CANCELLED AT 2031-02-03T04:05:06 ***", "cancelled"),
        ('Traceback (most recent call last):\n  File "t.py", line 1, in <module>\nKeyError: 7', "an exception"),
    ],
)
@pytest.mark.parametrize("status", [GOOD, JobStatus(JobState.REPLAYED)])
def test_a_completed_job_whose_stderr_tells_otherwise(
    log: Path, tmp_path: Path, line: str, name: str, status: JobStatus
) -> None:
    log.write_text(step_lines(range(50)))
    errors = tmp_path / "job.err"
    of = run(log, status, beside=(errors,))
    # What a healthy run says there: warnings, bars, and what keeps a training from its first step, which it did not.
    errors.write_text(
        "WARNING: TransformerEngine is old\n/opt/x.py:7: UserWarning: error: deprecated\n"
        "W0411 15:03:26.8 Out of memory while trying to allocate; retried\nEpoch 0: 100%|##| 50/50 [10:00<00:00]\n"
        "[NeMo W 2031-02-03 04:05:06 nemo_logging:349] ModuleNotFoundError: No module named 'apex'\n"
    )
    assert len(read_steps(LLAMA2_FP8_X128, of, FORMATS["maxtext"]).steps) == 50
    errors.write_text(f"WARNING: old\n{line}\n")
    with pytest.raises(LogError) as caught:
        read_steps(LLAMA2_FP8_X128, of, FORMATS["maxtext"])
    where = "job 481221 completed, but its stderr" if status is GOOD else "stderr beside the log"
    assert caught.value.fact == f"{where} tells of an end by {name}"
    assert dict(caught.value.evidence)["said at"].startswith(f"{errors}:")


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
    assert caught.value.advice.startswith("look whether another recipe writes there, ")
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
    assert refused(log) == "the loss or a step time is not finite at step 25: loss: nan"


def test_another_global_batch_size_is_another_run(tmp_path: Path) -> None:
    log = tmp_path / "megatron.out"
    log.write_text(megatron(range(1, 51)))
    assert (
        refused(log, replace(MEGATRON_ROW, global_batch_size=512))
        == "the log belongs to another run, by its global batch size"
    )


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


@pytest.mark.parametrize("state", [JobState.TIMEOUT, JobState.CANCELLED])
def test_the_exit_code_of_a_batch_shell_that_slurm_ended_is_not_told(log: Path, state: JobState) -> None:
    with pytest.raises(JobError) as error:
        check_job(run(log, JobStatus(state, exit_code=143)))
    assert error.value.fact == f"job 481221 ended {state.value}"


def test_a_log_is_opened_once_to_be_read_and_checked(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened, plain = [], Path.open

    def counted(path: Path, *arguments: Any, **named: Any) -> Any:
        opened.append(path)
        return plain(path, *arguments, **named)

    monkeypatch.setattr(Path, "open", counted)
    assert len(read_steps(LLAMA2_FP8_X128, run(log), FORMATS["maxtext"]).steps) == 50
    assert opened == [log]


# ---- Lines that contradict each other ------------------------------------------------------------

REQUEUE = "slurmstepd: error: *** JOB 481221 ON node7 CANCELLED AT 2031-02-03T04:05:06 DUE TO JOB REQUEUE ***\n"


def written(folder: Path, *parts: str) -> Path:
    path = folder / "run.log"
    path.write_text("".join(parts))
    return path


def test_lines_that_contradict_each_other_are_an_error(tmp_path: Path) -> None:
    other = IDENTITY.replace("MODEL_SIZE=70b", "MODEL_SIZE=7b")
    log = written(tmp_path, "a line\n", other, other, "NCCL INFO\n", IDENTITY, step_lines(range(50)))
    with pytest.raises(LogError) as caught:
        read_steps(LLAMA2_FP8_X128, run(log), FORMATS["maxtext"])
    assert str(caught.value) == (
        "the log's own lines contradict each other before its first step: MODEL_SIZE=7b and MODEL_SIZE=70b\n"
        "\n"
        f"log        {log}:55\n"
        "steps      50 read as maxtext\n"
        "job        481221 COMPLETED 0:0 after 11m02s on pool0-[0017-0032]\n"
        f"said at    {log}:3,5\n"
        "next       find out which two runs write into one log, or what else prints such a line"
    )


@pytest.mark.parametrize(
    ("field", "other"),
    [
        ("MODEL=llama2", "MODEL=llama3"),
        ("JOB_NUM_NODES=16", "JOB_NUM_NODES=8"),
        ("GPUS_PER_NODE=8", "GPUS_PER_NODE=4"),
        ("DTYPE=fp8", "DTYPE=bf16"),
        ("GSW_VERSION=24.11", "GSW_VERSION=25.01"),
        ("JOB_ID=481221", "JOB_ID=481220"),
        ("SYNTHETIC_DATA=True", "TP=4"),
    ],
)
def test_whatever_two_lines_say_differently(field: str, other: str, tmp_path: Path) -> None:
    mine = IDENTITY.replace("SYNTHETIC_DATA=True", "SYNTHETIC_DATA=True TP=1")
    log = written(tmp_path, IDENTITY.replace(field, other), mine, step_lines(range(50)))
    with pytest.raises(LogError, match="contradict each other before its first step"):
        measured(log)


def test_what_only_an_earlier_line_says_counts_too(tmp_path: Path) -> None:
    log = written(tmp_path, IDENTITY.replace("DTYPE=fp8", "DTYPE=bf16"), "GSW: MODEL=llama2\n", step_lines(range(50)))
    with pytest.raises(LogError, match="by its dtype"):
        measured(log)


@pytest.mark.parametrize(
    ("first", "second", "told"),
    [
        ("/raid/x.sqsh", "/lustre/x.sqsh", ""),
        ("docker://me:hunter2@nvcr.io/nemo:1", "docker://me:hunter3@nvcr.io/nemo:1", ""),
        ("docker://me:hunter2@nvcr.io/nemo:1", "/lustre/x.sqsh", "IMAGE=docker://nvcr.io/nemo:1 and IMAGE=x.sqsh"),
    ],
)
def test_images_are_told_by_their_names(first: str, second: str, told: str, tmp_path: Path) -> None:
    both = [IDENTITY.replace("JOB_ID", f"IMAGE='{image}' JOB_ID") for image in (first, second)]
    log = written(tmp_path, IDENTITY.replace("fp8", "bf16"), IDENTITY, *both, step_lines(range(50)))
    with pytest.raises(LogError) as caught:
        measured(log)
    assert "hunter" not in str(caught.value)
    assert caught.value.fact.endswith(told or "DTYPE=bf16 and DTYPE=fp8")


@pytest.mark.parametrize("cut", [IDENTITY.index("DTYPE") + len(text) for text in ("DTYPE=f", "DTYPE=fp8 SYN", "DT")])
@pytest.mark.parametrize("is_last", [False, True])
def test_a_torn_line_contradicts_none(cut: int, is_last: bool, tmp_path: Path) -> None:
    lines = [IDENTITY, IDENTITY[:cut] + "\n"]
    log = written(tmp_path, *(lines if is_last else reversed(lines)), step_lines(range(50)))
    assert measured(log).steps == 50


def test_the_job_that_slurm_began_anew_may_say_something_else(tmp_path: Path) -> None:
    other = IDENTITY.replace("DTYPE=fp8", "DTYPE=bf16")
    log = written(tmp_path, other, REQUEUE, IDENTITY, step_lines(range(50)))
    assert measured(log).steps == 50
    for unexcused in ((REQUEUE, other, IDENTITY), (other, REQUEUE, other, IDENTITY), (other, IDENTITY, REQUEUE)):
        log = written(tmp_path, *unexcused, step_lines(range(50)))
        with pytest.raises(LogError, match="contradict"):
            measured(log)


def test_a_job_that_slurm_began_anew_keeps_its_id(tmp_path: Path) -> None:
    other = IDENTITY.replace("JOB_ID=481221", "JOB_ID=481220")
    with pytest.raises(LogError, match="JOB_ID=481220 and JOB_ID=481221"):
        measured(written(tmp_path, other, REQUEUE, IDENTITY, step_lines(range(50))))


def test_lines_of_an_earlier_run_with_steps_contradict_none(tmp_path: Path) -> None:
    other = IDENTITY.replace("DTYPE=fp8", "DTYPE=bf16")
    assert measured(written(tmp_path, other, step_lines(range(50)), IDENTITY, step_lines(range(50)))).steps == 50


def test_a_run_deep_in_a_log_is_told_by_its_own_line(tmp_path: Path) -> None:
    noise = "NCCL INFO channel 0\n" * 250_000  # 5 MB
    other = IDENTITY.replace("DTYPE=fp8", "DTYPE=bf16")
    log = written(tmp_path, IDENTITY, step_lines(range(3)), noise, other, noise, step_lines(range(50)))
    with pytest.raises(LogError, match="by its dtype"):
        measured(log)
