"""``--gsw-plan`` prints what would be submitted, and submits nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.conftest import put_on_path, tiny_table

CLUSTER = """\
clusters:
  eos:
    scheduler: slurm
    account: ${SLURM_ACCOUNT}
    partition: batch
    accelerator: H100
    gpus_per_node: 8
    gpus: 4608
    gres: gpu:8
    constraint: h100
    stage: lustre/stage/{recipe}
    recipes: recipes
    sbatch: [--qos=acceptance]
    environment: {NCCL_DEBUG: WARN, WANDB_API_KEY: very-secret}
"""


@pytest.fixture
def _login_node(pytester: pytest.Pytester, recipes: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine with Slurm's commands, and with all that is planned here."""
    put_on_path(pytester.path / "bin", monkeypatch, sbatch="exit 1", scontrol="exit 1")


@pytest.mark.usefixtures("_login_node")
def test_the_plan_tells_how_jobs_will_differ_from_their_rows(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLURM_ACCOUNT", "eng")
    for name, value in (("TP", "4"), ("FLAGS", "--fast")):
        monkeypatch.setenv(name, value)
    (pytester.path / "clusters.yaml").write_text(CLUSTER)
    script = pytester.path / "recipes/llama3.1/launch.sh"
    script.write_text("#!/bin/bash\nPP=1\nexport TP=${TP:-8} FLAGS=${FLAGS-}\n")
    result = pytester.runpytest(
        "--gsw-cluster=eos", "--gsw-plan", "-k", "llama3.1_405b_fp8 and (H100x2304 or H100x1152)"
    )
    result.stdout.fnmatch_lines(
        [
            "gsw: llama3.1/launch.sh fixes PP=1, and the row has 9 (llama3.1_405b_fp8[[]H100x1152] and 1 more row)",
            "gsw: FLAGS is exported here, and llama3.1/launch.sh takes it: the run may be another than the documented one *",
            "  environment  TP=8",
        ]
    )


@pytest.mark.usefixtures("_login_node")
def test_each_recipe_has_its_own_virtual_environment(pytester: pytest.Pytester) -> None:
    rows = ("gpus: 8, step_time_s: 1.000, line: 10", "gpus: 16, step_time_s: 0.500, line: 11")
    text = tiny_table(*rows).replace("directory: tiny", "directory: maxtext")
    own = "steps: 20, environment: {VIRTUAL_ENV: /venvs/own, SAME: x}"
    pytester.path.joinpath("plain.yaml").write_text(text)
    pytester.path.joinpath("own.yaml").write_text(text.replace("model: tiny", "model: own").replace("steps: 20", own))
    pytester.path.joinpath("clusters.yaml").write_text(
        "clusters: {eos: {scheduler: slurm, stage: stage, recipes: recipes, environment: "
        "{VIRTUAL_ENV: '/venvs/{workload}-{recipe}', SAME: x}}}\n"
    )
    tables = ("--gsw-baselines=plain.yaml", "--gsw-baselines=own.yaml")
    result = pytester.runpytest("--gsw-cluster=eos", "--gsw-plan", *tables)
    result.stdout.fnmatch_lines(
        ["gsw: VIRTUAL_ENV of eos does not count: the table sets it (own_1b_bf16?H100x8? and 1 more row)"]
    )
    homes = [line.split()[-1] for line in result.outlines if "VIRTUAL_ENV=" in line]
    assert sorted(homes) == [f"VIRTUAL_ENV={home}" for home in (*["/venvs/own"] * 2, *["/venvs/tiny_1b-maxtext"] * 2)]
    assert "SAME of eos" not in result.stdout.str()


@pytest.mark.usefixtures("_login_node")
def test_the_plan_of_one_row(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURM_ACCOUNT", "eng")
    (pytester.path / "clusters.yaml").write_text(CLUSTER)
    lustre, recipes = pytester.path / "lustre", pytester.path / "recipes"
    result = pytester.runpytest("--gsw-cluster=eos", "--gsw-plan", "-k", "llama3.1_405b_fp8 and H100x2304")
    assert result.ret == 0
    result.stdout.fnmatch_lines(
        [
            "gsw: eos (slurm, H100, 4608 GPUs), run *, results *",
            "gsw: 1 row, about 587 GPU-hours by the documented step times",
            "baselines/nemo/llama3.1_405b.yaml::llama3.1_405b_fp8[[]H100x2304]",
            "  2,304 GPUs on 288 nodes, about 15 minutes",
            f"  directory    {recipes}/llama3.1",
            (
                "  command      sbatch --parsable *-J gsw-*-llama3.1_405b_fp8*H100x2304* --account=eng --partition=batch"
                f" --gres=gpu:8 --constraint=h100 --qos=acceptance* {recipes}/llama3.1/launch.sh"
            ),
            f"  environment  STAGE_PATH={lustre}/stage/llama3.1",
            "  environment  DTYPE=fp8",
            "  environment  MODEL_SIZE=405b",
            "  environment  NUM_NODES=288",
            "  environment  NCCL_DEBUG=WARN",
            "  environment  WANDB_API_KEY=[*][*][*]",
            f"  log          {lustre}/stage/llama3.1/results/[*]/fp8/405b/2304/log-nemo_llama3.1_405b_2304_{{job_id}}.out",
            "1 row, 2,304 GPUs on 288 nodes if all run at once, about 587 GPU-hours",
        ]
    )
    assert "very-secret" not in result.stdout.str()
    assert not (pytester.path / ".gsw").exists()


def test_rows_of_maxtext_keep_one_name_each_and_stay_singletons(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLURM_ACCOUNT", "eng")
    (pytester.path / "clusters.yaml").write_text(CLUSTER)
    result = pytester.runpytest("--gsw-cluster=eos", "--gsw-plan", "-k", "llama2_70b_fp8 and H100x64")
    result.stdout.fnmatch_lines(["  command * -J gsw-llama2_70b_fp8*H100x64* --dependency=singleton *"])


def test_a_plan_needs_a_cluster(pytester: pytest.Pytester) -> None:
    result = pytester.runpytest("--gsw-plan")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: --gsw-plan needs a cluster; add --gsw-cluster=NAME"])


def test_a_cluster_without_a_staging_area_is_a_usage_error(pytester: pytest.Pytester) -> None:
    (pytester.path / "clusters.yaml").write_text("clusters: {eos: {scheduler: slurm}}\n")
    result = pytester.runpytest("--gsw-cluster=eos", "--gsw-plan")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(
        [
            "ERROR: the cluster 'eos' has no staging area",
            f"next: export STAGE_PATH=DIR, or write 'stage: DIR' for it in {pytester.path}/clusters.yaml",
        ]
    )
