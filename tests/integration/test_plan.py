"""``--gsw-plan`` prints what would be submitted, and submits nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.conftest import put_on_path
from tests.messages import wording

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
    script.write_text("#!/bin/bash\nexport TP=${TP:-8} FLAGS=${FLAGS-}\n")
    result = pytester.runpytest(
        "--gsw-cluster=eos", "--gsw-plan", "-k", "llama3.1_405b_fp8 and (H100x2304 or H100x1152)"
    )
    result.stdout.fnmatch_lines(
        [
            wording("exported", name="gsw: FLAGS", script="llama3.1/launch.sh") + " *",
            "  environment  TP=8",
        ]
    )


@pytest.mark.usefixtures("_login_node")
def test_the_plan_names_the_limit_of_the_queue_and_the_probes(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLURM_ACCOUNT", "eng")
    keys = "\n    max_queue: 6\n    facts: nvidia\n    smoke: /site/check --all"
    (pytester.path / "clusters.yaml").write_text(CLUSTER.replace("=acceptance]", f"=acceptance]{keys}"))
    options = ("--gsw-cluster=eos", "--gsw-plan", "-k", "llama3.1_405b_fp8 and (H100x2304 or H100x1152)")
    pytester.runpytest(*options).stdout.fnmatch_lines(
        ["2 rows, *", "each job's nodes are probed: facts (nvidia); /site/check --all before the first step"]
    )
    pytester.runpytest(*options).stdout.fnmatch_lines(
        ["a job's wait in the queue: 6 hours while none of the session runs (max_queue)"]
    )
    (pytester.path / "clusters.yaml").write_text(CLUSTER.replace("=acceptance]", "=acceptance]\n    max_queue: 0"))
    pytester.runpytest(*options).stdout.fnmatch_lines(["a job's wait in the queue: no limit (max_queue)"])


def test_the_plan_has_all_findings_of_a_row(
    pytester: pytest.Pytester, recipes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLURM_ACCOUNT", "eng")
    monkeypatch.setenv("PATH", str(pytester.path))
    monkeypatch.delenv("HF_TOKEN", raising=False)
    (pytester.path / "clusters.yaml").write_text(CLUSTER)
    (recipes / "llama3.1/launch.sh").write_text("#!/bin/bash\nexport GSW_VERSION=25.02\n: ${HF_TOKEN:?Required}\n")
    result = pytester.runpytest("--gsw-cluster=eos", "--gsw-plan", "-k", "llama3.1_405b_fp8 and H100x2304")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(
        [
            "  error        " + wording("staged release", staged="25.02*", documented="*"),
            "  also         *HF_TOKEN*",
            wording("command not there", command="  also         sbatch") + "*",
        ]
    )


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
            "gsw: 1 row, about 587 GPU-hours: 395 of documented steps, 192 allowed for start-up",
            "1 row, 2,304 GPUs on 288 nodes if all run at once, about 587 GPU-hours: 395 of *",
            "",
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
        ]
    )
    assert "very-secret" not in result.stdout.str()
    assert not (pytester.path / ".gsw").exists()


@pytest.mark.usefixtures("_login_node")
def test_one_gpu_hour_is_no_plural(pytester: pytest.Pytester, table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURM_ACCOUNT", "eng")
    (pytester.path / "clusters.yaml").write_text(CLUSTER)
    result = pytester.runpytest("--gsw-cluster=eos", "--gsw-plan", f"--gsw-baselines={table}", "-k", "H100x8")
    result.stdout.fnmatch_lines(["gsw: 1 row, about 1 GPU-hour: *"])
