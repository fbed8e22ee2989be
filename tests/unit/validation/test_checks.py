"""Everything that must hold before a log is measured: how its job ended, whose it is, enough steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_gsw.errors import JobError, LogError
from pytest_gsw.jobs.states import JobState, JobStatus
from pytest_gsw.logs.formats.registry import FORMATS
from pytest_gsw.tables.model import Baseline, Recipe
from pytest_gsw.validation.checks import read_steps
from pytest_gsw.validation.job_end import check_job
from pytest_gsw.validation.run import ran_out_of_memory
from tests.messages import wording
from tests.unit.rows import LLAMA2_FP8_X128
from tests.unit.validation.ended import (
    GOOD,
    IDENTITY,
    MEGATRON_ROW,
    OOM,
    REPLAYED,
    measured,
    megatron,
    raised,
    refused,
    run,
    step_lines,
)


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
        raised(JobError, check_job, run(None, status))


@pytest.mark.parametrize(
    ("status", "fact"),
    [
        (JobStatus(JobState.FAILED, exit_code=7), "job 481221 failed with exit code 7"),
        (JobStatus(JobState.COMPLETED, exit_code=7), "job 481221 ended with exit code 7"),
        (JobStatus(JobState.COMPLETED), "the exit code of job 481221 is not known"),
        (JobStatus(JobState.FAILED, exit_code=0, signal=9), "job 481221 failed by signal 9"),
        # The exit code of a batch shell that Slurm has ended says nothing.
        (JobStatus(JobState.TIMEOUT, exit_code=143), "job 481221 ended TIMEOUT"),
        (JobStatus(JobState.CANCELLED, exit_code=143), "job 481221 ended CANCELLED"),
        (JobStatus(JobState.CANCELLED, "CANCELLED by 0", 0, 15), "job 481221 ended CANCELLED by root (uid 0)"),
        (JobStatus(JobState.CANCELLED, "CANCELLED by 4000000000", 0), "job 481221 ended CANCELLED by uid 4000000000"),
        (JobStatus(JobState.NODE_FAIL, exit_code=0), "job 481221 ended NODE_FAIL"),
        (
            JobStatus(JobState.FAILED, exit_code=0, signal=53),
            "job 481221 never ran: Slurm could not open its output file",
        ),
        (JobStatus(JobState.OUT_OF_MEMORY, exit_code=0, signal=125), "job 481221 ended OUT_OF_MEMORY by signal 125"),
        (JobStatus(JobState.UNKNOWN, reason="no answer"), "the end of job 481221 is not known: no answer"),
        (JobStatus(JobState.UNKNOWN, raw_state="BANANA"), "the end of job 481221 is not known: BANANA"),
    ],
)
def test_how_a_job_ended(status: JobStatus, fact: str) -> None:
    assert raised(JobError, check_job, run(None, status)).fact == fact


@pytest.mark.parametrize(
    ("lines", "fact"),
    [
        ("step 3\nsrun: error: n021: task 0: Killed\nsrun: error: n022: task 1: Aborted\n", ": n021: task 0: Killed"),
        ("0: boom\nsrun: error: n021: task 0: Exited with exit code 1\nsrun: error: n022: task 1: Killed\n", ""),
        ("srun: error: n021: task 0: Terminated\n", ""),
    ],
)
def test_the_node_of_a_task_that_a_signal_ended(tmp_path: Path, lines: str, fact: str) -> None:
    log = tmp_path / "job.out"
    log.write_text(lines)
    error = raised(JobError, check_job, run(log, JobStatus(JobState.FAILED, exit_code=137)))
    assert error.fact == wording("failed", job=481221, code=f"137{fact}")
    assert "".join(error.tail).startswith(lines.partition("\n")[0])
    assert ("dmesg" in error.advice) is bool(fact)


def test_a_job_that_a_federation_has_moved() -> None:
    error = raised(JobError, check_job, run(None, JobStatus(JobState.REVOKED, exit_code=0)))
    assert (error.fact, error.evidence) == ("job 481221 ended REVOKED", (("job", "481221 REVOKED 0:0"),))
    assert error.advice.startswith(wording("next federation", command="scancel 481221"))


def test_the_whole_message_of_a_failed_job_with_a_cause(tmp_path: Path) -> None:
    path = tmp_path / "job.out"
    path.write_text(f"starting\n{OOM}")
    status = JobStatus(
        JobState.FAILED, exit_code=1, nodes="n[001-016]", start_s=0.0, end_s=72.0, reason="NonZeroExitCode"
    )
    assert str(raised(JobError, check_job, run(path, status))) == (
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
    of = run(path, JobStatus(JobState.FAILED, exit_code=15), output)
    error = raised(JobError, check_job, of)
    assert error.fact == wording("failed", job=481221, code="15: command not found")
    assert ("cause", "0: /usr/bin/bash: line 1: numactl: command not found") in error.evidence
    assert ("said at", f"{path}:1") in error.evidence
    path.write_text(cancelled)
    assert ("said at", f"{output}:1") in raised(JobError, check_job, of).evidence


def test_a_cancelled_step_is_told_where_nothing_says_more(tmp_path: Path) -> None:
    path, output = tmp_path / "log.out", tmp_path / "slurm.out"
    path.write_text(STEP_CANCELLED)
    output.write_text("srun: error: n001: task 0: Exited with exit code 1\n")
    for state, cause in ((JobState.FAILED, " with exit code 15: cancelled"), (JobState.CANCELLED, "")):
        error = raised(JobError, check_job, run(path, JobStatus(state, exit_code=15), output))
        assert error.fact.endswith(f"{'failed' if cause else 'ended CANCELLED'}{cause}")
        assert ("said at", f"{path}:1") in error.evidence


def test_a_completed_job_whose_log_tells_otherwise(log: Path) -> None:
    log.write_text(step_lines(range(50)) + OOM)
    error = raised(LogError, measured, log)
    assert error.fact == wording("hidden failure", job=481221, where="its log", cause="CUDA out of memory")
    assert error.evidence[1:] == (("log", str(log)), ("cause", OOM.strip()), ("said at", f"{log}:51"))
    assert error.advice.startswith(wording("next free GPUs"))
    assert refused(log, status=REPLAYED) == wording("a failure in the log", cause="CUDA out of memory")


def test_a_completed_job_whose_batch_output_tells_otherwise(log: Path, tmp_path: Path) -> None:
    log.write_text(step_lines(range(50)))
    output = tmp_path / "slurm-481221.out"
    output.write_text("starting\nsrun: error: node7: task 3: Exited with exit code 1\n")
    of = replace(run(log), batch_output=output)
    error = raised(LogError, read_steps, LLAMA2_FP8_X128, of, FORMATS["maxtext"])
    assert error.fact == wording("hidden failure", job=481221, where="its batch output", cause="a failed task")
    assert ("said at", f"{output}:2") in error.evidence
    output.write_text("starting\n")
    assert len(read_steps(LLAMA2_FP8_X128, of, FORMATS["maxtext"])[0].steps) == 50


def test_without_records_of_steps_a_helper_that_ends_with_its_job_is_no_failure(log: Path, tmp_path: Path) -> None:
    log.write_text(step_lines(range(50)))
    output = tmp_path / "slurm-481221.out"
    output.write_text("srun: Job step aborted: Waiting up to 32 seconds for job step to finish.\n")
    of = replace(run(log), batch_output=output)
    assert "batch output shows a failure" in raised(LogError, read_steps, LLAMA2_FP8_X128, of, FORMATS["maxtext"]).fact
    of = replace(of, status=replace(of.status, derived_exit_code="0:0"))
    assert len(read_steps(LLAMA2_FP8_X128, of, FORMATS["maxtext"])[0].steps) == 50


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
@pytest.mark.parametrize("status", [GOOD, REPLAYED])
def test_a_completed_job_whose_stderr_tells_otherwise(
    log: Path, tmp_path: Path, line: str, name: str, status: JobStatus
) -> None:
    log.write_text(step_lines(range(50)))
    errors = tmp_path / "job.err"
    of = run(log, status, other_files=(errors,))
    # What a healthy run says there: warnings, bars, and what keeps a training from its first step, which it did not.
    errors.write_text(
        "WARNING: TransformerEngine is old\n/opt/x.py:7: UserWarning: error: deprecated\n"
        "W0411 15:03:26.8 Out of memory while trying to allocate; retried\nEpoch 0: 100%|##| 50/50 [10:00<00:00]\n"
        "[NeMo W 2031-02-03 04:05:06 nemo_logging:349] ModuleNotFoundError: No module named 'apex'\n"
    )
    assert len(read_steps(LLAMA2_FP8_X128, of, FORMATS["maxtext"])[0].steps) == 50
    errors.write_text(f"WARNING: old\n{line}\n")
    error = raised(LogError, read_steps, LLAMA2_FP8_X128, of, FORMATS["maxtext"])
    where = "job 481221 completed, but its stderr" if status is GOOD else "stderr beside the log"
    assert error.fact == f"{where} shows a failure: {name}"
    assert dict(error.evidence)["said at"].startswith(f"{errors}:")


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
    error = raised(JobError, check_job, run(path, JobStatus(state, exit_code=0)))
    assert error.fact == f"job 481221 {fact}"
    # What the log says of it, and what to do, is shown all the same.
    assert ("said at", f"{path}:1") in error.evidence
    assert error.advice


@pytest.mark.parametrize(
    ("said", "instead", "name", "line"),
    [
        ("MODEL=llama2", "MODEL=llama3", "model", "llama3 in the log, llama2 in the row"),
        ("MODEL_SIZE=70b", "MODEL_SIZE=13b", "model size", "13b in the log, 70b in the row"),
        ("FRAMEWORK=maxtext", "FRAMEWORK=nemo", "framework", "nemo in the log, maxtext in the row"),
        ("DTYPE=fp8", "DTYPE=bf16", "dtype", "bf16 in the log, fp8 in the row"),
        ("NODES=16", "NODES=32", "GPUs", "256 in the log, 128 in the row"),
        ("JOB_ID=481221", "JOB_ID=481220", "job", "481220 in the log, 481221 wanted"),
    ],
)
def test_a_log_of_another_run(log: Path, said: str, instead: str, name: str, line: str) -> None:
    log.write_text(log.read_text().replace(said, instead))
    error = raised(LogError, measured, log)
    assert error.fact == wording("another run", names=name)
    assert error.advice.startswith(wording("next writer"))
    assert (name, line) in error.evidence


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
    row = replace(
        MEGATRON_ROW, workload=replace(MEGATRON_ROW.workload, dtype="bf16", sequence_length=1024, layers=24), gpus=8
    )
    error = raised(LogError, measured, log, row)
    assert error.fact == (
        wording(
            "other set-up",
            differs=wording("differs", ran="sequence length 256", wanted=1024)
            + wording("differs", ran="; layers 2", wanted=24)
            + wording("differs", ran="; precision fp32", wanted="bf16"),
        )
    )
    assert error.evidence[2:5] == (
        ("precision", wording("differs", ran="fp32", wanted="bf16")),
        ("said at", f"{log}:5, 6, 7"),
        ("baseline", "baselines/maxtext/llama2_70b.yaml:41"),
    )
    assert error.advice.startswith("correct what the recipe is given (recipe.environment in the table, ")
    log.write_text(
        ARGUMENTS.replace("256", "1024").replace(" 2\n", " 24\n").replace("32", "16") + megatron(range(1, 51))
    )
    assert (
        len(
            read_steps(replace(row, workload=replace(row.workload, dtype="fp16")), run(log), FORMATS["megatron"])[
                0
            ].steps
        )
        == 50
    )


def test_a_log_of_another_run_by_what_it_is_set_up_with_as_well(tmp_path: Path) -> None:
    log = tmp_path / "megatron.out"
    log.write_text(ARGUMENTS + megatron(range(1, 51)))
    error = raised(
        LogError,
        measured,
        log,
        replace(MEGATRON_ROW, workload=replace(MEGATRON_ROW.workload, dtype="fp32", sequence_length=1024), gpus=16),
    )
    assert error.fact == wording("another run", names="GPUs")
    assert error.evidence[:4] == (
        ("GPUs", wording("differs", ran=8, wanted=16)),
        ("sequence length", wording("differs", ran=256, wanted=1024)),
        ("said at", f"{log}:1, 7"),
        ("baseline", "baselines/maxtext/llama2_70b.yaml:41"),
    )


def test_names_are_compared_without_case(log: Path) -> None:
    log.write_text(log.read_text().replace("DTYPE=fp8", "DTYPE=FP8"))
    assert measured(log).steps == 50


def test_a_replayed_log_may_be_of_any_job(log: Path) -> None:
    log.write_text(log.read_text().replace("JOB_ID=481221", "JOB_ID=7"))
    # A log that bears no job's id in its name is told apart by that name.
    renamed = replace(run(log.rename(log.with_name("some.out")), REPLAYED), job_id="some")
    assert len(read_steps(LLAMA2_FP8_X128, renamed, FORMATS["maxtext"])[0].steps) == 50
    # An id of a site's own scheduler is one, too, and a name that is a job's id has to be that of the job in the log.
    for job_id in ("pod-abc", "481221"):
        raised(LogError, read_steps, LLAMA2_FP8_X128, replace(renamed, job_id=job_id), FORMATS["maxtext"])


def test_no_log_at_all() -> None:
    error = raised(LogError, read_steps, LLAMA2_FP8_X128, run(None), FORMATS["maxtext"])
    assert error.fact == "job 481221 left no log"
    assert error.evidence == (("job", "481221 COMPLETED 0:0 after 11m02s on pool0-[0017-0032]"),)


def test_a_loss_that_is_not_finite(log: Path) -> None:
    log.write_text(IDENTITY + step_lines(range(25)) + step_lines(range(25, 50), loss="nan"))
    assert refused(log) == wording("not finite", step=25, what="loss: nan")


def test_a_mean_that_counts_the_steps_of_a_run_before(tmp_path: Path) -> None:
    row = replace(
        LLAMA2_FP8_X128,
        workload=replace(LLAMA2_FP8_X128.workload, framework="huggingface", log_format="huggingface"),
        criterion=replace(LLAMA2_FP8_X128.criterion, min_steps=1),
        recipe=Recipe("x"),
    )
    log = tmp_path / "hf.out"
    summary = "{'train_runtime': 30.0, 'train_samples_per_second': 56.0, 'train_loss': 1.5}\n"
    log.write_text(summary)
    assert measured(log, row).steps == 1
    log.write_text("  Continuing training from global step 800\n" + summary)
    error = raised(LogError, measured, log, row)
    assert error.fact == wording("resumed from", step=800)
    assert error.evidence[:2] == (("log", f"{log}:2"), ("steps", "1 read as huggingface"))
    assert error.advice == wording("next checkpoint")


def test_a_log_is_opened_once_to_be_read_and_checked(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened, plain = [], Path.open

    def counted(path: Path, *arguments: Any, **named: Any) -> Any:
        opened.append(path)
        return plain(path, *arguments, **named)

    monkeypatch.setattr(Path, "open", counted)
    assert len(read_steps(LLAMA2_FP8_X128, run(log), FORMATS["maxtext"])[0].steps) == 50
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
    error = raised(LogError, measured, log)
    assert error.fact == (wording("two parts", first="MODEL_SIZE=7b", second="MODEL_SIZE=70b"))
    assert (error.evidence[0], error.evidence[-1]) == (("log", f"{log}:55"), ("said at", f"{log}:3,5"))
    assert error.advice == wording("next two runs")


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
    assert wording("contradiction") in refused(log)


def test_lines_far_from_the_steps_count(tmp_path: Path) -> None:
    # What only an earlier line says counts too.
    log = written(tmp_path, IDENTITY.replace("DTYPE=fp8", "DTYPE=bf16"), "GSW: MODEL=llama2\n", step_lines(range(50)))
    assert refused(log) == wording("another run", names="dtype")
    # A run deep in a log is told by its own line.
    noise = "NCCL INFO channel 0\n" * 250_000  # 5 MB
    other = IDENTITY.replace("DTYPE=fp8", "DTYPE=bf16")
    log = written(tmp_path, IDENTITY, step_lines(range(3)), noise, other, noise, step_lines(range(50)))
    assert refused(log) == wording("another run", names="dtype")


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
    error = raised(LogError, measured, log)
    assert "hunter" not in str(error)
    assert error.fact.endswith(told or "DTYPE=bf16 and DTYPE=fp8")


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
        assert "contradict" in refused(written(tmp_path, *unexcused, step_lines(range(50))))
    # A job that Slurm began anew keeps its id.
    other = IDENTITY.replace("JOB_ID=481221", "JOB_ID=481220")
    log = written(tmp_path, other, REQUEUE, IDENTITY, step_lines(range(50)))
    assert refused(log).endswith("JOB_ID=481220 and JOB_ID=481221")
    # Lines of an earlier run with steps contradict none.
    other = IDENTITY.replace("DTYPE=fp8", "DTYPE=bf16")
    assert measured(written(tmp_path, other, step_lines(range(50)), IDENTITY, step_lines(range(50)))).steps == 50


# ---- An ended job: why it failed, and what is shown of it ----------------------------------------


def test_out_of_memory(log: Path, tmp_path: Path) -> None:
    path, failed = tmp_path / "job.out", JobStatus(JobState.FAILED, exit_code=1)
    path.write_text(OOM)
    # It is looked for in each file of the job.
    assert ran_out_of_memory(run(path, failed))
    assert ran_out_of_memory(run(log, failed, path))
    assert ran_out_of_memory(run(log, failed, other_files=(path,)))
    assert not ran_out_of_memory(run(log, failed))
    assert ran_out_of_memory(run(None, JobStatus(JobState.OUT_OF_MEMORY, exit_code=0)))
    # A run that recovered from one and completed did not run out of memory.
    assert not ran_out_of_memory(run(path, GOOD))


def test_the_last_lines_of_both_the_log_and_the_batch_shell_are_shown(log: Path, tmp_path: Path) -> None:
    batch = tmp_path / "slurm-481221.out"
    batch.write_text("+ srun train.sh\nbash: line 1: train.sh: oops\n")
    log.write_text("one\ntwo\n")
    failed = JobStatus(JobState.FAILED, exit_code=1)
    said = ("+ srun train.sh", "bash: line 1: train.sh: oops")
    error = raised(JobError, check_job, run(log, failed, batch))
    assert error.tail == ("-- log:", "one", "two", "-- batch log:", *said)
    error = raised(JobError, check_job, run(None, failed, batch))
    assert (error.fact, error.evidence[-1]) == (wording("failed", job=481221, code=1), ("batch log", str(batch)))
    assert (error.tail, error.advice) == (said, f"look at {batch}")


def test_each_file_of_a_job_has_one_name(tmp_path: Path) -> None:
    log, errors, batch = (tmp_path / name for name in ("log_1.out", "log_1.err", "slurm-1.out"))
    of = run(log, GOOD, batch, (errors,))
    assert of.outputs == (("log", log), ("stderr", errors), ("batch log", batch))
    # A recipe that leaves its log to the batch shell; NeMo-Run's shell writes beside the log.
    assert run(batch, GOOD, batch).outputs == (("log", batch),)
    assert run(log, GOOD, batch, (batch,)).outputs == (("log", log), ("output", batch))
    assert run(None).outputs == ()


PYXIS = "slurmstepd: error: pyxis: child 4711 failed with error code: 1\n"


def test_a_cause_that_went_to_stderr(tmp_path: Path) -> None:
    log, errors, batch = (tmp_path / name for name in ("log_1.out", "log_1.err", "slurm-1.out"))
    log.write_text("")
    errors.write_text(f"importing\n{PYXIS}")
    batch.write_text("srun: error: n1: task 0: Exited with exit code 1\n")
    error = raised(JobError, check_job, run(log, JobStatus(JobState.FAILED, exit_code=1), batch, (errors,)))
    assert error.fact == wording("failed", job=481221, code="1: container import")
    assert error.evidence == (
        ("job", "481221 FAILED 1:0"),
        *(("log", str(log)), ("stderr", str(errors)), ("batch log", str(batch))),
        *(("cause", PYXIS.strip()), ("said at", f"{errors}:2")),
    )
    assert error.advice.startswith(wording("next image"))


def test_without_a_cause_the_first_file_that_holds_anything_is_named(tmp_path: Path) -> None:
    log, errors, batch = (tmp_path / name for name in ("log_1.out", "log_1.err", "slurm-1.out"))
    log.write_text("")
    errors.write_text("ValueError: wrong\n")
    batch.write_text("bye\n")
    of = run(log, JobStatus(JobState.FAILED, exit_code=1), batch, (errors,))
    error = raised(JobError, check_job, of)
    assert error.tail == ("-- stderr:", "ValueError: wrong", "-- batch log:", "bye")
    assert error.advice == f"look at {errors}"
    errors.write_text("")
    error = raised(JobError, check_job, of)
    assert error.advice == f"look at {batch}"
    assert ("stderr", str(errors)) not in error.evidence
    log.write_text("step 1\n")
    assert raised(JobError, check_job, of).advice == f"look at {log}"
    errors.write_text("launch.sh: line 7: PYTHONPATH: unbound variable\n")
    assert raised(JobError, check_job, of).advice == f"look at {errors}"


# ---- A log must hold enough steps, and the last one ----------------------------------------------


def test_too_few_steps(log: Path) -> None:
    log.write_text(IDENTITY + step_lines(range(44)))
    error = raised(LogError, measured, log)
    assert error.fact == wording("few steps", steps=44, needed=45, wanted=50)
    assert error.evidence[:2] == (("log", f"{log}:45"), ("steps", "44 read as maxtext"))
    assert error.tail == tuple(step_lines(range(39, 44)).splitlines())
    assert error.advice == wording("stopped early") + "; look at the last lines"
    # A few lost lines do no harm.
    kept = [line for n, line in enumerate(step_lines(range(50)).splitlines(keepends=True)) if n not in {7, 8, 30}]
    log.write_text(IDENTITY + "".join(kept))
    assert measured(log).steps == 47


@pytest.mark.parametrize("last", [45, 48])
def test_the_last_step_must_be_there(log: Path, last: int) -> None:
    log.write_text(IDENTITY + step_lines(range(last + 1)))
    assert refused(log) == wording("ended before its last", step=last, last=49)


def test_steps_without_numbers_are_counted(tmp_path: Path) -> None:
    row = replace(
        LLAMA2_FP8_X128,
        workload=replace(LLAMA2_FP8_X128.workload, framework="paxml", log_format="paxml"),
        criterion=replace(LLAMA2_FP8_X128.criterion, min_steps=18),
        recipe=Recipe("paxml", steps=100, logged_steps=20),
    )
    log = tmp_path / "paxml.out"
    line = "I0411 15:03:26.866614 140737350317184 programs.py:366] [PAX STATUS]: train_step() took 7.470000 seconds.\n"
    log.write_text(line * 20)
    assert measured(log, row).judged == 7.47
    log.write_text(line * 17)
    assert refused(log, row) == wording("few steps", steps=17, needed=18, wanted=20)


@pytest.mark.parametrize("kept", [[0, 25], [24, 49], [16, 33, 49], [0, 10, 20, 30, 40]])
def test_a_few_steps_are_not_taken_for_a_log_interval(log: Path, kept: list[int]) -> None:
    log.write_text(IDENTITY + step_lines(kept))
    assert refused(log) == f"the log holds {len(kept)} steps, 45 of 50 needed"


#: A row whose document does not say how many steps there were.
ANY_STEPS = replace(MEGATRON_ROW, criterion=replace(MEGATRON_ROW.criterion, min_steps=2), recipe=Recipe("x"))


def of(steps: int | None = None) -> Baseline:
    """One of which a line is enough, and whose table may state its steps."""
    return replace(ANY_STEPS, criterion=replace(ANY_STEPS.criterion, min_steps=1), recipe=Recipe("x", steps=steps))


FEW = "the log holds {} steps, 45 of 50 needed".format
ENDS_BEFORE = "the log ends at step {}, the run's last step is {}".format
NAMES_ITS_END = "the log ends at step {}, and states {} as its last step".format


@pytest.mark.parametrize(
    ("row", "lines", "total", "found"),
    [
        # The last line of a log interval may come before the last step.
        (MEGATRON_ROW, range(10, 51, 10), 50, 5),
        (MEGATRON_ROW, range(15, 50, 15), 50, 3),  # steps 46 to 50 have no line
        (MEGATRON_ROW, range(10, 41, 10), 50, FEW(40)),
        (
            replace(MEGATRON_ROW, criterion=replace(MEGATRON_ROW.criterion, min_steps=40)),
            range(10, 41, 10),
            50,
            ENDS_BEFORE(40, 50),
        ),
        # One line may be lost where the last is there.
        (MEGATRON_ROW, [10, 20, 30, 50], 50, 4),
        (MEGATRON_ROW, [10, 20, 50], 50, FEW(3)),
        (MEGATRON_ROW, [5, 10, 15, 35, 40, 45, 50], 50, FEW(35)),
        # The table knows better than the log where a run ends; beyond that step it must reach the log's end.
        (of(steps=7), range(1, 8), 1000, 7),
        (of(steps=7), range(1, 13), 12, 12),
        (of(steps=7), range(1, 10), 12, NAMES_ITS_END(9, 12)),
        # A log interval may leave out the last steps, and no line.
        *((of(), lines, total, len(lines)) for lines, total in (([5, 10], 12), ([10, 20, 30], 39), ([1, 10, 20], 25))),
        *((of(), lines, total, len(lines)) for lines, total in (([1, 10, 20, 30], 39), ([10, 30, 40], 49), ([7], 7))),
        (of(), [5, 10], 15, NAMES_ITS_END(10, 15)),
        (of(), [10, 20, 30], 40, NAMES_ITS_END(30, 40)),
        (of(), [1, 10, 20, 30], 40, NAMES_ITS_END(30, 40)),
        (of(), [7], 12, NAMES_ITS_END(7, 12)),
        (of(), [1, 2, 3, 5], 6, NAMES_ITS_END(5, 6)),
    ],
)
def test_lines_of_a_log_interval(
    tmp_path: Path, row: Baseline, lines: Sequence[int], total: int, found: int | str
) -> None:
    log = tmp_path / "megatron.out"
    log.write_text(megatron(lines, total))
    assert (measured(log, row).steps if isinstance(found, int) else refused(log, row)) == found


def test_a_log_must_reach_the_end_that_it_names_itself(tmp_path: Path) -> None:
    log = tmp_path / "megatron.out"
    log.write_text(megatron(range(1, 8), total=12))
    error = raised(LogError, measured, log, ANY_STEPS)
    assert error.fact == wording("ended before its total", step=7, last=12)
    assert error.advice == (wording("stopped early") + wording("on purpose", key="'recipe: {steps: 7}'"))
    assert refused(log, ANY_STEPS, REPLAYED) == error.fact
    assert measured(log, of(steps=7), REPLAYED).steps == 7
    log.write_text(megatron(range(1, 13), total=12))
    assert measured(log, ANY_STEPS).steps == 12


def test_a_log_cut_within_the_run_that_profiles_first_ends_at_its_last_step(log: Path) -> None:
    log.write_text("Config param steps: 15\n" + step_lines(range(6)))
    assert refused(log, LLAMA2_FP8_X128) == wording("ended early", step=5, steps=15, needed=50)
    log.write_text("Config param steps: 15\n" + step_lines(range(15)))
    assert refused(log, LLAMA2_FP8_X128) == wording("shorter run", steps=15, needed=50)


def test_the_end_that_counts_is_the_one_of_the_last_attempt(tmp_path: Path) -> None:
    log = tmp_path / "megatron.out"
    log.write_text(megatron(range(1, 51), total=50) + megatron(range(1, 13), total=12))
    assert measured(log, ANY_STEPS).steps == 12
    log.write_text(megatron(range(1, 13), total=12) + megatron(range(1, 13), total=50))
    assert refused(log, ANY_STEPS) == wording("ended before its total", step=12, last=50)


def test_the_configuration_in_a_log_names_its_end(log: Path) -> None:
    row = replace(LLAMA2_FP8_X128, criterion=replace(LLAMA2_FP8_X128.criterion, min_steps=2), recipe=Recipe("x"))
    log.write_text("Config param steps: 50\n" + step_lines(range(7)))
    error = raised(LogError, measured, log, row)
    assert error.fact == wording("ended before its total", step=6, last=49)
    assert error.advice.endswith("write 'recipe: {steps: 7}' in the table")
    log.write_text("Config param steps: 50\n" + step_lines(range(50)))
    assert measured(log, row).steps == 50


def test_a_run_of_fewer_steps_than_the_rows_is_not_measured_though_it_logs_one_figure(tmp_path: Path) -> None:
    path = tmp_path / "log-huggingface_llama2_70b_128_481221.out"
    row = replace(
        LLAMA2_FP8_X128,
        workload=replace(LLAMA2_FP8_X128.workload, log_format="huggingface", framework="huggingface"),
        criterion=replace(LLAMA2_FP8_X128.criterion, statistic="mean", min_steps=1),
    )
    for steps in (50, 2):
        path.write_text(
            f"***** Running training *****\n  Total optimization steps = {steps}\n"
            "{'train_runtime': 228.0, 'train_samples_per_second': 56.14, 'train_loss': 9.1, 'epoch': 1.0}\n"
        )
        if steps == 50:
            assert measured(path, row).judged == pytest.approx(256 / 56.14)
    assert refused(path, row) == wording("shorter run", steps=2, needed=50)
