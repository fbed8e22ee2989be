"""What Slurm is asked before anything is submitted, and what is certain by its answers."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from pathlib import Path

import pytest

from pytest_gsw.jobs.model import JobSpec
from pytest_gsw.jobs.slurm.client import Output
from pytest_gsw.jobs.slurm.launcher import parse_partitions, unready
from tests.unit.nvidia.started import launch

#: As Slurm 22.05 tells, on one line each.
BATCH = (
    "PartitionName=batch AllowGroups=ALL AllowAccounts=ALL AllowQos=ALL AllocNodes=ALL Default=YES QoS=N/A "
    "DefaultTime=NONE DisableRootJobs=NO ExclusiveUser=NO GraceTime=0 Hidden=NO MaxNodes=UNLIMITED MaxTime=UNLIMITED "
    "MinNodes=0 LLN=NO MaxCPUsPerNode=UNLIMITED Nodes=n[001-004] PriorityJobFactor=1 PriorityTier=10 RootOnly=NO "
    "ReqResv=NO OverSubscribe=NO OverTimeLimit=NONE PreemptMode=OFF State=UP TotalCPUs=64 TotalNodes=4 "
    "SelectTypeParameters=NONE JobDefaults=(null) DefMemPerNode=UNLIMITED MaxMemPerNode=UNLIMITED "
    "TRES=cpu=64,mem=250G,node=4,billing=64,gres/gpu=32"
)
SMALL = BATCH.replace("batch", "small").replace("=YES", "=NO").replace("MaxTime=UNLIMITED", "MaxTime=00:10:00")
SMALL = SMALL.replace("MaxNodes=UNLIMITED", "MaxNodes=2")
LARGE = BATCH.replace("batch", "large").replace("=YES", "=NO").replace("MinNodes=0", "MinNodes=3")
NO_PLUGINS = "Configuration data as of now\nCliFilterPlugins        = (null)\nJobSubmitPlugins        = (null)\n"


class Slurm:
    """Answers as Slurm does, and remembers what it was asked."""

    def __init__(self, config: str = NO_PLUGINS, qos: Output | None = None, returncode: int = 0) -> None:
        self.asked: list[str] = []
        self._answers = {
            "partition": Output(returncode, f"{BATCH}\n{SMALL}\n{LARGE}\n\n", ""),
            "config": Output(0, config, ""),
            "qos": qos or Output(0, "normal|\nhigh|DenyOnLimit\n", ""),
        }

    def __call__(self, command: tuple[str, ...], *, given: str | None = None) -> Output:
        self.asked.append(" ".join(command))
        return next(answer for word, answer in self._answers.items() if word in command)


@pytest.fixture(autouse=True)
def _sbatch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "sbatch").write_text("#!/bin/bash\n")
    (tmp_path / "sbatch").chmod(0o755)


def spec(tmp_path: Path, *options: str, nodes: int = 1, script: str = "", limit_s: float | None = None) -> JobSpec:
    launch = tmp_path / "launch.sh"
    launch.write_text(f"#!/bin/bash\n{script}\n")
    return JobSpec(
        *("row", "row", launch, tmp_path, tmp_path / "stage", nodes, 8 * nodes),
        {"PATH": str(tmp_path)},
        options=options,
        time_limit_s=limit_s,
    )


def told(slurm: Slurm, *specs: JobSpec, **environ: str) -> str:
    found = unready(specs, slurm, environ)
    return str(found["row"]) if found else ""


@pytest.mark.parametrize(
    ("options", "nodes", "limit_s", "fact"),
    [
        ((), 5, None, "the row needs 5 nodes, and the partition batch has 4"),
        (("--partition=small",), 3, None, "the row needs 3 nodes, and the partition small allows no more than 2"),
        (("-p", "large"), 1, None, "the row needs 1 node, and the partition large takes jobs of 3 or more"),
        (("-psmall",), 1, 1800.0, "the job asks for 30m00s, and the partition small allows 10m00s"),
        (("--part", "smal"), 1, None, "there is no partition smal; did you mean 'small'?"),
    ],
)
def test_a_job_that_would_wait_for_ever(
    tmp_path: Path, options: Sequence[str], nodes: int, limit_s: float | None, fact: str
) -> None:
    message = told(Slurm(), spec(tmp_path, *options, nodes=nodes, limit_s=limit_s))
    assert message.startswith(f"{fact}\n\nasked      scontrol -a -o show partition\nnext       ")
    assert (
        limit_s is None
        or "\nnext       timeout: 10 at the cluster asks for no more; or name another partition" in message
    )


def test_gpus_count_where_they_are_asked_for_by_name(tmp_path: Path) -> None:
    half = Slurm()
    half._answers["partition"] = Output(0, BATCH.replace("gres/gpu=32", "gres/gpu=16"), "")
    assert told(half, spec(tmp_path, nodes=4)) == ""
    assert told(half, spec(tmp_path, "--gres=gpu:8", nodes=4)).startswith(
        "the row needs 32 GPUs, and the partition batch has 16\n"
    )


def test_what_fits_costs_one_question_for_all_rows(tmp_path: Path) -> None:
    slurm = Slurm()
    rows = [spec(tmp_path, "--partition=small", limit_s=600.0), spec(tmp_path, nodes=4, limit_s=1e6)] * 250
    assert told(slurm, *rows) == ""
    assert slurm.asked == ["scontrol -a -o show partition"]


def test_of_several_partitions_one_is_enough(tmp_path: Path) -> None:
    assert told(Slurm(), spec(tmp_path, "--partition=small,batch", nodes=3)) == ""
    assert "the partition small allows no more than 2" in told(Slurm(), spec(tmp_path, "-p", "small,nowhere", nodes=3))


def test_options_count_before_the_environment_and_that_before_the_script(tmp_path: Path) -> None:
    script = "#SBATCH --partition=small --time=1:00:00"
    assert "allows 10m00s" in told(Slurm(), spec(tmp_path, script=script))
    assert told(Slurm(), spec(tmp_path, script=script), SBATCH_TIMELIMIT="10") == ""
    assert told(Slurm(), spec(tmp_path, script=script), SBATCH_PARTITION="batch") == ""
    assert told(Slurm(), spec(tmp_path, "-t", "9:59", script=script), SBATCH_TIMELIMIT="30") == ""
    assert "allows 10m00s" in told(Slurm(), spec(tmp_path, script="#SBATCH -Qpsmall --time 1:00:00"))
    assert told(Slurm(), spec(tmp_path, script=f"{script} --time-min=5")) == ""


@pytest.mark.parametrize(
    "slurm",
    [
        Slurm(returncode=1),
        Slurm(config=NO_PLUGINS.replace("JobSubmitPlugins        = (null)", "JobSubmitPlugins        = lua,throttle")),
        Slurm(config="slurm_load_ctl_conf error"),
        Slurm(qos=Output(0, "normal|\nlong|PartitionMaxNodes,PartitionTimeLimit\n", "")),
        Slurm(qos=Output(1, "", "sacctmgr: error: Problem talking to the database")),
    ],
    ids=["away", "job_submit.lua", "config not told", "a QOS over limits", "slurmdbd away"],
)
def test_what_is_not_certain_is_not_told(tmp_path: Path, slurm: Slurm) -> None:
    assert told(slurm, spec(tmp_path, "--partition=small", nodes=3)) == ""


def test_without_accounting_there_is_no_qos(tmp_path: Path) -> None:
    none = Output(
        1, "", "You are not running a supported accounting_storage plugin\nOnly 'accounting_storage/slurmdbd'"
    )
    assert "allows no more than 2" in told(Slurm(qos=none), spec(tmp_path, "--partition=small", nodes=3))


def test_no_qos_makes_a_partition_larger(tmp_path: Path) -> None:
    slurm = Slurm(qos=Output(0, "long|PartitionMaxNodes\n", ""))
    assert "the partition small has 4" in told(slurm, spec(tmp_path, "--partition=small", nodes=5))
    assert told(slurm, spec(tmp_path, "--partition=small", nodes=3)) == ""


def test_a_named_cluster_is_asked_by_its_name(tmp_path: Path) -> None:
    slurm = Slurm()
    assert told(slurm, spec(tmp_path, "--clusters=eos"), spec(tmp_path, "--clusters=eos", "-Q")) == ""
    assert slurm.asked == ["scontrol --clusters=eos -a -o show partition"]


def test_sbatch_that_is_not_there(tmp_path: Path) -> None:
    slurm, there = Slurm(), spec(tmp_path)
    (tmp_path / "sbatch").unlink()
    assert told(slurm, there) == (
        "sbatch is not on the PATH\n\n"
        f"PATH       {tmp_path}\n"
        "next       run pytest on a login node of the cluster, where Slurm's commands are; or: module load slurm"
    )
    assert slurm.asked == []


def test_what_a_partition_does_not_tell_has_no_limit() -> None:
    (bare,) = parse_partitions("PartitionName=bare TotalNodes=0 MaxNodes=x TRES=(null)\nno line\n").values()
    assert (bare.nodes, bare.gpus, bare.most_nodes, bare.longest_s) == (math.inf,) * 4
    assert (bare.least_nodes, bare.is_default) == (0, False)


def test_llmb_run_that_is_not_there(tmp_path: Path) -> None:
    own = dataclasses.replace(spec(tmp_path), launch=launch("llmb-run"))
    assert told(Slurm(), own) == (
        "llmb-run is not on the PATH\n\n"
        f"PATH       {tmp_path}\n"
        "next       name the virtual environment that has llmb-run: VIRTUAL_ENV in `environment` of the cluster"
    )
    program = tmp_path / "venv" / "bin" / "llmb-run"
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/bash\n")
    program.chmod(0o755)
    home = {**own.environment, "VIRTUAL_ENV": f"{tmp_path}/venv"}
    assert told(Slurm(), dataclasses.replace(own, environment=home)) == ""
