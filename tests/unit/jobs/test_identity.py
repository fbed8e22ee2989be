"""One row, one job, one log: ids that are given out again, logs that were there before, submissions of several jobs."""

from __future__ import annotations

import contextlib
import os
import time
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_gsw.errors import JobError, LogError, RefusedError
from pytest_gsw.jobs.layout import FileFacts, check_new, find_log, logs_before, names_before
from pytest_gsw.jobs.model import Job, JobSpec
from pytest_gsw.jobs.scripts import check_one_job
from pytest_gsw.jobs.slurm import client as slurm
from pytest_gsw.jobs.slurm.client import Output
from pytest_gsw.jobs.slurm.launcher import SlurmLauncher
from pytest_gsw.jobs.slurm.poll import RECORD_WAIT_S, SETTLED_S, Poller
from pytest_gsw.jobs.states import JobState, JobStatus
from pytest_gsw.validation.log_identity import is_own
from tests.messages import wording

GLOB = "results/*/bf16/1b/8/log-maxtext_tiny_1b_8_{job_id}.out"
SPEC = JobSpec("a", "gsw-a", Path("/r/launch.sh"), Path("/r"), Path("/s"), 1, 8, {}, log_glob=GLOB, unique_name=True)


def job(row: str = "a", job_id: str = "7", **more: object) -> Job:
    return Job(job_id, replace(SPEC, row_id=row, name=f"gsw-{row}", **more), 1000.0)  # type: ignore[arg-type]


# -- answers by row -------------------------------------------------------------------------------


class Slurm:
    """What each command answers, by its name; what it was asked."""

    def __init__(self, **answers: Output | str) -> None:
        self.answers = answers
        self.commands: list[str] = []
        self.now_s = 0.0
        self.poller = Poller(self, clock=lambda: self.now_s)

    def __call__(self, command: tuple[str, ...], *, given: str | None = None) -> Output:
        self.commands.append(" ".join((command[0], *([given] if given else []))))
        answer = self.answers.get(command[0], DOWN) if command[0] == "scontrol" else self.answers[command[0]]
        return answer if isinstance(answer, Output) else Output(0, answer, "")

    def status(self, at_s: float = 0.0) -> JobStatus:
        """How the job of the row ``a`` stands at a time."""
        self.now_s = at_s
        return self.poller.poll([job()])["a"]


DOWN = Output(1, "", "Problem talking to the database: Connection refused\n")
NO_ACCOUNTING = Output(1, "", "Slurm accounting storage is disabled\n")
QUEUED = "7|COMPLETED|0|None|n1|1000|1001|1005|gsw-a|\n"
RECORDED = "7|COMPLETED|0:0|0:0|None|n1|1000|1001|1005|gsw-a\n"
SHOWN = "JobId=7 JobName=gsw-a JobState=COMPLETED ExitCode=0:0 DerivedExitCode=0:0 SubmitTime=1000 EndTime=1005\n"


def test_of_two_rows_with_one_id_each_is_answered_for_itself() -> None:
    """One row's answer never stands for the other, in whatever order they are asked about."""
    for jobs in ([job("a"), job("b")], [job("b"), job("a")]):
        told = Slurm(squeue=QUEUED, sacct=RECORDED, scontrol=SHOWN).poller.poll(jobs)
        assert told["a"].state is JobState.COMPLETED
        assert (told["b"].state, told["b"].reason) == (
            JobState.UNKNOWN,
            wording("another job", job=7, name='"gsw-a"'),
        )


def test_further_jobs_behind_a_submission_are_told() -> None:
    queued = QUEUED.replace("COMPLETED|0", "RUNNING|0") + "9|FAILED|1792|None|n1|1000|1001|1005|gsw-a|\n"
    assert Slurm(squeue=queued).status().siblings == ("9",)
    recorded = RECORDED + "9|FAILED|7:0|0:0|None|n1|1000|1001|1005|gsw-a\n"
    assert Slurm(squeue="", sacct=recorded).status().siblings == ("9",)


def test_the_record_of_an_ended_job_is_awaited_and_then_slurmctld_is_asked() -> None:
    slurm = Slurm(squeue=QUEUED, sacct="7|RUNNING|0:0|0:0|None|n1|1000|1001|Unknown|gsw-a\n", scontrol=SHOWN)
    waits = slurm.status()
    assert (waits.state, waits.raw_state) == (JobState.RUNNING, "COMPLETING")
    assert slurm.commands == ["squeue", "sacct"]
    ended = slurm.status(RECORD_WAIT_S)
    assert (ended.state, ended.derived_exit_code) == (JobState.COMPLETED, "0:0")
    assert ended.unchecked == (wording("known by the worst", why="sacct: no record yet"))


def test_a_record_with_a_step_that_goes_on_is_awaited() -> None:
    step = "7.0|RUNNING|0:0|||n1|1000|1001|Unknown|train\n"
    slurm = Slurm(squeue=QUEUED, sacct=RECORDED + step)
    assert slurm.status().state is JobState.RUNNING
    slurm.answers["sacct"] = RECORDED + step.replace("RUNNING", "COMPLETED").replace("Unknown", "1004")
    ended = slurm.status()
    assert (ended.state, len(ended.steps or ())) == (JobState.COMPLETED, 1)


#: A step that outlives its script: until its own record is there, sacct gives it the job's state and end.
OPEN = "7.0|COMPLETED|0:0|||n1|1000|1001|1005|train\n7.1|COMPLETED|0:0|||n1|1000|1001|1003|sleep\n"
CLOSED = OPEN.replace("COMPLETED|0:0|||n1|1000|1001|1005", "CANCELLED|0:15|||n1|1000|1001|1006")


def test_a_step_that_has_the_jobs_end_is_believed_once_its_record_has_settled() -> None:
    slurm = Slurm(squeue=QUEUED, sacct=RECORDED + OPEN, scontrol=SHOWN.replace("Code=0:0 S", "Code=0:15 S"))
    assert slurm.status().state is JobState.RUNNING
    slurm.answers["sacct"] = RECORDED + CLOSED
    ended = slurm.status()
    assert (ended.state, [step.raw_state for step in ended.steps or ()]) == (
        JobState.COMPLETED,
        ["CANCELLED", "COMPLETED"],
    )


def test_a_step_that_ended_with_its_job_is_known_at_once_where_no_step_failed_for_slurmctld() -> None:
    slurm = Slurm(squeue=QUEUED, sacct=RECORDED + OPEN, scontrol=SHOWN)
    assert slurm.status().state is JobState.COMPLETED
    assert slurm.commands == ["squeue", "sacct", "scontrol show job 7\n"]


@pytest.mark.parametrize("shown", ["", SHOWN.replace("DerivedExitCode=0:0", "DerivedExitCode=0:15")])
def test_a_step_that_ended_with_its_job_is_waited_for_and_not_for_ever(shown: str) -> None:
    slurm = Slurm(squeue=QUEUED, sacct=RECORDED + OPEN.splitlines(keepends=True)[0], scontrol=shown)
    assert {slurm.status(at_s).state for at_s in (0.0, SETTLED_S - 1)} == {JobState.RUNNING}
    # Another answer begins another wait.
    slurm.answers["sacct"] = RECORDED + OPEN
    assert {slurm.status(at_s).state for at_s in (SETTLED_S, 2 * SETTLED_S - 1)} == {JobState.RUNNING}
    assert slurm.status(2 * SETTLED_S).state is JobState.COMPLETED


def test_where_squeue_does_not_answer_steps_may_still_be_running() -> None:
    """They have KillWait to end, and no COMPLETING says so."""
    slurm = Slurm(squeue=DOWN, sacct=RECORDED + OPEN)
    assert {slurm.status(at_s).state for at_s in (0.0, SETTLED_S)} == {JobState.RUNNING}
    assert slurm.status(RECORD_WAIT_S).state is JobState.COMPLETED


def test_a_record_without_its_end_is_not_whole() -> None:
    """Of a job that ended while slurmdbd was away, the state is there before the end and the last steps."""
    early = RECORDED.replace("|1005|", "|Unknown|") + "7.0|COMPLETED|0:0|||n1|1000|1001|1002|hostname\n"
    slurm = Slurm(squeue=QUEUED, sacct=early, scontrol=SHOWN)
    assert slurm.status().state is JobState.RUNNING
    ended = slurm.status(RECORD_WAIT_S)
    assert (ended.state, ended.steps) == (JobState.COMPLETED, None)
    assert ended.unchecked.endswith("sacct: no record yet")


def test_a_step_is_waited_for_however_long_its_record_was_awaited() -> None:
    slurm = Slurm(squeue=QUEUED, sacct=DOWN, scontrol="")
    assert slurm.status().state is JobState.RUNNING
    slurm.answers["sacct"] = RECORDED + OPEN
    assert slurm.status(RECORD_WAIT_S).state is JobState.RUNNING


def test_accounting_that_does_not_answer_is_asked_again() -> None:
    """slurmctld does not tell a training step that outlives its script from a helper."""
    slurm = Slurm(squeue=QUEUED, sacct=DOWN, scontrol=SHOWN)
    waits = slurm.status()
    assert (waits.state, waits.raw_state) == (JobState.RUNNING, "COMPLETING")
    assert waits.reason == (
        wording("ends unknown yet", why="sacct: " + wording("bad database", why="Connection refused"))
    )
    assert slurm.commands == ["squeue", "sacct"]
    slurm.answers["sacct"] = RECORDED + "7.0|CANCELLED|0:15|||n1|1000|1001|1005|train\n"
    ended = slurm.status()
    assert (ended.state, [step.name for step in ended.steps or ()]) == (JobState.COMPLETED, ["train"])
    slurm.answers["sacct"] = DOWN
    assert slurm.status().state is JobState.RUNNING
    ended = slurm.status(RECORD_WAIT_S)
    assert (ended.state, ended.derived_exit_code) == (JobState.COMPLETED, "0:0")
    assert ended.unchecked.endswith("sacct: " + wording("bad database", why="Connection refused"))


def test_where_nobody_tells_of_steps_the_end_is_not_known() -> None:
    slurm = Slurm(squeue=QUEUED, sacct=DOWN, scontrol=DOWN)
    assert slurm.status().state is JobState.RUNNING
    assert slurm.status(RECORD_WAIT_S).reason == (
        wording("end unknown", why=wording("bad database", why="Connection refused"))
    )


def test_without_accounting_all_ended_jobs_are_asked_about_with_one_process() -> None:
    queued = QUEUED + QUEUED.replace("7|", "8|").replace("gsw-a", "gsw-b")
    shown = SHOWN + "scontrol: show job 8\n" + SHOWN.replace("JobId=7", "scontrol: JobId=8").replace("gsw-a", "gsw-b")
    slurm = Slurm(squeue=queued, sacct=NO_ACCOUNTING, scontrol=shown)
    told = slurm.poller.poll([job("a"), job("b", "8")])
    assert [status.state for status in told.values()] == [JobState.COMPLETED] * 2
    assert slurm.commands == ["squeue", "sacct", "scontrol show job 7\nshow job 8\n"]


def test_a_job_that_failed_is_not_waited_for() -> None:
    slurm = Slurm(squeue=QUEUED.replace("COMPLETED|0", "FAILED|256"), sacct="")
    assert slurm.status().state is JobState.FAILED


# -- cancellation ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "cancelled"), [("gsw-a", ["squeue", "scancel"]), ("somebody", ["squeue"]), ("", ["squeue", "squeue"])]
)
def test_an_id_is_cancelled_only_where_its_job_has_our_name(
    monkeypatch: pytest.MonkeyPatch, name: str, cancelled: list[str]
) -> None:
    commands = []

    def run(command: tuple[str, ...], *_: object, **__: object) -> Output:
        commands.append(command[0])
        line = f"7|RUNNING|0|None|n1|1000|1001|N/A|{name}|\n" if name else ""
        return Output(0, line if command[0] == "squeue" else "", "")

    monkeypatch.setattr(slurm, "_run", run)
    SlurmLauncher({}).cancel([job()])
    assert commands == cancelled


def test_what_nobody_can_name_is_not_cancelled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slurm, "_run", lambda *_, **__: Output(1, "", "slurm_load_jobs error: Unable to contact\n"))
    with pytest.raises(JobError) as told:
        SlurmLauncher({}).cancel([job()])
    assert told.value.fact == "jobs may still run: whose their ids are is not known: squeue: Unable to contact"
    assert told.value.advice == "scancel --me --name=gsw-a"


# -- logs that were there before ------------------------------------------------------------------


@pytest.fixture
def stage(tmp_path: Path) -> Path:
    place = tmp_path / "results" / "24.11" / "bf16" / "1b" / "8"
    place.mkdir(parents=True)
    for name in ("log-maxtext_tiny_1b_8_7.out", "log-maxtext_tiny_1b_8_8.out", "log-maxtext_tiny_1b_88_7.out", "x"):
        (place / name).write_text("old\n")
    return tmp_path


def submitted(stage: Path, job_id: str = "7") -> tuple[Job, Path]:
    """A job with what was noted of its log, and the log."""
    spec = replace(SPEC, stage=stage)
    before = logs_before(spec, job_id, names_before(spec))
    return Job(job_id, spec, time.time(), before), stage / GLOB.replace("*", "24.11").replace("{job_id}", job_id)


@pytest.mark.parametrize("glob", ["log_{job_id}.out", "{job_id}/log_{job_id}.out", "*/{job_id}/log_{job_id}.out"])
def test_a_log_that_was_there_is_known_wherever_it_is(tmp_path: Path, glob: str) -> None:
    log = tmp_path / glob.replace("*", "a").replace("{job_id}", "7")
    log.parent.mkdir(parents=True, exist_ok=True)
    log.write_text("of an older job\n")
    spec = replace(SPEC, stage=tmp_path, log_glob=glob)
    job = Job("7", spec, time.time(), logs_before(spec, "7", names_before(spec)))
    with pytest.raises(LogError, match=wording("older log", job=7)):
        check_new(job, find_log(tmp_path, glob, "7", nccl_trace=False))


@pytest.mark.parametrize("glob", ["", "results/train.log", "runs/{job_id}/train.log"])
def test_a_log_whose_name_has_no_id_is_nobodys(tmp_path: Path, glob: str) -> None:
    log = tmp_path / glob.replace("{job_id}", "7") / "train.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    with pytest.raises(LogError, match="no log of job 7"):
        find_log(tmp_path, glob, "7", nccl_trace=False)


def test_what_is_named_like_a_jobs_log(stage: Path) -> None:
    spec = replace(SPEC, stage=stage)
    log = "results/24.11/bf16/1b/8/log-maxtext_tiny_1b_8_7.out"
    for glob in (GLOB, GLOB.replace("bf16/1b", "**")):
        either = replace(spec, log_glob=glob)
        assert [one.path for one in logs_before(either, "7", names_before(either))] == [log]
        assert logs_before(either, "70", names_before(either)) == ()
    assert names_before(replace(spec, stage=stage / "none")) == frozenset()
    assert names_before(replace(spec, log_glob="")) == frozenset()


def test_a_log_that_was_there_is_not_the_jobs(stage: Path) -> None:
    job, log = submitted(stage)
    with pytest.raises(LogError) as told:
        check_new(job, log)
    assert told.value.fact.startswith(wording("older log", job=7) + wording("last written", time=20))
    with log.open("a") as file:
        file.write("new\n")
    os.utime(log, (2**32, 2**32))  # however new it looks
    with pytest.raises(LogError, match=r"and something has written to it since\n"):
        check_new(job, log)


def test_a_log_that_came_after_is_the_jobs_unless_it_has_the_times_of_another_run(stage: Path) -> None:
    job, log = submitted(stage, "9")
    log.write_text("new\n")
    check_new(job, log)
    never_set = FileFacts(inode=1, mtime_ns=10**9, ctime_ns=10**9)  # of a file server whose clock was never set
    check_new(job, log, facts_of=lambda _: never_set)
    os.utime(log, (job.submitted_s - 1000,) * 2)  # it was moved here, or copied with its times
    with pytest.raises(LogError, match=wording("older log", job=9)):
        check_new(job, log)


@pytest.mark.parametrize(
    ("form", "job_id", "ago_s", "own"),
    [
        ("%Y-%m-%d %H:%M:%S,123 INFO", "9", 0, True),
        ("[%Y-%m-%dT%H:%M:%S]", "9", 0, True),
        ("started at %a %b %d %H:%M:%S UTC %Y", "9", 0, True),
        ("SLURM_JOB_START_TIME=%s", "9", 0, True),
        ("%Y-%m-%d %H:%M:%S", "9", 90_000, False),  # an earlier job with the id
        ("%Y-%m-%d %H:%M:%S", "8", 0, False),
        ("%Y-%m-%d %H:%M:%S", "99", 0, False),
        ("%Y-%m-99 99:99:99", "9", 0, False),
        ("no time", "9", 0, False),
    ],
)
@pytest.mark.parametrize("is_noted", [True, False])
def test_a_log_that_a_server_dates_back_is_the_jobs_by_its_id_and_start(
    stage: Path, form: str, job_id: str, ago_s: int, own: bool, is_noted: bool
) -> None:
    job, log = submitted(stage, "9")
    if not is_noted:
        job = replace(job, logs_before=None)
    start = time.strftime(form, time.localtime(job.submitted_s - ago_s))
    log.write_text(f"GSW: MODEL=tiny DTYPE=bf16 JOB_ID={job_id}\n{start}\n")
    os.utime(log, (job.submitted_s - 1000,) * 2)
    with contextlib.nullcontext() if own else pytest.raises(LogError, match=wording("older log", job=9)):
        check_new(job, log, is_own)


def test_a_log_that_has_taken_an_old_ones_place_is_the_jobs(stage: Path) -> None:
    job, log = submitted(stage)
    fresh = log.with_name("fresh")
    fresh.write_text("new\n")
    fresh.replace(log)
    check_new(job, log)


def test_a_job_of_an_old_journal_is_told_by_its_time(stage: Path) -> None:
    job, log = submitted(stage)
    unnoted = replace(job, logs_before=None)
    check_new(unnoted, log)
    os.utime(log, (job.submitted_s - 1000,) * 2)
    with pytest.raises(LogError):
        check_new(unnoted, log)


# -- submissions of several jobs ------------------------------------------------------------------


@pytest.mark.parametrize("word", ["hetjob", "packjob"])
def test_a_heterogeneous_job_is_refused(tmp_path: Path, word: str) -> None:
    script = tmp_path / "launch.sh"
    script.write_text(f"#!/bin/bash\n\t\n  # said:\n#SBATCH {word}\ntrue\n")
    with pytest.raises(RefusedError) as refused:
        check_one_job(replace(SPEC, script=script))
    assert refused.value.evidence == (("said at", f"{script}:4"),)


@pytest.mark.parametrize("text", ["#SBATCH --comment=hetjob", "true\n#SBATCH hetjob", "# SBATCH hetjob", ""])
def test_any_other_job_is_not(tmp_path: Path, text: str) -> None:
    script = tmp_path / "launch.sh"
    script.write_text(f"#!/bin/bash\n{text}\n")
    check_one_job(replace(SPEC, script=script))
    check_one_job(replace(SPEC, script=tmp_path / "missing.sh"))
