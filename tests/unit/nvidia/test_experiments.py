"""What launch scripts say of the job that they have submitted, and where its log is."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_gsw.errors import LogError
from pytest_gsw.jobs.model import ExperimentInfo
from tests.unit.nvidia.started import launch

NEMO_RUN = launch("nemo-run")
told_by, log_in, batch_output_in = NEMO_RUN.told_by, NEMO_RUN.log_in, NEMO_RUN.batch_output_in

TASK = """\
Experiment Status for tiny_1764

Task 0: tiny
- Status: RUNNING
- Executor: SlurmExecutor on root@localhost
- Job id: 3530909
- Local Directory: /lustre/experiments/tiny/tiny_1764/tiny

# The experiment was run with the following tasks: ['tiny']
"""


@pytest.mark.parametrize(
    ("said", "directory"),
    [
        (TASK, "/lustre/experiments/tiny/tiny_1764/tiny"),
        ("LAUNCHED: tiny jobid=3530909\nJobID: 3530909, Workdir: /a b\n", "/a b"),
        ("SUBMITTED: tiny - jobid=3530909 workdir=/lustre/x\n", "/lustre/x"),
        # llmb-run shows what the script says as well.
        (TASK + "JobID: 3530909, Workdir: /lustre/x\n", "/lustre/x"),
        # With FORCE_COLOR.
        (
            TASK.replace("Task 0: tiny", "\x1b[1;32mTask 0: \x1b[0mtiny").replace(
                "- Job id:", "\x1b[32m- Job id:\x1b[0m"
            ),
            "/lustre/experiments/tiny/tiny_1764/tiny",
        ),
    ],
)
def test_one_job(said: str, directory: str) -> None:
    assert told_by(said) == ExperimentInfo("3530909", Path(directory), job_ids=("3530909",))


@pytest.mark.parametrize("job_id", ["3530909", "3530909;eos"])
def test_a_job_that_llmb_run_has_given_to_sbatch_itself(job_id: str) -> None:
    """It does not say where that writes."""
    said = f"SUBMITTED: pretrain_tiny  model_size=1b, dtype=bf16, scale=8, jobid={job_id}\n"
    assert told_by(said) == ExperimentInfo("3530909", None, job_ids=("3530909",))


@pytest.mark.parametrize(
    ("said", "problem", "jobs"),
    [
        ("", "its output has no line 'Task 0:'", ()),
        (TASK.replace("Task 0", "Task 1"), "its output has the tasks 1, and one row is one job, task 0", ("3530909",)),
        (TASK + TASK.replace("09", "10"), "its output has the tasks 0, 0, and one row is one job, task 0", None),
        (TASK.replace("- Job id: 3530909", ""), "task 0 in its output has no '- Job id:'", ()),
        (TASK.replace("/lustre", "lustre"), "task 0 in its output has no '- Local Directory:'", ("3530909",)),
        (TASK + "JobID: 2, Workdir: /a\n", "it names 2 jobs, and one row is one job", ("2", "3530909")),
        ("JobID: 1, Workdir: /a\nJobID: 2, Workdir: /a\n", "it names 2 jobs, and one row is one job", ("1", "2")),
    ],
)
def test_no_job_and_several(said: str, problem: str, jobs: tuple[str, ...] | None) -> None:
    told = told_by(said)
    assert (told.job_id, told.directory, told.problem) == (None, None, problem)
    assert told.job_ids == jobs or (jobs is None and len(told.job_ids) == 2)


def test_the_log_of_the_last_start(tmp_path: Path) -> None:
    for name in (
        "log-tiny_7_0.out",
        "log-tiny_7_2.out",
        "log-tiny_7_10.out",
        "log-tiny_77_99.out",
        "sbatch_tiny_7.out",
    ):
        (tmp_path / name).touch()
    assert log_in(tmp_path, "7").name == "log-tiny_7_10.out"
    assert batch_output_in(tmp_path, "7") == tmp_path / "sbatch_tiny_7.out"


def test_what_the_batch_shell_writes_is_the_log_where_there_is_no_other(tmp_path: Path) -> None:
    (tmp_path / "slurm-7.out").touch()
    assert log_in(tmp_path, "7") == batch_output_in(tmp_path, "7") == tmp_path / "slurm-7.out"


def test_no_log_yet(tmp_path: Path) -> None:
    with pytest.raises(LogError) as caught:
        log_in(tmp_path / "experiment", "7")
    assert caught.value.fact == "no log of job 7"
    assert batch_output_in(tmp_path / "experiment", "7") is None


#: Of a script that imports a checkpoint first.
TWO = """\
Experiment Status for sft_nemo_1764

Task 0: import_ckpt_exp
- Status: PENDING
- Executor: SlurmExecutor on root@localhost
- Job id: 11
- Local Directory: /lustre/experiments/sft_nemo/sft_nemo_1764/import_ckpt_exp

Task 1: sft_nemo
- Status: PENDING
- Executor: SlurmExecutor on root@localhost
- Job id: 12
- Local Directory: /lustre/experiments/sft_nemo/sft_nemo_1764/sft_nemo
"""


def test_a_job_that_waits_for_others() -> None:
    home = Path("/lustre/experiments/sft_nemo/sft_nemo_1764")
    told = told_by(TWO)
    assert told == ExperimentInfo(
        "12", home / "sft_nemo", job_ids=("11", "12"), waits_for=(("11", home / "import_ckpt_exp"),)
    )


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("Experiment Status", "Status", "its output has the tasks 0, 1, and one row is one job, task 0"),
        ("Task 1: sft_nemo", "Task 1: sft_nemo_nsys", "its output has the tasks 0, 1, and one row is one job, task 0"),
        ("Task 1", "Task 2", "its output has the tasks 0, 2, and one row is one job, task 0"),
        ("Job id: 12", "Job id: 11", "its output has the tasks 0, 1, and one row is one job, task 0"),
        ("Job id: 11", "Job id: x", "its output has the tasks 0, 1, and one row is one job, task 0"),
        ("Directory: /lustre", "Directory: lustre", "task 0 in its output has no '- Local Directory:'"),
    ],
)
def test_tasks_of_which_none_is_known_to_train(old: str, new: str, problem: str) -> None:
    told = told_by(TWO.replace(old, new, 1) if "Directory" in old else TWO.replace(old, new))
    assert (told.job_id, told.problem, told.waits_for) == (None, problem, ())
    assert set(told.job_ids) <= {"11", "12"}
