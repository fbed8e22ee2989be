"""What is concluded from what Slurm's commands say; tests/slurm asks a real Slurm."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest

from pytest_gsw.errors import JobError, SubmissionError
from pytest_gsw.jobs import slurm
from pytest_gsw.jobs.model import Job, JobSpec, JobState, JobStatus
from pytest_gsw.jobs.slurm import SlurmLauncher
from pytest_gsw.jobs.slurm_answers import Output

SPEC = JobSpec("row", "gsw-a", Path("/r/launch.sh"), Path("/r"), Path("/s"), 1, 8, {})
JOB = Job("1", SPEC, submitted_s=1000.0)
DOWN = Output(1, "", "slurm_load_jobs error: Unable to contact slurm controller (connect failure)\n")
PURGED = Output(1, "", "slurm_load_jobs error: Invalid job id specified\n")
NO_ACCOUNTING = Output(1, "", "Slurm accounting storage is disabled\n")
NOTHING = Output(0, "", "")

Say = Callable[..., list[tuple[str, ...]]]


def said(text: str) -> Output:
    return Output(0, text, "")


@pytest.fixture
def say(monkeypatch: pytest.MonkeyPatch) -> Say:
    """Script what each command answers; what is returned fills with the commands that were run."""

    def script(**answers: Output | BaseException) -> list[tuple[str, ...]]:
        commands: list[tuple[str, ...]] = []

        def run(command: tuple[str, ...], environment: Mapping[str, str], timeout_s: float, **_: object) -> Output:
            commands.append(command)
            answer = answers[command[0]]
            if isinstance(answer, BaseException):
                raise answer
            return answer

        monkeypatch.setattr(slurm, "_run", run)
        return commands

    return script


def poll(job: Job = JOB) -> JobStatus:
    return SlurmLauncher({}).poll([job])[job.id]


def names(commands: Sequence[tuple[str, ...]]) -> list[str]:
    return [command[0] for command in commands]


def test_running_jobs_are_one_question(say: Say) -> None:
    commands = say(squeue=said("1|RUNNING|None|n1|1000|1001|9999|gsw-a\n2|PENDING|Priority||1000|N/A|N/A|gsw-a\n"))
    statuses = SlurmLauncher({}).poll([JOB, dataclasses.replace(JOB, id="2")])
    assert [statuses[job_id].state for job_id in "12"] == [JobState.RUNNING, JobState.PENDING]
    assert statuses["2"].reason == "Priority"
    assert names(commands) == ["squeue"]


def test_ended_jobs_are_two_questions(say: Say) -> None:
    commands = say(
        squeue=said("1|COMPLETED|None|n1|1000|1001|1002|gsw-a\n"),
        sacct=said("1|COMPLETED|0:0|None|n1|1000|1001|1002|gsw-a\n2|FAILED|2:0|None|n1|1000|1001|1002|gsw-a\n"),
    )
    statuses = SlurmLauncher({}).poll([JOB, dataclasses.replace(JOB, id="2")])
    assert [(statuses[job_id].state, statuses[job_id].exit_code) for job_id in "12"] == [
        (JobState.COMPLETED, 0),
        (JobState.FAILED, 2),
    ]
    assert names(commands) == ["squeue", "sacct"]
    assert commands[1][-1] == "1,2"


def test_no_jobs_are_no_question(say: Say) -> None:
    assert SlurmLauncher({}).poll([]) == {}


def test_many_ids_are_split(say: Say) -> None:
    commands = say(squeue=PURGED, sacct=NOTHING)
    jobs = [dataclasses.replace(JOB, id=str(number)) for number in range(2500)]
    assert len(SlurmLauncher({}).poll(jobs)) == 2500
    assert names(commands) == ["squeue", "sacct"] * 3


@pytest.mark.parametrize(
    ("squeue", "sacct", "scontrol", "reason"),
    [
        (DOWN, NOTHING, DOWN, "squeue: Unable to contact slurm controller (connect failure)"),
        (
            DOWN,
            said("1|PENDING|0:0|None|n1|Unknown|Unknown|Unknown|allocation\n"),
            DOWN,
            "squeue: Unable to contact slurm controller (connect failure)",
        ),
        (PURGED, NOTHING, DOWN, "neither squeue nor sacct knows job 1"),
        (NOTHING, NOTHING, DOWN, "neither squeue nor sacct knows job 1"),
        (PURGED, NO_ACCOUNTING, DOWN, "left the queue, and sacct: Slurm accounting storage is disabled"),
        (
            said("1|COMPLETED|None|n1|1000|1001|1002|gsw-a\n"),
            NO_ACCOUNTING,
            DOWN,
            "ended, but nobody tells the exit code: Slurm accounting storage is disabled",
        ),
        (
            said("1|COMPLETED|None|n1|1000|1001|1002|gsw-a\n"),
            said("1|RUNNING|0:0|None|n1|1000|1001|Unknown|gsw-a\n"),
            PURGED,
            "ended, but nobody tells the exit code: no record yet",
        ),
        (
            PURGED,
            said("1|RUNNING|0:0|None|n1|1000|1001|Unknown|gsw-a\n"),
            DOWN,
            "left the queue, but accounting still says RUNNING",
        ),
        (said("1|EXPLODED|None|n1|1000|1001|1002|gsw-a\n"), NOTHING, PURGED, 'squeue says "EXPLODED"'),
        (PURGED, said("1|EXPLODED|0:0|None|n1|1000|1001|1002|gsw-a\n"), PURGED, 'sacct says "EXPLODED"'),
        (
            PURGED,
            said("1|COMPLETED|0:0|None|n1|1000|1001|1002|old\n"),
            PURGED,
            'job 1 is another one by now: its name is "old"',
        ),
        (
            PURGED,
            said("1|COMPLETED|0:0|None|n1|100|101|102|gsw-a\n"),
            PURGED,
            "job 1 is another one: it was submitted 900 s before ours",
        ),
    ],
)
def test_what_nobody_tells_is_unknown(say: Say, squeue: Output, sacct: Output, scontrol: Output, reason: str) -> None:
    say(squeue=squeue, sacct=sacct, scontrol=scontrol)
    status = poll()
    assert (status.state, status.exit_code, status.reason) == (JobState.UNKNOWN, None, reason)


def test_accounting_answers_while_the_controller_is_down(say: Say) -> None:
    commands = say(squeue=DOWN, sacct=said("1|FAILED|1:0|None|n1|1000|1001|1002|gsw-a\n"))
    assert (poll().state, poll().exit_code) == (JobState.FAILED, 1)
    assert "scontrol" not in names(commands)


def test_scontrol_tells_what_accounting_cannot(say: Say) -> None:
    say(
        squeue=said("1|COMPLETED|None|n1|1000|1001|1002|gsw-a\n"),
        sacct=NO_ACCOUNTING,
        scontrol=said("JobId=1 JobName=gsw-a JobState=COMPLETED Reason=None ExitCode=0:0 SubmitTime=1000\n"),
    )
    assert (poll().state, poll().exit_code) == (JobState.COMPLETED, 0)


def test_a_job_that_failed_has_ended_even_if_nobody_tells_the_exit_code(say: Say) -> None:
    say(squeue=said("1|NODE_FAIL|NodeDown|n1|1000|1001|1002|gsw-a\n"), sacct=NO_ACCOUNTING, scontrol=DOWN)
    assert (poll().state, poll().exit_code, poll().reason) == (JobState.NODE_FAIL, None, "NodeDown")


def test_the_reason_of_an_end_is_squeues_where_accounting_has_none(say: Say) -> None:
    say(
        squeue=said("1|OUT_OF_MEMORY|OutOfMemory|n1|1000|1001|1002|gsw-a\n"),
        sacct=said("1|OUT_OF_MEMORY|0:125|None|n1|1000|1001|1002|gsw-a\n"),
    )
    assert (poll().signal, poll().reason) == (125, "OutOfMemory")


def test_polling_without_slurm_raises_nothing(say: Say) -> None:
    gone = FileNotFoundError(2, "No such file or directory")
    say(squeue=gone, sacct=gone, scontrol=gone)
    assert poll() == JobStatus(JobState.UNKNOWN, reason="squeue: No such file or directory")


def test_a_query_that_takes_too_long(tmp_path: Path) -> None:
    slow = tmp_path / "squeue"
    slow.write_text("#!/bin/sh\nexec sleep 30\n")
    slow.chmod(0o755)
    launcher = SlurmLauncher({"PATH": f"{tmp_path}:/usr/bin:/bin"}, query_timeout_s=0.2)
    command = launcher._ask(("squeue",))
    assert (command.timed_out, command.problem) == (True, "squeue gave no answer within 0.2 s")


def test_submission(say: Say) -> None:
    commands = say(sbatch=said("481220;eos\n"))
    job = SlurmLauncher({}).submit(SPEC)
    assert (job.id, job.spec) == ("481220", SPEC)
    assert commands == [SlurmLauncher({}).command(SPEC)]


@pytest.mark.parametrize(
    ("stderr", "fact", "advice"),
    [
        (
            "sbatch: error: Cannot submit to partition batch without GPU\n",
            "sbatch refused the job: Cannot submit to partition batch without GPU",
            "this cluster counts GPUs: set `gres: gpu:8` in its cluster file",
        ),
        (
            (
                "sbatch: error: invalid partition specified: nope\n"
                "sbatch: error: Batch job submission failed: Invalid partition name specified\n"
            ),
            "sbatch refused the job: Invalid partition name specified",
            "set `partition:` in the cluster file; sinfo -s lists them",
        ),
        (
            "sbatch: error: Batch job submission failed: Invalid account or account/partition combination specified\n",
            "sbatch refused the job: Invalid account or account/partition combination specified",
            "set `account:` in the cluster file; sacctmgr show assoc user=$USER lists yours",
        ),
        (
            "sbatch: error: Batch job submission failed: Job violates accounting/QOS policy (job submit limit)\n",
            "sbatch refused the job: Job violates accounting/QOS policy (job submit limit)",
            "sacctmgr show qos; squeue --me tells which of your jobs count against a limit",
        ),
        (
            "sbatch: error: Unable to open file /r/launch.sh\n",
            "sbatch refused the job: Unable to open file /r/launch.sh",
            "is the recipe set up? The script must exist: ls -l /r/launch.sh",
        ),
        ("", "sbatch refused the job: exit code 1", "run the command by hand in that directory"),
    ],
)
def test_refusals(say: Say, stderr: str, fact: str, advice: str) -> None:
    say(sbatch=Output(1, "", stderr))
    with pytest.raises(SubmissionError) as refused:
        SlurmLauncher({}).submit(SPEC)
    assert (refused.value.fact, refused.value.advice) == (fact, advice)
    assert refused.value.tail == (tuple(stderr.strip().split("\n")) if stderr else ())


def test_no_slurm_here(say: Say) -> None:
    say(sbatch=FileNotFoundError(2, "No such file or directory"))
    with pytest.raises(SubmissionError) as refused:
        SlurmLauncher({}).submit(SPEC)
    assert str(refused.value) == (
        "sbatch could not be run: No such file or directory\n"
        "\n"
        "command    sbatch --parsable -J gsw-a -N 1 --no-requeue /r/launch.sh\n"
        "directory  /r\n"
        "next       is this a login node of the cluster, with Slurm's commands on the PATH?"
    )


@pytest.mark.parametrize("count", [0, 2])
def test_a_lost_answer_is_no_job_unless_exactly_one_bears_the_name(say: Say, count: int) -> None:
    late = "\n".join(f"{number}|RUNNING|None|n1|99999999999|99999999999|N/A|gsw-a" for number in range(count))
    timed_out = Output(1, "", "sbatch: error: Socket timed out on send/recv operation\n")
    say(sbatch=timed_out, squeue=said(late), sacct=said(""))
    with pytest.raises(SubmissionError) as refused:
        SlurmLauncher({}).submit(SPEC)
    assert refused.value.advice == "scontrol ping; squeue --name=gsw-a tells whether the job was taken all the same"


def test_a_lost_answer_is_not_an_older_job_of_the_same_name(say: Say) -> None:
    say(sbatch=said("hello\n"), squeue=said("7|RUNNING|None|n1|1000|1001|N/A|gsw-a\n"))
    with pytest.raises(SubmissionError, match=r"^sbatch gave no job id\n"):
        SlurmLauncher({}).submit(SPEC)


def test_a_lost_answer_is_found_though_the_job_has_ended(say: Say) -> None:
    say(
        sbatch=Output(124, "", "sbatch gave no answer within 120 s", timed_out=True),
        squeue=said(""),
        sacct=said("7|COMPLETED|0:0|None|n1|99999999999|99999999999|99999999999|gsw-a\n"),
    )
    assert SlurmLauncher({}).submit(SPEC).id == "7"


def test_a_lost_answer_is_found(say: Say) -> None:
    say(
        sbatch=Output(124, "", "sbatch gave no answer within 120 s", timed_out=True),
        squeue=said("7|RUNNING|None|n1|99999999999|N/A|N/A|gsw-a\n"),
    )
    assert SlurmLauncher({}).submit(SPEC).id == "7"


@pytest.mark.parametrize(
    ("unique_name", "submit_s", "found"),
    [
        (True, [0], "0"),
        (True, [0, 1000], None),
        (False, [0], None),
        (False, [939], None),
        (False, [940], "0"),
        (False, [1061], "0"),
        (False, [999], "0"),
        (False, [0, 970], "1"),
        (False, [970, 1000], "1"),
        (False, [960, 970], None),
        (False, [1000, 1001], None),
    ],
)
def test_which_job_of_a_name_is_ours(say: Say, unique_name: bool, submit_s: list[int], found: str | None) -> None:
    lines = [f"{number}|RUNNING|None|n1|{at_s}|{at_s}|N/A|gsw-a" for number, at_s in enumerate(submit_s)]
    say(squeue=said("\n".join(lines)))
    job = SlurmLauncher({}).find(dataclasses.replace(SPEC, unique_name=unique_name), since_s=1000.0)
    assert (job and job.id) == found


def test_a_refusal_shows_no_secret(say: Say) -> None:
    say(sbatch=Output(1, "", ""))
    spec = dataclasses.replace(SPEC, options=("--comment=https://me:hunter2@host", "--x=HF_TOKEN=hunter2"))
    with pytest.raises(SubmissionError) as refused:
        SlurmLauncher({}).submit(spec)
    assert "hunter2" not in str(refused.value)
    assert "'--comment=https://***@host'" in str(refused.value)


def test_ctrl_c_amid_a_submission_leaves_no_job(say: Say) -> None:
    commands = say(
        sbatch=KeyboardInterrupt(),
        squeue=said("7|RUNNING|None|n1|99999999999|N/A|N/A|gsw-a\n"),
        scancel=NOTHING,
    )
    with pytest.raises(KeyboardInterrupt):
        SlurmLauncher({}).submit(SPEC)
    assert commands[-1] == ("scancel", "-Q", "--", "7")


def test_cancel_that_fails_says_what_to_type(say: Say) -> None:
    failure = "scancel: error: Kill job error on job id 1: Unable to contact slurm controller (connect failure)\n"
    commands = say(scancel=Output(8, "", failure))
    with pytest.raises(JobError) as failed:
        SlurmLauncher({}).cancel([JOB, dataclasses.replace(JOB, id="2")])
    assert str(failed.value) == (
        "jobs may still run: scancel failed: "
        "Kill job error on job id 1: Unable to contact slurm controller (connect failure)\n"
        "\n"
        "next       scancel -Q -- 1 2"
    )
    assert len(commands) == 1


def test_cancel_nothing(say: Say) -> None:
    SlurmLauncher({}).cancel([])
