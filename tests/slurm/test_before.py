"""What Slurm takes and never runs is told before it is submitted, on a real Slurm."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.conftest import tiny_table

from .cluster import SlurmCluster
from .sessions import PASSED, Misfortune, Site, error


@pytest.fixture
def site(slurm8: SlurmCluster, tmp_path: Path) -> Iterator[Site]:
    slurm8.run("scontrol", "create", "PartitionName=small", "Nodes=ALL", "MaxTime=00:10:00", "MaxNodes=2")
    site = Site(tmp_path)
    yield site
    site.close()
    slurm8.cancel_all()
    slurm8.run("scontrol", "delete", "PartitionName=small")


def all_jobs(cluster: SlurmCluster) -> str:
    return cluster.run("sacct", "-n", "-X", "-S", "now-1day", "-o", "JobID")


def test_jobs_that_would_pend_for_ever(slurm8: SlurmCluster, site: Site) -> None:
    before = all_jobs(slurm8)
    too_long = site.run(slurm8, Misfortune("perfect", sbatch="--mem=50M, --partition=small"))
    fits = site.run(slurm8, Misfortune("perfect", sbatch="--mem=50M, --partition=small", options=("-ogsw_timeout=10",)))
    assert too_long.end().seen == error("the job asks for 30m00s, and the partition small allows 10m00s")
    assert "asked      scontrol -a -o show partition\n" in too_long.output
    assert fits.end().seen == PASSED
    assert len(all_jobs(slurm8).split()) == len(before.split()) + 1


def test_rows_that_are_too_large_and_one_that_runs(slurm8: SlurmCluster, site: Site) -> None:
    table = tiny_table(
        "gpus: 8, step_time_s: 1.000, line: 10",
        "gpus: 24, step_time_s: 1.000, line: 11",
        "gpus: 72, step_time_s: 1.000, line: 12",
    )
    options = ("-ogsw_timeout=10",)
    session = site.run(
        slurm8, Misfortune("perfect", sbatch="--mem=50M, --partition=small", table=table, options=options)
    )
    assert session.rows() == {
        "tiny_1b_bf16[H100x8]": "passed",
        "tiny_1b_bf16[H100x24]": "the row needs 3 nodes, and the partition small allows no more than 2",
        "tiny_1b_bf16[H100x72]": "the row needs 9 nodes, and the partition small has 8",
    }


def test_a_machine_without_sbatch(slurm8: SlurmCluster, site: Site) -> None:
    without = os.pathsep.join(
        path for path in slurm8.environ["PATH"].split(os.pathsep) if not (Path(path) / "sbatch").exists()
    )
    told = site.run(slurm8, Misfortune("perfect", conftest=f"import os\nos.environ['PATH'] = '{without}'\n"))
    assert told.end().seen == error("sbatch is not on the PATH")
