"""The programs that have to be there before anything is submitted."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from pytest_gsw.jobs.model import JobSpec
from pytest_gsw.jobs.slurm.launcher import SlurmLauncher
from tests.unit.nvidia.started import launch


@pytest.fixture(autouse=True)
def _sbatch(tmp_path: Path) -> None:
    (tmp_path / "sbatch").write_text("#!/bin/bash\n")
    (tmp_path / "sbatch").chmod(0o755)


@pytest.fixture
def spec(tmp_path: Path) -> JobSpec:
    directories = tmp_path / "launch.sh", tmp_path, tmp_path / "stage"
    return JobSpec("row", "row", *directories, nodes=1, gpus=8, environment={})


def told(path: Path, *specs: JobSpec) -> dict[str, str]:
    return {row_id: str(error) for row_id, error in SlurmLauncher({"PATH": str(path)}).unready(specs).items()}


def test_sbatch_that_is_not_there(tmp_path: Path, spec: JobSpec) -> None:
    another = dataclasses.replace(spec, row_id="another")
    assert told(tmp_path, spec, another) == {}
    (tmp_path / "sbatch").unlink()
    assert told(tmp_path, spec, another).keys() == {"row", "another"}
    assert told(tmp_path, spec)["row"] == (
        "sbatch is not on the PATH\n\n"
        f"PATH       {tmp_path}\n"
        "next       run pytest on a login node of the cluster, where Slurm's commands are; or: module load slurm"
    )


def test_sbatch_that_is_not_on_a_jobs_own_path(tmp_path: Path, spec: JobSpec) -> None:
    own = dataclasses.replace(spec, environment={"PATH": f"{tmp_path}/elsewhere"})
    assert told(tmp_path, dataclasses.replace(spec, row_id="another"), own).keys() == {"row"}


def test_llmb_run_that_is_not_there(tmp_path: Path, spec: JobSpec) -> None:
    own = dataclasses.replace(spec, launch=launch("llmb-run"), environment={"PATH": str(tmp_path)})
    assert told(tmp_path, own)["row"] == (
        "llmb-run is not on the PATH\n\n"
        f"PATH       {tmp_path}\n"
        "next       name the virtual environment that has llmb-run: VIRTUAL_ENV in `environment` of the cluster"
    )
    program = tmp_path / "venv" / "bin" / "llmb-run"
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/bash\n")
    program.chmod(0o755)
    home = {**own.environment, "VIRTUAL_ENV": f"{tmp_path}/venv"}
    assert told(tmp_path, dataclasses.replace(own, environment=home)) == {}
