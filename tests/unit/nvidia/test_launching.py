"""What says to a recipe that submits its job itself what the command line of sbatch says elsewhere."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from pytest_gsw.clusters.model import Cluster
from pytest_gsw.errors import LogError, RefusedError, SubmissionError
from pytest_gsw.jobs.environment import job_environment
from pytest_gsw.jobs.model import JobSpec
from pytest_gsw.jobs.replay import ReplayLauncher
from pytest_gsw.jobs.slurm.client import sbatch_command
from tests.unit.nvidia.started import started
from tests.unit.rows import LLAMA2_FP8_X128

INSTALL = "/lustre/llmb"


@pytest.fixture
def eos(tmp_path: Path) -> Cluster:
    recipe = tmp_path / "maxtext"
    recipe.mkdir()
    (recipe / "launch.sh").write_text('sbatch "${ADDITIONAL_SLURM_PARAMS:-}"\n')
    return Cluster(
        name="eos",
        scheduler="slurm",
        launcher="nemo-run",
        account="eng",
        gres="gpu:8",
        stage=INSTALL,
        recipes=str(tmp_path),
        sbatch=("--qos=night", "-x", "n1", "--exclusive"),
        environment={"LLMB_INSTALL": INSTALL, "VIRTUAL_ENV": "/lustre/venv"},
    )


def spec(cluster: Cluster) -> JobSpec:
    return started(LLAMA2_FP8_X128, cluster)


def variables(job: JobSpec) -> dict[str, str]:
    return job.launch.variables(job)


def test_a_script_that_submits_its_job(eos: Cluster) -> None:
    job = spec(eos)
    assert job.launch.command(job) == ("./launch.sh",)
    assert variables(job.again(("n2",))) == {
        "SBATCH_ACCOUNT": "eng",
        "ADDITIONAL_SLURM_PARAMS": "gres=gpu:8;qos=night;exclude=n1,n2;exclusive",
        "TIME_LIMIT": "00:30:00",
        "SBATCH_JOB_NAME": "again2.gsw-r1-llama2_70b_fp8-H100x128",
        "COLUMNS": "10000",
    }


def test_a_script_before_25_10(eos: Cluster, tmp_path: Path) -> None:
    (tmp_path / "maxtext" / "launch.sh").write_text("sbatch\n")
    own = variables(spec(replace(eos, sbatch=("--qos=night", "--exclusive"))))
    assert {"SBATCH_GRES": "gpu:8", "SBATCH_QOS": "night", "SBATCH_EXCLUSIVE": "1"}.items() <= own.items()
    with pytest.raises(RefusedError, match="submits the job itself, and takes no --exclude"):
        spec(eos)


def test_the_recipes_environment(eos: Cluster) -> None:
    session = {"PATH": "/usr/bin", "PYTHONHOME": "/usr", "STAGE_PATH": "/old", "VIRTUAL_ENV": "/of/pytest"}
    own = job_environment(session, spec(eos))
    assert {
        "PATH": "/lustre/venv/bin:/usr/bin",
        "VIRTUAL_ENV": "/lustre/venv",
        "JOB_TOTAL_GPUS": "128",
        "GPU_TYPE": "h100",
        "GPUS_PER_NODE": "8",
        "LLMB_INSTALL": INSTALL,
    }.items() <= own.items()
    assert {"STAGE_PATH", "PYTHONHOME"}.isdisjoint(own)


def test_release_25_04_has_a_staging_area(eos: Cluster) -> None:
    assert spec(replace(eos, environment={})).environment["STAGE_PATH"] == INSTALL


@pytest.mark.parametrize(
    ("accelerator", "gpus_per_node", "segment"), [("H100", 8, ()), ("GB200", 4, ("--segment=16",)), ("GB300", 8, ())]
)
def test_configured_sbatch(eos: Cluster, accelerator: str, gpus_per_node: int, segment: tuple[str, ...]) -> None:
    sbatch = ("--segment=4",) if accelerator == "GB300" else ()
    job = spec(
        replace(eos, launcher="configured-sbatch", accelerator=accelerator, gpus_per_node=gpus_per_node, sbatch=sbatch)
    )
    place = f"{INSTALL}/workloads/maxtext/experiments/maxtext_70b_fp8_gpus128/gsw-r1-llama2_70b_fp8-H100x128"
    assert job.environment["LLMB_EXPERIMENT_DIR"] == place
    assert job.batch_output == f"{place}/slurm-%j.out"
    assert job.options == ("--account=eng", "--gres=gpu:8", f"--ntasks-per-node={gpus_per_node}", *sbatch)
    # Slurm knows the option since 24.05; one that the cluster's file gives is the user's own.
    for version, own in (
        ("", segment),
        ("24.05.0", segment),
        ("24.11.5-1", segment),
        ("23.11.10", ()),
        ("22.05.8", ()),
    ):
        command = sbatch_command(job, version)
        assert tuple(word for word in command if word.startswith("--segment")) == own + sbatch


CLUSTER_CONFIG = """\
schema_version: 2
llmb_install: /lustre/llmb
environment: {HF_TOKEN: x}
workloads:
  installed: [pretrain_llama3.1, finetune_llama3]
  config:
    pretrain_llama3.1:
      venv_path: /lustre/llmb/venvs/shared_1a2b
      venv_type: uv
      environment: {A: b}
    finetune_llama3: {venv_path: /lustre/llmb/venvs/tuned, venv_type: conda}
    pretrain_bare: {environment: {A: b}}
"""


@pytest.mark.parametrize(
    ("workload", "named", "environment"),
    [
        (
            "{workload: llama3.1, workload_type: pretrain, images: [x]}",
            {},
            {"VIRTUAL_ENV": "/lustre/llmb/venvs/shared_1a2b"},
        ),
        ("{workload: llama3, workload_type: finetune}", {}, {"CONDA_PREFIX": "/lustre/llmb/venvs/tuned"}),
        ("{workload: bare, workload_type: pretrain}", {}, {}),
        ("{workload: gone, workload_type: pretrain}", {}, {}),
        ("[]", {}, {}),
        # What the cluster's file names counts before what llmb-run's does.
        ("{workload: llama3, workload_type: finetune}", {"VIRTUAL_ENV": "/own"}, {"VIRTUAL_ENV": "/own"}),
        ("{workload: llama3.1, workload_type: pretrain}", {"CONDA_PREFIX": "/own"}, {"CONDA_PREFIX": "/own"}),
    ],
)
@pytest.mark.parametrize("written", [CLUSTER_CONFIG, "", "[", "workloads: {config: x}\n"])
def test_the_virtual_environment_that_llmb_run_has_installed(
    eos: Cluster, tmp_path: Path, workload: str, named: dict[str, str], environment: dict[str, str], written: str
) -> None:
    (tmp_path / "maxtext/metadata.yaml").write_text(f"general: {workload}\n")
    (tmp_path / "cluster_config.yaml").write_text(written)
    job = spec(replace(eos, environment={"LLMB_INSTALL": str(tmp_path), **named}))
    found = {name: value for name, value in job.environment.items() if name in {"VIRTUAL_ENV", "CONDA_PREFIX"}}
    assert found == (environment if written == CLUSTER_CONFIG else named)
    # llmb-run reads its own file; a script for sbatch has no environment to run in here.
    assert (
        spec(replace(eos, environment={"LLMB_INSTALL": str(tmp_path)}, launcher="llmb-run"))
        .environment.keys()
        .isdisjoint({"VIRTUAL_ENV", "CONDA_PREFIX"})
    )


def test_llmb_run(eos: Cluster) -> None:
    job = spec(replace(eos, launcher="llmb-run"))
    assert job.launch.command(job) == (
        *("llmb-run", "submit", "-w", "maxtext", "-s", "70b", "--dtype", "fp8", "--scale", "128"),
    )


def test_what_llmb_run_hands_on_is_not_the_shells(eos: Cluster) -> None:
    exported = {"TP": "4", "MAX_STEPS": "9", "FP8_RECIPE": "mx", "CONFIG_VARIANT": "v1", "HF_HOME": "/hf"}
    own = job_environment(exported, spec(replace(eos, launcher="llmb-run")))
    assert own.keys() & exported.keys() == {"HF_HOME"}
    assert own["JOB_TOTAL_GPUS"] == "128"


def test_the_table_comes_before_the_cluster_and_needs_slurm(eos: Cluster) -> None:
    own = replace(LLAMA2_FP8_X128, recipe=replace(LLAMA2_FP8_X128.recipe, launcher="sbatch"))
    assert started(own, eos).launch.name == "sbatch"
    with pytest.raises(SubmissionError, match="the launcher nemo-run submits jobs to Slurm"):
        spec(replace(eos, scheduler="local"))


def test_a_log_that_llmb_run_has_left_is_replayed(tmp_path: Path) -> None:
    log = tmp_path / "log-root-root.tiny_7_0.out"
    log.touch()
    replayed = Cluster("replay", "replay")
    own = replace(LLAMA2_FP8_X128, recipe=replace(LLAMA2_FP8_X128.recipe, launcher="nemo-run"))
    assert ReplayLauncher(log).submit(started(own, replayed)).id == "7"
    with pytest.raises(LogError, match="is the log of another row"):
        ReplayLauncher(log).submit(started(LLAMA2_FP8_X128, replayed))
