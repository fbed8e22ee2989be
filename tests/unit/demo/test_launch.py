"""launch.sh, run by bash with the variables that a launcher sets."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import pytest_gsw.demo
from pytest_gsw.demo import recipe

LAUNCH = Path(pytest_gsw.demo.__file__).parent / "launch.sh"
ROW = "llama2_70b_fp8[H100x16]"
TABLE = """\
model: llama2
framework: maxtext
document: README_70b.md
size: 70b
dtype: fp8
accelerator: H100
gpus_per_node: 8
sequence_length: 4096
recipe: {directory: maxtext, steps: 50}
tables:
  - rows:
      - {gpus: 16, global_batch_size: 32, step_time_s: 4.324, line: 41}
"""


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """What the local launcher sets for a job of two nodes."""
    table = tmp_path / "llama2_70b.yaml"
    table.write_text(TABLE, "utf-8")
    return {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(Path(pytest_gsw.__file__).parent.parent),
        "GSW_LOCAL": "1",
        "GSW_PYTHON": sys.executable,
        "GSW_BASELINE_FILE": str(table),
        "GSW_ROW": ROW,
        "GSW_DEMO_SECONDS": "0",
        "STAGE_PATH": str(tmp_path / "stage"),
        "DTYPE": "fp8",
        "MODEL_SIZE": "70b",
        "SLURM_JOB_ID": "481220",
        "SLURM_JOB_NUM_NODES": "2",
    }


def launch(environment: dict[str, str], cwd: Path) -> tuple[int, str]:
    """Exit code and what the batch shell itself wrote."""
    ended = subprocess.run(
        ["bash", str(LAUNCH)], env=environment, cwd=cwd, capture_output=True, text=True, timeout=60, check=False
    )
    return ended.returncode, ended.stdout + ended.stderr


def logs(environment: dict[str, str]) -> list[Path]:
    return sorted(path for path in Path(environment["STAGE_PATH"]).rglob("*") if path.is_file())


def test_the_log_lies_where_the_recipes_put_it(environment: dict[str, str], tmp_path: Path) -> None:
    environment["DTYPE"] = "FP8"
    assert launch(environment, tmp_path) == (0, "")
    stage = Path(environment["STAGE_PATH"])
    log = stage / "results/demo/fp8/70b/16/log-maxtext_llama2_70b_16_481220.out"
    assert logs(environment) == [log]
    text = log.read_text("utf-8")
    assert text.startswith("pytest-gsw demo: this is a simulation, no GPU was used\nGSW: MODEL=llama2 ")
    assert " JOB_NUM_NODES=2 GPUS_PER_NODE=8 DTYPE=fp8 " in text
    assert text.count("completed step: 49, seconds: 4.3") == 2


def test_one_python_is_started_where_the_session_says_what_the_row_trains(
    environment: dict[str, str], tmp_path: Path
) -> None:
    python = tmp_path / "python"
    python.write_text(f'#!/bin/bash\necho "$*" >>{tmp_path}/started\nexec {sys.executable} "$@"\n', "utf-8")
    python.chmod(0o755)
    environment.update(GSW_PYTHON=str(python), GSW_DEMO_TRAINS="llama2 maxtext")
    # GPUs of a node are its tasks, whatever the recipe's own setting.
    environment.update(SLURM_NTASKS_PER_NODE="6", RUN_CONF_GPU_PER_NODE="4")
    assert launch(environment, tmp_path) == (0, "")
    assert (tmp_path / "started").read_text("utf-8") == "-m pytest_gsw.demo.recipe\n"
    assert logs(environment)[0].name == "log-maxtext_llama2_70b_12_481220.out"


def test_gpus_and_trace_name_the_directory_of_a_model_without_a_size(
    environment: dict[str, str], tmp_path: Path
) -> None:
    del environment["MODEL_SIZE"]
    environment.update(SBATCH_GPUS="12", ENABLE_NCCL_TRACE="true", DTYPE="bf16", RUN_CONF_GPU_PER_NODE="4")
    assert launch(environment, tmp_path) == (0, "")
    stage = Path(environment["STAGE_PATH"])
    assert logs(environment) == [stage / "results/demo-nccl-trace/bf16/any/12/log-maxtext_llama2_any_12_481220.out"]


def test_a_variable_is_missing(environment: dict[str, str], tmp_path: Path) -> None:
    del environment["STAGE_PATH"]
    code, said = launch(environment, tmp_path)
    assert code == 1
    assert "STAGE_PATH: is not set: " in said


def test_the_row_is_unknown(environment: dict[str, str], tmp_path: Path) -> None:
    environment["GSW_ROW"] = "grok1_314b_fp8[H100x16]"
    code, said = launch(environment, tmp_path)
    assert code == 2
    assert said == f"GSW_ROW: no row grok1_314b_fp8[H100x16] in {environment['GSW_BASELINE_FILE']}\n"
    assert not Path(environment["STAGE_PATH"]).exists()


def test_under_slurm_the_training_is_a_step_of_its_own(environment: dict[str, str], tmp_path: Path) -> None:
    srun = tmp_path / "bin" / "srun"
    srun.parent.mkdir()
    srun.write_text('#!/bin/bash\necho "srun $*"\n', "utf-8")
    srun.chmod(0o755)
    del environment["GSW_LOCAL"]
    environment["PATH"] = f"{srun.parent}:{environment['PATH']}"
    code, said = launch(environment, tmp_path)
    log = f"{environment['STAGE_PATH']}/results/demo/fp8/70b/16/log-maxtext_llama2_70b_16_481220.out"
    training = f"{sys.executable} -m pytest_gsw.demo.recipe"
    assert (code, said) == (0, f"srun --nodes=1 --ntasks=1 --ntasks-per-node=1 --output={log} {training}\n")


def test_under_slurm_a_job_cancels_itself_with_scancel(monkeypatch: pytest.MonkeyPatch) -> None:
    class AsleepError(Exception):
        pass

    def sleep(_seconds: float) -> None:
        raise AsleepError

    commands: list[list[str]] = []
    monkeypatch.setattr(recipe.subprocess, "run", lambda command, **_options: commands.append(command))
    monkeypatch.setattr(recipe.time, "sleep", sleep)
    with pytest.raises(AsleepError):
        recipe._cancel_own_job({"SLURM_JOB_ID": "481220"})
    assert commands == [["scancel", "481220"]]


def test_the_script_has_what_real_recipes_have() -> None:
    lines = LAUNCH.read_text("utf-8").splitlines()
    assert {line.removeprefix("#SBATCH ") for line in lines if line.startswith("#SBATCH")} == {
        "--job-name=gsw_demo",
        "--dependency=singleton",
        "--exclusive",
        "--time=1:00:00",
    }
    assert os.access(LAUNCH, os.X_OK)
