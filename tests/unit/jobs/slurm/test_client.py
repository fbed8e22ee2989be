"""Slurm's commands, and what they answer."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_gsw.jobs.model import JobSpec
from pytest_gsw.jobs.scripts import cluster_of
from pytest_gsw.jobs.slurm.client import (
    Answer,
    Output,
    parse_ends,
    parse_sacct,
    parse_sbatch,
    parse_scontrol,
    parse_squeue,
    sacct_command,
    sacct_jobs_command,
    sbatch_command,
    scancel_command,
    scancel_problem,
    scontrol_command,
    scontrol_requests,
    squeue_command,
)
from pytest_gsw.jobs.states import JobState, JobStatus, JobStep

OPTIONS = ("--account=eng", "--partition=batch")
SPEC = JobSpec(
    "row", "gsw-llama2", Path("/recipe/launch.sh"), Path("/recipe"), Path("/stage"), 8, 64, {}, options=OPTIONS
)


def test_sbatch() -> None:
    assert sbatch_command(SPEC) == (
        *("sbatch", "--parsable", "-J", "gsw-llama2", "-N", "8", "--no-requeue"),
        *("--account=eng", "--partition=batch", "/recipe/launch.sh"),
    )


def test_the_batch_shells_output_goes_where_it_is_to_unless_the_cluster_has_it_elsewhere() -> None:
    spec = dataclasses.replace(SPEC, batch_output="/stage/slurm-%j.out", options=("--output=/elsewhere",))
    # Of two --output, sbatch takes the last.
    assert sbatch_command(spec)[-3:] == ("--output=/stage/slurm-%j.out", "--output=/elsewhere", "/recipe/launch.sh")


@pytest.mark.parametrize(("time_limit_s", "minutes"), [(1, "1"), (60, "1"), (61, "2"), (3600.5, "61")])
def test_a_time_limit_is_whole_minutes(time_limit_s: float, minutes: str) -> None:
    command = sbatch_command(dataclasses.replace(SPEC, time_limit_s=time_limit_s))
    assert command[-2:] == (f"--time={minutes}", "/recipe/launch.sh")


def test_nodes_to_do_without_come_after_the_clusters_options() -> None:
    spec = dataclasses.replace(SPEC, excluded_nodes=("n17", "n[18-19]"), time_limit_s=60)
    assert sbatch_command(spec)[-5:] == (
        *("--account=eng", "--partition=batch", "--exclude=n17,n[18-19]", "--time=1", "/recipe/launch.sh"),
    )


@pytest.mark.parametrize(
    "own", [("--exclude=n[1-2],n4",), ("-x", "n[1-2],n4"), ("-xn[1-2],n4",), ("--exclud", "n[1-2],n4")]
)
def test_nodes_that_the_clusters_options_exclude_stay_out(own: tuple[str, ...]) -> None:
    # Of two --exclude, sbatch takes the last.
    spec = dataclasses.replace(SPEC, options=own)
    assert sbatch_command(spec)[-len(own) - 1 : -1] == own
    again = dataclasses.replace(spec, excluded_nodes=("n17",))
    assert sbatch_command(again)[-2] == "--exclude=n[1-2],n4,n17"


SQUEUE_FIELDS = "JobID:|,State:|,exit_code:|,Reason:|,NodeList:|,SubmitTime:|,StartTime:|,EndTime:|,Name:|"


def test_queries() -> None:
    squeue = ("-h", "--all", "-t", "all", "-O", SQUEUE_FIELDS)
    assert squeue_command(ids=["1", "2"]) == ("squeue", *squeue, "-j", "1,2")
    assert squeue_command("eos", name="gsw-x", mine=True) == (
        "squeue",
        "--clusters=eos",
        "--me",
        *squeue,
        "--name=gsw-x",
    )
    assert sacct_jobs_command("eos", name="gsw-x", since_s=0.0)[:3] == ("sacct", "--clusters=eos", "-X")
    assert sacct_jobs_command(user_id=7, name="gsw-x", since_s=0.0)[-4:] == (
        "--user=7",
        "--name=gsw-x",
        "-S",
        "1970-01-01T00:00:00",
    )
    assert sacct_jobs_command(user_id=7, job_id="8")[-3:] == ("--user=7", "-j", "8")
    assert not [word for word in sacct_jobs_command(job_id="8") if word.startswith("--user")]
    assert sacct_command(["1", "2"]) == (
        *("sacct", "-n", "-P", "-o"),
        "JobIDRaw,State,ExitCode,DerivedExitCode,Reason,NodeList,Submit,Start,End,JobName",
        *("-j", "1,2"),
    )
    assert scontrol_command() == ("scontrol", "-a", "-d", "-o")
    assert scontrol_requests(["1", "2"]) == "show job 1\nshow job 2\n"
    assert scancel_command(["1", "2"]) == ("scancel", "-Q", "--", "1", "2")


@pytest.mark.parametrize(
    ("line", "environment", "cluster"),
    [
        ("", {}, ""),
        ("#SBATCH --exclusive -QMdgx", {}, "dgx"),
        ("#SBATCH -Meos", {"SBATCH_CLUSTERS": "dgx"}, "dgx"),
        ("", {"SLURM_CLUSTERS": "dgx"}, "dgx"),
    ],
)
def test_questions_follow_a_job_where_its_script_or_a_variable_sends_it(
    tmp_path: Path, line: str, environment: dict[str, str], cluster: str
) -> None:
    script = tmp_path / "launch.sh"
    script.write_text(f"#!/bin/bash\n{line}\ntrue\n#SBATCH -M eos\n")
    assert cluster_of(dataclasses.replace(SPEC, script=script, environment=environment)) == cluster


# -- answers ------------------------------------------------------------------------------------------


SQUEUE = """\
CLUSTER: gsw
1|FAILED|1792|NonZeroExitCode|n001|1795207822|1795207823|1795207825|gsw-a|
2|RUNNING|0|None|n[001-002]|1795207822|1795207823|1826743823|gsw-b|
3|PENDING|0|PartitionNodeLimit||1795207822|N/A|N/A|gsw-c|
4|PENDING|0|Priority||1795207822|1795209999|1795299999|gsw-d|
5|COMPLETING|0|None|n003|1795207822|1795207823|1795207825|gsw-e|
6|VANISHED|0|None|n003|1795207822|1795207823|1795207825|gsw|f|
"""


def test_squeue() -> None:
    at = {"submit_s": 1795207822.0}
    started = {**at, "start_s": 1795207823.0}
    assert parse_squeue(SQUEUE) == {
        "1": Answer(
            "gsw-a",
            JobStatus(JobState.FAILED, "FAILED", 7, 0, "NonZeroExitCode", "n001", **started, end_s=1795207825.0),
        ),
        # %e of a job that runs is when its time is up, and %S of one that waits when it may start.
        "2": Answer("gsw-b", JobStatus(JobState.RUNNING, "RUNNING", nodes="n[001-002]", **started)),
        "3": Answer("gsw-c", JobStatus(JobState.PENDING, "PENDING", reason="PartitionNodeLimit", **at)),
        "4": Answer(
            "gsw-d",
            JobStatus(JobState.PENDING, "PENDING", reason="Priority", expected_start_s=1795209999.0, **at),
        ),
        "5": Answer("gsw-e", JobStatus(JobState.RUNNING, "COMPLETING", nodes="n003", **started)),
        "6": Answer("gsw|f", JobStatus(JobState.UNKNOWN, "VANISHED", nodes="n003", **started)),
    }


@pytest.mark.parametrize(
    ("code", "exit_code", "signal"),
    [
        ("0", 0, 0),
        ("1792", 7, 0),  # as wait(2) tells it
        ("9", 0, 9),
        ("125", 0, 125),  # Slurm's own, of a job that ran out of memory
        ("7:0", 7, 0),
        ("0:9", 0, 9),
        ("", None, 0),
        ("N/A", None, 0),
        ("4294967294", None, 0),
        ("-1", None, 0),
    ],
)
def test_squeue_tells_the_exit_code_of_an_ended_job(code: str, exit_code: int | None, signal: int) -> None:
    (answer,) = parse_squeue(f"1|FAILED|{code}|None|n001|1|2|3|gsw-a|").values()
    assert (answer.status.exit_code, answer.status.signal) == (exit_code, signal)
    (answer,) = parse_squeue(f"1|RUNNING|{code}|None|n001|1|2|3|gsw-a|").values()
    assert (answer.status.exit_code, answer.status.signal) == (None, 0)


SACCT = """\
1|FAILED|7:0|None|n001|1795207822|1795207823|1795207825|gsw-a
2|CANCELLED by 1000|0:15|None|None assigned|1795207822|Unknown|1795207825|gsw-b
3|PENDING|0:0|PartitionNodeLimit|None assigned|1795207822|Unknown|Unknown|gsw-c
4|OUT_OF_MEMORY|0:125|OutOfMemory|n001|1795207822|1795207823|1795207825|gsw|d
"""


def test_sacct() -> None:
    times = {"submit_s": 1795207822.0, "start_s": 1795207823.0, "end_s": 1795207825.0}
    answers = parse_sacct(SACCT)
    assert answers == {
        "1": Answer("gsw-a", JobStatus(JobState.FAILED, "FAILED", 7, 0, "", "n001", **times)),
        "2": Answer(
            "gsw-b",
            JobStatus(JobState.CANCELLED, "CANCELLED by 1000", 0, 15, submit_s=1795207822.0, end_s=1795207825.0),
        ),
        "3": Answer(
            "gsw-c",
            JobStatus(JobState.PENDING, "PENDING", reason="PartitionNodeLimit", submit_s=1795207822.0),
        ),
        "4": Answer(
            "gsw|d", JobStatus(JobState.OUT_OF_MEMORY, "OUT_OF_MEMORY", 0, 125, "OutOfMemory", "n001", **times)
        ),
    }
    assert (answers["1"].status.queue_s, answers["1"].status.run_s) == (1.0, 2.0)


SCONTROL = (
    "JobId=1 JobName=gsw-a UserId=root(0) GroupId=root(0) MCS_label=N/A Priority=4294901759 Nice=0 "
    "Account=(null) QOS=(null) JobState=FAILED Reason=NonZeroExitCode Dependency=(null) Requeue=1 "
    "Restarts=0 BatchFlag=1 Reboot=0 ExitCode=3:0 RunTime=00:00:02 TimeLimit=365-00:00:00 TimeMin=N/A "
    "SubmitTime=1795207822 EligibleTime=1795207822 AccrueTime=1795207822 StartTime=1795207823 "
    "EndTime=1795207825 Deadline=N/A SuspendTime=None Partition=batch ReqNodeList=(null) "
    "ExcNodeList=(null) NodeList=n001 BatchHost=n001 NumNodes=1 TRES=cpu=1,mem=100M,node=1,billing=1 "
    "Comment=JobState=COMPLETED ExitCode=0:0 "
    "Command=(null) WorkDir=/recipe StdErr=/recipe/x-1.out StdIn=/dev/null StdOut=/recipe/x-1.out Power= \n"
)


def test_scontrol() -> None:
    status = JobStatus(
        JobState.FAILED, "FAILED", 3, 0, "NonZeroExitCode", "n001", 1795207822.0, 1795207823.0, 1795207825.0
    )
    assert parse_scontrol(SCONTROL) == {"1": Answer("gsw-a", status, Path("/recipe/x-1.out"))}


def test_scontrol_of_a_job_that_waits() -> None:
    text = "JobId=7 JobName=x JobState=PENDING Reason=Dependency ExitCode=0:0 StartTime=1795207823 EndTime=Unknown"
    waits = JobStatus(JobState.PENDING, "PENDING", reason="Dependency", expected_start_s=1795207823.0)
    assert parse_scontrol(text) == {"7": Answer("x", waits)}


@pytest.mark.parametrize(
    ("text", "job"),
    [
        ("481220\n", ("", "481220")),
        ("481220;eos\n", ("eos", "481220")),
        ("site: you have warnings\n481220\nyour quota of h100x8 is fine\n", ("", "481220")),
        # Which of several numbers is the job nobody can tell; it is looked for by its name.
        ("site: you have 3 warnings\n481220\n", None),
        ("481220\n17\n", None),
        ("17\n481220\n", None),
        ("481220 17\n", None),
        ("481220\nqueue position: 17.\n", None),
        ("481220\n(17)\n", None),
        ("481220\n481220\n", None),
        ("481220;eos\n481221;eos\n", None),
        ("481220\nSubmitted batch job 481221\n", None),
        ("", None),
        ("Submitted batch job\n", None),
        ("-1\n", None),
        ("481220_1\n", None),
        ("٤٨\n", None),
    ],
)
def test_the_id_in_sbatchs_answer(text: str, job: tuple[str, str] | None) -> None:
    assert parse_sbatch(text) == job


@pytest.mark.parametrize(
    ("returncode", "stderr", "problem"),
    [
        (0, "scancel: warning", ""),
        (1, "scancel: error: Kill job error on job id 7: Job/step already completing or completed\n", ""),
        (1, "scancel: error: Kill job error on job id 7: Invalid job id specified\n", ""),
        (8, "scancel: error: Kill job error on job id 7: Access denied\n", "Access denied"),
        (8, "", "exit code 8"),
    ],
)
def test_scancel(returncode: int, stderr: str, problem: str) -> None:
    assert scancel_problem(Output(returncode, "", stderr)).endswith(problem)
    assert bool(scancel_problem(Output(returncode, "", stderr))) == bool(problem)


@pytest.mark.parametrize(
    ("returncode", "stderr", "is_off"),
    [
        (1, "Slurm accounting storage is disabled\n", True),
        (1, "sacct: error: Slurm accounting storage is disabled\nsacct: error: Problem with the connection\n", True),
        (0, "Slurm accounting storage is disabled\n", False),
        (1, "sacct: error: Problem talking to the database: Connection refused\n", False),
    ],
)
def test_a_cluster_without_accounting(returncode: int, stderr: str, is_off: bool) -> None:
    """Whatever Slurm prints behind it."""
    assert Output(returncode, "", stderr).is_accounting_off == is_off


PIECES = st.sampled_from(
    ["|", "\n", "=", " ", "JobId=", "JobState=", "COMPLETED", "1", "0:0", "ExitCode=", "²", "\x85"]
)


@given(st.text() | st.lists(PIECES | st.text(max_size=3)).map("".join))
def test_no_text_makes_a_parser_raise(text: str) -> None:
    for parse in (parse_squeue, parse_sacct, parse_scontrol, parse_ends):
        for job, answer in parse(text).items():
            assert job.isdigit()
            assert not answer.status.state.ended or answer.status.raw_state
    parse_sbatch(text)
    scancel_problem(Output(1, text, text))


@given(st.text(st.characters(exclude_characters="|\n+")))
def test_no_unknown_word_ends_a_job(word: str) -> None:
    known = {"COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "OUT_OF_MEMORY", "NODE_FAIL", "BOOT_FAIL"}
    known |= {"DEADLINE", "PREEMPTED", "REVOKED"}
    if word.upper().strip() not in known and not word.upper().strip().startswith("CANCELLED"):
        for answer in parse_squeue(f"1|{word}||r|n|1|2|3|name").values():
            assert not answer.status.state.ended
        for answer in parse_sacct(f"1|{word}|0:0|r|n|1|2|3|name").values():
            assert (answer.status.state.ended, answer.status.exit_code) == (False, None)


ENDS = """\
1|COMPLETED|0:0|1:0|None|n001|100|101|105|gsw-a
1.batch|COMPLETED|0:0|||n001|101|101|105|batch
1.extern|OUT_OF_MEMORY|0:125|||n001|101|101|105|extern
1.0|FAILED|1:0|||n001|101|102|103|train|x
1.1|CANCELLED by 7|0:9|||n001|101|102|104|sleep
1.2|RUNNING|0:0|||n001|101|102|Unknown|sleep
2|RUNNING|0:0|0:0|None|n002|100|101|Unknown|gsw-b
"""


def test_the_ends_of_jobs_and_their_steps() -> None:
    answers = parse_ends(ENDS)
    assert list(answers) == ["1", "2"]
    assert answers["1"].status.steps == (
        JobStep("0", "train|x", JobState.FAILED, "FAILED", 1, 0, "n001", 102.0, 103.0),
        JobStep("1", "sleep", JobState.CANCELLED, "CANCELLED by 7", 0, 9, "n001", 102.0, 104.0),
        JobStep("2", "sleep", JobState.RUNNING, "RUNNING", None, 0, "n001", 102.0, None),
    )
    assert (answers["1"].job_name, answers["1"].status.derived_exit_code) == ("gsw-a", "1:0")
    assert (answers["2"].status.state, answers["2"].status.steps) == (JobState.RUNNING, ())


@given(st.text(alphabet="|.\n0123456789:ACDEILMOPTN abx", max_size=300))
def test_no_text_of_ends_raises(text: str) -> None:
    for answer in parse_ends(text).values():
        assert answer.status.steps is not None


def test_how_to_read_the_manual_is_no_reason() -> None:
    text = "sbatch: unrecognized option '--segment=2'\nTry \"sbatch --help\" for more information\n\n"
    assert Output(255, "", text).problem == "unrecognized option '--segment=2'"
