"""``--gsw-cluster=local``: this machine as it is, and a recipe that lies beside its table."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from pytest_gsw.tables.load import load_table
from tests.integration.conftest import Gsw
from tests.messages import wording

TABLE = """\
model: own
size: 1m
framework: own
log_format: maxtext
accelerator: CPU
gpus_per_node: 1
document: own.md
recipe: {directory: ./own, steps: 10, environment: {STEPS: "{steps}"}}
sequence_length: 1024
global_batch_size: 8
model_flops: 1.0e+10
metric: calibrated_step_time
statistic: mean
tables:
  - dtype: fp32
    rows:
      - {gpus: 1, step_time_s: 2.000, mfu: 40%, calibration_flops: 1.0e+11, line: 7}
"""
LAUNCH = """\
#!/bin/bash
set -eu
results=$STAGE_PATH/results/v1/$DTYPE/$MODEL_SIZE/1
mkdir -p "$results"
{
    echo "GSW: MODEL=own MODEL_SIZE=1m DTYPE=fp32 JOB_ID=$SLURM_JOB_ID"
    for ((step = 0; step < STEPS; step++)); do echo "completed step: $step, seconds: $OWN_SECONDS, loss: 9.0"; done
    [ -z "$OWN_FLOPS" ] || echo "GSW: CALIBRATION_FLOPS=$OWN_FLOPS"
} >"$results/log-own_own_1m_1_$SLURM_JOB_ID.out"
env >"$results/environment"
"""


@pytest.fixture(autouse=True)
def site(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A table with its recipe beside it, on a machine without GPUs."""
    directory = pytester.path / "site"
    (directory / "own").mkdir(parents=True)
    (directory / "own" / "launch.sh").write_text(LAUNCH)
    (directory / "own.yaml").write_text(TABLE)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    monkeypatch.setenv("HOME", str(pytester.path / "home"))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    return directory


def run(pytester: pytest.Pytester, *options: str, seconds: str = "2.000", flops: str = "1e+11") -> pytest.RunResult:
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("OWN_SECONDS", seconds)
        environment.setenv("OWN_FLOPS", flops)
        return pytester.runpytest("--gsw-cluster=local", "--gsw-baselines=site", *options)


def test_a_machine_without_gpus_is_its_cores(pytester: pytest.Pytester) -> None:
    result = run(pytester)
    result.assert_outcomes(passed=1)
    cores = len(os.sched_getaffinity(0))
    result.stdout.fnmatch_lines([f"gsw: local (local, CPU, {cores} core{'s' * (cores > 1)}), run *"])
    result.stdout.fnmatch_lines(["own_1m_fp32[[]CPUx1]  PASSED     throughput +0.0 %  2 calibrated s/step *"])


def test_its_stage_is_the_runs_own_and_its_jobs_see_no_more_gpus_than_the_session(pytester: pytest.Pytester) -> None:
    run(pytester)
    (environment,) = pytester.path.glob(".gsw/runs/*/stage/results/v1/fp32/1m/1/environment")
    assert "\nCUDA_VISIBLE_DEVICES=\n" in f"\n{environment.read_text()}"
    assert re.search(r"^RUN_CONF_PYTHON=/.*python", environment.read_text(), re.MULTILINE)
    # Nothing is left where the recipe is.
    assert [path.name for path in (pytester.path / "site" / "own").iterdir()] == ["launch.sh"]


def test_a_machine_that_is_as_fast_and_takes_longer_fails(pytester: pytest.Pytester) -> None:
    result = run(pytester, "--junitxml=junit.xml", seconds="2.200", flops="1.02e+11")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            wording("calibrated", measured="2.244", change="10.9 %", documented="2 s (allowed 5 %)"),
            "peak       102 GFLOP/s, measured in the same job by a matrix product; the MFU is of that",
        ],
    )
    assert '"gsw_calibration_flops" value="102000000000.0"' in (pytester.path / "junit.xml").read_text()


def test_what_is_measured_can_be_accepted_or_documented(pytester: pytest.Pytester, site: Path, gsw: Gsw) -> None:
    # Half as fast a machine, and a step that takes 5 % longer than on one that is as fast as the documented one.
    run(pytester, "--gsw-repeat=5", "--gsw-tolerance=50%", seconds="4.200", flops="0.5e+11").assert_outcomes(passed=1)
    (directory,) = pytester.path.glob(".gsw/runs/*")
    proposed = gsw("baseline", "propose", directory).out
    assert "\n+  - row: own_1m_fp32[CPUx1]\n+    cluster: local\n+    calibrated_step_time_s: 2.1\n" in proposed
    Path("b.diff").write_text(proposed)
    lines = gsw("baseline", "propose", directory, "--documented").out
    assert "step_time_s: 2.100, mfu: 38.10%, calibration_flops: 1.0e+11" in lines
    pytester.run("git", "apply", "b.diff")
    (row,) = load_table(site / "own.yaml")
    assert row.accepted["local"].judged == 2.1


def test_the_bundled_recipe_says_what_it_lacks(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the job as well: the modules are there for who asks before it, and one of them cannot be imported."""
    empty = pytester.mkdir("empty")
    for name in ("transformers", "accelerate"):
        (empty / f"{name}.py").touch()
    (empty / "torch.py").write_text("raise ModuleNotFoundError(\"No module named 'torch'\")\n")
    monkeypatch.setenv("PYTHONPATH", str(empty))
    result = pytester.runpytest("--gsw-cluster=local", "-k", "smoke_gpt and CPUx1")
    result.assert_outcomes(errors=1, deselected=140)
    result.stdout.fnmatch_lines(
        [
            wording("failed", job="*", code="1: module not found"),
            "cause      ModuleNotFoundError: No module named 'torch': pip install '.[[]smoke]' in a checkout of pytest-gsw for *",
        ]
    )
