"""Recipes that are submitted with sbatch, on a real Slurm: where srun's output goes, and what the shell exports.

The skeletons do what the published ones do: the output of their srun goes to files by variables, of which Slurm 22.05
knows none by these names, and stderr to a file of its own, or not.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.conftest import tiny_table
from tests.messages import wording

from .cluster import SlurmCluster
from .sessions import PASSED, Misfortune, Session, Site, error

#: What is put before it says what runs in the container: {body}.
RECIPE = """\
export GSW_VERSION={version}
export TP=${{TP:-8}} results
export SRUN_OUTPUT=${{SRUN_OUTPUT-$results/log-maxtext_tiny_1b_8_%j.out}}
{apart}
export -f identity steps
srun bash -c '{body}'
"""
APART = "export SRUN_ERROR=${SRUN_ERROR-$results/log-maxtext_tiny_1b_8_%j.err}"
TOGETHER = ""
HEALTHY = 'echo "$(identity) TP=$TP"; echo "UserWarning: error: old" >&2; steps 0 19'
PYXIS = 'echo "slurmstepd: error: pyxis: child 77 failed with error code: 1" >&2; exit 1'
OOM = 'identity; echo "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB" >&2; exit 1'


def recipe(body: str, apart: str = APART, version: str = "24.11", **more: Any) -> Misfortune:
    return Misfortune(RECIPE.format(body=body, apart=apart, version=version), **more)


@pytest.fixture(scope="module")
def site(slurm8: SlurmCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    site = Site(tmp_path_factory.mktemp("recipes"))
    yield site
    site.close()
    slurm8.cancel_all()


def record_of(session: Session) -> dict[str, Any]:
    (path,) = session.directory.glob(".gsw/runs/*/records/*.json")
    found: dict[str, Any] = json.loads(path.read_text())
    return found


@pytest.mark.parametrize("apart", [APART, TOGETHER], ids=["stderr apart", "one file"])
def test_a_healthy_run(site: Site, slurm8: SlurmCluster, apart: str) -> None:
    session = site.run(slurm8, recipe(HEALTHY, apart))
    seen, job = session.end()
    assert seen == PASSED, session.output
    results = session.directory / "stage/results/24.11/bf16/1b/8"
    record = record_of(session)
    assert record["log"] == f"{results}/log-maxtext_tiny_1b_8_{job}.out"
    errors = Path(f"{results}/log-maxtext_tiny_1b_8_{job}.err")
    assert (str(errors) in record["outputs"]) is bool(apart)
    assert not apart or errors.read_text() == "UserWarning: error: old\n"


@pytest.mark.parametrize("apart", [APART, TOGETHER], ids=["stderr apart", "one file"])
@pytest.mark.parametrize(
    ("body", "cause", "jobs"), [(PYXIS, "container import", 2), (OOM, "CUDA out of memory", 1)], ids=["pyxis", "memory"]
)
def test_a_cause_is_told_alike_wherever_a_recipe_has_stderr(
    site: Site, slurm8: SlurmCluster, apart: str, body: str, cause: str, jobs: int
) -> None:
    session = site.run(slurm8, recipe(body, apart, options=("--gsw-retries=1",)))
    seen, job = session.end()
    assert seen == error(wording("failed", job=job, code=f"1: {cause}"))
    assert len(record_of(session)["attempts"]) == jobs - 1
    suffix = "err" if apart else "out"
    assert f"results/24.11/bf16/1b/8/log-maxtext_tiny_1b_8_{job}.{suffix}:" in session.output


def test_a_log_that_srun_leaves_to_the_batch_shell(site: Site, slurm8: SlurmCluster) -> None:
    """Slurm 22.05 cannot be told where the recipe has its log: the script computes that."""
    session = site.run(slurm8, recipe(HEALTHY, version="$(echo 24.11)"))
    seen, job = session.end()
    assert seen == PASSED, session.output
    log = Path(record_of(session)["log"])
    assert log.name in {f"slurm-{job}.out", f"log-maxtext_tiny_1b_8_{job}.out"}


def test_steps_of_nobody_in_the_batch_shells_output(site: Site, slurm8: SlurmCluster) -> None:
    session = site.run(slurm8, Misfortune("steps 0 19"))
    seen, job = session.end()
    assert seen == error(f"no log of job {job}")
    assert f"steps in   {session.directory}/recipes/tiny/slurm-{job}.out" in session.output


def test_the_users_mpi_type_within_a_slurm_job(site: Site, slurm8: SlurmCluster) -> None:
    """The recipes take pmix where nobody says otherwise, which this Slurm does not have."""
    exported = "import os\nos.environ.update(SLURM_JOB_ID='1', SLURM_MPI_TYPE='none')\n"
    body = "export SLURM_MPI_TYPE=${SLURM_MPI_TYPE:-pmix_none_such}\n" + recipe(HEALTHY).body
    session = site.run(slurm8, Misfortune(body, conftest=exported))
    assert session.end().seen == PASSED, session.output


def test_what_the_shell_exports(site: Site, slurm8: SlurmCluster) -> None:
    table = tiny_table("gpus: 8, tp: 8, step_time_s: 1.000, line: 10")
    exported = "import os\nos.environ['TP'] = '4'\n"
    session = site.run(slurm8, recipe(HEALTHY, conftest=exported, table=table))
    assert session.end().seen == PASSED, session.output
