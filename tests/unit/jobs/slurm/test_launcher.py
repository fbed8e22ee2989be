"""What is concluded from what Slurm's commands say; tests/slurm asks a real Slurm."""

from __future__ import annotations

import dataclasses
import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from pytest_gsw.common.text import moment
from pytest_gsw.errors import (
    JobError,
    QueueFullError,
    RefusedError,
    RunError,
    SchedulerUnreachableError,
    SubmissionError,
)
from pytest_gsw.jobs.model import SBATCH, Job, JobSpec
from pytest_gsw.jobs.pending import reason_of
from pytest_gsw.jobs.slurm import client as slurm
from pytest_gsw.jobs.slurm.client import Output
from pytest_gsw.jobs.slurm.launcher import SlurmLauncher
from pytest_gsw.jobs.slurm.poll import SILENT_S
from pytest_gsw.jobs.slurm.sbatch_errors import refusal
from pytest_gsw.jobs.states import FailedJob, JobState, JobStatus
from tests.messages import wording
from tests.unit.jobs.slurm.test_nodes import BLOCKS, TREE
from tests.unit.nvidia.started import launch

SPEC = JobSpec("row", "gsw-a", Path("/r/launch.sh"), Path("/r"), Path("/s"), 1, 8, {})
UNIQUE = dataclasses.replace(SPEC, unique_name=True)
JOB = Job("1", SPEC, submitted_s=1000.0)
DOWN = Output(1, "", "slurm_load_jobs error: Unable to contact slurm controller (connect failure)\n")
PURGED = Output(1, "", "slurm_load_jobs error: Invalid job id specified\n")
NO_ACCOUNTING = Output(1, "", "Slurm accounting storage is disabled\n")
NOTHING = Output(0, "", "")
FAILED = "sbatch: error: Batch job submission failed: "

Answer = Output | BaseException | Callable[[tuple[str, ...]], Output]
Commands = list[tuple[str, ...]]
Say = Callable[..., Commands]


def said(text: str) -> Output:
    return Output(0, text, "")


def failed(text: str, returncode: int = 1) -> Output:
    return Output(returncode, "", f"{FAILED}{text}\n" if text else "")


def queued(
    job_id: int = 1, state: str = "RUNNING", name: str = "gsw-a", *, reason: str = "None", at: int = 1000
) -> str:
    """A line of squeue."""
    return f"{job_id}|{state}||{reason}|n1|{at}|1001|1002|{name}\n"


def recorded(job_id: int = 1, state: str = "COMPLETED", code: str = "0:0", name: str = "gsw-a", at: int = 1000) -> str:
    """A line of sacct."""
    return f"{job_id}|{state}|{code}|0:0|None|n1|{at}|1001|1002|{name}\n"


@pytest.fixture
def say(monkeypatch: pytest.MonkeyPatch) -> Say:
    """Script what each command answers; what is returned fills with the commands that were run."""

    def script(**answers: Answer) -> Commands:
        commands: Commands = []

        def run(command: tuple[str, ...], environment: Mapping[str, str], timeout_s: float, **_: object) -> Output:
            commands.append(command)
            answer = answers.get(command[0], DOWN) if command[0] in {"sinfo", "scontrol"} else answers[command[0]]
            if isinstance(answer, BaseException):
                raise answer
            return answer if isinstance(answer, Output) else answer(command)

        monkeypatch.setattr(slurm, "_run", run)
        return commands

    return script


def caught(act: Callable[[], object]) -> RunError:
    with pytest.raises(RunError) as error:
        act()
    return error.value


def submission_error(spec: JobSpec = SPEC) -> RunError:
    return caught(lambda: SlurmLauncher({}).submit(spec))


def poll(job: Job = JOB) -> JobStatus:
    return SlurmLauncher({}).poll([job])[job.spec.row_id]


def job_of(number: int | str, name: str = "gsw-a") -> Job:
    """A job of a row of its own, which has the job's number."""
    return Job(str(number), dataclasses.replace(SPEC, row_id=str(number), name=name), 1000.0)


def names(commands: Sequence[tuple[str, ...]]) -> list[str]:
    return [command[0] for command in commands]


def test_running_jobs_are_one_question(say: Say) -> None:
    commands = say(squeue=said(queued(1) + queued(2, "PENDING", reason="Priority")))
    statuses = SlurmLauncher({}).poll([job_of(1), job_of(2)])
    assert [statuses[job_id].state for job_id in "12"] == [JobState.RUNNING, JobState.PENDING]
    assert statuses["2"].reason == "Priority"
    assert names(commands) == ["squeue"]


def test_ended_jobs_are_two_questions(say: Say) -> None:
    commands = say(squeue=said(queued(1, "COMPLETED")), sacct=said(recorded(1) + recorded(2, "FAILED", "2:0")))
    statuses = SlurmLauncher({}).poll([job_of(1), job_of(2)])
    assert [(statuses[job_id].state, statuses[job_id].exit_code) for job_id in "12"] == [
        (JobState.COMPLETED, 0),
        (JobState.FAILED, 2),
    ]
    assert names(commands) == ["squeue", "sacct", "scontrol"], "where their outputs are, /r has none"
    assert commands[1][-1] == "1,2"


def ended_in(place: Path, *numbers: int) -> list[Job]:
    return [dataclasses.replace(one := job_of(n), spec=dataclasses.replace(one.spec, directory=place)) for n in numbers]


def test_outputs_of_batch_shells_are_one_question_for_all_jobs_that_have_ended(say: Say, tmp_path: Path) -> None:
    shown = [f"JobId={n} JobName=gsw-a JobState=COMPLETED StdOut={tmp_path}/own-{n}\n" for n in (1, 2)]
    commands = say(
        squeue=said("".join(queued(number, "COMPLETED") for number in range(1, 5)) + queued(5)),
        sacct=said("".join(map(recorded, range(1, 5)))),
        scontrol=said("".join(shown)),
    )
    for name in ("slurm-4.out", "own-1", "own-2"):
        (tmp_path / name).touch()
    launcher, jobs = SlurmLauncher({}), ended_in(tmp_path, 1, 2, 3, 4, 5)
    launcher.poll(jobs)
    outputs = [launcher.batch_output(job) for job in jobs[:4]]
    assert outputs == [tmp_path / "own-1", tmp_path / "own-2", None, tmp_path / "slurm-4.out"]
    assert names(commands) == ["squeue", "sacct", "scontrol"]


def test_outputs_that_slurm_does_not_tell_are_asked_for_again_after_a_while(say: Say, tmp_path: Path) -> None:
    ends = {"squeue": said(queued(1, "COMPLETED") + queued(2, "COMPLETED")), "sacct": said(recorded(1) + recorded(2))}
    commands, launcher, jobs = say(**ends, scontrol=DOWN), SlurmLauncher({}), ended_in(tmp_path, 1, 2)
    launcher._poller._clock = lambda: 1000.0
    launcher.poll(jobs)
    assert [launcher.batch_output(job) for job in jobs] == [None, None]
    assert names(commands) == ["squeue", "sacct", "scontrol"]
    (tmp_path / "own").touch()
    commands = say(scontrol=said(f"JobId=2 JobName=gsw-a JobState=COMPLETED StdOut={tmp_path}/own\n"))
    launcher._poller._clock = lambda: 1000.0 + SILENT_S
    assert launcher.batch_output(jobs[1]) == tmp_path / "own"
    assert names(commands) == ["scontrol"]


@pytest.mark.parametrize("failure", [Output(1, "", DOWN.stderr), Output(-9, "", ""), Output(1, "", PURGED.stderr)])
def test_an_output_that_slurm_tells_later_than_the_others_is_found(say: Say, tmp_path: Path, failure: Output) -> None:
    shown = [f"JobId={n} JobName=gsw-a JobState=COMPLETED StdOut={tmp_path}/own-{n}\n" for n in (1, 2)]
    ends = {"squeue": said(queued(1, "COMPLETED") + queued(2, "COMPLETED")), "sacct": said(recorded(1) + recorded(2))}
    say(**ends, scontrol=dataclasses.replace(failure, stdout=shown[0]))
    launcher, jobs = SlurmLauncher({}), ended_in(tmp_path, 1, 2)
    launcher._poller._clock = lambda: 1000.0
    for name in ("own-1", "own-2"):
        (tmp_path / name).touch()
    launcher.poll(jobs)
    assert [launcher.batch_output(job) for job in jobs] == [tmp_path / "own-1", None]
    commands = say(scontrol=said(shown[1]))
    launcher._poller._clock = lambda: 1000.0 + SILENT_S
    is_gone = failure.stderr == PURGED.stderr
    assert launcher.batch_output(jobs[1]) == (None if is_gone else tmp_path / "own-2")
    assert names(commands) == ([] if is_gone else ["scontrol"])


AWAY = "squeue: Unable to contact slurm controller (connect failure)"
OVER, RECORDED_OPEN = said(queued(1, "COMPLETED")), said(recorded(1, "RUNNING").replace("1002", "Unknown"))


@pytest.mark.parametrize(
    ("squeue", "sacct", "scontrol", "reason"),
    [
        (DOWN, NOTHING, DOWN, AWAY),
        (DOWN, said("1|PENDING|0:0|0:0|None|n1|Unknown|Unknown|Unknown|allocation\n"), DOWN, AWAY),
        (PURGED, NOTHING, DOWN, "neither squeue nor sacct knows job 1"),
        (NOTHING, NOTHING, DOWN, "neither squeue nor sacct knows job 1"),
        (PURGED, NO_ACCOUNTING, DOWN, "left the queue, and sacct: Slurm accounting storage is disabled"),
        (OVER, NO_ACCOUNTING, DOWN, "ended, but its exit code is unknown: Slurm accounting storage is disabled"),
        (OVER, RECORDED_OPEN, PURGED, "ended, but its exit code is unknown: no record yet"),
        (PURGED, RECORDED_OPEN, DOWN, "left the queue, but accounting still says RUNNING"),
        (said(queued(1, "EXPLODED")), NOTHING, PURGED, 'squeue says "EXPLODED"'),
        (PURGED, said(recorded(1, "EXPLODED")), PURGED, 'sacct says "EXPLODED"'),
        (PURGED, said(recorded(1, name="old")), PURGED, 'job 1 is another one by now: its name is "old"'),
        (PURGED, said(recorded(1, at=100)), PURGED, "job 1 is another one: it was submitted 900 s before ours"),
    ],
)
def test_what_nobody_tells_is_unknown(say: Say, squeue: Output, sacct: Output, scontrol: Output, reason: str) -> None:
    say(squeue=squeue, sacct=sacct, scontrol=scontrol)
    status = poll()
    assert (status.state, status.exit_code, status.reason) == (JobState.UNKNOWN, None, reason)


def test_accounting_that_is_down_does_not_tell_that_there_is_no_job(say: Say) -> None:
    say(squeue=NOTHING, sacct=DOWN)
    error = caught(lambda: SlurmLauncher({}).find(SPEC, since_s=1000.0))
    assert type(error) is SchedulerUnreachableError
    assert error.fact == (
        wording("submission unknown", row="row", why="sacct: " + wording("no controller") + " (connect failure)")
    )


def test_accounting_answers_while_the_controller_is_down(say: Say) -> None:
    commands = say(squeue=DOWN, sacct=said(recorded(1, "FAILED", "1:0")))
    assert (poll().state, poll().exit_code) == (JobState.FAILED, 1)
    assert "scontrol" not in names(commands)


def test_scontrol_tells_what_accounting_cannot(say: Say) -> None:
    shown = "JobId=1 JobName=gsw-a JobState=COMPLETED Reason=None ExitCode=0:0 DerivedExitCode=0:0 SubmitTime=1000\n"
    say(squeue=OVER, sacct=NO_ACCOUNTING, scontrol=said(shown))
    assert (poll().state, poll().exit_code) == (JobState.COMPLETED, 0)


def test_a_job_that_failed_has_ended_even_if_nobody_tells_the_exit_code(say: Say) -> None:
    say(squeue=said(queued(1, "NODE_FAIL", reason="NodeDown")), sacct=NO_ACCOUNTING, scontrol=DOWN)
    assert (poll().state, poll().exit_code, poll().reason) == (JobState.NODE_FAIL, None, "NodeDown")


def test_the_reason_of_an_end_is_squeues_where_accounting_has_none(say: Say) -> None:
    say(
        squeue=said(queued(1, "OUT_OF_MEMORY", reason="OutOfMemory")),
        sacct=said(recorded(1, "OUT_OF_MEMORY", "0:125")),
    )
    assert (poll().signal, poll().reason) == (125, "OutOfMemory")


def test_polling_without_slurm_raises_nothing(say: Say) -> None:
    gone = FileNotFoundError(2, "No such file or directory")
    say(squeue=gone, sacct=gone, scontrol=gone)
    assert poll() == JobStatus(JobState.UNKNOWN, reason="squeue: " + wording("no such file"))


def test_a_query_that_takes_too_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pytest_gsw.jobs.slurm.client.QUERY_TIMEOUT_S", 0.2)
    slow = tmp_path / "squeue"
    slow.write_text("#!/bin/sh\nexec sleep 30\n")
    slow.chmod(0o755)
    launcher = SlurmLauncher({"PATH": f"{tmp_path}:/usr/bin:/bin"})
    command = launcher._client.ask(("squeue",))
    assert (command.timed_out, command.problem) == (True, wording("no answer", command="squeue", time="0.2 s"))


def hanging(tmp_path: Path, *names: str) -> dict[str, str]:
    """An environment with commands that never answer."""
    for name in names:
        (tmp_path / name).write_text("#!/bin/sh\nexec /bin/sleep 3600\n")
        (tmp_path / name).chmod(0o755)
    return {"PATH": f"{tmp_path}"}


def test_a_silent_slurm_is_reported_once_and_given_up_when_the_session_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slurm, "LOOK_S", 0.001)
    launcher = SlurmLauncher(hanging(tmp_path, "sbatch", "squeue", "scancel"))
    lines: list[str] = []

    def report(line: str) -> None:
        lines.append(line)
        launcher.patience.ends = True  # as a signal does

    launcher.patience.report = report
    monkeypatch.setattr(slurm, "SILENT_S", 0.0)
    submission = caught(lambda: launcher.submit(dataclasses.replace(SPEC, directory=tmp_path)))
    assert submission.fact.startswith(wording("no answer", command="sbatch", time=""))
    assert launcher.poll([JOB])[SPEC.row_id].state is JobState.UNKNOWN
    assert launcher._client.act(("scancel", "7")).timed_out
    launcher.patience.answered(NOTHING)
    assert not launcher.patience.is_silent
    assert lines == ["gsw: sbatch has not answered for 0 s: scontrol ping shows if Slurm is up"]


def test_one_named_cluster_is_asked_about_its_jobs(say: Say) -> None:
    commands = say(
        sbatch=said("7;eos\n"),
        squeue=said(queued(7, "COMPLETED")),
        sacct=NO_ACCOUNTING,
        scontrol=said("JobId=7 JobName=gsw-a JobState=RUNNING\n"),
        scancel=NOTHING,
    )
    spec = dataclasses.replace(UNIQUE, options=("-M", "eos"))
    launcher = SlurmLauncher({})
    job = launcher.submit(spec)
    launcher.poll([job])
    launcher.cancel([job])
    launcher.find(spec, 1000.0)
    launcher.named([spec], 1000.0)
    assert names(commands) == ["sbatch", "squeue", "sacct", "scontrol", "scancel", "squeue", "squeue", "sacct"]
    assert {command[1] for command in commands[1:]} == {"--clusters=eos"}


@pytest.mark.parametrize("options", [(), ("-M", "eos"), ("-M", "eos,dgx")])
def test_a_job_that_sbatch_sends_to_another_cluster_is_cancelled_there(say: Say, options: tuple[str, ...]) -> None:
    """No question of the session's would go there."""
    commands = say(sbatch=said("7;dgx\n"), scancel=NOTHING)
    error = submission_error(dataclasses.replace(SPEC, options=options))
    assert type(error) is SubmissionError
    assert error.fact == wording("sent elsewhere", cluster="dgx", what="cancelled")
    assert error.advice == wording("shows its cluster", key="sbatch: [--clusters=dgx]")
    assert commands[1:] == [("scancel", "--clusters=dgx", "-Q", "--", "7")]


@pytest.mark.parametrize(
    ("stderr", "fact", "advice"),
    [
        (
            "sbatch: error: Cannot submit to partition batch without GPU\n",
            "sbatch refused the job: Cannot submit to partition batch without GPU",
            "this cluster counts GPUs: set `gres: gpu:8` in its cluster file",
        ),
        (
            f"sbatch: error: invalid partition specified: nope\n{FAILED}Invalid partition name specified\n",
            "sbatch refused the job: Invalid partition name specified",
            "set `partition:` in the cluster file; sinfo -s lists them",
        ),
        (
            f"{FAILED}Invalid account or account/partition combination specified\n",
            "sbatch refused the job: Invalid account or account/partition combination specified",
            "set `account:` in the cluster file; sacctmgr show assoc user=$USER lists yours",
        ),
        (
            f"{FAILED}Job violates accounting/QOS policy (job submit limit)\n",
            "sbatch refused the job: Job violates accounting/QOS policy (job submit limit)",
            "sacctmgr show qos; squeue --me shows which of your jobs count against a limit",
        ),
        (
            "sbatch: error: Unable to open file /r/launch.sh\n",
            "sbatch refused the job: Unable to open file /r/launch.sh",
            "is the recipe set up? The script must exist: ls -l /r/launch.sh",
        ),
        (
            f"{FAILED}Invalid feature specification\n",
            "sbatch refused the job: Invalid feature specification",
            "set `constraint:` in the cluster file; sinfo -o '%P %f' lists the features",
        ),
        (
            f"{FAILED}Requested reservation is invalid\n",
            "sbatch refused the job: Requested reservation is invalid",
            "correct `sbatch:` of the cluster; sbatch --help",
        ),
        ("", "sbatch refused the job: exit code 1", "run the command by hand in that directory"),
    ],
)
def test_refusals(say: Say, stderr: str, fact: str, advice: str) -> None:
    say(sbatch=Output(1, "", stderr), squeue=NOTHING, sacct=NOTHING)
    error = submission_error()
    assert (error.fact, error.advice) == (fact, advice)
    assert error.tail == (tuple(stderr.strip().split("\n")) if stderr else ())


POLICY = f"{FAILED}Job violates accounting/QOS policy (job submit limit, user's size and/or time limits)\n"


@pytest.mark.parametrize(
    "answer",
    [
        failed("Invalid partition name specified"),
        failed("Invalid account or account/partition combination specified"),
        failed("Invalid qos specification"),
        failed("Requested node configuration is not available"),
        Output(1, "", "sbatch: error: QOSMaxWallDurationPerJobLimit\n" + POLICY),
        Output(1, "", "sbatch: error: Unable to open file /r/launch.sh\n"),
    ],
)
def test_what_slurm_certainly_did_not_take_is_not_looked_for(say: Say, answer: Output) -> None:
    commands = say(sbatch=answer)
    assert type(submission_error()) is RefusedError
    assert names(commands) == ["sbatch"]


TIMED_OUT = failed("Socket timed out on send/recv operation")
HANGING = Output(124, "", "sbatch gave no answer within 120 s", timed_out=True)
#: However the clocks of Slurm and of this machine differ.
FOUND = said(queued(7, at=99999999999))


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (failed(""), RefusedError),
        (Output(1, "", "quota: cannot write the submission's log\n"), RefusedError),
        (Output(3, "7\n", "Traceback (most recent call last):\n"), RefusedError),
        (Output(1, "7\n", f"{FAILED}Invalid partition name specified\n"), RefusedError),
        (failed("Invalid partition name specified", 2), RefusedError),
        (failed("Unspecified error"), RefusedError),
        (Output(1, "", f"wrapper: {FAILED}Invalid partition name specified\n"), RefusedError),
        (failed("Invalid partition name specified\ncleaning up"), RefusedError),
        (failed("Invalid qos" + 41 * "x"), RefusedError),
        # An answer without an id is no refusal: there may be a job.
        (said("hello\n"), SubmissionError),
        (HANGING, SchedulerUnreachableError),
        (TIMED_OUT, SchedulerUnreachableError),
        (Output(-9, "", ""), SchedulerUnreachableError),
    ],
)
def test_a_job_that_was_taken_although_sbatch_failed_is_found(say: Say, answer: Output, kind: type[RunError]) -> None:
    commands = say(sbatch=answer, squeue=FOUND)
    assert SlurmLauncher({}).submit(SPEC).id == "7"
    assert names(commands) == ["sbatch", "squeue"]
    assert commands[1][-1] == "--name=gsw-a"
    commands = say(sbatch=answer, squeue=NOTHING, sacct=NOTHING)
    assert type(submission_error()) is kind
    assert names(commands) == ["sbatch", "squeue", "sacct"]
    say(sbatch=answer, squeue=DOWN)
    error = submission_error()
    assert (type(error), error.fact.startswith("sbatch ")) == (SchedulerUnreachableError, True)


@pytest.mark.parametrize(
    ("limit", "mine"),
    [
        ("AssocMaxSubmitJobLimit", True),
        ("QOSMaxSubmitJobPerUserLimit", True),
        ("QOSMaxSubmitJobPerAccountLimit", False),
        ("AssocGrpSubmitJobsLimit", False),
        ("QOSGrpSubmitJobsLimit", False),
    ],
)
def test_a_queue_that_takes_no_more_jobs_is_full_while_jobs_are_in_it(say: Say, limit: str, mine: bool) -> None:
    full = Output(1, "", f"sbatch: error: {limit}\n{POLICY}")
    commands = say(sbatch=full, squeue=said("12\n"))
    error = submission_error()
    assert (type(error), error.fact) == (QueueFullError, wording("queue is full", why=f"{limit})"))
    assert [("--me" in command) for command in commands] == [False, mine]
    say(sbatch=full, squeue=NOTHING)  # nothing of it will ever free itself
    assert type(submission_error()) is RefusedError


def test_all_jobs_of_a_runs_rows_are_two_questions(say: Say) -> None:
    commands = say(
        sacct=said("7|RUNNING|0:0|None|n1|1000|1001|Unknown|gsw-a\n8|FAILED|1:0|None|n1|1000|1001|1002|again2.gsw-a\n"),
        squeue=said(queued(7, "COMPLETED") + queued(9, "PENDING", "other")),
    )
    found = SlurmLauncher({}).named([SPEC] * 500, 1000.0)
    assert [(job.id, job.name, job.status.state) for job in found] == [
        ("7", "gsw-a", JobState.COMPLETED),
        ("8", "again2.gsw-a", JobState.FAILED),
        ("9", "other", JobState.PENDING),
    ]
    assert names(commands) == ["squeue", "sacct"], "a job that slurmctld purges in between would be in neither"
    say(sacct=NO_ACCOUNTING, squeue=said(queued(9, "PENDING", "other")))
    assert [job.id for job in SlurmLauncher({}).named([SPEC], 1000.0)] == ["9"]
    say(sacct=NOTHING, squeue=DOWN)
    with pytest.raises(SchedulerUnreachableError, match="^" + wording("own rows unknown", why="squeue: ")):
        SlurmLauncher({}).named([SPEC], 1000.0)


def test_jobs_are_polled_and_counted_by_one_list_of_the_users(say: Say) -> None:
    commands = say(squeue=said(queued(7) + queued(8, "FAILED", "again2.gsw-a") + queued(9, "PENDING", "other")))
    launcher = SlurmLauncher({})
    polled = launcher.poll([Job("7", UNIQUE, 1000.0)])
    assert {row: status.state for row, status in polled.items()} == {"row": JobState.RUNNING}
    assert [(job.id, job.name) for job in launcher.named_in_poll([UNIQUE]) or ()] == [
        ("7", "gsw-a"),
        ("8", "again2.gsw-a"),
        ("9", "other"),
    ]
    assert [command[1] for command in commands] == ["--me"]


@pytest.mark.parametrize("listed", [queued(9, "PENDING", "other"), queued(7) + queued(8)])
def test_a_job_that_the_list_does_not_show_alone_is_asked_about_by_its_id(say: Say, listed: str) -> None:
    """It was purged or is another user's to Slurm; or another job has its name, perhaps of the same array."""
    commands = say(squeue=lambda command: said(listed if "--me" in command else queued(7) + queued(10)))
    launcher = SlurmLauncher({})
    polled = launcher.poll([Job("7", UNIQUE, 1000.0)])
    assert (polled["row"].state, polled["row"].siblings) == (JobState.RUNNING, ("10",))
    assert [command[-2:] for command in commands[1:]] == [("-j", "7")]
    found = launcher.named_in_poll([UNIQUE])
    if queued(7) not in listed:
        assert found is None, "another job of the row may have been purged, too: accounting has it"
        return
    assert "".join(queued(int(job.id), job.status.state.value, job.name) for job in found or ()) == listed


def test_jobs_are_asked_about_by_id_if_they_cannot_be_listed(say: Say) -> None:
    commands = say(squeue=lambda command: DOWN if "--me" in command else said(queued(7)), sacct=NOTHING)
    launcher = SlurmLauncher({})
    polled = launcher.poll([Job("7", UNIQUE, 1000.0)])
    assert (polled["row"].state, launcher.named_in_poll([UNIQUE])) == (JobState.RUNNING, None)
    commands = say(squeue=Output(124, "", "squeue gave no answer", timed_out=True), sacct=NOTHING)
    assert SlurmLauncher({}).poll([Job("7", UNIQUE, 1000.0)])["row"].state is JobState.UNKNOWN
    assert names(commands) == ["squeue", "sacct"], "it would hang again"


def test_a_poll_that_lists_no_jobs_counts_none(say: Say) -> None:
    say(squeue=DOWN, sacct=NOTHING)
    launcher = SlurmLauncher({})
    launcher.poll([Job("7", UNIQUE, 1000.0)])
    assert launcher.named_in_poll([UNIQUE]) is None
    commands = say(squeue=said(queued(1)))
    launcher.poll([JOB])
    assert launcher.named_in_poll([UNIQUE]) is None, "its name may be that of others"
    assert "--me" not in commands[0]


@pytest.mark.parametrize(
    "times",
    [
        "1000|1000|1000",  # 22.05
        "1000|Unknown|1000",  # 24.11
        "1000|None|1000",  # 26.05
        "1000||",
    ],
)
def test_a_job_that_slurm_refused_is_nobodys(say: Say, times: str) -> None:
    """Accounting keeps it under the name that the row's next job has, and squeue for a while."""
    refused = f"7|FAILED|1:0|None|None assigned|{times}|gsw-a\n"
    say(sacct=said(refused + "8|RUNNING|0:0|None|n1|1000|1001|Unknown|gsw-a\n"), squeue=NOTHING)
    assert [job.id for job in SlurmLauncher({}).named([UNIQUE], 1000.0)] == ["8"]
    found = SlurmLauncher({}).find(UNIQUE, 1000.0)
    assert found is not None
    assert found.id == "8"
    say(sacct=said(refused), squeue=NOTHING)
    assert SlurmLauncher({}).find(UNIQUE, 1000.0) is None
    say(sacct=NOTHING, squeue=said(f"7|FAILED|256|BadConstraints||{times}|gsw-a\n"))
    assert SlurmLauncher({}).find(UNIQUE, 1000.0) is None


def test_a_job_that_failed_on_its_nodes_was_accepted(say: Say) -> None:
    """However short it ran."""
    say(sacct=said("7|FAILED|1:0|None|n1|1000|1000|1000|gsw-a\n"), squeue=NOTHING)
    found = SlurmLauncher({}).find(UNIQUE, 1000.0)
    assert found is not None
    assert found.id == "7"


def pending(reason: str, start: str = "N/A") -> str:
    """A line of squeue."""
    return f"1|PENDING||{reason}||1000|{start}|N/A|gsw-a\n"


@pytest.mark.parametrize(
    ("scontrol", "ends"),
    [
        (said("JobId=1 JobName=gsw-a QOS=normal JobState=PENDING TimeMin=N/A Partition=batch\n"), True),
        (said("JobId=1 JobName=gsw-a QOS=normal JobState=PENDING TimeMin=N/A Partition=short,batch\n"), False),
        (said("JobId=1 JobName=gsw-a QOS=low,high JobState=PENDING TimeMin=N/A Partition=batch\n"), False),
        (said("JobId=1 JobName=gsw-a QOS=normal JobState=PENDING TimeMin=00:01:00 Partition=batch\n"), False),
        (failed("Unable to contact slurm controller"), False),
    ],
)
def test_a_limit_counts_only_where_it_is_the_jobs_only_one(say: Say, scontrol: Output, ends: bool) -> None:
    commands = say(squeue=said(pending("PartitionTimeLimit")), scontrol=scontrol)
    launcher = SlurmLauncher({})
    first, second = (launcher.poll([JOB])[SPEC.row_id].reason for _ in range(2))
    assert first == second
    assert first.startswith("PartitionTimeLimit")
    assert (reason_of(first).advice is not None) == ends
    assert names(commands).count("scontrol") == (2 if scontrol.returncode else 1)


def test_a_job_that_waits_for_room_is_one_question(say: Say) -> None:
    commands = say(squeue=said(pending("Priority", "1893456000")))
    status = SlurmLauncher({}).poll([JOB])[SPEC.row_id]
    assert (status.reason, status.start_s, names(commands)) == ("Priority", None, ["squeue"])


def test_a_limit_that_ended_a_job_is_told_as_it_is(say: Say) -> None:
    say(squeue=said("1|FAILED|256|BadConstraints||1000|1000|1000|gsw-a\n"), sacct=NO_ACCOUNTING, scontrol=NOTHING)
    assert SlurmLauncher({}).poll([JOB])[SPEC.row_id].reason == "BadConstraints"


def test_an_earliest_start_is_told_with_the_reason(say: Say) -> None:
    say(squeue=said(pending("BeginTime", "1893456000")))
    assert SlurmLauncher({}).poll([JOB])[SPEC.row_id].reason == f"BeginTime {moment(1893456000)}"


def test_no_slurm_here(say: Say) -> None:
    say(sbatch=FileNotFoundError(2, "No such file or directory"))
    error = submission_error()
    assert type(error) is SubmissionError
    assert str(error) == (
        "sbatch could not be run: No such file or directory\n"
        "\n"
        "command    sbatch --parsable -J gsw-a -N 1 --no-requeue /r/launch.sh\n"
        "directory  /r\n"
        "next       is this a login node of the cluster, with Slurm's commands on the PATH?"
    )


def test_a_lost_answer_is_found_though_the_job_has_ended(say: Say) -> None:
    say(
        sbatch=HANGING,
        squeue=NOTHING,
        sacct=said("7|COMPLETED|0:0|None|n1|99999999999|99999999999|99999999999|gsw-a\n"),
    )
    assert SlurmLauncher({}).submit(SPEC).id == "7"


@pytest.mark.parametrize(
    ("unique_name", "submit_s", "found"),
    [
        (True, [0], "0"),
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
    say(squeue=said("".join(queued(number, at=at_s) for number, at_s in enumerate(submit_s))))
    job = SlurmLauncher({}).find(dataclasses.replace(SPEC, unique_name=unique_name), since_s=1000.0)
    assert (job and job.id) == found


def test_two_jobs_of_a_name_that_only_one_can_have_are_told(say: Say) -> None:
    say(squeue=said(queued(7) + queued(8, "PENDING")))
    error = caught(lambda: SlurmLauncher({}).find(UNIQUE, since_s=1000.0))
    assert type(error) is SubmissionError
    assert error.fact == wording("jobs of a name", count=2, name="gsw-a")
    assert error.advice == "scancel -Q -- 7 8"


# -- a controller that is out of reach ----------------------------------------------------


@pytest.mark.parametrize(
    "stderr",
    [
        f"{FAILED}Unable to contact slurm controller (connect failure)\n",
        f"{FAILED}Socket timed out on send/recv operation\n",
        f"{FAILED}Zero Bytes were transmitted or received\n",
        f"{FAILED}Slurm temporarily unable to accept job, sleeping and retrying\n",
        f"{FAILED}Resource temporarily unavailable\n",
        "sbatch: error: slurm_persist_conn_open_without_init: failed to open: Connection refused\n",
        f"{FAILED}Connection reset by peer\n",
        "sbatch: error: Slurm backup controller in standby mode\n",
        "sbatch: error: Slurm controller not responding, sleeping and retrying\n",
    ],
)
def test_a_controller_that_is_out_of_reach_is_asked_again(say: Say, stderr: str) -> None:
    say(sbatch=Output(1, "", stderr), squeue=NOTHING, sacct=NOTHING)
    error = submission_error()
    assert type(error) is SchedulerUnreachableError
    assert (
        error.fact == f"sbatch refused the job: {stderr.strip().removeprefix('sbatch: error: ').split('failed: ')[-1]}"
    )


def test_an_sbatch_that_hangs_says_so(say: Say) -> None:
    say(sbatch=HANGING, squeue=NOTHING, sacct=NOTHING)
    assert submission_error().fact == wording("no answer", command="sbatch", time="120 s")


@pytest.mark.parametrize("squeue", [DOWN, Output(124, "", "squeue gave no answer within 45 s", timed_out=True)])
def test_no_word_of_a_job_is_not_the_word_that_there_is_none(say: Say, squeue: Output) -> None:
    say(squeue=squeue, sacct=NOTHING)
    error = caught(lambda: SlurmLauncher({}).find(SPEC, since_s=1000.0))
    assert type(error) is SchedulerUnreachableError
    assert error.fact == wording("submission unknown", row="row", why=f"squeue: {squeue.problem}")
    assert dict(error.evidence)["command"].endswith(" --name=gsw-a")
    assert error.advice == wording("next scontrol", name="gsw-a")


def test_a_queue_without_the_job_is_the_word_that_there_is_none(say: Say) -> None:
    for sacct in (NOTHING, NO_ACCOUNTING):
        say(squeue=NOTHING, sacct=sacct)
        assert SlurmLauncher({}).find(SPEC, since_s=1000.0) is None


def test_ctrl_c_amid_a_submission_to_a_controller_that_is_out_of_reach(say: Say) -> None:
    commands = say(sbatch=KeyboardInterrupt(), squeue=DOWN)
    with pytest.raises(KeyboardInterrupt):
        SlurmLauncher({}).submit(SPEC)
    assert names(commands) == ["sbatch", "squeue"]


@pytest.mark.parametrize(
    ("spec", "state", "reason"),
    [
        (UNIQUE, JobState.RUNNING, ""),
        (SPEC, JobState.UNKNOWN, "job 1 is another one: it was submitted 900 s before ours"),
    ],
)
def test_when_a_job_was_submitted_is_asked_only_where_its_name_does_not_tell(
    say: Say, spec: JobSpec, state: JobState, reason: str
) -> None:
    say(squeue=said(queued(1, at=100)), sacct=NOTHING, scontrol=DOWN)
    status = poll(dataclasses.replace(JOB, spec=spec))
    assert (status.state, status.reason) == (state, reason)


def test_ctrl_c_amid_a_submission_leaves_no_job(say: Say) -> None:
    commands = say(sbatch=KeyboardInterrupt(), squeue=FOUND, scancel=NOTHING)
    with pytest.raises(KeyboardInterrupt):
        SlurmLauncher({}).submit(SPEC)
    assert commands[-1] == ("scancel", "-Q", "--", "7")


def test_cancel_that_fails_says_what_to_type(say: Say) -> None:
    failure = "scancel: error: Kill job error on job id 1: Unable to contact slurm controller (connect failure)\n"
    commands = say(scancel=Output(8, "", failure), squeue=said(queued(1) + queued(2)))
    with pytest.raises(JobError) as failed:
        SlurmLauncher({}).cancel([job_of(1), job_of(2)])
    assert str(failed.value) == (
        "jobs may still run: scancel failed: "
        "Kill job error on job id 1: Unable to contact slurm controller (connect failure)\n"
        "\n"
        "next       scancel -Q -- 1 2"
    )
    assert names(commands) == ["squeue", "scancel"]


@pytest.mark.parametrize(
    ("answer", "switches"),
    [
        (said(TREE), {"switch s1": "n[1-4]", "switch s2": "n[5-8]", "switch other": "m[1-8]"}),
        (said(BLOCKS), {"block b1": "n[1-4]", "block b2": "n[5-8]"}),
        (NOTHING, {}),
        (DOWN, None),
    ],
)
def test_the_nodes_of_switches(say: Say, answer: Output, switches: Mapping[str, str] | None) -> None:
    commands = say(scontrol=answer)
    assert SlurmLauncher().switches(dataclasses.replace(SPEC, options=("--clusters=east",))) == switches
    assert commands[0] == ("scontrol", "--clusters=east", "-a", "-o", "show", "topology")


@pytest.mark.parametrize(
    ("answer", "version"),
    [
        (said("slurm 22.05.8\n"), "22.05.8"),
        (said("slurm-wlm 24.11.0-0rc1\n"), "24.11.0-0rc1"),
        (said("site wrapper of 2019\nslurm 23.02.7\n"), "23.02.7"),
        (said("7\n"), ""),
        (said("slurm x\n"), ""),
        (DOWN, ""),
        (Output(124, "", "sbatch gave no answer within 5 s", timed_out=True), ""),
        (FileNotFoundError(2, "No such file or directory"), ""),
    ],
)
def test_the_version_is_asked_for_once(say: Say, answer: Output | BaseException, version: str) -> None:
    commands = say(sbatch=answer)
    launcher = SlurmLauncher({})
    assert (launcher.version, launcher.version) == (version, version)
    assert commands == [("sbatch", "--version")]


@pytest.mark.parametrize(("version", "segment"), [("slurm-wlm 22.05.8", ()), ("slurm 24.05.1", ("--segment=8",))])
def test_a_segment_is_asked_for_where_slurm_knows_it(say: Say, version: str, segment: tuple[str, ...]) -> None:
    commands = say(sbatch=said(f"{version}\n"))
    laid_out = dataclasses.replace(SPEC, launch=launch("configured-sbatch"), environment={"GPU_TYPE": "gb200"}, nodes=8)
    launcher = SlurmLauncher({})
    own = {tuple(word for word in launcher.command(laid_out) if "segment" in word) for _ in range(2)}
    assert own == {segment}
    assert commands == [("sbatch", "--version")]


def test_slurms_version_is_not_asked_for_without_need(say: Say) -> None:
    commands = say(sbatch=said("slurm 22.05.8\n"))
    SlurmLauncher({}).command(SPEC)
    assert commands == []


def test_nodes_to_avoid_are_excluded_with_those_that_must_be(say: Say) -> None:
    spec = dataclasses.replace(SPEC, options=("--exclude=n1",), excluded_nodes=("n2",), avoided_nodes=("n[3-4]",))
    assert "--exclude=n1,n2,n[3-4]" in SlurmLauncher({}).command(spec)


def find_of_script(
    say: Say, tmp_path: Path, own: str, others: str | None = None, scontrol: Output = NOTHING, **changes: Any
) -> tuple[Callable[[], Job | None], Commands]:
    """A search for the job of a script that names job 7, where squeue lists these jobs of the user, and these of all users."""
    (tmp_path / "gsw-a.launch").write_text("Task 0: x\n- Job id: 7\n- Local Directory: /d\n")
    listed = own if others is None else others
    commands = say(
        squeue=lambda command: said(own if "--me" in command else listed),
        sacct=NOTHING,
        scontrol=scontrol,
        scancel=NOTHING,
    )
    spec = dataclasses.replace(SPEC, launch=launch("nemo-run"), **changes)
    launcher = SlurmLauncher({}, work_directory=tmp_path)
    return lambda: launcher.find(spec, 1000.0), commands


def test_the_job_that_a_script_names_is_taken(say: Say, tmp_path: Path) -> None:
    find, _ = find_of_script(say, tmp_path, queued(7, name="of-its-own", at=995))
    found = find()
    assert found is not None
    assert found.id == "7"


def test_the_place_of_a_job_that_no_script_prints_is_known_after_slurm_has_purged_it(say: Say, tmp_path: Path) -> None:
    script = tmp_path / "launch.sh"
    script.write_text("#!/bin/sh\necho 'SUBMITTED: tiny jobid=7'\n")
    script.chmod(0o755)
    spec = dataclasses.replace(SPEC, launch=launch("nemo-run"), script=script, directory=tmp_path)
    known = {"squeue": said(queued(7, name="tiny", at=int(time.time()))), "sacct": NOTHING}
    say(**known, scontrol=said(f"JobId=7 JobName=tiny JobState=PENDING StdOut={tmp_path}/place/slurm-7.out\n"))
    launcher = SlurmLauncher({}, work_directory=tmp_path)
    job = launcher.submit(spec)
    say(squeue=PURGED, sacct=NOTHING, scontrol=Output(1, "", "slurm_load_jobs error: Invalid job id specified\n"))
    (tmp_path / "place").mkdir()
    log = tmp_path / "place" / "slurm-7.out"
    log.touch()
    assert launcher.batch_output(job) == log


@pytest.mark.parametrize(
    ("own", "others", "why"),
    [
        (queued(7, name="of-its-own", at=600), None, "is older than this run of the script"),
        ("", queued(7, name="of-its-own"), "is another user's"),
        (queued(7, name="gsw-r1-other"), "", "is another row's"),
        (queued(7, name="again2.gsw-r1-other"), "", "is another row's"),
    ],
)
def test_a_job_that_is_not_the_scripts_own_is_not_taken(
    say: Say, tmp_path: Path, own: str, others: str | None, why: str
) -> None:
    find, _ = find_of_script(say, tmp_path, own, others)
    error = caught(find)
    assert (type(error), error.fact) == (SubmissionError, f"launch.sh names job 7, which {why}")


def submitted(number: int, session_id: int, at: int = 1001) -> str:
    """What scontrol says of a job that a process session submitted then."""
    return f"JobId={number} JobState=RUNNING SubmitTime={at} AllocNode:Sid=login1:{session_id}\n"


@pytest.mark.parametrize(
    ("named", "told", "says", "ended"),
    [
        ("", "", "", []),
        (queued(7, name="mine", at=1001), submitted(7, 30) + submitted(8, 31), "", []),
        (queued(7, name="mine", at=900), submitted(7, 31, at=900) + submitted(8, 31), "", []),
        (queued(7, name="mine", at=1001), submitted(7, 31), "", []),
        (queued(7, name="mine", at=1001), "JobId=7 SubmitTime=1001\nJobId=8 SubmitTime=1001\n", "", []),
        (queued(7, name="mine", at=1001), submitted(7, 31) + submitted(8, 31), "; cancelled: 7", ["7"]),
    ],
    ids=["nobody's", "the user's", "older", "unknown", "both unknown", "the script's"],
)
def test_a_job_of_the_rows_own_name_is_the_rows(
    say: Say, tmp_path: Path, named: str, told: str, says: str, ended: list[str]
) -> None:
    """Whatever other job its script names; that is ended only if the script submitted both."""
    listed = named + queued(8, at=1001)
    find, commands = find_of_script(say, tmp_path, listed, scontrol=said(told), unique_name=True)
    error = caught(find)
    assert type(error) is SubmissionError
    assert error.fact == wording("job of another name", script="launch.sh", job=7, others=8) + f"{says}"
    assert [command[-1] for command in commands if command[0] == "scancel"] == ended


def test_where_slurm_does_not_answer_its_words_are_told_without_secrets(say: Say, tmp_path: Path) -> None:
    say(squeue=Output(1, "", "squeue: error: proxy refused not-for-others-9\n"))
    spec = dataclasses.replace(SPEC, environment={"HF_TOKEN": "not-for-others-9"})
    error = caught(lambda: SlurmLauncher({}, work_directory=tmp_path).find(spec, 1000.0))
    assert type(error) is SchedulerUnreachableError
    assert error.fact == "whether row was submitted is not known: squeue: proxy refused ***"


def error_of_script(directory: Path, body: str) -> RunError:
    """The error of a launch script that knows a secret, and submits nothing, as a Slurm without jobs tells."""
    for name in ("squeue", "sacct"):
        (directory / name).write_text("#!/bin/sh\n")
        (directory / name).chmod(0o755)
    script = directory / "launch.sh"
    script.write_text(f"#!/bin/bash\n{body}\n")
    script.chmod(0o755)
    secret = {"HF_TOKEN": "not-for-others-9"}
    spec = dataclasses.replace(SPEC, script=script, directory=directory, launch=launch("nemo-run"), environment=secret)
    launcher = SlurmLauncher({"PATH": f"{directory}:{os.environ['PATH']}"}, work_directory=directory / "said")
    return caught(lambda: launcher.submit(spec))


def test_what_a_launch_script_says_is_told_without_the_clusters_secrets_and_not_at_any_length(tmp_path: Path) -> None:
    error = error_of_script(tmp_path, 'echo "it is $HF_TOKEN"\nhead -c 100000 /dev/zero | tr "\\0" x\nexit 3')
    assert error.tail[0] == "it is ***"
    assert len(error.tail[1]) == 400
    kept = {path.name: path.stat().st_mode & 0o777 for path in (tmp_path / "said").iterdir()}
    assert set(kept.values()) == {0o600}
    assert len(kept) == 2


@pytest.mark.parametrize(
    ("lines", "advice"),
    [
        (
            ("QOSMaxWallDurationPerJobLimit", "Job violates accounting/QOS policy (job submit limit, …)"),
            "timeout: ",
        ),
        (("AssocMaxWallDurationPerJobLimit", "Job violates accounting/QOS policy (…)"), "timeout: "),
        (("QOSMaxGRESPerUser", "Job violates accounting/QOS policy (…)"), "--qos=NAME under `sbatch`"),
        (("AssocMaxNodePerJobLimit", "Job violates accounting/QOS policy (…)"), "--qos=NAME under `sbatch`"),
        (("Invalid qos specification",), "sacctmgr show assoc user=$USER format=account,qos"),
        (("AssocMaxSubmitJobLimit", "Job violates accounting/QOS policy (…)"), "sacctmgr show qos; squeue --me"),
    ],
)
def test_a_limit_of_account_or_qos_is_told_with_what_to_do(lines: tuple[str, ...], advice: str) -> None:
    said = "".join(f"sbatch: error: {line}\n" for line in lines)
    assert advice in refusal(RefusedError, SPEC, ("sbatch",), Output(1, "", said)).advice


def test_what_sbatch_says_is_told_without_the_clusters_secrets() -> None:
    spec = dataclasses.replace(SPEC, environment={"HF_TOKEN": "not-for-others-9"})
    answer = Output(1, "", "sbatch: with not-for-others-9\nsbatch: error: no not-for-others-9 here\n")
    error = refusal(SubmissionError, spec, ("sbatch",), answer)
    assert error.fact == wording("refused", why="no *** here")
    assert error.tail == ("sbatch: with ***", "sbatch: error: no *** here")


@pytest.mark.parametrize(
    ("said", "fact"),
    [
        ("echo Error: first; echo 'Error: MODEL_SIZE is not-for-others-9'; echo bye", ": MODEL_SIZE is ***"),
        ("echo 'ERROR: no such size' >&2; echo Traceback >&2", ": no such size"),
        ("echo 'ERROR [main] no such size'", ": ERROR [main] no such size"),
        ("echo ' an Error: of others'", ""),
        ("echo 'Error: job not submitted'; echo 'sbatch: error: Invalid qos' >&2", ": Invalid qos"),
    ],
)
def test_a_launch_script_that_refuses_is_quoted_with_its_own_reason(tmp_path: Path, said: str, fact: str) -> None:
    error = error_of_script(tmp_path, f"{said}\nexit 1")
    assert error.fact.endswith(wording("submitted nothing", code=f"1{fact}"))


TASKS = """\
Experiment Status for own_1764
Task 0: import
- Job id: 11
- Local Directory: {home}/import
Task 1: own
- Job id: 12
- Local Directory: {home}/own
"""


def waiting(job_id: int, state: str, code: str = "", reason: str = "None") -> str:
    """A line of squeue; both jobs have the row's name, by SBATCH_JOB_NAME."""
    nodes = "" if state == "PENDING" else "n1"
    return f"{job_id}|{state}|{code}|{reason}|{nodes}|1000|N/A|N/A|gsw-a\n"


FIRST, NEVER = waiting(11, "RUNNING"), waiting(12, "PENDING", reason="DependencyNeverSatisfied")


def chained(
    say: Say, tmp_path: Path, first: str = FIRST, second: str = waiting(12, "PENDING", reason="Dependency")
) -> tuple[SlurmLauncher, Job, Commands]:
    """A launcher, a job that waits for another one, and the commands that are run; what squeue says of both."""
    (tmp_path / "gsw-a.launch").write_text(TASKS.format(home=tmp_path))
    lines = {"11": first, "12": second}

    def squeue(command: tuple[str, ...]) -> Output:
        return said("".join(lines[job_id] for job_id in (command[-1].split(",") if "-j" in command else lines)))

    commands = say(squeue=squeue, sacct=NO_ACCOUNTING, scontrol=NOTHING, scancel=NOTHING)
    spec = dataclasses.replace(UNIQUE, launch=launch("nemo-run"))
    return SlurmLauncher({}, work_directory=tmp_path), Job("12", spec, 1000.0), commands


def test_a_job_ends_with_those_that_it_waits_for(say: Say, tmp_path: Path) -> None:
    launcher, job, commands = chained(say, tmp_path)
    launcher.cancel([job])
    assert [command[-2:] for command in commands if command[0] == "scancel"] == [("12", "11")]


def test_another_rows_job_does_not_end_with_the_job_of_a_script_that_names_it(say: Say, tmp_path: Path) -> None:
    launcher, job, commands = chained(say, tmp_path, FIRST.replace("gsw-a", "gsw-b"))
    launcher.cancel([job])
    assert [command[-1] for command in commands if command[0] == "scancel"] == ["12"]


def test_a_job_that_another_one_waits_for_is_not_the_rows_own(say: Say, tmp_path: Path) -> None:
    launcher, job, _ = chained(say, tmp_path)
    assert [one.id for one in launcher.named([job.spec], 1000.0)] == ["12"]
    by_sbatch = dataclasses.replace(job.spec, launch=SBATCH, row_id="b", name="gsw-b")
    assert [one.id for one in launcher.named([by_sbatch, job.spec], 1000.0)] == ["12"]
    (tmp_path / "gsw-a.launch").unlink()
    assert [one.id for one in launcher.named([job.spec], 1000.0)] == ["11", "12"]


@pytest.mark.parametrize(
    ("before", "then", "counted"),
    [
        ("COMPLETED", "COMPLETED", ["12"]),
        ("RUNNING", "COMPLETED", ["11", "12"]),
        ("RUNNING", "FAILED", ["11", "12"]),
        ("FAILED", "COMPLETED", ["11", "12"]),
        ("FAILED", "PENDING", ["12"]),
        ("FAILED", "CANCELLED", ["12"]),
    ],
)
def test_a_job_that_was_not_waited_for_is_counted(
    say: Say, tmp_path: Path, before: str, then: str, counted: list[str]
) -> None:
    launcher, job, _ = chained(say, tmp_path, waiting(11, before, "0", ""), waiting(12, then, "0", ""))
    assert [one.id for one in launcher.named([job.spec], 1000.0)] == counted


@pytest.mark.parametrize("log", ["log-own_11_0.out", "sbatch_own_11.out"])
def test_a_job_whose_import_has_failed_never_starts(say: Say, tmp_path: Path, log: str) -> None:
    launcher, job, _ = chained(say, tmp_path, waiting(11, "FAILED", "768", "NonZeroExitCode"), NEVER)
    (tmp_path / "import").mkdir()
    (tmp_path / "import" / log).touch()
    status = launcher.poll([job])["row"]
    assert status.state is JobState.PENDING
    assert status.reason == wording("dependency", job=11, code=f"3:0: look at {tmp_path}/import/{log}")
    assert status.failed_first == FailedJob("11", JobState.FAILED, 3, 0, f"{tmp_path}/import/{log}")


def test_a_job_that_waits_for_one_of_somebody_elses_never_starts_either(say: Say, tmp_path: Path) -> None:
    launcher, job, _ = chained(say, tmp_path, second=NEVER)
    (tmp_path / "gsw-a.launch").unlink()
    assert launcher.poll([job])["row"].reason == "DependencyNeverSatisfied"


@pytest.mark.parametrize(
    ("state", "reason", "found"),
    [
        (
            "drained|batch*||NHC: ib0 down",
            "ReqNodeNotAvail, UnavailableNodes:n7",
            "NodeLost: n7 (drained: NHC: ib0 down)",
        ),
        ("idle*|batch*||none", "ReqNodeNotAvail, UnavailableNodes:n7", ""),  # it has just been resumed
        ("down*|batch*||fan", "ReqNodeNotAvail, UnavailableNodes:n7", "NodeLost: n7 (down: fan)"),
        ("completing|batch*||none", "ReqNodeNotAvail, UnavailableNodes:n7", ""),  # of the job before it
        ("reserved|batch*||none", "ReqNodeNotAvail, May be reserved for other job", ""),
        ("idle|batch*||none", "ReqNodeNotAvail, UnavailableNodes:n8", ""),  # n8 is not of the tile
        ("drained|batch*||x", "Resources", ""),
    ],
)
def test_a_job_on_a_tile_is_lost_with_its_node_alone(say: Say, state: str, reason: str, found: str) -> None:
    nodes = f"n7|{state}\nn8|drained|batch*||x\n"
    say(squeue=said(waiting(12, "PENDING", reason=reason)), sinfo=said(nodes), sacct=NO_ACCOUNTING)
    job = Job("12", dataclasses.replace(UNIQUE, node_list="n7"), 1000.0)
    assert SlurmLauncher({}).poll([job])["row"].reason == (found or reason)


@pytest.mark.parametrize(
    ("state", "step", "nodes", "reason"),
    [
        ("CANCELLED by 0", "", "drained|batch*||Prolog error", "NodeLost: n1 (drained: Prolog error)"),
        ("CANCELLED by 0", "1.0|RUNNING|0:0|0:0|None|n1|1000|1001|1002|bash\n", "drained|batch*||x", ""),
        ("CANCELLED by 0", "", "idle|batch*||none", ""),
        ("NODE_FAIL", "", "down*|batch*||Not responding", "NodeLost: n1 (down: Not responding)"),
        ("FAILED", "", "drained|batch*||x", ""),
    ],
)
def test_a_job_without_steps_ended_with_its_node(say: Say, state: str, step: str, nodes: str, reason: str) -> None:
    say(squeue=said(""), sacct=said(recorded(1, state, "0:0") + step), sinfo=said(f"n1|{nodes}\n"))
    assert poll().reason == reason


@pytest.mark.parametrize(
    ("starts", "reason"),
    [
        ("1|REQUEUED|0:0|None|n1|1000|1001|1001|gsw-a\n", "launch failed requeued held: n1 (drained: Prolog error)"),
        ("", "launch failed requeued held"),
    ],
)
def test_a_job_that_was_not_launched_is_held_for_its_node(say: Say, starts: str, reason: str) -> None:
    held = queued(1, "PENDING", reason="launch failed requeued held").replace("|n1|", "||")
    say(squeue=said(held), sacct=said(starts), sinfo=said("n1|drained|batch*||Prolog error\n"))
    assert (poll().state, poll().reason) == (JobState.PENDING, reason)
