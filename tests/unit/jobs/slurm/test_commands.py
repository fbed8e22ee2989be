from __future__ import annotations

import dataclasses
import os
from pathlib import Path

import pytest

from pytest_gsw.jobs.model import JobSpec
from pytest_gsw.jobs.scripts import cluster_of
from pytest_gsw.jobs.slurm.client import (
    sacct_command,
    sacct_jobs_command,
    sbatch_command,
    scancel_command,
    scontrol_all_command,
    scontrol_command,
    scontrol_requests,
    squeue_command,
)

SPEC = JobSpec(
    row_id="llama2_70b_fp8[H100x64]",
    name="gsw-llama2",
    script=Path("/recipe/launch.sh"),
    directory=Path("/recipe"),
    stage=Path("/stage"),
    nodes=8,
    gpus=64,
    environment={},
    options=("--account=eng", "--partition=batch"),
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
    mine = f"--user={os.getuid()}"
    assert sacct_jobs_command("eos", name="gsw-x", since_s=0.0)[:3] == ("sacct", "--clusters=eos", "-X")
    assert sacct_jobs_command(name="gsw-x", since_s=0.0)[-4:-1] == (mine, "--name=gsw-x", "-S")
    assert sacct_jobs_command(job_id="7")[-3:] == (mine, "-j", "7")
    assert mine not in sacct_jobs_command(job_id="7", mine=False)
    assert sacct_command(["1", "2"]) == (
        *("sacct", "-n", "-P", "-o"),
        "JobIDRaw,State,ExitCode,DerivedExitCode,Reason,NodeList,Submit,Start,End,JobName",
        *("-j", "1,2"),
    )
    assert scontrol_command("1") == ("scontrol", "-a", "-d", "-o", "show", "job", "1")
    assert scontrol_all_command() == ("scontrol", "-a", "-d", "-o")
    assert scontrol_requests(["1", "2"]) == "show job 1\nshow job 2\n"
    assert scancel_command(["1", "2"]) == ("scancel", "-Q", "--", "1", "2")


@pytest.mark.parametrize(
    ("line", "environment", "cluster"),
    [
        ("", {}, ""),
        ("#SBATCH -QMdgx", {}, "dgx"),
        ("#SBATCH --exclusive -M dgx", {}, "dgx"),
        ("#SBATCH -Mdgx", {}, "dgx"),
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
